/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resampler's inner loops for vectors of 128-bit lanes, written once and compiled per level:
 * the including file defines `vec`, LANES and the operations named v_*, which all work on each lane
 * by itself, as SSE2's do. Integer arithmetic without overflow, so the order of additions is free
 * and every level equals resize_scalar.c.
 *
 * Horizontally, one vector holds one column of a block's rows: lane l has rows 4l..4l+3.
 * Neighbouring columns lie beside each other as 16-bit pairs, since the multiply-and-add
 * instruction takes pairs:
 *
 *   rows      r0 g0 b0 r1 g1 b1 ...        as the vertical pass wrote them, one row after another
 *   pairs     (r0,r1)x4 (g0,g1)x4 (b0,b1)x4 | (r2,r3)x4 ...   4 rows in each lane
 *   sums      32 bits a row; three vectors an output
 *   quads     4 bytes a row: (r0 g0 b0 r1)x4 (g1 b1 r2 g2)x4 ...
 *   out       16 bytes of a row at a time
 */
#include <string.h>

#include "producer/resize_kernels.h"

enum {
    VECTOR_BYTES = 16 * LANES,
    ROWS = 4 * LANES,
    FEW_PAIRS = 3, /* up to here a loop is unrolled: enlarging, and shrinking to less than half */
};

_Static_assert(16 * LANES <= RESIZE_VECTOR_BYTES, "callers leave room for this many bytes");

#define INLINE static inline __attribute__((always_inline))

/* sum += a * w[0] + b * w[1] for a vector of bytes, four 32-bit sums in the order of the bytes. */
INLINE void add_pair(vec sum[4], vec a, vec b, vec w)
{
    const vec zero = v_zero();
    const vec low = v_unpack_low8(a, b);
    const vec high = v_unpack_high8(a, b);
    sum[0] = v_add32(sum[0], v_madd(v_unpack_low8(low, zero), w));
    sum[1] = v_add32(sum[1], v_madd(v_unpack_high8(low, zero), w));
    sum[2] = v_add32(sum[2], v_madd(v_unpack_low8(high, zero), w));
    sum[3] = v_add32(sum[3], v_madd(v_unpack_high8(high, zero), w));
}

INLINE void store_sums(const vec sum[4], uint32_t shift, int16_t *out)
{
    const vec first = v_pack32(v_shift_right32(sum[0], shift), v_shift_right32(sum[1], shift));
    const vec second = v_pack32(v_shift_right32(sum[2], shift), v_shift_right32(sum[3], shift));
    v_store_zipped(out, first, second);
}

/* With a number of pairs that the compiler knows: rows and weights stay in registers. */
INLINE void vertical_few(const uint8_t *const *rows, const int16_t *weight, uint32_t pairs,
                         uint32_t count, uint32_t shift, int16_t *out)
{
    const uint8_t *row[2 * FEW_PAIRS];
    vec w[FEW_PAIRS];
    for (uint32_t p = 0; p < pairs; p++) {
        row[2 * p] = rows[2 * p];
        row[2 * p + 1] = rows[2 * p + 1];
        w[p] = v_set_pair(weight + 2 * p);
    }
    const vec half = v_set32(1 << (shift - 1));
    for (uint32_t i = 0; i < count; i += VECTOR_BYTES) {
        vec sum[4] = {half, half, half, half};
        for (uint32_t p = 0; p < pairs; p++) {
            add_pair(sum, v_load(row[2 * p] + i), v_load(row[2 * p + 1] + i), w[p]);
        }
        store_sums(sum, shift, out + i);
    }
}

static void vertical_many(const uint8_t *const *rows, const int16_t *weight, uint32_t pairs,
                          uint32_t count, uint32_t shift, int16_t *out)
{
    const vec half = v_set32(1 << (shift - 1));
    for (uint32_t i = 0; i < count; i += VECTOR_BYTES) {
        vec sum[4] = {half, half, half, half};
        for (uint32_t p = 0; p < pairs; p++) {
            const vec w = v_set_pair(weight + 2 * p);
            add_pair(sum, v_load(rows[2 * p] + i), v_load(rows[2 * p + 1] + i), w);
        }
        store_sums(sum, shift, out + i);
    }
}

static void vertical(const uint8_t *const *rows, const int16_t *weight, uint32_t pairs,
                     uint32_t count, uint32_t shift, int16_t *out)
{
    switch (pairs) {
    case 1:
        vertical_few(rows, weight, 1, count, shift, out);
        break;
    case 2:
        vertical_few(rows, weight, 2, count, shift, out);
        break;
    case FEW_PAIRS:
        vertical_few(rows, weight, FEW_PAIRS, count, shift, out);
        break;
    default:
        vertical_many(rows, weight, pairs, count, shift, out);
    }
}

/* In every lane, element j of vector i becomes element i of vector j. */
INLINE void transpose32(vec v[4])
{
    const vec low01 = v_unpack_low32(v[0], v[1]);
    const vec high01 = v_unpack_high32(v[0], v[1]);
    const vec low23 = v_unpack_low32(v[2], v[3]);
    const vec high23 = v_unpack_high32(v[2], v[3]);
    v[0] = v_unpack_low64(low01, low23);
    v[1] = v_unpack_high64(low01, low23);
    v[2] = v_unpack_low64(high01, high23);
    v[3] = v_unpack_high64(high01, high23);
}

/* rows to pairs, 8 columns at a time: 48 bytes of each row. */
INLINE void make_pairs(const struct resize_block *block)
{
    const size_t pitch = block->pitch;
    uint8_t *out = (uint8_t *)block->pairs;
    for (uint32_t x = 0; x < block->columns; x += 8) {
        vec v[12]; /* 32-bit columns: (r0,g0) (b0,r1) (g1,b1) (r2,g2) ... */
        const int16_t *in = block->rows + (size_t)3 * x;
        for (uint32_t k = 0; k < 12; k += 4) {
            for (uint32_t r = 0; r < 4; r++) {
                v[k + r] = v_load_lanes(in + r * pitch + (size_t)2 * k, 4 * pitch);
            }
            transpose32(v + k);
        }
        for (uint32_t k = 0; k < 12; k += 3) {
            v_store(out, v_blend16(v[k], v[k + 1]));
            v_store(out + VECTOR_BYTES, v_cross16(v[k], v[k + 2]));
            v_store(out + 2 * VECTOR_BYTES, v_blend16(v[k + 1], v[k + 2]));
            out += 3 * VECTOR_BYTES;
        }
    }
}

/* One output: red, green and blue of all rows. */
INLINE void sum_output(const struct resize_block *block, uint32_t output, uint32_t pairs,
                       vec sum[3])
{
    const struct resize_weights *weights = block->weights;
    const int16_t *weight = weights->weight + (size_t)output * 2 * pairs;
    const uint32_t column = weights->start[output] - block->origin;
    const uint8_t *in = (const uint8_t *)block->pairs + (size_t)(column / 2) * 3 * VECTOR_BYTES;
    const vec half = v_set32(1 << (block->shift - 1));
    vec red = half;
    vec green = half;
    vec blue = half;
    for (uint32_t p = 0; p < pairs; p++, in += 3 * VECTOR_BYTES) {
        const vec w = v_set_pair(weight + 2 * p);
        red = v_add32(red, v_madd(v_load(in), w));
        green = v_add32(green, v_madd(v_load(in + VECTOR_BYTES), w));
        blue = v_add32(blue, v_madd(v_load(in + 2 * VECTOR_BYTES), w));
    }
    sum[0] = v_shift_right32(red, block->shift);
    sum[1] = v_shift_right32(green, block->shift);
    sum[2] = v_shift_right32(blue, block->shift);
}

/* Four columns of 32 bits to one of 4 bytes a row, limited to 0..255. */
INLINE vec quad_of(const vec v[4])
{
    const vec even = v_pack32(v[0], v[2]);
    const vec odd = v_pack32(v[1], v[3]);
    const vec bytes = v_pack16(even, odd);                    /* 4 of each column: 0, 2, 1, 3 */
    const vec halves = v_unpack_low8(bytes, v_high64(bytes)); /* 0 1 a row, then 2 3 a row */
    return v_unpack_low16(halves, v_high64(halves));
}

/* pairs to quads, four outputs at a time; the last group repeats its last output. */
INLINE void make_quads(const struct resize_block *block, uint32_t pairs)
{
    uint8_t *out = block->quads;
    for (uint32_t i = 0; i < block->count; i += 4) {
        vec sum[12];
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t column = i + k < block->count ? i + k : block->count - 1;
            const uint32_t output = block->mirror ? block->count - 1 - column : column;
            sum_output(block, block->first + output, pairs, sum + (size_t)3 * k);
        }
        v_store(out, quad_of(sum));
        v_store(out + VECTOR_BYTES, quad_of(sum + 4));
        v_store(out + 2 * VECTOR_BYTES, quad_of(sum + 8));
        out += 3 * VECTOR_BYTES;
    }
}

/* quads to rows, 16 bytes of each row at a time. */
INLINE void store_rows(const struct resize_block *block)
{
    const uint8_t *in = block->quads;
    const size_t row_bytes = (size_t)block->count * 3;
    for (size_t at = 0; at < row_bytes; at += 16, in += 4 * VECTOR_BYTES) {
        vec v[4];
        for (int k = 0; k < 4; k++) {
            v[k] = v_load(in + (size_t)k * VECTOR_BYTES);
        }
        transpose32(v);
        uint8_t *out = block->out + at;
        if (block->out_rows == ROWS && row_bytes - at >= 16) {
            for (size_t k = 0; k < 4; k++) {
                v_store_lanes(out + k * block->out_stride_bytes, 4 * block->out_stride_bytes, v[k]);
            }
            continue;
        }
        const size_t bytes = row_bytes - at < 16 ? row_bytes - at : 16;
        uint8_t lanes[4][VECTOR_BYTES];
        for (size_t k = 0; k < 4; k++) {
            v_store(lanes[k], v[k]);
        }
        for (size_t row = 0; row < block->out_rows; row++) {
            memcpy(out + row * block->out_stride_bytes, lanes[row % 4] + row / 4 * 16, bytes);
        }
    }
}

static void horizontal(const struct resize_block *given)
{
    /* Copies that no store can reach, or every byte written would have them loaded anew. */
    const struct resize_weights weights = *given->weights;
    struct resize_block copy = *given;
    copy.weights = &weights;
    const struct resize_block *block = &copy;
    make_pairs(block);
    switch (weights.pairs) {
    case 1:
        make_quads(block, 1);
        break;
    case 2:
        make_quads(block, 2);
        break;
    case FEW_PAIRS:
        make_quads(block, FEW_PAIRS);
        break;
    default:
        make_quads(block, weights.pairs);
    }
    store_rows(block);
}
