/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The convolution as matrix products over blocks of output positions. A block's patches lie as
 * rows [ky][kx][c] in the scratch memory: BLOCK is chosen so that they stay in the second-level
 * cache, and it changes no result, since products that accumulate keep the order of their sums.
 */
#include <string.h>

#include "kernels/kernels.h"

enum { BLOCK = 96 }; /* positions; a multiple of the product's 6 rows */

/* Where an output position's patch begins; may lie outside the input. */
struct corner {
    ptrdiff_t y, x;
};

size_t conv_side(const struct conv *conv, size_t input_side)
{
    return (input_side - 1) / conv->stride + 1;
}

static size_t patch_floats(const struct conv *conv)
{
    return conv->kernel * conv->kernel * conv->channels;
}

static size_t positions(const struct conv *conv)
{
    return conv_side(conv, conv->height) * conv_side(conv, conv->width);
}

size_t conv_weights(const struct conv *conv)
{
    return patch_floats(conv) * conv->filters;
}

size_t conv_scratch(const struct conv *conv)
{
    return BLOCK * patch_floats(conv);
}

static struct corner corner_of(const struct conv *conv, size_t position)
{
    const size_t columns = conv_side(conv, conv->width);
    const ptrdiff_t padding = (ptrdiff_t)(conv->kernel / 2);
    return (struct corner){
        .y = (ptrdiff_t)(position / columns * conv->stride) - padding,
        .x = (ptrdiff_t)(position % columns * conv->stride) - padding,
    };
}

static bool inside(ptrdiff_t at, size_t side)
{
    return at >= 0 && (size_t)at < side;
}

static bool row_inside(const struct conv *conv, ptrdiff_t x)
{
    return x >= 0 && (size_t)x + conv->kernel <= conv->width;
}

/* One row of a patch, [kx][c], from input row y beginning at column x. */
static void gather_row(const struct conv *conv, const float *in, size_t y, ptrdiff_t x, float *row)
{
    const size_t channels = conv->channels;
    if (!conv->planar && row_inside(conv, x)) {
        memcpy(row, in + (y * conv->width + (size_t)x) * channels,
               conv->kernel * channels * sizeof(float));
        return;
    }
    const size_t plane = conv->planar ? conv->height * conv->width : 1;
    const size_t pixel = conv->planar ? 1 : channels;
    for (size_t kx = 0; kx < conv->kernel; kx++) {
        const ptrdiff_t column = x + (ptrdiff_t)kx;
        const bool is_inside = inside(column, conv->width);
        const float *from = in + (is_inside ? (y * conv->width + (size_t)column) * pixel : 0);
        for (size_t c = 0; c < channels; c++) {
            row[kx * channels + c] = is_inside ? from[c * plane] : 0;
        }
    }
}

static void gather(const struct conv *conv, const float *in, size_t first, size_t count,
                   float *patches)
{
    const size_t row_floats = conv->kernel * conv->channels;
    for (size_t p = 0; p < count; p++) {
        const struct corner corner = corner_of(conv, first + p);
        for (size_t ky = 0; ky < conv->kernel; ky++) {
            float *row = patches + p * patch_floats(conv) + ky * row_floats;
            const ptrdiff_t y = corner.y + (ptrdiff_t)ky;
            if (inside(y, conv->height)) {
                gather_row(conv, in, (size_t)y, corner.x, row);
            } else {
                memset(row, 0, row_floats * sizeof(float));
            }
        }
    }
}

/* The reverse: adds the patches to where they came from. */
static void scatter_add(const struct conv *conv, const float *patches, size_t first, size_t count,
                        float *d_in)
{
    const size_t channels = conv->channels;
    for (size_t p = 0; p < count; p++) {
        const struct corner corner = corner_of(conv, first + p);
        const ptrdiff_t x0 = corner.x < 0 ? 0 : corner.x;
        const ptrdiff_t end = corner.x + (ptrdiff_t)conv->kernel;
        const ptrdiff_t x1 = end > (ptrdiff_t)conv->width ? (ptrdiff_t)conv->width : end;
        for (size_t ky = 0; ky < conv->kernel; ky++) {
            const ptrdiff_t y = corner.y + (ptrdiff_t)ky;
            if (!inside(y, conv->height)) {
                continue;
            }
            const size_t skipped = (size_t)(x0 - corner.x);
            const float *from =
                patches + p * patch_floats(conv) + (ky * conv->kernel + skipped) * channels;
            float *to = d_in + ((size_t)y * conv->width + (size_t)x0) * channels;
            for (size_t i = 0; i < (size_t)(x1 - x0) * channels; i++) {
                to[i] += from[i];
            }
        }
    }
}

void conv_host(const struct conv *conv, const float *in, const float *weights, float *out,
               float *scratch)
{
    const size_t total = positions(conv);
    for (size_t first = 0; first < total; first += BLOCK) {
        const size_t count = total - first < BLOCK ? total - first : BLOCK;
        gather(conv, in, first, count, scratch);
        gemm_host(&(struct gemm){
            .m = count,
            .n = conv->filters,
            .k = patch_floats(conv),
            .a = scratch,
            .a_row = patch_floats(conv),
            .a_column = 1,
            .b = weights,
            .b_row = conv->filters,
            .b_column = 1,
            .c = out + first * conv->filters,
            .c_row = conv->filters,
            .accumulate = false,
        });
    }
}

void conv_weights_gradient_host(const struct conv *conv, const float *in, const float *d_out,
                                float *d_weights, float *scratch)
{
    const size_t total = positions(conv);
    for (size_t first = 0; first < total; first += BLOCK) {
        const size_t count = total - first < BLOCK ? total - first : BLOCK;
        gather(conv, in, first, count, scratch);
        gemm_host(&(struct gemm){
            .m = patch_floats(conv),
            .n = conv->filters,
            .k = count,
            .a = scratch,
            .a_row = 1,
            .a_column = patch_floats(conv),
            .b = d_out + first * conv->filters,
            .b_row = conv->filters,
            .b_column = 1,
            .c = d_weights,
            .c_row = conv->filters,
            .accumulate = true,
        });
    }
}

void conv_input_gradient_host(const struct conv *conv, const float *weights, const float *d_out,
                              float *d_in, float *scratch)
{
    const size_t total = positions(conv);
    memset(d_in, 0, conv->height * conv->width * conv->channels * sizeof(float));
    for (size_t first = 0; first < total; first += BLOCK) {
        const size_t count = total - first < BLOCK ? total - first : BLOCK;
        gemm_host(&(struct gemm){
            .m = count,
            .n = patch_floats(conv),
            .k = conv->filters,
            .a = d_out + first * conv->filters,
            .a_row = conv->filters,
            .a_column = 1,
            .b = weights,
            .b_row = 1,
            .b_column = conv->filters,
            .c = scratch,
            .c_row = patch_floats(conv),
            .accumulate = false,
        });
        scatter_add(conv, scratch, first, count, d_in);
    }
}
