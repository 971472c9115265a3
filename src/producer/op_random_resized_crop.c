/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_resized_crop: a rectangle of a random share of the area (uniform in `scale`) and a random
 * aspect ratio (its logarithm uniform between those of `ratio`), resampled to the target. Ten tries
 * to find one that fits, then the largest centred rectangle whose ratio is allowed; rounding as in
 * torchvision.
 */
#include <math.h>

#include "producer/op.h"

enum {
    TRIES = 10,
    /* draws of one try */
    DRAW_AREA = 0,
    DRAW_RATIO = 1,
    DRAW_TOP = 2,
    DRAW_LEFT = 3,
    DRAWS_PER_TRY = 4,
};

/* Half to even, as Python's round(); exact on every CPU. */
static int64_t round_even(double value)
{
    return llrint(value);
}

static uint32_t limit(int64_t value, uint32_t max)
{
    if (value < 1) {
        return 1;
    }
    return value > max ? max : (uint32_t)value;
}

static double between(const double range[2], double share)
{
    return range[0] + (range[1] - range[0]) * share;
}

static bool draw_rect(const struct op *op, const struct op_draws *draws, uint32_t try,
                      const struct image_size *now, struct image_rect *out)
{
    const uint32_t first = try * DRAWS_PER_TRY;
    const double log_ratio[2] = {rng_log2(op->ratio[0]), rng_log2(op->ratio[1])};
    const double share =
        between(op->scale, rng_uniform(draws->at, draws->index, first + DRAW_AREA));
    const double log_aspect =
        between(log_ratio, rng_uniform(draws->at, draws->index, first + DRAW_RATIO));
    const double area = (double)now->width * now->height * share;
    const double aspect = rng_exp2(log_aspect);
    const int64_t width = round_even(sqrt(area * aspect));
    const int64_t height = round_even(sqrt(area / aspect));
    if (width < 1 || width > now->width || height < 1 || height > now->height) {
        return false;
    }
    out->width = (uint32_t)width;
    out->height = (uint32_t)height;
    out->y = rng_below(draws->at, draws->index, first + DRAW_TOP, now->height - out->height + 1);
    out->x = rng_below(draws->at, draws->index, first + DRAW_LEFT, now->width - out->width + 1);
    return true;
}

static struct image_rect central_rect(const struct op *op, const struct image_size *now)
{
    const double ratio = (double)now->width / now->height;
    struct image_rect rect = {0, 0, now->width, now->height};
    if (ratio < op->ratio[0]) {
        rect.height = limit(round_even(now->width / op->ratio[0]), now->height);
    } else if (ratio > op->ratio[1]) {
        rect.width = limit(round_even(now->height * op->ratio[1]), now->width);
    }
    rect.x = (now->width - rect.width) / 2;
    rect.y = (now->height - rect.height) / 2;
    return rect;
}

static enum status apply(const struct op *op, const struct op_draws *draws,
                         struct geometry *geometry, struct err *err)
{
    const struct image_size now = geometry_size(geometry);
    struct image_rect rect;
    uint32_t try = 0;
    while (try < TRIES && !draw_rect(op, draws, try, &now, &rect)) {
        try++;
    }
    if (try == TRIES) {
        rect = central_rect(op, &now);
    }
    const struct image_size crop = {rect.width, rect.height};
    const struct image_size target = {op->width, op->height};
    geometry_crop(geometry, rect.x, rect.y, &crop);
    return geometry_resize(geometry, &target, err);
}

const struct op_ops op_random_resized_crop = {OP_RANDOM_RESIZED_CROP, apply};
