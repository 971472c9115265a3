/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Value noise: random values at the corners of square cells, straight lines in between, and several
 * cell sizes (octaves) on top of each other.
 */
#include "cli/gen_noise.h"

#include <stdlib.h>
#include <string.h>

#include "common/rng.h"

enum { OCTAVES = 8, LARGEST_CELLS = 4 }; /* cells a side: 4, 8, ... 512 */

enum { TILE_CLOUDS = 1, TILE_ROUGH, TILE_GRAIN };

/* In 64ths of the values -128 to 127. */
static const int32_t CLOUDS[OCTAVES] = {60, 40, 24, 12, 8, 4, 0, 0};
static const int32_t ROUGH[OCTAVES] = {0, 0, 0, 20, 30, 40, 40, 0};
static const int32_t GRAIN[OCTAVES] = {0, 0, 0, 0, 0, 0, 10, 64};

/* The value of a corner; corners beyond the last are the first again. */
static int32_t corner(const struct rng_at *at, uint32_t cells, uint32_t x, uint32_t y)
{
    struct rng_at here = *at;
    here.position = (y % cells) * cells + x % cells;
    return (int32_t)(rng_draw(&here, cells, 0) >> 24) - 128;
}

static void add_cell(int32_t *sum, uint32_t cells, uint32_t cx, uint32_t cy, int32_t weight,
                     const struct rng_at *at)
{
    const int32_t side = (int32_t)(NOISE_SIDE / cells);
    const int32_t left = corner(at, cells, cx, cy);
    const int32_t right = corner(at, cells, cx + 1, cy);
    const int32_t left_below = corner(at, cells, cx, cy + 1);
    const int32_t right_below = corner(at, cells, cx + 1, cy + 1);
    for (int32_t y = 0; y < side; y++) {
        int32_t *row = sum + (cy * (uint32_t)side + (uint32_t)y) * NOISE_SIDE + cx * (uint32_t)side;
        for (int32_t x = 0; x < side; x++) {
            const int32_t above = left * (side - x) + right * x;
            const int32_t below = left_below * (side - x) + right_below * x;
            row[x] += (above * (side - y) + below * y) / (side * side) * weight;
        }
    }
}

static void make_tile(const int32_t weights[OCTAVES], uint64_t seed, uint32_t which, int32_t *sum,
                      uint8_t *tile)
{
    const struct rng_at at = {.key = seed, .epoch = which << 24}; /* no picture draws from there */
    memset(sum, 0, sizeof(*sum) * NOISE_SIDE * NOISE_SIDE);
    for (uint32_t octave = 0; octave < OCTAVES; octave++) {
        const uint32_t cells = (uint32_t)LARGEST_CELLS << octave;
        for (uint32_t cell = 0; weights[octave] != 0 && cell < cells * cells; cell++) {
            add_cell(sum, cells, cell % cells, cell / cells, weights[octave], &at);
        }
    }
    for (uint32_t i = 0; i < NOISE_SIDE * NOISE_SIDE; i++) {
        const int32_t value = 128 + sum[i] / 64;
        tile[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

enum status noise_new(uint64_t seed, struct noise **out, struct err *err)
{
    struct noise *noise = malloc(sizeof(*noise));
    int32_t *sum = malloc(sizeof(*sum) * NOISE_SIDE * NOISE_SIDE);
    if (noise == NULL || sum == NULL) {
        free(noise);
        free(sum);
        return err_set(err, ERR_RESOURCE, "no memory for noise");
    }
    make_tile(CLOUDS, seed, TILE_CLOUDS, sum, noise->clouds);
    make_tile(ROUGH, seed, TILE_ROUGH, sum, noise->rough);
    make_tile(GRAIN, seed, TILE_GRAIN, sum, noise->grain);
    free(sum);
    *out = noise;
    return OK;
}
