/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counter-based randomness: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers:
 * as easy as 1, 2, 3", SC'11), and log2/exp2 in integers for crop parameters, since libm's differ
 * between CPUs. Pure: a draw is a function of its key and counter; there is no state.
 */
#ifndef HEADRACE_COMMON_RNG_H
#define HEADRACE_COMMON_RNG_H

#include "common/base.h"

/* out[0..3] = Philox-4x32-10(counter, key). */
void rng_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Where a sample's draws come from: the same for every thread, producer and attempt. */
struct rng_at {
    uint64_t key;      /* plan->key of the stream */
    uint64_t position; /* in the epoch's order */
    uint32_t epoch;
};

/* Draw number `draw` of operation `op` (index in the pipeline; the highest are the shuffle's), both
 * < 65536: 32 random bits (word 0 of the block). */
uint32_t rng_draw(const struct rng_at *at, uint32_t op, uint32_t draw);

/* Uniform in [0, 1) with 32 bits; and a uniform integer in [0, n) by multiply-shift, n >= 1. */
double rng_uniform(const struct rng_at *at, uint32_t op, uint32_t draw);
uint32_t rng_below(const struct rng_at *at, uint32_t op, uint32_t draw, uint32_t n);

/*
 * log2 of x and 2^x, in integer arithmetic inside: equal on every CPU. |rng_log2(x) - log2 x| <=
 * 2^-53 * (1.01 + |log2 x|); rng_exp2 is within 0.51 units in the last place, subnormal results
 * too. log2 of 0 is -infinity, of a negative number NaN; infinities and NaN as in libm.
 */
double rng_log2(double x);
double rng_exp2(double x);

#endif
