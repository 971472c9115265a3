/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: the pure function from (stream, epoch, step, rank) to positions and sample ids.
 * Stateless, O(1) in memory for any number of samples. See DESIGN.md section 7 for the formulas;
 * rng.h and shuffle.h hold the parts.
 *
 * Step s of rank r takes positions [s*G + r*B, +B) with G = world * B, so another world size with
 * the same G sees the same global batches. With LAST_DROP the positions past the last whole global
 * batch are left out; with LAST_PARTIAL there is one more step whose batches hold fewer real rows
 * (perhaps none), and every rank still takes equal steps.
 */
#ifndef HEADRACE_COMMON_PLAN_H
#define HEADRACE_COMMON_PLAN_H

#include "common/err.h"

enum shuffle_kind { SHUFFLE_NONE, SHUFFLE_FULL, SHUFFLE_WINDOW };
enum last_kind { LAST_DROP, LAST_PARTIAL };

struct plan_options {
    const char *stream; /* name, goes into the key */
    uint64_t seed;
    uint64_t samples;      /* N, 1 to INT64_MAX */
    uint64_t global_batch; /* G */
    uint32_t world;        /* ranks; divides G, else ERR_CONFIG */
    enum shuffle_kind shuffle;
    enum last_kind last;
};

struct plan {
    uint64_t key; /* XXH3-64 of (seed as 8 little-endian bytes, stream name) */
    uint64_t samples;
    uint64_t global_batch;
    uint64_t rank_batch; /* B */
    uint64_t steps;      /* of an epoch; 0 when LAST_DROP and N < G */
    uint32_t world;
    enum shuffle_kind shuffle;
    enum last_kind last;
};

/* ERR_CONFIG: world does not divide global_batch, either is out of range (1 to RANKS_MAX, 1 to
 * 2^32-1), or SHUFFLE_WINDOW, which waits for shards of neighbouring records. ERR_DATA: no samples.
 */
MUST_USE enum status plan_init(const struct plan_options *options, struct plan *out,
                               struct err *err);

/* The real positions of a rank's batch: *first_out = s*G + r*B, and how many there are (0..B). step
 * < plan->steps, rank < world. */
uint32_t plan_batch(const struct plan *plan, uint64_t step, uint32_t rank, uint64_t *first_out);

/* position < samples. The sample at that place of the epoch's order. */
uint64_t plan_sample(const struct plan *plan, uint32_t epoch, uint64_t position);

/*
 * The keyed chain of substitutes for a bad sample at a position: attempt 1, 2, ... gives the id to
 * take instead; the same on every producer. Attempt 0 is plan_sample itself. Attempts 1 to N name
 * every sample once, the bad one too, then they begin again; never fails.
 */
uint64_t plan_substitute(const struct plan *plan, uint32_t epoch, uint64_t position,
                         uint32_t attempt);

/* Hash of everything that shapes the order: to be agreed by all and kept in checkpoints. World size
 * is not in it. */
uint64_t plan_digest(const struct plan *plan);

#endif
