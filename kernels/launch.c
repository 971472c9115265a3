/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: names, parameters and sizes. A kernel does all its work in any grid (its blocks
 * stride), so that a grid is a matter of speed, and limited here to what every device takes. */
#include "kernels/launch.h"

#include "kernels/tile.h"

/* The device's limits are 2^31 - 1 blocks in x and 65535 in y and z. */
enum { GRID_X_MAX = 1 << 30, GRID_YZ_MAX = 65535 };

void launch_params(struct launch *launch, void *params[LAUNCH_PARAMS_MAX])
{
    for (uint32_t i = 0; i < launch->params; i++) {
        params[i] = &launch->values[i];
    }
}

static void add_pointer(struct launch *launch, const void *pointer)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX);
    launch->values[launch->params++].pointer = pointer;
}

static void add_u64(struct launch *launch, size_t value)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX && value <= LAUNCH_ELEMENTS_MAX);
    launch->values[launch->params++].u64 = value;
}

static void add_u32(struct launch *launch, size_t value)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX && value <= LAUNCH_SIDE_MAX);
    launch->values[launch->params++].u32 = (uint32_t)value;
}

static void add_f32(struct launch *launch, float value)
{
    CHECK(launch->params < LAUNCH_PARAMS_MAX);
    launch->values[launch->params++].f32 = value;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b > 0 ? 1 : 0);
}

/* x, y, z: how many blocks would do, each with a piece. */
static void set_grid(struct launch *launch, size_t x, size_t y, size_t z)
{
    launch->empty = x == 0 || y == 0 || z == 0;
    launch->grid[0] = (uint32_t)smaller(x, GRID_X_MAX);
    launch->grid[1] = (uint32_t)smaller(y, GRID_YZ_MAX);
    launch->grid[2] = (uint32_t)smaller(z, GRID_YZ_MAX);
}

static void set_block(struct launch *launch, size_t threads, size_t shared_bytes)
{
    launch->block[0] = (uint32_t)threads;
    launch->block[1] = 1;
    launch->block[2] = 1;
    launch->shared_bytes = (uint32_t)shared_bytes;
}

/* A picture without gaps between its rows is one long row. */
static struct normalize with_long_rows(const struct normalize *normalize)
{
    struct normalize n = *normalize;
    const size_t out_row = n.nhwc ? 3 * n.width : n.width;
    if (n.in_row == 3 * n.width && n.out_row == out_row &&
        n.height * n.width <= LAUNCH_SIDE_MAX / 4) {
        n.width *= n.height;
        n.height = 1;
    }
    return n;
}

struct launch normalize_launch(const struct normalize *normalize, const uint8_t *in, void *out)
{
    static const char *const NAMES[3][2] = {
        {"normalize_f32_nchw", "normalize_f32_nhwc"},
        {"normalize_f16_nchw", "normalize_f16_nhwc"},
        {"normalize_bf16_nchw", "normalize_bf16_nhwc"},
    };
    CHECK(normalize->height < 1 << 16 && normalize->width < 1 << 16);
    const struct normalize n = with_long_rows(normalize);
    struct launch launch = {.kernel = NAMES[n.type][n.nhwc ? 1 : 0]};
    size_t threads = NORMALIZE_THREADS; /* fewer if a row is not enough for so many */
    while (threads > 32 && threads / 2 * NORMALIZE_PIXELS >= n.width) {
        threads /= 2;
    }
    set_block(&launch, threads, NORMALIZE_SHARED_BYTES(threads));
    set_grid(&launch, ceil_div(n.width, threads * NORMALIZE_PIXELS), n.height, n.pictures);
    add_pointer(&launch, in);
    add_pointer(&launch, out);
    add_u32(&launch, n.pictures);
    add_u32(&launch, n.height);
    add_u32(&launch, n.width);
    add_u64(&launch, n.in_row);
    add_u64(&launch, n.in_picture);
    add_u64(&launch, n.out_row);
    add_u64(&launch, n.out_plane);
    add_u64(&launch, n.out_picture);
    for (int c = 0; c < 3; c++) {
        add_f32(&launch, n.scale[c]);
    }
    for (int c = 0; c < 3; c++) {
        add_f32(&launch, n.bias[c]);
    }
    return launch;
}
