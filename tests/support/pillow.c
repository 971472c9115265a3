/* SPDX-License-Identifier: Apache-2.0 */
#include "support/pillow.h"

#include <stdlib.h>

enum { PRECISION = 32 - 8 - 2 };

/* The weights of one output: inputs min..min+count-1, in 22 bits. */
struct taps {
    uint32_t min, count;
    int32_t *weight;
};

static double bilinear(double x)
{
    x = x < 0.0 ? -x : x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

static struct taps taps_of(uint32_t in, uint32_t out, uint32_t i)
{
    const double scale = (double)in / out;
    const double filter_scale = scale < 1.0 ? 1.0 : scale;
    const double support = 1.0 * filter_scale;
    const double center = (i + 0.5) * scale;
    int64_t min = (int64_t)(center - support + 0.5);
    min = min < 0 ? 0 : min;
    int64_t max = (int64_t)(center + support + 0.5);
    max = max > in ? in : max;
    const size_t count = (size_t)(max - min);
    double *weight = malloc(count * sizeof(double));
    int32_t *fixed = malloc(count * sizeof(int32_t));
    if (weight == NULL || fixed == NULL) {
        abort();
    }
    double sum = 0.0;
    for (size_t k = 0; k < count; k++) {
        weight[k] = bilinear(((double)k + (double)min - center + 0.5) * (1.0 / filter_scale));
        sum += weight[k];
    }
    for (size_t k = 0; k < count; k++) {
        fixed[k] = (int32_t)(0.5 + weight[k] / sum * (1 << PRECISION));
    }
    free(weight);
    return (struct taps){(uint32_t)min, (uint32_t)count, fixed};
}

static uint8_t clip8(int32_t sum)
{
    const int32_t value = sum >> PRECISION;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void horizontal(const uint8_t *in, uint32_t in_width, size_t in_stride, uint32_t height,
                       uint8_t *out, uint32_t out_width)
{
    for (uint32_t x = 0; x < out_width; x++) {
        struct taps taps = taps_of(in_width, out_width, x);
        for (uint32_t y = 0; y < height; y++) {
            for (uint32_t c = 0; c < 3; c++) {
                int32_t sum = 1 << (PRECISION - 1);
                for (uint32_t k = 0; k < taps.count; k++) {
                    sum += in[y * in_stride + (size_t)(taps.min + k) * 3 + c] * taps.weight[k];
                }
                out[((size_t)y * out_width + x) * 3 + c] = clip8(sum);
            }
        }
        free(taps.weight);
    }
}

static void vertical(const uint8_t *in, uint32_t in_height, uint32_t width, uint8_t *out,
                     uint32_t out_height)
{
    for (uint32_t y = 0; y < out_height; y++) {
        struct taps taps = taps_of(in_height, out_height, y);
        for (size_t i = 0; i < (size_t)width * 3; i++) {
            int32_t sum = 1 << (PRECISION - 1);
            for (uint32_t k = 0; k < taps.count; k++) {
                sum += in[(size_t)(taps.min + k) * width * 3 + i] * taps.weight[k];
            }
            out[(size_t)y * width * 3 + i] = clip8(sum);
        }
        free(taps.weight);
    }
}

struct picture pillow_resize(const struct picture *source, uint32_t x, uint32_t y, uint32_t width,
                             uint32_t height, uint32_t out_width, uint32_t out_height)
{
    const size_t stride = (size_t)source->width * 3;
    uint8_t *between = malloc((size_t)out_width * height * 3);
    struct picture out = {out_width, out_height, malloc((size_t)out_width * out_height * 3)};
    if (between == NULL || out.pixels == NULL) {
        abort();
    }
    horizontal(source->pixels + y * stride + (size_t)x * 3, width, stride, height, between,
               out_width);
    vertical(between, height, out_width, out.pixels, out_height);
    free(between);
    return out;
}
