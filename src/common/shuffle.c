/* SPDX-License-Identifier: Apache-2.0 */
/* The Feistel network. See shuffle.h. */
#include "common/shuffle.h"

#include "common/rng.h"

enum { FEISTEL_ROUNDS = 8 };

/* ceil(log2 n / 2) for n >= 1: 0 to 32. */
static int half_bits(uint64_t n)
{
    const int bits = n == 1 ? 0 : 64 - __builtin_clzll(n - 1);
    return (bits + 1) / 2;
}

/* A permutation of the numbers of 2 * bits bits; bits is 1 to 32. */
static uint64_t feistel(const struct rng_at *key, uint32_t use, int bits, uint64_t value)
{
    const uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1);
    uint32_t left = (uint32_t)(value >> bits);
    uint32_t right = (uint32_t)value & mask;
    struct rng_at at = *key;
    for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
        at.position = right;
        const uint32_t next = left ^ (rng_draw(&at, use, round) & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << bits | right;
}

uint64_t shuffle_full(uint64_t key, uint32_t epoch, enum shuffle_use use, uint64_t n,
                      uint64_t value)
{
    CHECK(value < n);
    const int bits = half_bits(n);
    if (bits == 0) {
        return 0;
    }
    const struct rng_at at = {.key = key, .epoch = epoch};
    do {
        value = feistel(&at, (uint32_t)use, bits, value);
    } while (value >= n);
    return value;
}
