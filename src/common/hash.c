/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that includes xxHash. */
#include "common/hash.h"

#include <string.h>

#ifdef HR_XXH_DISPATCH /* the library chooses by the CPU, up to AVX-512 */
#define XXH_STATIC_LINKING_ONLY
#include <xxh_x86dispatch.h>
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

/* Copied and hashed in pieces that stay in the first-level cache between the two. */
enum { PIECE_BYTES = 16384 };

uint64_t hash64(const void *bytes, size_t count)
{
    return XXH3_64bits(bytes, count);
}

struct hash128 hash128(const void *bytes, size_t count)
{
    const XXH128_hash_t h = XXH3_128bits(bytes, count);
    return (struct hash128){.low = h.low64, .high = h.high64};
}

struct hash128 hash128_copy(void *target, const void *source, size_t count)
{
    XXH3_state_t state;
    CHECK(XXH3_128bits_reset(&state) == XXH_OK);
    uint8_t *to = target;
    const uint8_t *from = source;
    while (count > 0) {
        const size_t piece = count < PIECE_BYTES ? count : PIECE_BYTES;
        memcpy(to, from, piece);
        CHECK(XXH3_128bits_update(&state, to, piece) == XXH_OK);
        to += piece;
        from += piece;
        count -= piece;
    }
    const XXH128_hash_t h = XXH3_128bits_digest(&state);
    return (struct hash128){.low = h.low64, .high = h.high64};
}

void hash_put64(uint8_t out[8], uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

uint64_t hash_get64(const uint8_t in[8])
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)in[i] << (8 * i);
    }
    return value;
}
