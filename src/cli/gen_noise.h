/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of `headrace gen` pictures: three tiles that repeat at their edges, made once and then
 * looked up at places, turns and scales that differ from picture to picture. Integers only.
 */
#ifndef HEADRACE_CLI_GEN_NOISE_H
#define HEADRACE_CLI_GEN_NOISE_H

#include "common/err.h"

enum { NOISE_SIDE = 512 };

struct noise {
    uint8_t clouds[NOISE_SIDE * NOISE_SIDE]; /* large features and small ones */
    uint8_t rough[NOISE_SIDE * NOISE_SIDE];  /* small ones */
    uint8_t grain[NOISE_SIDE * NOISE_SIDE];  /* a sensor's: neighbours hardly know each other */
};

/* A function of the seed. The caller frees it with free(). */
MUST_USE enum status noise_new(uint64_t seed, struct noise **out, struct err *err);

/* A straight walk over a tile, in 16.16 fixed point that wraps around: one pixel to the right is
 * (+step_x, +step_y), one down is (-step_y, +step_x). */
struct noise_walk {
    const uint8_t *tile;
    uint32_t x, y;
    uint32_t step_x, step_y;
};

static inline int32_t noise_at(const struct noise_walk *walk)
{
    return walk->tile[(walk->y >> 16) % NOISE_SIDE * NOISE_SIDE + (walk->x >> 16) % NOISE_SIDE];
}

static inline void noise_right(struct noise_walk *walk)
{
    walk->x += walk->step_x;
    walk->y += walk->step_y;
}

/* The same walk, begun at a pixel of the picture. */
static inline struct noise_walk noise_from(const struct noise_walk *walk, uint32_t x, uint32_t y)
{
    struct noise_walk from = *walk;
    from.x += x * walk->step_x - y * walk->step_y;
    from.y += x * walk->step_y + y * walk->step_x;
    return from;
}

#endif
