/* SPDX-License-Identifier: Apache-2.0 */
/* The resampler's inner loops with AVX2. */
#include <immintrin.h>

#include "common/base.h"

#define LANES 2
#define vec   __m256i

static inline vec v_zero(void)
{
    return _mm256_setzero_si256();
}

static inline vec v_set32(int32_t value)
{
    return _mm256_set1_epi32(value);
}

/* Two 16-bit values, again and again. */
static inline vec v_set_pair(const int16_t *pair)
{
    int32_t both;
    __builtin_memcpy(&both, pair, sizeof(both));
    return _mm256_set1_epi32(both);
}

static inline vec v_load(const void *from)
{
    return _mm256_loadu_si256(from);
}

static inline void v_store(void *to, vec v)
{
    _mm256_storeu_si256(to, v);
}

/* Lane l from `from` + l * stride. */
static inline vec v_load_lanes(const int16_t *from, size_t stride)
{
    const __m128i low = _mm_loadu_si128((const void *)from);
    const __m128i high = _mm_loadu_si128((const void *)(from + stride));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static inline void v_store_lanes(uint8_t *to, size_t stride, vec v)
{
    _mm_storeu_si128((void *)to, _mm256_castsi256_si128(v));
    _mm_storeu_si128((void *)(to + stride), _mm256_extracti128_si256(v, 1));
}

/* Lane l of a, then lane l of b, for each l. */
static inline void v_store_zipped(int16_t *to, vec a, vec b)
{
    v_store(to, _mm256_permute2x128_si256(a, b, 0x20));
    v_store(to + 16, _mm256_permute2x128_si256(a, b, 0x31));
}

static inline vec v_add32(vec a, vec b)
{
    return _mm256_add_epi32(a, b);
}

static inline vec v_madd(vec a, vec b)
{
    return _mm256_madd_epi16(a, b);
}

static inline vec v_shift_right32(vec v, uint32_t bits)
{
    return _mm256_sra_epi32(v, _mm_cvtsi32_si128((int)bits));
}

static inline vec v_pack32(vec a, vec b)
{
    return _mm256_packs_epi32(a, b);
}

static inline vec v_pack16(vec a, vec b)
{
    return _mm256_packus_epi16(a, b);
}

static inline vec v_unpack_low8(vec a, vec b)
{
    return _mm256_unpacklo_epi8(a, b);
}

static inline vec v_unpack_high8(vec a, vec b)
{
    return _mm256_unpackhi_epi8(a, b);
}

static inline vec v_unpack_low16(vec a, vec b)
{
    return _mm256_unpacklo_epi16(a, b);
}

static inline vec v_unpack_low32(vec a, vec b)
{
    return _mm256_unpacklo_epi32(a, b);
}

static inline vec v_unpack_high32(vec a, vec b)
{
    return _mm256_unpackhi_epi32(a, b);
}

static inline vec v_unpack_low64(vec a, vec b)
{
    return _mm256_unpacklo_epi64(a, b);
}

static inline vec v_unpack_high64(vec a, vec b)
{
    return _mm256_unpackhi_epi64(a, b);
}

/* The lane's upper half in its lower half. */
static inline vec v_high64(vec v)
{
    return _mm256_srli_si256(v, 8);
}

/* Of each 32 bits, the low half of a and the high half of b. */
static inline vec v_blend16(vec a, vec b)
{
    return _mm256_blend_epi16(a, b, 0xaa);
}

/* Of each 32 bits, the high half of a and the low half of b, in this order. */
static inline vec v_cross16(vec a, vec b)
{
    return _mm256_or_si256(_mm256_srli_epi32(a, 16), _mm256_slli_epi32(b, 16));
}

#include "producer/resize_lanes.h"

const struct resize_kernels resize_avx2 = {
    .rows = ROWS,
    .vertical = vertical,
    .horizontal = horizontal,
};
