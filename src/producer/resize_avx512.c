/* SPDX-License-Identifier: Apache-2.0 */
/* The resampler's inner loops with AVX-512 (F and BW). */
#include <immintrin.h>

#include "common/base.h"

#define LANES 4
#define vec   __m512i

static inline vec v_zero(void)
{
    return _mm512_setzero_si512();
}

static inline vec v_set32(int32_t value)
{
    return _mm512_set1_epi32(value);
}

/* Two 16-bit values, again and again. */
static inline vec v_set_pair(const int16_t *pair)
{
    int32_t both;
    __builtin_memcpy(&both, pair, sizeof(both));
    return _mm512_set1_epi32(both);
}

static inline vec v_load(const void *from)
{
    return _mm512_loadu_si512(from);
}

static inline void v_store(void *to, vec v)
{
    _mm512_storeu_si512(to, v);
}

/* Lane l from `from` + l * stride. */
static inline vec v_load_lanes(const int16_t *from, size_t stride)
{
    const __m128i first = _mm_loadu_si128((const void *)from);
    vec v = _mm512_castsi128_si512(first);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + 2 * stride)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + 3 * stride)), 3);
}

static inline void v_store_lanes(uint8_t *to, size_t stride, vec v)
{
    _mm_storeu_si128((void *)to, _mm512_castsi512_si128(v));
    _mm_storeu_si128((void *)(to + stride), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((void *)(to + 2 * stride), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((void *)(to + 3 * stride), _mm512_extracti32x4_epi32(v, 3));
}

/* Lane l of a, then lane l of b, for each l. */
static inline void v_store_zipped(int16_t *to, vec a, vec b)
{
    /* 64-bit elements: 0..7 of a, 8..15 of b. */
    const vec first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const vec second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    v_store(to, _mm512_permutex2var_epi64(a, first, b));
    v_store(to + 32, _mm512_permutex2var_epi64(a, second, b));
}

static inline vec v_add32(vec a, vec b)
{
    return _mm512_add_epi32(a, b);
}

static inline vec v_madd(vec a, vec b)
{
    return _mm512_madd_epi16(a, b);
}

static inline vec v_shift_right32(vec v, uint32_t bits)
{
    return _mm512_sra_epi32(v, _mm_cvtsi32_si128((int)bits));
}

static inline vec v_pack32(vec a, vec b)
{
    return _mm512_packs_epi32(a, b);
}

static inline vec v_pack16(vec a, vec b)
{
    return _mm512_packus_epi16(a, b);
}

static inline vec v_unpack_low8(vec a, vec b)
{
    return _mm512_unpacklo_epi8(a, b);
}

static inline vec v_unpack_high8(vec a, vec b)
{
    return _mm512_unpackhi_epi8(a, b);
}

static inline vec v_unpack_low16(vec a, vec b)
{
    return _mm512_unpacklo_epi16(a, b);
}

static inline vec v_unpack_low32(vec a, vec b)
{
    return _mm512_unpacklo_epi32(a, b);
}

static inline vec v_unpack_high32(vec a, vec b)
{
    return _mm512_unpackhi_epi32(a, b);
}

static inline vec v_unpack_low64(vec a, vec b)
{
    return _mm512_unpacklo_epi64(a, b);
}

static inline vec v_unpack_high64(vec a, vec b)
{
    return _mm512_unpackhi_epi64(a, b);
}

/* The lane's upper half in its lower half. */
static inline vec v_high64(vec v)
{
    return _mm512_bsrli_epi128(v, 8);
}

/* Of each 32 bits, the low half of a and the high half of b. */
static inline vec v_blend16(vec a, vec b)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaaU, a, b);
}

/* Of each 32 bits, the high half of a and the low half of b, in this order. */
static inline vec v_cross16(vec a, vec b)
{
    return _mm512_or_si512(_mm512_srli_epi32(a, 16), _mm512_slli_epi32(b, 16));
}

#include "producer/resize_lanes.h"

const struct resize_kernels resize_avx512 = {
    .rows = ROWS,
    .vertical = vertical,
    .horizontal = horizontal,
};
