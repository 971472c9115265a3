/* SPDX-License-Identifier: Apache-2.0 */
/* The producer's work without sockets: real files, readers and decoders; the test plays the server
 * thread. */
#include "producer/work.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "producer/sample.h"
#include "support/picture.h"
#include "support/suite.h"
#include "support/tree.h"

enum {
    CLASSES = 3,
    FILES = 7,
    SAMPLES = CLASSES * FILES,
    ROWS = 8,
    SIDE = 160,
    DEADLINE_MS = 20000
};

static struct tree tree;
static const char *root = tree.root;
static struct index *index_;
static struct work_stream stream;
static struct work *work;
static struct batch_pool *pool;
static int wake_fd;

static void path_of(char *out, size_t bytes, int class_, int file)
{
    snprintf(out, bytes, "%s/data/c%d/%02d.jpg", root, class_, file);
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

static void make_data(void)
{
    char path[PATH_MAX + 64];
    tree = tree_make();
    snprintf(path, sizeof(path), "%s/data", root);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    for (int c = 0; c < CLASSES; c++) {
        snprintf(path, sizeof(path), "%s/data/c%d", root, c);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        for (int f = 0; f < FILES; f++) {
            struct picture picture = picture_new((uint32_t)(180 + 10 * f), (uint32_t)(170 + 20 * c),
                                                 (uint64_t)(c * FILES + f));
            const struct jpeg_kind kind = {.components = 3, .h = {2}, .v = {2}, .quality = 80};
            struct bytes jpeg = picture_jpeg(&picture, &kind);
            path_of(path, sizeof(path), c, f);
            write_file(path, jpeg.data, jpeg.count);
            free(jpeg.data);
            picture_free(&picture);
        }
    }
}

static void open_stream(void)
{
    struct err err = {0};
    char data[PATH_MAX + 64];
    snprintf(data, sizeof(data), "%s/data", root);
    const struct index_options options = {.data_root = root, .data = data};
    ck_assert_msg(index_open(&options, &index_, &err) == OK, "%s", err.message);
    stream = (struct work_stream){.name = "train", .index = index_};
    const char *pipeline = "[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\",\"size\":160},"
                           "{\"op\":\"horizontal_flip\"}]";
    ck_assert_msg(pipeline_parse(pipeline, &stream.pipeline, &err) == OK, "%s", err.message);
    const struct plan_options plan = {.stream = "train",
                                      .seed = 3,
                                      .samples = SAMPLES,
                                      .global_batch = 2 * ROWS,
                                      .world = 2,
                                      .shuffle = SHUFFLE_FULL,
                                      .last = LAST_PARTIAL};
    ck_assert_int_eq(plan_init(&plan, &stream.plan, &err), OK);
    ck_assert_int_eq(layout_init(ROWS, SIDE, SIDE, 3, &stream.layout, &err), OK);
}

static void start_work(uint32_t threads, bool fail_on_bad)
{
    struct err err = {0};
    wake_fd = eventfd(0, EFD_NONBLOCK);
    ck_assert_int_eq(batch_pool_new(4, stream.layout.bytes, wake_fd, &pool, &err), OK);
    const struct work_options options = {.threads = threads,
                                         .read_threads = threads,
                                         .stream_count = 1,
                                         .streams = &stream,
                                         .orders_max = 4,
                                         .fail_on_bad = fail_on_bad,
                                         .wake_fd = wake_fd};
    ck_assert_msg(work_new(&options, &work, &err) == OK, "%s", err.message);
}

static void stop_work(void)
{
    work_free(&work);
    batch_pool_free(&pool);
    close(wake_fd);
}

static void setup(void)
{
    make_data();
    open_stream();
}

static void teardown(void)
{
    index_free(&index_);
    tree_remove(&tree);
}

static struct msg_grant whole_batch(uint32_t lease, uint64_t step)
{
    return (struct msg_grant){
        .lease = lease, .step = step, .due = lease, .part_count = stream.layout.part_count};
}

static void submit(uint32_t rank, const struct msg_grant *grant)
{
    struct msg_nack nack;
    ck_assert(work_check_grant(work, grant, &nack));
    const struct work_order order = {
        .rank = rank, .generation = 1, .grant = *grant, .batch = batch_get(pool)};
    ck_assert_ptr_nonnull(order.batch);
    ck_assert_int_eq(work_submit(work, &order), OK);
}

/* The next result, within the deadline. */
static struct work_result take(void)
{
    struct work_result result;
    struct pollfd poll_fd = {.fd = wake_fd, .events = POLLIN};
    while (!work_take(work, &result)) {
        ck_assert_msg(poll(&poll_fd, 1, DEADLINE_MS) == 1, "no result within the deadline");
        eventfd_t ignored;
        eventfd_read(wake_fd, &ignored);
    }
    return result;
}

/* What the batch has to be: made here, sample by sample. */
static void expect_batch(uint64_t step, uint32_t rank, uint8_t *out)
{
    struct sample_maker *maker = NULL;
    struct err err = {0};
    ck_assert_int_eq(sample_maker_new(&stream.pipeline, &maker, &err), OK);
    uint64_t first = 0;
    const uint32_t count = plan_batch(&stream.plan, step, rank, &first);
    memset(out, 0, stream.layout.bytes);
    for (uint32_t row = 0; row < ROWS; row++) {
        int64_t label = -1;
        int64_t id = -1;
        if (row < count) {
            struct index_entry entry;
            const uint64_t sample = plan_sample(&stream.plan, 0, first + row);
            index_get(index_, sample, &entry);
            char path[PATH_MAX + 512];
            snprintf(path, sizeof(path), "%s/data/%s", root, entry.path);
            uint8_t *bytes = malloc(entry.bytes);
            const int fd = open(path, O_RDONLY);
            ck_assert_int_eq(read(fd, bytes, entry.bytes), (ssize_t)entry.bytes);
            close(fd);
            const struct rng_at at = {.key = stream.plan.key, .position = first + row};
            ck_assert_int_eq(sample_make(maker, bytes, entry.bytes, &at,
                                         out + (size_t)row * stream.layout.sample_bytes, NULL,
                                         &err),
                             OK);
            free(bytes);
            label = entry.label;
            id = (int64_t)sample;
        }
        hash_put64(out + stream.layout.label_offset + 8 * (size_t)row, (uint64_t)label);
        hash_put64(out + stream.layout.sample_id_offset + 8 * (size_t)row, (uint64_t)id);
    }
    sample_maker_free(&maker);
}

/* Takes `parts` part results and puts their bytes together, with every header checked. */
static void collect(uint32_t parts, uint32_t lease, uint8_t *out)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < parts; i++) {
        const struct work_result result = take();
        ck_assert_int_eq(result.kind, WORK_PART);
        const struct msg_data *data = &result.data;
        ck_assert_uint_eq(data->lease, lease);
        ck_assert_uint_eq(data->offset, layout_part_offset(&stream.layout, data->part));
        ck_assert_uint_eq(data->length, layout_part_length(&stream.layout, data->part));
        ck_assert_int_eq(data->last, i + 1 == parts);
        ck_assert_uint_eq(seen & (UINT64_C(1) << data->part), 0);
        seen |= UINT64_C(1) << data->part;
        const struct hash128 sum =
            hash128_copy(out + data->offset, result.batch->bytes + data->offset, data->length);
        ck_assert_uint_eq(sum.low, data->sum_low);
        ck_assert_uint_eq(sum.high, data->sum_high);
        batch_unref(result.batch);
    }
}

START_TEST(batches_are_the_same_whatever_the_number_of_threads)
{
    static const uint32_t THREADS[] = {1, 4};
    uint8_t *expected = malloc(stream.layout.bytes);
    uint8_t *got = malloc(stream.layout.bytes);
    ck_assert_uint_gt(stream.layout.part_count, 0);
    for (size_t t = 0; t < ARRAY_LEN(THREADS); t++) {
        start_work(THREADS[t], false);
        for (uint32_t rank = 0; rank < 2; rank++) {
            for (uint64_t step = 0; step < stream.plan.steps; step++) {
                const struct msg_grant grant = whole_batch(rank + 1, step);
                expect_batch(step, rank, expected);
                submit(rank, &grant);
                collect(stream.layout.part_count, rank + 1, got);
                ck_assert_msg(memcmp(expected, got, stream.layout.bytes) == 0,
                              "rank %u step %u differs", rank, (unsigned)step);
            }
        }
        ck_assert_uint_eq(batch_pool_in_use(pool), 0);
        stop_work();
    }
    free(expected);
    free(got);
}
END_TEST

START_TEST(a_range_gives_only_the_parts_that_are_wanted)
{
    uint8_t *expected = malloc(stream.layout.bytes);
    uint8_t *got = malloc(stream.layout.bytes);
    start_work(2, false);
    expect_batch(0, 0, expected);
    for (uint32_t part = 0; part < stream.layout.part_count; part++) {
        struct msg_grant grant = whole_batch(1, 0);
        grant.first_part = part;
        grant.part_count = 1;
        submit(0, &grant);
        collect(1, 1, got);
        ck_assert_int_eq(memcmp(expected + layout_part_offset(&stream.layout, part),
                                got + layout_part_offset(&stream.layout, part),
                                layout_part_length(&stream.layout, part)),
                         0);
    }
    stop_work();
    free(expected);
    free(got);
}
END_TEST

START_TEST(a_grant_out_of_range_is_refused)
{
    start_work(1, false);
    struct msg_nack nack;
    struct msg_grant grant = whole_batch(9, 0);
    ck_assert(work_check_grant(work, &grant, &nack));
    grant.part_count++;
    ck_assert(!work_check_grant(work, &grant, &nack));
    ck_assert_uint_eq(nack.code, NACK_RANGE);
    ck_assert_uint_eq(nack.lease, 9);
    grant = whole_batch(1, stream.plan.steps);
    ck_assert(!work_check_grant(work, &grant, &nack));
    grant = whole_batch(1, 0);
    grant.stream = 1;
    ck_assert(!work_check_grant(work, &grant, &nack));
    grant = whole_batch(1, 0);
    grant.first_part = UINT32_MAX;
    ck_assert(!work_check_grant(work, &grant, &nack));
    stop_work();
}
END_TEST

static void spoil(int class_, int file)
{
    char path[PATH_MAX + 64];
    struct stat info;
    path_of(path, sizeof(path), class_, file);
    ck_assert_int_eq(stat(path, &info), 0);
    uint8_t *junk = calloc(1, (size_t)info.st_size);
    write_file(path, junk, (size_t)info.st_size);
    free(junk);
}

START_TEST(a_bad_sample_is_replaced_by_the_next_on_its_chain_and_named_once)
{
    spoil(1, 2);
    const uint64_t bad_id = 1 * FILES + 2;
    uint8_t *got = malloc(stream.layout.bytes);
    uint32_t replaced = 0;
    uint32_t named = 0;
    struct bad_sample bad;
    start_work(2, false);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        for (uint64_t step = 0; step < stream.plan.steps; step++) {
            struct msg_grant grant = whole_batch(1, step);
            grant.epoch = epoch;
            uint64_t first = 0;
            const uint32_t count = plan_batch(&stream.plan, step, 0, &first);
            submit(0, &grant);
            uint32_t listed = 0;
            for (uint32_t part = 0; part < stream.layout.part_count; part++) {
                const struct work_result result = take();
                ck_assert_int_eq(result.kind, WORK_PART);
                memcpy(got + result.data.offset, result.batch->bytes + result.data.offset,
                       result.data.length);
                for (uint32_t i = 0; i < result.data.substitution_count; i++) {
                    const struct substitution *s = &result.data.substitutions[i];
                    ck_assert_uint_eq(s->bad, bad_id);
                    ck_assert_uint_eq(
                        s->taken, plan_substitute(&stream.plan, epoch, first + s->row, s->attempt));
                    ck_assert_uint_ne(s->taken, bad_id);
                    listed++;
                }
                batch_unref(result.batch);
            }
            for (uint32_t row = 0; row < count; row++) {
                const bool is_bad = plan_sample(&stream.plan, epoch, first + row) == bad_id;
                replaced += is_bad;
                ck_assert(!is_bad || listed > 0);
                ck_assert_int_ne(
                    memcmp(got + stream.layout.sample_id_offset + 8 * row, &(uint64_t){bad_id}, 8),
                    0);
            }
        }
    }
    while (work_take_bad(work, &bad)) {
        ck_assert_uint_eq(bad.sample, bad_id);
        ck_assert_str_ne(bad.reason, "");
        named++;
    }
    ck_assert_uint_gt(replaced, 0);
    ck_assert_uint_eq(named, 1);
    stop_work();
    free(got);
}
END_TEST

/* Takes results until the order ends with a NACK; parts before it are allowed. */
static struct msg_nack wait_for_nack(void)
{
    for (;;) {
        const struct work_result result = take();
        if (result.kind != WORK_PART) {
            ck_assert_int_eq(result.kind, WORK_NACK);
            return result.nack;
        }
        batch_unref(result.batch);
    }
}

static void submit_steps_until_nack(uint32_t code, const char *text)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (uint64_t step = 0; step < stream.plan.steps; step++) {
            uint64_t first = 0;
            const uint32_t count = plan_batch(&stream.plan, step, rank, &first);
            for (uint32_t row = 0; row < count; row++) {
                if (plan_sample(&stream.plan, 0, first + row) != 1 * FILES + 2) {
                    continue;
                }
                const struct msg_grant grant = whole_batch(5, step);
                submit(rank, &grant);
                const struct msg_nack nack = wait_for_nack();
                ck_assert_uint_eq(nack.code, code);
                ck_assert_uint_eq(nack.lease, 5);
                ck_assert_msg(strstr(nack.text, text) != NULL, "%s", nack.text);
                return;
            }
        }
    }
    ck_abort_msg("the sample is in no batch");
}

START_TEST(more_bad_samples_than_a_message_can_name_fail_the_order)
{
    enum { JUNK = SUBST_MAX + 6, ALL = SAMPLES + JUNK };
    struct err err = {0};
    for (int i = 0; i < JUNK; i++) {
        char path[PATH_MAX + 64];
        path_of(path, sizeof(path), 0, 100 + i);
        write_file(path, "junk", 4);
    }
    index_free(&index_);
    open_stream();
    ck_assert_uint_eq(index_samples(index_), ALL);
    const struct plan_options plan = {
        .stream = "train", .seed = 3, .samples = ALL, .global_batch = ALL, .world = 1};
    ck_assert_int_eq(plan_init(&plan, &stream.plan, &err), OK);
    ck_assert_int_eq(layout_init(ALL, SIDE, SIDE, 3, &stream.layout, &err), OK);
    start_work(2, false);
    const struct msg_grant grant = whole_batch(3, 0);
    submit(0, &grant);
    const struct msg_nack nack = wait_for_nack();
    ck_assert_uint_eq(nack.code, NACK_BAD_BUDGET);
    ck_assert_msg(strstr(nack.text, "more bad samples") != NULL, "%s", nack.text);
    stop_work();
}
END_TEST

START_TEST(with_on_bad_fail_the_order_fails_and_names_the_sample)
{
    spoil(1, 2);
    start_work(2, true);
    submit_steps_until_nack(NACK_BAD_BUDGET, "c1/02.jpg");
    ck_assert_uint_eq(batch_pool_in_use(pool), 0);
    stop_work();
}
END_TEST

START_TEST(a_file_that_is_gone_is_an_io_error_and_no_bad_sample)
{
    char path[PATH_MAX + 64];
    struct bad_sample bad;
    path_of(path, sizeof(path), 1, 2);
    start_work(2, false);
    unlink(path);
    submit_steps_until_nack(NACK_IO, "c1/02.jpg");
    write_file(path, "short", 5);
    submit_steps_until_nack(NACK_IO, "changed since it was indexed");
    ck_assert(!work_take_bad(work, &bad));
    stop_work();
}
END_TEST

START_TEST(a_cancelled_order_is_returned_and_a_dropped_one_is_silent)
{
    start_work(1, false);
    for (int round = 0; round < 20; round++) {
        const struct msg_grant first = whole_batch(1, 0);
        const struct msg_grant second = whole_batch(2, 1);
        submit(0, &first);
        submit(1, &second);
        work_cancel(work, 1, 1, 2);
        uint32_t parts = 0;
        uint32_t others = 0; /* of the cancelled order: all of them, or some and a RETURN */
        bool returned = false;
        while (parts < stream.layout.part_count ||
               (!returned && others < stream.layout.part_count)) {
            const struct work_result result = take();
            if (result.rank == 0) {
                ck_assert_int_eq(result.kind, WORK_PART);
                batch_unref(result.batch);
                parts++;
            } else if (result.kind == WORK_RETURNED) {
                ck_assert_uint_eq(result.nack.lease, 2);
                returned = true;
            } else {
                ck_assert_int_eq(result.kind, WORK_PART);
                batch_unref(result.batch);
                others++;
            }
        }
        submit(0, &first);
        work_drop(work, 0);
        struct work_result none;
        ck_assert(!work_take(work, &none));
    }
    stop_work(); /* its pool checks that every batch came back */
}
END_TEST

/* Is the order that was given last, but is due first, finished first? */
static bool soon_overtakes_late(void)
{
    struct msg_grant late = whole_batch(1, 0);
    struct msg_grant soon = whole_batch(2, 1);
    late.due = 7;
    soon.due = 0;
    submit(0, &late);
    submit(0, &soon);
    uint32_t last_of_soon = 0;
    uint32_t last_of_late = 0;
    for (uint32_t i = 0; i < 2 * stream.layout.part_count; i++) {
        const struct work_result result = take();
        *(result.data.lease == 2 ? &last_of_soon : &last_of_late) = i;
        batch_unref(result.batch);
    }
    return last_of_soon < last_of_late;
}

START_TEST(the_more_urgent_order_is_made_first)
{
    start_work(1, false);
    /* On a busy machine this thread may sleep between the two until the first is under way; by
     * arrival alone the second would never be first. */
    bool overtaken = false;
    for (int i = 0; i < 100 && !overtaken; i++) {
        overtaken = soon_overtakes_late();
    }
    ck_assert(overtaken);
    stop_work();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work");
    TCase *tc = tcase_create("work");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, batches_are_the_same_whatever_the_number_of_threads);
    tcase_add_test(tc, a_range_gives_only_the_parts_that_are_wanted);
    tcase_add_test(tc, a_grant_out_of_range_is_refused);
    tcase_add_test(tc, a_bad_sample_is_replaced_by_the_next_on_its_chain_and_named_once);
    tcase_add_test(tc, more_bad_samples_than_a_message_can_name_fail_the_order);
    tcase_add_test(tc, with_on_bad_fail_the_order_fails_and_names_the_sample);
    tcase_add_test(tc, a_file_that_is_gone_is_an_io_error_and_no_bad_sample);
    tcase_add_test(tc, a_cancelled_order_is_returned_and_a_dropped_one_is_silent);
    tcase_add_test(tc, the_more_urgent_order_is_made_first);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
