/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operations of a pipeline do to one picture's frame, folded together before any pixel is
 * touched: crop, resample, crop again and mirror are one stage, so that only the pixels that reach
 * the output are decoded and resampled. Operations that cannot be folded (a second resampling)
 * begin another stage, which works on the pixels of the one before. Pure.
 */
#ifndef HEADRACE_PRODUCER_GEOMETRY_H
#define HEADRACE_PRODUCER_GEOMETRY_H

#include "producer/image.h"

/*
 *   source          the picture, or the output of the stage before
 *     | crop        a rectangle inside it
 *     | scale       resampled to scaled_width x scaled_height, when `resampled`
 *     | window      width x height at (x, y) of that; what lies outside is black
 *     | mirror      left and right swapped
 *   output          width x height
 */
struct stage {
    struct image_size source;
    struct image_rect crop;
    bool resampled;
    struct image_size scaled; /* equals the crop's size unless resampled */
    int64_t x, y;
    uint32_t width, height;
    bool mirror;
};

struct geometry {
    uint32_t count; /* at least 1 */
    struct stage stages[OPS_MAX + 1];
};

/* The picture as it is: one stage. */
void geometry_init(struct geometry *geometry, const struct image_size *picture);

/* Size after all that was done so far. */
struct image_size geometry_size(const struct geometry *geometry);

/* A window of the output so far; it may reach beyond the edges. */
void geometry_crop(struct geometry *geometry, int64_t x, int64_t y, const struct image_size *size);

/* ERR_DATA: the picture's shape makes the result too large (IMAGE_SIDE_MAX, IMAGE_PIXELS_MAX). */
MUST_USE enum status geometry_resize(struct geometry *geometry, const struct image_size *size,
                                     struct err *err);
void geometry_mirror(struct geometry *geometry);

#endif
