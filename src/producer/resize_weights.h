/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weights of one axis of a resampling, in fixed point. Pure but for the memory of the table,
 * which grows.
 */
#ifndef HEADRACE_PRODUCER_RESIZE_WEIGHTS_H
#define HEADRACE_PRODUCER_RESIZE_WEIGHTS_H

#include "producer/resize.h"

/*
 * Output i is the sum over k < 2 * pairs of input[start[i] + k] * weight[i * 2 * pairs + k],
 * divided by 2^bits. Weights are not negative and below 2^15. A start is a multiple of `align`.
 * Inputs from `in` on have weight 0.
 */
struct resize_weights {
    uint32_t in, out, align; /* what the table is for; in is 0 in an empty one */
    uint32_t bits, pairs;
    uint16_t *start; /* [out] */
    int16_t *weight; /* [out * 2 * pairs] */
    size_t bytes;    /* allocated for both */
};

/* An upper bound of a table's memory. */
size_t resize_weights_bytes(uint32_t in, uint32_t out);

/* Fills the table, in place when its memory is large enough. bits_max: most that the caller's
 * arithmetic can take, 14 to 22. */
MUST_USE enum status resize_weights_fill(struct resize_weights *weights, uint32_t in, uint32_t out,
                                         uint32_t align, uint32_t bits_max, struct err *err);
void resize_weights_fini(struct resize_weights *weights);

#endif
