/* SPDX-License-Identifier: Apache-2.0 */
/* The rig: two small streams with batches of two parts, so that parts can be lost one by one. */
#include "support/feed_rig.h"

#include <string.h>

#include "common/digest.h"
#include "support/suite.h"

const char *const RIG_STREAMS[] = {"train", "eval"};
static const uint64_t COUNTS[] = {RIG_SAMPLES, RIG_EVAL_SAMPLES};

static void set_config(struct config *config)
{
    *config = (struct config){.global_batch = RIG_ROWS,
                              .seed = 9,
                              .slots = 4,
                              .bad_budget = -1,
                              .peer_timeout_s = 20,
                              .join_timeout_s = 30,
                              .starve_timeout_s = 30,
                              .stream_count = 2};
    for (int s = 0; s < 2; s++) {
        struct stream_config *stream = &config->streams[s];
        snprintf(stream->name, sizeof(stream->name), "%s", RIG_STREAMS[s]);
        stream->shuffle = s == 0 ? SHUFFLE_FULL : SHUFFLE_NONE;
        stream->last = s == 0 ? LAST_DROP : LAST_PARTIAL;
        stream->pipeline.height = stream->pipeline.width = RIG_SIDE;
        stream->pipeline.channels = 3;
    }
}

/* What a producer with so many training samples believes. */
void rig_plan(struct rig *rig, uint64_t samples)
{
    struct err err = {0};
    for (int s = 0; s < 2; s++) {
        const struct plan_options options = {.stream = RIG_STREAMS[s],
                                             .seed = 9,
                                             .samples = s == 0 ? samples : COUNTS[1],
                                             .global_batch = RIG_ROWS,
                                             .world = 1,
                                             .shuffle = rig->config.streams[s].shuffle,
                                             .last = rig->config.streams[s].last};
        ck_assert_int_eq(plan_init(&options, &rig->plans[s], &err), OK);
        ck_assert_int_eq(layout_init(RIG_ROWS, RIG_SIDE, RIG_SIDE, 3, &rig->layouts[s], &err), OK);
    }
}

void rig_init(struct rig *rig)
{
    *rig = (struct rig){.roster = {.job = RIG_JOB, .rank_count = 1}};
    set_config(&rig->config);
    rig_plan(rig, RIG_SAMPLES);
    rig->scratch = malloc(rig->layouts[0].bytes);
    ck_assert_ptr_nonnull(rig->scratch);
}

void rig_open_on(struct rig *rig, const struct device_ops *device, const char *options,
                 uint32_t producers)
{
    struct err err = {0};
    const struct feed_options feed_options = {.config = &rig->config,
                                              .roster = &rig->roster,
                                              .address = "127.0.0.1",
                                              .producers = producers,
                                              .fingerprint = RIG_FINGERPRINT,
                                              .device = device,
                                              .device_text = options};
    ck_assert_msg(feed_new(&feed_options, &rig->feed, &err) == OK, "%s", err.message);
}

void rig_open(struct rig *rig, uint32_t producers)
{
    rig_open_on(rig, &device_host, NULL, producers);
}

void rig_close(struct rig *rig)
{
    feed_free(&rig->feed, false);
    for (int i = 0; i < RIG_PRODUCERS_MAX; i++) {
        producer_fake_stop(&rig->producers[i]);
    }
    free(rig->scratch);
}

/* Options of producer `number` that behaves. */
struct producer_fake_options rig_good(const struct rig *rig, uint32_t number)
{
    static const char *const HOSTS[] = {"algo-1", "algo-2", "algo-3", "algo-4"};
    struct producer_fake_options options = {.port = feed_port(rig->feed),
                                            .host = HOSTS[number],
                                            .instance = number + 1,
                                            .job = RIG_JOB,
                                            .fingerprint = RIG_FINGERPRINT,
                                            .stream_count = 2,
                                            .digest = RIG_DATA_DIGEST,
                                            .classes = BATCH_FAKE_CLASSES,
                                            .seed = number};
    for (int s = 0; s < 2; s++) {
        options.streams[s] =
            (struct batch_fake){.plan = &rig->plans[s], .layout = &rig->layouts[s]};
    }
    return options;
}

void rig_start(struct rig *rig, uint32_t number, const struct producer_fake_options *options)
{
    rig->producers[number] = producer_fake_start(options);
}

void rig_start_good(struct rig *rig, uint32_t number)
{
    const struct producer_fake_options options = rig_good(rig, number);
    rig_start(rig, number, &options);
}

void rig_learn(struct rig *rig)
{
    struct err err = {0};
    for (int s = 0; s < 2; s++) {
        ck_assert_msg(feed_stream_info(rig->feed, RIG_STREAMS[s], &rig->info[s], &err) == OK, "%s",
                      err.message);
    }
}

void rig_begin(struct rig *rig, int s, uint32_t epoch, uint64_t step, uint32_t epochs)
{
    struct err err = {0};
    ck_assert_msg(feed_start(rig->feed, RIG_STREAMS[s], epoch, step, epochs, &err) == OK, "%s",
                  err.message);
}

/* With so many good producers, all of them known and the train stream begun. */
void rig_run(struct rig *rig, uint32_t producers, uint32_t epochs)
{
    rig_init(rig);
    rig_open(rig, producers);
    for (uint32_t i = 0; i < producers; i++) {
        rig_start_good(rig, i);
    }
    rig_learn(rig);
    rig_begin(rig, 0, 0, 0, epochs);
}

void rig_next(struct rig *rig, int s, struct feed_batch *out)
{
    struct err err = {0};
    ck_assert_msg(feed_next(rig->feed, RIG_STREAMS[s], out, &err) == OK, "%s", err.message);
}

void rig_release(struct rig *rig, const struct feed_batch *batch)
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
void rig_consume(struct rig *rig, int s, uint32_t epoch, uint64_t step, uint64_t count,
                 uint64_t bad_every)
{
    const struct batch_fake fake = expected_of(rig, s, bad_every);
    for (uint64_t i = 0; i < count; i++) {
        struct feed_batch batch;
        rig_next(rig, s, &batch);
        ck_assert_uint_eq(batch.epoch, epoch);
        ck_assert_uint_eq(batch.step, step);
        ck_assert(batch_fake_holds(&fake, epoch, step, batch.host, rig->scratch));
        if (batch.device != NULL) {
            ck_assert_int_eq(memcmp(batch.device, batch.host, rig->layouts[s].bytes), 0);
        }
        rig_release(rig, &batch);
        step++;
        if (step == rig->plans[s].steps) {
            step = 0;
            epoch++;
        }
    }
}

/* The digest of whole epochs, worked out without the feed. */
uint64_t rig_digest(struct rig *rig, int s, uint32_t epochs, uint64_t bad_every)
{
    const struct batch_fake fake = expected_of(rig, s, bad_every);
    uint64_t sum = 0;
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        for (uint64_t step = 0; step < rig->plans[s].steps; step++) {
            uint64_t first = 0;
            const uint32_t count = plan_batch(&rig->plans[s], step, 0, &first);
            batch_fake_fill(&fake, epoch, step, rig->scratch);
            sum += digest_batch(digest_name(RIG_STREAMS[s]), epoch, first, count, &rig->layouts[s],
                                rig->scratch);
        }
    }
    return sum;
}

struct feed_stats rig_stats(const struct rig *rig, int s)
{
    struct feed_stats stats;
    feed_stats(rig->feed, RIG_STREAMS[s], &stats);
    return stats;
}
