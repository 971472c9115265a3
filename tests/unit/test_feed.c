/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed with its client, scheduler, rings and real links on loopback; producers are fakes that
 * misbehave. What must hold whatever they do: every step once, in order, with the plan's bytes.
 */
#include "consumer/feed.h"

#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/digest.h"
#include "fakes/device_fake.h"
#include "fakes/producer_fake.h"
#include "support/alloc_count.h"
#include "support/suite.h"

enum { ROWS = 8, SIDE = 256, SAMPLES = 130, EVAL_SAMPLES = 21, PRODUCERS_MAX = 4 };
#define DATA_DIGEST UINT64_C(0xD1)
#define JOB         UINT64_C(77)
#define FINGERPRINT UINT64_C(0xF1)

struct rig {
    struct config config;
    struct roster roster;
    struct feed *feed;
    struct feed_stream info[2];
    struct producer_fake *producers[PRODUCERS_MAX];
    struct layout layouts[2]; /* as producers work them out */
    struct plan plans[2];
    uint8_t *scratch;
};

static const char *const NAMES[] = {"train", "eval"};
static const uint64_t COUNTS[] = {SAMPLES, EVAL_SAMPLES};

static void set_config(struct config *config)
{
    *config = (struct config){.global_batch = ROWS,
                              .seed = 9,
                              .slots = 4,
                              .bad_budget = -1,
                              .peer_timeout_s = 20,
                              .join_timeout_s = 30,
                              .starve_timeout_s = 30,
                              .stream_count = 2};
    for (int s = 0; s < 2; s++) {
        struct stream_config *stream = &config->streams[s];
        snprintf(stream->name, sizeof(stream->name), "%s", NAMES[s]);
        stream->shuffle = s == 0 ? SHUFFLE_FULL : SHUFFLE_NONE;
        stream->last = s == 0 ? LAST_DROP : LAST_PARTIAL;
        stream->pipeline.height = stream->pipeline.width = SIDE;
        stream->pipeline.channels = 3;
    }
}

/* What a producer with so many training samples believes. */
static void plan_streams(struct rig *rig, uint64_t samples)
{
    struct err err = {0};
    for (int s = 0; s < 2; s++) {
        const struct plan_options options = {.stream = NAMES[s],
                                             .seed = 9,
                                             .samples = s == 0 ? samples : COUNTS[1],
                                             .global_batch = ROWS,
                                             .world = 1,
                                             .shuffle = rig->config.streams[s].shuffle,
                                             .last = rig->config.streams[s].last};
        ck_assert_int_eq(plan_init(&options, &rig->plans[s], &err), OK);
        ck_assert_int_eq(layout_init(ROWS, SIDE, SIDE, 3, &rig->layouts[s], &err), OK);
    }
}

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.roster = {.job = JOB, .rank_count = 1}};
    set_config(&rig->config);
    plan_streams(rig, SAMPLES);
    rig->scratch = malloc(rig->layouts[0].bytes);
    ck_assert_ptr_nonnull(rig->scratch);
}

static void rig_open_on(struct rig *rig, const struct device_ops *device, const char *options,
                        uint32_t producers)
{
    struct err err = {0};
    const struct feed_options feed_options = {.config = &rig->config,
                                              .roster = &rig->roster,
                                              .address = "127.0.0.1",
                                              .producers = producers,
                                              .fingerprint = FINGERPRINT,
                                              .device = device,
                                              .device_options = options};
    ck_assert_msg(feed_new(&feed_options, &rig->feed, &err) == OK, "%s", err.message);
}

static void rig_open(struct rig *rig, uint32_t producers)
{
    rig_open_on(rig, &device_host, NULL, producers);
}

static void rig_close(struct rig *rig)
{
    feed_free(&rig->feed, false);
    for (int i = 0; i < PRODUCERS_MAX; i++) {
        producer_fake_stop(&rig->producers[i]);
    }
    free(rig->scratch);
}

/* Options of producer `number` that behaves. */
static struct producer_fake_options good(const struct rig *rig, uint32_t number)
{
    static const char *const HOSTS[] = {"algo-1", "algo-2", "algo-3", "algo-4"};
    struct producer_fake_options options = {.port = feed_port(rig->feed),
                                            .host = HOSTS[number],
                                            .instance = number + 1,
                                            .job = JOB,
                                            .fingerprint = FINGERPRINT,
                                            .stream_count = 2,
                                            .digest = DATA_DIGEST,
                                            .classes = BATCH_FAKE_CLASSES,
                                            .seed = number};
    for (int s = 0; s < 2; s++) {
        options.streams[s] =
            (struct batch_fake){.plan = &rig->plans[s], .layout = &rig->layouts[s]};
    }
    return options;
}

static void start(struct rig *rig, uint32_t number, const struct producer_fake_options *options)
{
    rig->producers[number] = producer_fake_start(options);
}

static void start_good(struct rig *rig, uint32_t number)
{
    const struct producer_fake_options options = good(rig, number);
    start(rig, number, &options);
}

static void learn(struct rig *rig)
{
    struct err err = {0};
    for (int s = 0; s < 2; s++) {
        ck_assert_msg(feed_stream_info(rig->feed, NAMES[s], &rig->info[s], &err) == OK, "%s",
                      err.message);
    }
}

static void begin(struct rig *rig, int s, uint32_t epoch, uint64_t step, uint32_t epochs)
{
    struct err err = {0};
    ck_assert_msg(feed_start(rig->feed, NAMES[s], epoch, step, epochs, &err) == OK, "%s",
                  err.message);
}

static void next(struct rig *rig, int s, struct feed_batch *out)
{
    struct err err = {0};
    ck_assert_msg(feed_next(rig->feed, NAMES[s], out, &err) == OK, "%s", err.message);
}

static void release(struct rig *rig, const struct feed_batch *batch)
{
    struct err err = {0};
    ck_assert_msg(feed_release(rig->feed, batch, NULL, &err) == OK, "%s", err.message);
}

static struct batch_fake expected_of(const struct rig *rig, int s, uint64_t bad_every)
{
    return (struct batch_fake){
        .plan = &rig->plans[s], .layout = &rig->layouts[s], .bad_every = bad_every};
}

/* Takes steps and checks place, order and every byte. */
static void consume(struct rig *rig, int s, uint32_t epoch, uint64_t step, uint64_t count,
                    uint64_t bad_every)
{
    const struct batch_fake fake = expected_of(rig, s, bad_every);
    for (uint64_t i = 0; i < count; i++) {
        struct feed_batch batch;
        next(rig, s, &batch);
        ck_assert_uint_eq(batch.epoch, epoch);
        ck_assert_uint_eq(batch.step, step);
        ck_assert(batch_fake_holds(&fake, epoch, step, batch.host, rig->scratch));
        if (batch.device != NULL) {
            ck_assert_int_eq(memcmp(batch.device, batch.host, rig->layouts[s].bytes), 0);
        }
        release(rig, &batch);
        step++;
        if (step == rig->plans[s].steps) {
            step = 0;
            epoch++;
        }
    }
}

/* The digest of whole epochs, worked out without the feed. */
static uint64_t expected_digest(struct rig *rig, int s, uint32_t epochs, uint64_t bad_every)
{
    const struct batch_fake fake = expected_of(rig, s, bad_every);
    uint64_t sum = 0;
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        for (uint64_t step = 0; step < rig->plans[s].steps; step++) {
            uint64_t first = 0;
            const uint32_t count = plan_batch(&rig->plans[s], step, 0, &first);
            batch_fake_fill(&fake, epoch, step, rig->scratch);
            sum += digest_batch(digest_name(NAMES[s]), epoch, first, count, &rig->layouts[s],
                                rig->scratch);
        }
    }
    return sum;
}

static struct feed_stats stats_of(const struct rig *rig, int s)
{
    struct feed_stats stats;
    feed_stats(rig->feed, NAMES[s], &stats);
    return stats;
}

/* ---- good producers ---- */

START_TEST(every_step_comes_once_in_order_with_the_plan_s_bytes)
{
    struct rig rig;
    rig_init(&rig);
    const uint32_t producers = (uint32_t)_i;
    rig_open(&rig, producers);
    for (uint32_t i = 0; i < producers; i++) {
        start_good(&rig, i);
    }
    learn(&rig);
    ck_assert_uint_eq(rig.info[0].classes, BATCH_FAKE_CLASSES);
    ck_assert_uint_eq(rig.info[0].data_digest, DATA_DIGEST);
    ck_assert_uint_eq(rig.info[0].plan.steps, SAMPLES / ROWS);
    ck_assert_uint_eq(rig.info[1].plan.steps, (EVAL_SAMPLES + ROWS - 1) / ROWS);
    begin(&rig, 0, 0, 0, 3);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        consume(&rig, 0, epoch, 0, rig.plans[0].steps, 0);
        begin(&rig, 1, epoch, 0, epoch + 1);
        consume(&rig, 1, epoch, 0, rig.plans[1].steps, 0);
    }
    const struct feed_stats train = stats_of(&rig, 0);
    ck_assert_uint_eq(train.digest, expected_digest(&rig, 0, 3, 0));
    ck_assert_uint_eq(train.batches, 3 * rig.plans[0].steps);
    ck_assert_uint_eq(train.samples, 3 * rig.plans[0].steps * ROWS);
    ck_assert_uint_eq(train.bad_samples, 0);
    ck_assert_uint_ge(train.wait_p99_ns, train.wait_p50_ns);
    ck_assert_uint_gt(train.decode_ns, 0);
    ck_assert_uint_eq(stats_of(&rig, 1).samples, EVAL_SAMPLES);
    struct feed_batch batch;
    struct err err = {0};
    ck_assert_int_eq(feed_next(rig.feed, "train", &batch, &err), ERR_MISUSE);
    rig_close(&rig);
}
END_TEST

START_TEST(a_slow_device_changes_nothing)
{
    struct rig rig;
    rig_init(&rig);
    device_fake_forget();
    rig_open_on(&rig, &device_fake, "seed=4 delay_us=2000", 1);
    start_good(&rig, 0);
    learn(&rig);
    begin(&rig, 0, 0, 0, 2);
    consume(&rig, 0, 0, 0, 2 * rig.plans[0].steps, 0);
    ck_assert_uint_eq(stats_of(&rig, 0).digest, expected_digest(&rig, 0, 2, 0));
    rig_close(&rig);
    const char *first = NULL;
    ck_assert_msg(device_fake_breaches(&first) == 0, "%s", first);
}
END_TEST

START_TEST(resuming_anywhere_gives_the_rest_of_the_stream)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    start_good(&rig, 0);
    learn(&rig);
    const uint64_t steps = rig.plans[0].steps;
    const uint64_t whole = expected_digest(&rig, 0, 2, 0);
    for (uint64_t cut = 0; cut < 2 * steps; cut += 11) {
        uint64_t digest = 0;
        if (cut > 0) {
            begin(&rig, 0, 0, 0, 2);
            consume(&rig, 0, 0, 0, cut, 0);
            digest = stats_of(&rig, 0).digest;
        }
        begin(&rig, 0, (uint32_t)(cut / steps), cut % steps, 2);
        consume(&rig, 0, (uint32_t)(cut / steps), cut % steps, 2 * steps - cut, 0);
        ck_assert_uint_eq(digest + stats_of(&rig, 0).digest, whole);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(the_steady_state_allocates_nothing)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    start_good(&rig, 0);
    start_good(&rig, 1);
    learn(&rig);
    begin(&rig, 0, 0, 0, 6);
    consume(&rig, 0, 0, 0, rig.plans[0].steps, 0);
    /* Check's assertions allocate: none of them here. */
    const uint64_t before = alloc_count();
    bool good_calls = true;
    struct err err;
    for (uint64_t i = 0; i < 4 * rig.plans[0].steps; i++) {
        struct feed_batch batch;
        good_calls = good_calls && feed_next(rig.feed, "train", &batch, &err) == OK &&
                     feed_release(rig.feed, &batch, NULL, &err) == OK;
    }
    const uint64_t after = alloc_count();
    ck_assert(good_calls);
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_eq(after, before);
    rig_close(&rig);
}
END_TEST

START_TEST(a_flipped_byte_in_a_lent_slot_changes_the_digest)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    start_good(&rig, 0);
    learn(&rig);
    begin(&rig, 0, 0, 0, 1);
    for (uint64_t i = 0; i < rig.plans[0].steps; i++) {
        struct feed_batch batch;
        next(&rig, 0, &batch);
        if (i == 3) {
            ((uint8_t *)(uintptr_t)batch.host)[12345] ^= 1;
        }
        release(&rig, &batch);
    }
    ck_assert_uint_ne(stats_of(&rig, 0).digest, expected_digest(&rig, 0, 1, 0));
    rig_close(&rig);
}
END_TEST

START_TEST(the_end_is_told_to_producers)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    start_good(&rig, 0);
    start_good(&rig, 1);
    learn(&rig);
    begin(&rig, 0, 0, 0, 1);
    consume(&rig, 0, 0, 0, 3, 0);
    const int64_t begin_ns = clock_now_ns();
    feed_free(&rig.feed, true);
    ck_assert_int_lt(clock_now_ns() - begin_ns, 10 * NS_PER_S);
    ck_assert(producer_fake_heard_done(rig.producers[0]));
    ck_assert(producer_fake_heard_done(rig.producers[1]));
    rig_close(&rig);
}
END_TEST

START_TEST(a_producer_that_never_says_bye_delays_the_end_by_two_seconds_at_most)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    start_good(&rig, 0);
    learn(&rig);
    producer_fake_stop(&rig.producers[0]);
    const int64_t begin_ns = clock_now_ns();
    feed_free(&rig.feed, true);
    ck_assert_int_lt(clock_now_ns() - begin_ns, 10 * NS_PER_S);
    rig_close(&rig);
}
END_TEST

/* ---- producers that misbehave ---- */

static void expect_whole_stream(struct rig *rig)
{
    learn(rig);
    begin(rig, 0, 0, 0, 2);
    consume(rig, 0, 0, 0, 2 * rig->plans[0].steps, 0);
    ck_assert_uint_eq(stats_of(rig, 0).digest, expected_digest(rig, 0, 2, 0));
}

START_TEST(bad_parts_are_never_lent)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    struct producer_fake_options options = good(&rig, 0);
    options.corrupt_every = _i == 0 ? 5 : 0;
    options.wrong_id_every = _i == 1 ? 5 : 0;
    options.double_every = _i == 2 ? 2 : 0;
    options.delay_us = 3000;
    start(&rig, 0, &options);
    start_good(&rig, 1);
    expect_whole_stream(&rig);
    ck_assert_uint_gt(producer_fake_parts(rig.producers[0]), 5);
    if (_i == 2) {
        ck_assert_uint_gt(stats_of(&rig, 0).duplicates, 0);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(producers_that_die_hang_or_babble_lose_nothing)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    struct producer_fake_options options = good(&rig, 0);
    options.end_after = _i == 0 ? 10 : 0;
    options.hang_after = _i == 1 ? 10 : 0;
    options.garbage_after = _i == 2 ? 10 : 0;
    start(&rig, 0, &options);
    options = good(&rig, 1);
    options.delay_us = 3000;
    start(&rig, 1, &options);
    expect_whole_stream(&rig);
    ck_assert_uint_ge(producer_fake_parts(rig.producers[0]), 10);
    rig_close(&rig);
}
END_TEST

START_TEST(a_restarted_producer_goes_on)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    start_good(&rig, 0);
    learn(&rig);
    begin(&rig, 0, 0, 0, 1);
    consume(&rig, 0, 0, 0, 4, 0);
    producer_fake_stop(&rig.producers[0]);
    struct producer_fake_options options = good(&rig, 0);
    options.instance = 99;
    start(&rig, 0, &options);
    consume(&rig, 0, 0, 4, rig.plans[0].steps - 4, 0);
    ck_assert_uint_eq(stats_of(&rig, 0).digest, expected_digest(&rig, 0, 1, 0));
    rig_close(&rig);
}
END_TEST

START_TEST(without_producers_the_job_starves)
{
    struct rig rig;
    rig_init(&rig);
    rig.config.starve_timeout_s = 1;
    rig_open(&rig, 1);
    start_good(&rig, 0);
    learn(&rig);
    begin(&rig, 0, 0, 0, 1);
    consume(&rig, 0, 0, 0, 2, 0);
    producer_fake_stop(&rig.producers[0]);
    struct feed_batch batch;
    struct err err = {0};
    enum status status = OK;
    while ((status = feed_next(rig.feed, "train", &batch, &err)) == OK) {
        release(&rig, &batch);
    }
    ck_assert_int_eq(status, ERR_PEER_GONE);
    ck_assert_ptr_nonnull(strstr(err.message, "algo-1/0"));
    rig_close(&rig);
}
END_TEST

START_TEST(a_nack_for_the_bad_budget_ends_the_job)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    struct producer_fake_options options = good(&rig, 0);
    options.nack_after = 6;
    start(&rig, 0, &options);
    learn(&rig);
    begin(&rig, 0, 0, 0, 1);
    struct feed_batch batch;
    struct err err = {0};
    enum status status = OK;
    while ((status = feed_next(rig.feed, "train", &batch, &err)) == OK) {
        release(&rig, &batch);
    }
    ck_assert_int_eq(status, ERR_DATA);
    ck_assert_ptr_nonnull(strstr(err.message, "fake: no good sample"));
    rig_close(&rig);
}
END_TEST

/* ---- bad samples ---- */

START_TEST(substitutes_are_counted_once_an_epoch_within_the_budget)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct producer_fake_options options = good(&rig, i);
        options.streams[0].bad_every = 20; /* 7 of 130, the budget is 10 */
        start(&rig, i, &options);
    }
    learn(&rig);
    begin(&rig, 0, 0, 0, 4);
    consume(&rig, 0, 0, 0, 4 * rig.plans[0].steps, 20);
    const uint64_t bad = stats_of(&rig, 0).bad_samples;
    ck_assert_uint_gt(bad, 10); /* over four epochs, fewer than 10 in each */
    ck_assert_uint_le(bad, 28);
    ck_assert_uint_eq(stats_of(&rig, 0).digest, expected_digest(&rig, 0, 4, 20));
    rig_close(&rig);
}
END_TEST

START_TEST(more_bad_samples_than_the_budget_end_the_job)
{
    struct rig rig;
    rig_init(&rig);
    rig.config.bad_budget = 3;
    rig_open(&rig, 1);
    struct producer_fake_options options = good(&rig, 0);
    options.streams[0].bad_every = 10;
    start(&rig, 0, &options);
    learn(&rig);
    begin(&rig, 0, 0, 0, 1);
    struct err err = {0};
    enum status status = OK;
    while (status == OK) {
        struct feed_batch batch;
        next(&rig, 0, &batch);
        status = feed_release(rig.feed, &batch, NULL, &err);
    }
    ck_assert_int_eq(status, ERR_DATA);
    ck_assert_ptr_nonnull(strstr(err.message, "bad_budget"));
    rig_close(&rig);
}
END_TEST

/* ---- data sets ---- */

START_TEST(producers_with_different_data_are_turned_away_and_both_named)
{
    struct rig rig;
    struct rig other;
    rig_init(&rig);
    rig_init(&other);
    plan_streams(&other, SAMPLES - 1);
    rig.config.join_timeout_s = 2;
    rig_open(&rig, 2);
    start_good(&rig, 0);
    other.feed = rig.feed;
    struct producer_fake_options options = good(&other, 1);
    start(&rig, 1, &options);
    struct err err = {0};
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_DATA);
    ck_assert_ptr_nonnull(strstr(err.message, "algo-1/0"));
    ck_assert_ptr_nonnull(strstr(err.message, "algo-2/0"));
    ck_assert_uint_gt(producer_fake_rejects(rig.producers[0]), 0);
    ck_assert_uint_gt(producer_fake_rejects(rig.producers[1]), 0);
    rig_close(&rig);
    free(other.scratch);
}
END_TEST

static void *replace_producer(void *context)
{
    struct rig *rig = context;
    const int64_t deadline = clock_now_ns() + 60 * NS_PER_S;
    while (producer_fake_rejects(rig->producers[1]) == 0) {
        CHECK(clock_now_ns() < deadline);
    }
    producer_fake_stop(&rig->producers[1]);
    struct producer_fake_options options = good(rig, 1);
    options.instance = 55;
    start(rig, 1, &options);
    return NULL;
}

START_TEST(data_that_come_to_agree_begin_the_job)
{
    struct rig rig;
    struct rig other;
    rig_init(&rig);
    rig_init(&other);
    plan_streams(&other, SAMPLES - 1);
    rig_open(&rig, 2);
    start_good(&rig, 0);
    other.feed = rig.feed;
    const struct producer_fake_options options = good(&other, 1);
    start(&rig, 1, &options);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_producer, &rig), 0);
    learn(&rig);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(rig.info[0].plan.samples, SAMPLES);
    begin(&rig, 0, 0, 0, 1);
    consume(&rig, 0, 0, 0, rig.plans[0].steps, 0);
    rig_close(&rig);
    free(other.scratch);
}
END_TEST

START_TEST(a_late_producer_with_other_data_is_turned_away_and_the_job_goes_on)
{
    struct rig rig;
    struct rig other;
    rig_init(&rig);
    rig_init(&other);
    plan_streams(&other, SAMPLES - 1);
    rig_open(&rig, 1);
    start_good(&rig, 0);
    learn(&rig);
    begin(&rig, 0, 0, 0, 1);
    consume(&rig, 0, 0, 0, 4, 0);
    other.feed = rig.feed;
    const struct producer_fake_options options = good(&other, 1);
    start(&rig, 1, &options);
    const int64_t deadline = clock_now_ns() + 60 * NS_PER_S;
    while (producer_fake_rejects(rig.producers[1]) == 0) {
        ck_assert(clock_now_ns() < deadline);
    }
    consume(&rig, 0, 0, 4, rig.plans[0].steps - 4, 0);
    ck_assert_uint_eq(producer_fake_parts(rig.producers[1]), 0);
    ck_assert_uint_eq(stats_of(&rig, 0).digest, expected_digest(&rig, 0, 1, 0));
    rig_close(&rig);
    free(other.scratch);
}
END_TEST

START_TEST(no_producer_at_all_is_a_time_out)
{
    struct rig rig;
    rig_init(&rig);
    rig.config.join_timeout_s = 0.3;
    rig_open(&rig, 1);
    struct err err = {0};
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_TIMEOUT);
    rig_close(&rig);
}
END_TEST

START_TEST(fewer_samples_than_a_batch_are_an_error)
{
    struct rig rig;
    rig_init(&rig);
    plan_streams(&rig, ROWS - 1);
    rig_open(&rig, 1);
    start_good(&rig, 0);
    struct err err = {0};
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_DATA);
    rig_close(&rig);
}
END_TEST

/* ---- misuse and ends ---- */

START_TEST(misuse_is_an_error_not_a_hang)
{
    struct rig rig;
    struct err err = {0};
    struct feed_batch batches[8];
    rig_init(&rig);
    rig_open(&rig, 1);
    start_good(&rig, 0);
    ck_assert_int_eq(feed_stream_info(rig.feed, "tarin", &rig.info[0], &err), ERR_USAGE);
    learn(&rig);
    ck_assert_int_eq(feed_next(rig.feed, "train", &batches[0], &err), ERR_MISUSE);
    ck_assert_int_eq(feed_start(rig.feed, "train", 1, 0, 1, &err), ERR_MISUSE);
    ck_assert_int_eq(feed_start(rig.feed, "train", 0, rig.plans[0].steps, 1, &err), ERR_MISUSE);
    begin(&rig, 0, 0, 0, 1);
    for (int i = 0; i < 4; i++) {
        next(&rig, 0, &batches[i]);
    }
    ck_assert_int_eq(feed_next(rig.feed, "train", &batches[4], &err), ERR_MISUSE);
    ck_assert_int_eq(feed_start(rig.feed, "train", 0, 0, 1, &err), ERR_MISUSE);
    for (int i = 3; i >= 0; i--) {
        release(&rig, &batches[i]);
        ck_assert_int_eq(feed_release(rig.feed, &batches[i], NULL, &err), ERR_MISUSE);
    }
    consume(&rig, 0, 0, 4, 3, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_port_in_use_is_a_resource_error)
{
    struct rig rig;
    struct err err = {0};
    rig_init(&rig);
    rig_open(&rig, 1);
    const struct feed_options options = {.config = &rig.config,
                                         .roster = &rig.roster,
                                         .address = "127.0.0.1",
                                         .port = feed_port(rig.feed),
                                         .producers = 1,
                                         .device = &device_host};
    struct feed *second = NULL;
    ck_assert_int_eq(feed_new(&options, &second, &err), ERR_RESOURCE);
    ck_assert_ptr_null(second);
    ck_assert_ptr_nonnull(strstr(err.message, "127.0.0.1"));
    rig_close(&rig);
}
END_TEST

START_TEST(ranks_that_do_not_divide_the_batch_are_a_configuration_error)
{
    struct rig rig;
    struct err err = {0};
    rig_init(&rig);
    rig.roster.rank_count = 3;
    const struct feed_options options = {.config = &rig.config,
                                         .roster = &rig.roster,
                                         .address = "127.0.0.1",
                                         .producers = 1,
                                         .device = &device_host};
    ck_assert_int_eq(feed_new(&options, &rig.feed, &err), ERR_CONFIG);
    ck_assert_ptr_null(rig.feed);
    rig_close(&rig);
}
END_TEST

static void *close_feed(void *context)
{
    feed_close(context);
    return NULL;
}

START_TEST(closing_ends_every_wait)
{
    struct rig rig;
    struct err err = {0};
    struct feed_batch batch;
    pthread_t thread;
    rig_init(&rig);
    rig_open(&rig, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, close_feed, rig.feed), 0);
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_CANCELLED);
    ck_assert_int_eq(feed_next(rig.feed, "train", &batch, &err), ERR_CANCELLED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(the_budget_covers_slots_and_two_accounts_a_producer)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    const uint64_t batch = rig.layouts[0].bytes;
    const uint64_t budget = feed_budget_bytes(rig.feed);
    /* Two streams of four slots; (2 + 2 spare) producers with two accounts of three batches. */
    ck_assert_uint_ge(budget, 8 * batch + 4 * 2 * 3 * batch);
    ck_assert_uint_le(budget, 8 * batch + 4 * 2 * 3 * batch + (1 << 20));
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed");
    TCase *tc = tcase_create("feed");
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, every_step_comes_once_in_order_with_the_plan_s_bytes, 1, 4);
    tcase_add_test(tc, a_slow_device_changes_nothing);
    tcase_add_test(tc, resuming_anywhere_gives_the_rest_of_the_stream);
    tcase_add_test(tc, the_steady_state_allocates_nothing);
    tcase_add_test(tc, a_flipped_byte_in_a_lent_slot_changes_the_digest);
    tcase_add_test(tc, the_end_is_told_to_producers);
    tcase_add_test(tc, a_producer_that_never_says_bye_delays_the_end_by_two_seconds_at_most);
    tcase_add_loop_test(tc, bad_parts_are_never_lent, 0, 3);
    tcase_add_loop_test(tc, producers_that_die_hang_or_babble_lose_nothing, 0, 3);
    tcase_add_test(tc, a_restarted_producer_goes_on);
    tcase_add_test(tc, without_producers_the_job_starves);
    tcase_add_test(tc, a_nack_for_the_bad_budget_ends_the_job);
    tcase_add_test(tc, substitutes_are_counted_once_an_epoch_within_the_budget);
    tcase_add_test(tc, more_bad_samples_than_the_budget_end_the_job);
    tcase_add_test(tc, producers_with_different_data_are_turned_away_and_both_named);
    tcase_add_test(tc, data_that_come_to_agree_begin_the_job);
    tcase_add_test(tc, a_late_producer_with_other_data_is_turned_away_and_the_job_goes_on);
    tcase_add_test(tc, no_producer_at_all_is_a_time_out);
    tcase_add_test(tc, fewer_samples_than_a_batch_are_an_error);
    tcase_add_test(tc, misuse_is_an_error_not_a_hang);
    tcase_add_test(tc, a_port_in_use_is_a_resource_error);
    tcase_add_test(tc, ranks_that_do_not_divide_the_batch_are_a_configuration_error);
    tcase_add_test(tc, closing_ends_every_wait);
    tcase_add_test(tc, the_budget_covers_slots_and_two_accounts_a_producer);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
