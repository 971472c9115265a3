/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging ring: each way a slot can go, on the host and on a fake device that takes its time,
 * watches for bytes touched too early, and fails.
 */
#include "consumer/ring.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "fakes/device_fake.h"
#include "support/alloc_count.h"
#include "support/cuda_fakes.h"
#include "support/suite.h"

enum { SLOTS = 4, SLOT_BYTES = 10000 };

static const struct {
    const struct device_ops *ops;
    const char *options;
    bool parts; /* each half of a batch is copied as it comes */
} DEVICES[] = {
    {&device_host, NULL, false},
    {&device_fake, NULL, false},
    {&device_fake, "seed=1 delay_us=500", false},
    {&device_cuda, "500", false},
    {&device_host, NULL, true},
    {&device_fake, "seed=1 delay_us=500", true},
    {&device_cuda, "500", true}, /* microseconds of a copy, on the fake CUDA */
};

struct bench {
    const struct device_ops *ops;
    struct device *device;
    struct ring *ring;
    int wake_fd;
    bool parts;
};

static void open_ring(struct bench *b, const struct device_ops *ops, const char *options,
                      bool parts, bool lend_early)
{
    struct err err = {0};
    device_fake_forget();
    b->ops = ops;
    b->parts = parts;
    b->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ck_assert_int_ge(b->wake_fd, 0);
    if (ops == &device_cuda) {
        ck_assert_int_eq(setenv("HR_FAKE_CUDA_LATENCY_US", options, 1), 0);
    }
    static struct config config;
    cuda_fakes_configure(&config);
    const struct device_options device_options = {.config = &config, .text = options};
    ck_assert_int_eq(ops->open(&device_options, &b->device, &err), OK);
    const struct ring_options ring_options = {.name = "train",
                                              .ops = ops,
                                              .device = b->device,
                                              .slots = SLOTS,
                                              .slot_bytes = SLOT_BYTES,
                                              .copy_parts = parts,
                                              .lend_early = lend_early,
                                              .wake_fd = b->wake_fd};
    ck_assert_int_eq(ring_new(&ring_options, &b->ring, &err), OK);
}

static void bench_open(struct bench *b, const struct device_ops *ops, const char *options,
                       bool parts)
{
    open_ring(b, ops, options, parts, false);
}

static void bench_close(struct bench *b)
{
    ring_free(&b->ring);
    ck_assert_ptr_null(b->ring);
    b->ops->close(&b->device);
    close(b->wake_fd);
    const char *first = NULL;
    ck_assert_msg(device_fake_breaches(&first) == 0, "%s", first);
}

static void reset(struct bench *b, uint64_t first, uint64_t end)
{
    struct err err = {0};
    ck_assert_msg(ring_reset(b->ring, first, end, &err) == OK, "%s", err.message);
}

/* Every byte of a step's batch, so that a byte of another step shows. */
static uint8_t mark(uint64_t gstep)
{
    return (uint8_t)(gstep * 37 + 11);
}

static bool holds(const struct ring_batch *batch, uint64_t gstep)
{
    const uint8_t *bytes = batch->device != NULL ? batch->device : batch->host;
    for (size_t i = 0; i < SLOT_BYTES; i++) {
        if (bytes[i] != mark(gstep)) {
            return false;
        }
    }
    return batch->gstep == gstep && batch->slot == gstep % SLOTS;
}

/* The last half first, as parts may come. Bytes of a part that was told of are not touched again.
 */
static enum status fill_parts(struct bench *b, uint64_t gstep, struct err *err)
{
    enum { HALF = SLOT_BYTES / 2 };
    uint8_t *bytes = ring_claim(b->ring, gstep);
    memset(bytes + HALF, mark(gstep), SLOT_BYTES - HALF);
    TRY(ring_part(b->ring, gstep, HALF, SLOT_BYTES - HALF, err));
    memset(ring_claim(b->ring, gstep), mark(gstep), HALF);
    return ring_part(b->ring, gstep, 0, HALF, err);
}

static enum status fill(struct bench *b, uint64_t gstep, struct err *err)
{
    if (b->parts) {
        TRY(fill_parts(b, gstep, err));
    } else {
        memset(ring_claim(b->ring, gstep), mark(gstep), SLOT_BYTES);
    }
    return ring_ready(b->ring, gstep, err);
}

static void fill_ok(struct bench *b, uint64_t gstep)
{
    struct err err = {0};
    ck_assert_msg(fill(b, gstep, &err) == OK, "%s", err.message);
}

static void take_ok(struct bench *b, uint64_t gstep, struct ring_batch *out)
{
    struct err err = {0};
    ck_assert_msg(ring_take(b->ring, out, &err) == OK, "%s", err.message);
    ck_assert(holds(out, gstep));
}

static void release_ok(struct bench *b, uint64_t gstep, struct device_event *done)
{
    struct err err = {0};
    ck_assert_int_eq(ring_release(b->ring, gstep, done, &err), OK);
}

static int reclaim_all(struct bench *b)
{
    int freed = 0;
    bool soon = false;
    while (ring_reclaim(b->ring, &soon)) {
        freed++;
    }
    return freed;
}

START_TEST(batches_go_round_in_order)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 6, 60);
    for (uint64_t g = 6; g < 60; g += 3) {
        struct ring_batch batch;
        for (uint64_t k = 3; k-- > 0;) { /* filled out of order, lent in order */
            fill_ok(&b, g + k);
        }
        for (uint64_t k = 0; k < 3; k++) {
            take_ok(&b, g + k, &batch);
            release_ok(&b, g + k, NULL);
        }
        ck_assert_int_eq(reclaim_all(&b), 3);
    }
    bench_close(&b);
}
END_TEST

START_TEST(steps_are_freed_oldest_first)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 0, 10);
    struct ring_batch batch;
    for (uint64_t g = 0; g < 3; g++) {
        fill_ok(&b, g);
        take_ok(&b, g, &batch);
    }
    release_ok(&b, 1, NULL);
    release_ok(&b, 2, NULL);
    ck_assert_int_eq(reclaim_all(&b), 0);
    release_ok(&b, 0, NULL);
    ck_assert_int_eq(reclaim_all(&b), 3);
    bench_close(&b);
}
END_TEST

START_TEST(a_reader_that_keeps_too_much_is_told)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 0, 10);
    struct ring_batch batch;
    struct err err = {0};
    for (uint64_t g = 0; g < SLOTS; g++) {
        fill_ok(&b, g);
        take_ok(&b, g, &batch);
    }
    ck_assert_int_eq(ring_take(b.ring, &batch, &err), ERR_MISUSE);
    ck_assert_ptr_nonnull(strstr(err.message, "step 0 is still kept"));
    for (uint64_t g = 1; g < SLOTS; g++) { /* the oldest alone is enough to stop the ring */
        release_ok(&b, g, NULL);
    }
    ck_assert_int_eq(ring_take(b.ring, &batch, &err), ERR_MISUSE);
    release_ok(&b, 0, NULL);
    ck_assert_int_eq(reclaim_all(&b), SLOTS);
    fill_ok(&b, SLOTS);
    take_ok(&b, SLOTS, &batch);
    bench_close(&b);
}
END_TEST

START_TEST(wrong_releases_and_a_range_s_end_are_misuse)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 0, 1);
    struct ring_batch batch;
    struct err err = {0};
    ck_assert_int_eq(ring_release(b.ring, 0, NULL, &err), ERR_MISUSE);
    fill_ok(&b, 0);
    ck_assert_int_eq(ring_release(b.ring, 0, NULL, &err), ERR_MISUSE);
    take_ok(&b, 0, &batch);
    ck_assert_int_eq(ring_reset(b.ring, 5, 6, &err), ERR_MISUSE);
    ck_assert_int_eq(ring_release(b.ring, SLOTS, NULL, &err), ERR_MISUSE);
    release_ok(&b, 0, NULL);
    ck_assert_int_eq(ring_release(b.ring, 0, NULL, &err), ERR_MISUSE);
    ck_assert_int_eq(ring_take(b.ring, &batch, &err), ERR_MISUSE);
    ck_assert_ptr_nonnull(strstr(err.message, "has ended"));
    bench_close(&b);
}
END_TEST

START_TEST(a_release_wakes_the_client)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 0, 1);
    struct ring_batch batch;
    fill_ok(&b, 0);
    take_ok(&b, 0, &batch);
    struct pollfd item = {.fd = b.wake_fd, .events = POLLIN};
    ck_assert_int_eq(poll(&item, 1, 0), 0);
    release_ok(&b, 0, NULL);
    ck_assert_int_eq(poll(&item, 1, 0), 1);
    bench_close(&b);
}
END_TEST

START_TEST(starting_anew_forgets_what_was_filled_and_waits_for_copies)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    for (uint64_t round = 0; round < 30; round++) {
        const uint64_t first = round * 7;
        reset(&b, first, first + 7);
        struct ring_batch batch;
        fill_ok(&b, first);
        fill_ok(&b, first + 1);
        memset(ring_claim(b.ring, first + 2), 0xEE, SLOT_BYTES);
        if (b.parts) { /* a step that never gets its other half */
            struct err err = {0};
            ck_assert_int_eq(ring_part(b.ring, first + 2, 0, 100, &err), OK);
        }
        if (round % 2 == 0) {
            take_ok(&b, first, &batch);
            release_ok(&b, first, NULL);
        }
    }
    bench_close(&b);
}
END_TEST

/* The reader's own work on a batch: something on the device's stream, then an event. */
struct reader_work {
    void *scratch, *target;
    struct device_event *events[SLOTS];
};

static void work_init(struct bench *b, struct reader_work *work)
{
    struct err err = {0};
    ck_assert_int_eq(b->ops->alloc_pinned(b->device, 64, &work->scratch, &err), OK);
    ck_assert_int_eq(b->ops->alloc_device(b->device, 64 * SLOTS, &work->target, &err), OK);
    for (int i = 0; i < SLOTS; i++) {
        ck_assert_int_eq(b->ops->event_new(b->device, &work->events[i], &err), OK);
    }
}

/* The ring goes first: it may still wait for an event. */
static void work_fini(struct bench *b, struct reader_work *work)
{
    struct err err = {0};
    ring_free(&b->ring);
    for (int i = 0; i < SLOTS; i++) {
        ck_assert_int_eq(
            b->ops->wait(b->device, work->events[i], clock_now_ns() + 30 * NS_PER_S, &err), OK);
        b->ops->event_free(b->device, &work->events[i]);
    }
    b->ops->free_device(b->device, work->target);
    b->ops->free_pinned(b->device, work->scratch, 64);
}

static struct device_event *work_on(struct bench *b, struct reader_work *work, uint32_t slot)
{
    struct err err = {0};
    uint8_t *target = work->target == NULL ? NULL : (uint8_t *)work->target + 64 * slot;
    CHECK(b->ops->copy_async(b->device, target, work->scratch, 64, &err) == OK);
    CHECK(b->ops->record(b->device, work->events[slot], &err) == OK);
    return work->events[slot];
}

START_TEST(a_slot_waits_for_the_reader_s_event)
{
    struct bench b;
    struct reader_work work;
    struct err err = {0};
    bench_open(&b, &device_fake, "seed=3 delay_us=1000000", false);
    work_init(&b, &work);
    reset(&b, 0, 10);
    struct ring_batch batch;
    fill_ok(&b, 0);
    take_ok(&b, 0, &batch);
    struct device_event *done = work_on(&b, &work, batch.slot);
    ck_assert_int_eq(b.ops->query(b.device, done, &err), ERR_AGAIN);
    release_ok(&b, 0, done);
    bool soon = false;
    ck_assert(!ring_reclaim(b.ring, &soon));
    ck_assert(soon);
    ck_assert_int_eq(b.ops->wait(b.device, done, clock_now_ns() + 30 * NS_PER_S, &err), OK);
    ck_assert(ring_reclaim(b.ring, &soon));
    ck_assert(!soon);
    work_fini(&b, &work);
    bench_close(&b);
}
END_TEST

/* ---- two threads ---- */

enum { STORM_STEPS = 3000 };

/* Waits for room, as the client does: for a release, or a little for the reader's event. */
static void wait_for_room(struct bench *b, uint64_t *consumed)
{
    bool soon = false;
    if (ring_reclaim(b->ring, &soon)) {
        (*consumed)++;
        return;
    }
    if (soon) {
        poll(NULL, 0, 1);
        return;
    }
    uint64_t count = 0;
    struct pollfd item = {.fd = b->wake_fd, .events = POLLIN};
    CHECK(poll(&item, 1, 30000) == 1);
    CHECK(read(b->wake_fd, &count, sizeof(count)) == (ssize_t)sizeof(count));
}

static void *fill_steps(void *context)
{
    struct bench *b = context;
    struct err err = {0};
    uint64_t consumed = 0;
    for (uint64_t g = 0; g < STORM_STEPS; g++) {
        while (g - consumed >= SLOTS) {
            wait_for_room(b, &consumed);
        }
        CHECK(fill(b, g, &err) == OK);
    }
    return NULL;
}

/* Check's own assertions allocate, so nothing is asserted between the two counts. */
START_TEST(two_threads_and_a_slow_device_deliver_every_byte)
{
    struct bench b;
    struct reader_work work;
    char options[64];
    snprintf(options, sizeof(options), "seed=%" PRIu64 " delay_us=100", test_seed());
    static const struct device_ops *const OPS[] = {&device_host, &device_fake, &device_fake,
                                                   &device_cuda};
    bench_open(&b, OPS[_i], OPS[_i] == &device_cuda ? "50" : options, _i == 2);
    work_init(&b, &work);
    reset(&b, 0, STORM_STEPS);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fill_steps, &b), 0);
    const uint64_t before = alloc_count();
    uint64_t good = 0;
    for (uint64_t g = 0; g < STORM_STEPS; g++) {
        struct ring_batch batch;
        struct err err = {0};
        if (ring_take(b.ring, &batch, &err) != OK) {
            break;
        }
        good += holds(&batch, g);
        struct device_event *done = g % 3 == 0 ? NULL : work_on(&b, &work, batch.slot);
        CHECK(ring_release(b.ring, g, done, &err) == OK);
    }
    const uint64_t after = alloc_count();
    ck_assert_uint_eq(good, STORM_STEPS);
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_eq(after, before);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    work_fini(&b, &work);
    bench_close(&b);
}
END_TEST

static void *close_ring(void *context)
{
    ring_close(context);
    return NULL;
}

static void expect_cancelled(struct bench *b)
{
    pthread_t thread;
    struct ring_batch batch;
    struct err err = {0};
    ck_assert_int_eq(pthread_create(&thread, NULL, close_ring, b->ring), 0);
    ck_assert_int_eq(ring_take(b->ring, &batch, &err), ERR_CANCELLED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(ring_take(b->ring, &batch, &err), ERR_CANCELLED);
}

START_TEST(closing_ends_a_wait_for_bytes)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 0, 10);
    expect_cancelled(&b);
    bench_close(&b);
}
END_TEST

START_TEST(a_wait_may_end_before_the_bytes_come)
{
    struct bench b;
    struct err err = {0};
    struct ring_batch batch;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 0, 10);
    const int64_t begin = clock_now_ns();
    ck_assert_int_eq(ring_wait(b.ring, begin + 20 * NS_PER_MS, &err), ERR_TIMEOUT);
    ck_assert_int_ge(clock_now_ns() - begin, 20 * NS_PER_MS);
    fill_ok(&b, 0);
    ck_assert_int_eq(ring_wait(b.ring, 0, &err), OK); /* there already: no time is too short */
    take_ok(&b, 0, &batch);
    ck_assert_int_eq(ring_wait(b.ring, 0, &err), ERR_TIMEOUT);
    ring_close(b.ring);
    ck_assert_int_eq(ring_wait(b.ring, clock_now_ns() + 60 * NS_PER_S, &err), ERR_CANCELLED);
    bench_close(&b);
}
END_TEST

START_TEST(a_failure_reaches_the_reader_and_the_first_one_stays)
{
    struct bench b;
    bench_open(&b, DEVICES[_i].ops, DEVICES[_i].options, DEVICES[_i].parts);
    reset(&b, 0, 10);
    struct err starved = {0};
    struct err later = {0};
    struct err err = {0};
    struct ring_batch batch;
    ck_assert_int_eq(err_set(&starved, ERR_PEER_GONE, "no producer"), ERR_PEER_GONE);
    ck_assert_int_eq(err_set(&later, ERR_DATA, "later"), ERR_DATA);
    ring_fail(b.ring, &starved);
    ring_fail(b.ring, &later);
    ck_assert_int_eq(ring_take(b.ring, &batch, &err), ERR_PEER_GONE);
    ck_assert_str_eq(err.message, "no producer");
    bench_close(&b);
}
END_TEST

/* ---- faults ---- */

static void on_broken(void *context, const struct err *told)
{
    struct err *first = context;
    if (first->status == OK) {
        *first = *told;
    }
}

/* Ten steps on a device that fails at some call: a clean status, no hang, nothing lost. broken:
 * what the ring told, if anything. */
static enum status ten_steps(struct bench *b, struct err *broken)
{
    struct err err = {0};
    const struct ring_options options = {.name = "train",
                                         .ops = b->ops,
                                         .device = b->device,
                                         .slots = SLOTS,
                                         .slot_bytes = SLOT_BYTES,
                                         .copy_parts = b->parts,
                                         .wake_fd = -1,
                                         .on_broken = on_broken,
                                         .broken_context = broken};
    *broken = (struct err){0};
    TRY(ring_new(&options, &b->ring, &err));
    TRY(ring_reset(b->ring, 0, 10, &err));
    for (uint64_t g = 0; g < 10; g++) {
        struct ring_batch batch;
        const enum status filled = fill(b, g, &err);
        const enum status taken = ring_take(b->ring, &batch, &err);
        if (filled != OK) {
            ck_assert_int_eq(taken, filled); /* the reader hears of it too */
        }
        if (taken != OK) { /* in the same words */
            char place[64];
            snprintf(place, sizeof(place), "stream train, step %d, slot %d: ", (int)g,
                     (int)g % SLOTS);
            ck_assert_int_eq(taken, ERR_DEVICE);
            ck_assert_str_eq(err.message, broken->message);
            ck_assert_msg(strncmp(err.message, place, strlen(place)) == 0, "%s", err.message);
        }
        TRY(taken);
        TRY(ring_release(b->ring, g, NULL, &err));
        bool soon = false;
        ck_assert(ring_reclaim(b->ring, &soon));
    }
    return OK;
}

START_TEST(every_call_of_the_device_may_fail)
{
    enum status status = ERR_DEVICE;
    int n = 0;
    while (status != OK) {
        n++;
        char options[64];
        struct bench b = {.ops = &device_fake};
        struct err err = {0};
        struct err broken;
        b.parts = _i == 1;
        device_fake_forget();
        snprintf(options, sizeof(options), "seed=%d delay_us=50 fail_at=%d", n, n);
        ck_assert_int_eq(b.ops->open(&(struct device_options){.text = options}, &b.device, &err),
                         OK);
        status = ten_steps(&b, &broken);
        ck_assert(status == OK || status == ERR_DEVICE);
        ring_free(&b.ring);
        b.ops->close(&b.device);
        const char *first = NULL;
        ck_assert_msg(device_fake_breaches(&first) == 0, "fail_at=%d: %s", n, first);
    }
    ck_assert_int_gt(n, 2 + SLOTS + 3 * 10); /* memory, events; copy, record, wait of each step */
}
END_TEST

START_TEST(a_device_that_breaks_mid_copy_fails_the_reader)
{
    for (int n = 1; n <= 10; n++) {
        struct bench b = {.ops = &device_fake};
        struct err err = {0};
        struct err broken;
        char options[64];
        b.parts = _i == 1;
        device_fake_forget();
        snprintf(options, sizeof(options), "delay_us=50 break_at=%d", n);
        ck_assert_int_eq(b.ops->open(&(struct device_options){.text = options}, &b.device, &err),
                         OK);
        ck_assert_int_eq(ten_steps(&b, &broken), ERR_DEVICE);
        ck_assert_ptr_nonnull(strstr(broken.message, "broken on request"));
        ring_free(&b.ring);
        b.ops->close(&b.device);
        ck_assert_int_eq(device_fake_breaches(NULL), 0);
    }
}
END_TEST

START_TEST(closing_ends_a_wait_for_a_copy_that_hangs)
{
    struct bench b;
    bench_open(&b, &device_fake, "hang_at=1", false);
    reset(&b, 0, 10);
    fill_ok(&b, 0);
    expect_cancelled(&b);
    /* The slot's memory stays with the device: ring_free would wait 30 s for it. */
    close(b.wake_fd);
    _Exit(device_fake_breaches(NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}
END_TEST

/* The reader's own stream waits for the copy; the slot does, too, though its reader did not. */
START_TEST(a_batch_may_be_lent_before_its_copy_is_done)
{
    struct bench b;
    struct ring_batch batch;
    struct err err = {0};
    bool soon = false;
    open_ring(&b, &device_fake, "hang_at=2", false, true);
    reset(&b, 0, 10);
    for (uint64_t g = 0; g < 2; g++) {
        fill_ok(&b, g);
        ck_assert_int_eq(ring_take(b.ring, &batch, &err), OK);
        ck_assert_uint_eq(batch.gstep, g);
        ck_assert_ptr_nonnull(batch.done);
        release_ok(&b, g, batch.done);
    }
    ck_assert_int_eq(b.ops->query(b.device, batch.copied, &err), ERR_AGAIN);
    const int64_t deadline_ns = clock_now_ns() + 60 * NS_PER_S;
    while (reclaim_all(&b) == 0) { /* the first, whose copy ends */
        ck_assert_int_lt(clock_now_ns(), deadline_ns);
    }
    ck_assert(!ring_reclaim(b.ring, &soon));
    ck_assert(soon);
    close(b.wake_fd);
    _Exit(device_fake_breaches(NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}
END_TEST

START_TEST(batches_lent_early_are_whole_when_their_copy_is)
{
    struct bench b;
    struct ring_batch batch;
    struct err err = {0};
    open_ring(&b, &device_fake, "seed=1 delay_us=500", false, true);
    reset(&b, 0, 20);
    const int64_t deadline_ns = clock_now_ns() + 60 * NS_PER_S;
    for (uint64_t g = 0; g < 20; g++) {
        fill_ok(&b, g);
        ck_assert_int_eq(ring_take(b.ring, &batch, &err), OK);
        ck_assert_int_eq(b.ops->wait(b.device, batch.copied, deadline_ns, &err), OK);
        ck_assert(holds(&batch, g));
        release_ok(&b, g, batch.done);
        ck_assert_int_eq(reclaim_all(&b), 1);
    }
    bench_close(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    TCase *tc = tcase_create("ring");
    const int devices = (int)ARRAY_LEN(DEVICES);
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, batches_go_round_in_order, 0, devices);
    tcase_add_loop_test(tc, steps_are_freed_oldest_first, 0, devices);
    tcase_add_loop_test(tc, a_reader_that_keeps_too_much_is_told, 0, devices);
    tcase_add_loop_test(tc, wrong_releases_and_a_range_s_end_are_misuse, 0, devices);
    tcase_add_loop_test(tc, a_release_wakes_the_client, 0, devices);
    tcase_add_loop_test(tc, starting_anew_forgets_what_was_filled_and_waits_for_copies, 0, devices);
    tcase_add_test(tc, a_slot_waits_for_the_reader_s_event);
    tcase_add_loop_test(tc, two_threads_and_a_slow_device_deliver_every_byte, 0, 4);
    tcase_add_loop_test(tc, closing_ends_a_wait_for_bytes, 0, devices);
    tcase_add_loop_test(tc, a_wait_may_end_before_the_bytes_come, 0, devices);
    tcase_add_loop_test(tc, a_failure_reaches_the_reader_and_the_first_one_stays, 0, devices);
    tcase_add_loop_test(tc, every_call_of_the_device_may_fail, 0, 2);
    tcase_add_loop_test(tc, a_device_that_breaks_mid_copy_fails_the_reader, 0, 2);
    tcase_add_test(tc, closing_ends_a_wait_for_a_copy_that_hangs);
    tcase_add_test(tc, a_batch_may_be_lent_before_its_copy_is_done);
    tcase_add_test(tc, batches_lent_early_are_whole_when_their_copy_is);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
