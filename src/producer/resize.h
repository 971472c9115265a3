/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Antialiased bilinear resampling of 8-bit RGB in integer arithmetic: Pillow's resize(BILINEAR),
 * which is a triangle filter that widens when shrinking, to within 1 of 255. The same bytes on
 * every CPU and at every level.
 *
 * Each axis is resampled on its own, vertically first. A weight is rounded to as many bits as keep
 * the largest of its axis below 2^15; the weights of one output sum to exactly 2^bits. Between the
 * passes a value keeps 7 bits of fraction (fewer, at least 4, when an axis shrinks by more than
 * about 4). resize.c derives the bound.
 */
#ifndef HEADRACE_PRODUCER_RESIZE_H
#define HEADRACE_PRODUCER_RESIZE_H

#include "producer/cpu.h"

/* One axis of a resampling from `in` to `out` samples, of which the outputs first..first+count-1
 * are wanted. All lengths from 1 to IMAGE_SIDE_MAX. */
struct resize_axis {
    uint32_t in, out;
    uint32_t first, count;
};

/* The inputs that those outputs need: a range inside 0..in-1. */
void resize_span(const struct resize_axis *axis, uint32_t *first_out, uint32_t *count_out);

struct resize_job {
    /* The first pixel of both axes' spans; 64 bytes behind the last one are readable. */
    const uint8_t *pixels;
    size_t stride_bytes;
    struct resize_axis x, y;
    bool mirror; /* left and right swapped after resampling */
    uint8_t *out;
    size_t out_stride_bytes;
};

/* Weights and scratch memory of one thread; grows with the pictures, within a bound: at most 512
 * tables of weights are kept, and rows of IMAGE_SIDE_MAX pixels. */
struct resizer;

MUST_USE enum status resizer_new(enum cpu_level level, struct resizer **out, struct err *err);
void resizer_free(struct resizer **resizer);

/* ERR_RESOURCE: no memory. */
MUST_USE enum status resizer_run(struct resizer *resizer, const struct resize_job *job,
                                 struct err *err);

#endif
