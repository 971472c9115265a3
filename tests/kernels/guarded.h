/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays between guard bytes, so that a kernel that writes past an end is seen (and under the
 * address sanitizer one that reads there); and random values, whose magnitudes differ so much that
 * a sum in another order gives other bits.
 */
#ifndef HEADRACE_TESTS_KERNELS_GUARDED_H
#define HEADRACE_TESTS_KERNELS_GUARDED_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/base.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at))
#endif

enum { GUARD_BYTES = 128, GUARD_BYTE = 0xA5 };

/* Filled with 0xFF: as floats, NaN. */
static inline void *guarded_bytes_new(size_t bytes)
{
    ck_assert_uint_lt(bytes, (size_t)1 << 28);
    char *all = malloc(bytes + 2 * (size_t)GUARD_BYTES);
    ck_assert_ptr_nonnull(all);
    memset(all, GUARD_BYTE, bytes + 2 * (size_t)GUARD_BYTES);
    memset(all + GUARD_BYTES, 0xFF, bytes);
    ASAN_POISON_MEMORY_REGION(all, GUARD_BYTES);
    ASAN_POISON_MEMORY_REGION(all + GUARD_BYTES + bytes, GUARD_BYTES);
    return all + GUARD_BYTES;
}

static inline void guarded_bytes_free(void *values, size_t bytes)
{
    char *all = (char *)values - GUARD_BYTES;
    ASAN_UNPOISON_MEMORY_REGION(all, bytes + 2 * (size_t)GUARD_BYTES);
    bool whole = true;
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        whole = whole && (uint8_t)all[i] == GUARD_BYTE &&
                (uint8_t)all[GUARD_BYTES + bytes + i] == GUARD_BYTE;
    }
    ck_assert_msg(whole, "written past an end");
    free(all);
}

static inline float *guarded_new(size_t count)
{
    return guarded_bytes_new(count * sizeof(float));
}

static inline void guarded_free(float *values, size_t count)
{
    guarded_bytes_free(values, count * sizeof(float));
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

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Bit for bit; all NaNs are one. */
static inline void assert_same_bits(const float *got, const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool both_nan = got[i] != got[i] && want[i] != want[i];
        if (float_bits(got[i]) != float_bits(want[i]) && !both_nan) {
            ck_abort_msg("element %zu: %a, wanted %a", i, (double)got[i], (double)want[i]);
        }
    }
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
