/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Float arrays between guard values, so that a kernel that writes past an end is seen; and random
 * values, whose magnitudes differ so much that a sum in another order gives other bits.
 */
#ifndef HEADRACE_TESTS_KERNELS_GUARDED_H
#define HEADRACE_TESTS_KERNELS_GUARDED_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/base.h"

enum { GUARD = 32 };
#define GUARD_VALUE 12345.5F

static inline float *guarded_new(size_t count)
{
    ck_assert_uint_lt(count, (size_t)1 << 26);
    float *all = malloc((count + 2 * (size_t)GUARD) * sizeof(float));
    ck_assert_ptr_nonnull(all);
    for (size_t i = 0; i < count + 2 * (size_t)GUARD; i++) {
        all[i] = GUARD_VALUE;
    }
    return all + GUARD;
}

static inline void guarded_free(float *values, size_t count)
{
    const float *all = values - GUARD;
    bool whole = true;
    for (size_t i = 0; i < GUARD; i++) {
        whole = whole && all[i] == GUARD_VALUE && all[GUARD + count + i] == GUARD_VALUE;
    }
    ck_assert_msg(whole, "written past an end");
    free(values - GUARD);
}

/* xorshift64*, for test values only. */
static inline uint32_t random_bits(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(2685821657736338717)) >> 32);
}

static inline float random_float(uint64_t *state)
{
    const float unit = (float)(random_bits(state) >> 8) / 16777216.0F - 0.5F;
    return unit * (float)(1 << (random_bits(state) % 12));
}

static inline float *guarded_random(size_t count, uint64_t *state)
{
    float *values = guarded_new(count);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_float(state);
    }
    return values;
}

static inline float *guarded_copy(const float *from, size_t count)
{
    float *values = guarded_new(count);
    memcpy(values, from, count * sizeof(float));
    return values;
}

/* Bit for bit, but for the sign of a zero. */
static inline void assert_floats_equal(const float *got, const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (got[i] != want[i]) { /* ck_assert_msg is slow */
            ck_abort_msg("element %zu: %a, wanted %a", i, (double)got[i], (double)want[i]);
        }
    }
}

#endif
