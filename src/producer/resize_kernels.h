/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of the resampler, once per CPU level; resize_scalar.c is the specification of the
 * others. No level allocates, fails or rounds differently.
 */
#ifndef HEADRACE_PRODUCER_RESIZE_KERNELS_H
#define HEADRACE_PRODUCER_RESIZE_KERNELS_H

#include "producer/resize_weights.h"

enum { RESIZE_VECTOR_BYTES = 64 }; /* of the widest level */

/* Some rows of pixels between the passes, and what the horizontal pass makes of them. */
struct resize_block {
    const int16_t *rows; /* resize_kernels.rows of them: red, green, blue, red, ... */
    size_t pitch;        /* from row to row, in values */
    uint32_t columns;    /* pixels of a row */
    uint32_t shift;      /* out = (sum + 2^(shift - 1)) >> shift, limited to 255 */
    const struct resize_weights *weights; /* align 2 */
    uint32_t origin;                      /* which input column 0 is; even */
    uint32_t first, count;                /* outputs wanted */
    bool mirror;                          /* the last output comes first */
    uint8_t *out;
    size_t out_stride_bytes;
    uint32_t out_rows; /* 1..rows: rows from there on hold old values and are not written */
    /* Scratch memory, aligned to 64, of resize_pairs_bytes and resize_quads_bytes. What it held
     * before is read, but has no effect. */
    int16_t *pairs;
    uint8_t *quads;
};

struct resize_kernels {
    uint32_t rows; /* of a block */
    /*
     * out[i] = (sum over k < 2 * pairs of rows[k][i] * weight[k] + 2^(shift - 1)) >> shift for
     * i < count; out has room for, and rows can be read up to, the next multiple of
     * RESIZE_VECTOR_BYTES values.
     */
    void (*vertical)(const uint8_t *const *rows, const int16_t *weight, uint32_t pairs,
                     uint32_t count, uint32_t shift, int16_t *out);
    void (*horizontal)(const struct resize_block *block);
};

extern const struct resize_kernels resize_scalar;
#if defined(__x86_64__)
extern const struct resize_kernels resize_sse2;
extern const struct resize_kernels resize_avx2;
extern const struct resize_kernels resize_avx512;
#endif

#endif
