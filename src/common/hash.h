/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums and digests: XXH3 of the xxHash library (its published 64 and 128 bit variants, seed
 * 0). Not for secrets. Pure.
 */
#ifndef HEADRACE_COMMON_HASH_H
#define HEADRACE_COMMON_HASH_H

#include "common/base.h"

struct hash128 {
    uint64_t low, high;
};

uint64_t hash64(const void *bytes, size_t count);
struct hash128 hash128(const void *bytes, size_t count);

/* Copies count bytes and hashes what was copied, in one pass over memory. The ranges must not
 * overlap. */
struct hash128 hash128_copy(void *target, const void *source, size_t count);

/* A 64-bit field in little-endian bytes, the same on every machine. */
void hash_put64(uint8_t out[8], uint64_t value);
uint64_t hash_get64(const uint8_t in[8]);

#endif
