/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A feed of one rank and up to four fake producers over loopback, for tests of the feed: each
 * helper ends the test when what it does fails. The streams: 0 train (shuffled, whole batches), 1
 * eval.
 */
#ifndef HEADRACE_TESTS_SUPPORT_FEED_RIG_H
#define HEADRACE_TESTS_SUPPORT_FEED_RIG_H

#include "consumer/feed.h"
#include "fakes/producer_fake.h"

enum {
    RIG_ROWS = 8,
    RIG_SIDE = 256,
    RIG_SAMPLES = 130,
    RIG_EVAL_SAMPLES = 21,
    RIG_PRODUCERS_MAX = 4,
};
#define RIG_DATA_DIGEST UINT64_C(0xD1)
#define RIG_JOB         UINT64_C(77)
#define RIG_FINGERPRINT UINT64_C(0xF1)

struct rig {
    struct config config;
    struct roster roster;
    struct feed *feed;
    struct feed_stream info[2];
    struct producer_fake *producers[RIG_PRODUCERS_MAX];
    struct layout layouts[2]; /* as producers work them out */
    struct plan plans[2];
    uint8_t *scratch;
};

extern const char *const RIG_STREAMS[2];

/* No feed yet: config may still be changed. */
void rig_init(struct rig *rig);
void rig_open_on(struct rig *rig, const struct device_ops *device, const char *options,
                 uint32_t producers);
void rig_open(struct rig *rig, uint32_t producers); /* on the host device */
void rig_close(struct rig *rig);
/* All of it, with so many good producers, and the train stream begun. */
void rig_run(struct rig *rig, uint32_t producers, uint32_t epochs);

/* What producers with so many training samples believe. */
void rig_plan(struct rig *rig, uint64_t samples);

/* The options of a producer that behaves. */
struct producer_fake_options rig_good(const struct rig *rig, uint32_t number);
void rig_start(struct rig *rig, uint32_t number, const struct producer_fake_options *options);
void rig_start_good(struct rig *rig, uint32_t number);

void rig_learn(struct rig *rig); /* fills info */
void rig_begin(struct rig *rig, int s, uint32_t epoch, uint64_t step, uint32_t epochs);
void rig_next(struct rig *rig, int s, struct feed_batch *out);
void rig_release(struct rig *rig, const struct feed_batch *batch);
/* Takes steps and checks place, order and every byte. bad_every: see batch_fake. */
void rig_consume(struct rig *rig, int s, uint32_t epoch, uint64_t step, uint64_t count,
                 uint64_t bad_every);

/* The digest of whole epochs, worked out without the feed. */
uint64_t rig_digest(struct rig *rig, int s, uint32_t epochs, uint64_t bad_every);
struct feed_stats rig_stats(const struct rig *rig, int s);

#endif
