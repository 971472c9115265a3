/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to the numbers that a network takes. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

/* Rounds by arithmetic on whole significands, as the formats are defined. */
uint16_t float16_bits(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double size = fabs((double)value);
    if (isnan(value)) {
        return sign | 0x7e00;
    }
    if (size >= 65520.0) { /* half-way from the largest to what would follow it */
        return sign | 0x7c00;
    }
    int exponent = -14; /* the least, which the numbers below 2^-14 share */
    if (size >= 0x1p-14) {
        exponent = ilogb(size);
    }
    const double units = ldexp(size, 10 - exponent); /* exact: of the last place, below 2^11 */
    const double whole = floor(units);
    const double rest = units - whole;
    uint32_t bits = (uint32_t)whole;
    bits += rest > 0.5 || (rest == 0.5 && (bits & 1) != 0) ? 1 : 0;
    /* The implied bit counts as one step of the exponent; so does a carry. */
    return (uint16_t)(sign | (bits + ((uint32_t)(exponent + 14) << 10)));
}

uint16_t bfloat16_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint32_t high = bits >> 16;
    const uint32_t rest = bits & 0xffffU;
    if (isnan(value)) {
        return (uint16_t)(high | 0x40);
    }
    const bool up = rest > 0x8000 || (rest == 0x8000 && (high & 1) != 0);
    return (uint16_t)(high + (up ? 1 : 0));
}

struct normalize normalize_dense(size_t pictures, size_t height, size_t width,
                                 enum normalize_type type, bool nhwc)
{
    return (struct normalize){
        .pictures = pictures,
        .height = height,
        .width = width,
        .in_row = 3 * width,
        .in_picture = 3 * width * height,
        .out_row = nhwc ? 3 * width : width,
        .out_picture = 3 * width * height,
        .out_plane = width * height,
        .type = type,
        .nhwc = nhwc,
    };
}

void normalize_factors(struct normalize *normalize, const float mean[3], const float std[3])
{
    for (int c = 0; c < 3; c++) {
        normalize->scale[c] = (float)(1.0 / (255.0 * std[c]));
        normalize->bias[c] = (float)(-(double)mean[c] / std[c]);
    }
}

/* A row into three planes. */
static void write_planes(const struct normalize *n, const uint8_t *restrict pixels, float *out)
{
    const float scale[3] = {n->scale[0], n->scale[1], n->scale[2]};
    const float bias[3] = {n->bias[0], n->bias[1], n->bias[2]};
    float *restrict red = out;
    float *restrict green = red + n->out_plane;
    float *restrict blue = green + n->out_plane;
    for (size_t x = 0; x < n->width; x++) {
        red[x] = (float)pixels[3 * x] * scale[0] + bias[0];
        green[x] = (float)pixels[3 * x + 1] * scale[1] + bias[1];
        blue[x] = (float)pixels[3 * x + 2] * scale[2] + bias[2];
    }
}

static void write_pixels(const struct normalize *n, const uint8_t *restrict pixels,
                         float *restrict out)
{
    for (size_t x = 0; x < n->width; x++) {
        for (size_t c = 0; c < 3; c++) {
            out[3 * x + c] = (float)pixels[3 * x + c] * n->scale[c] + n->bias[c];
        }
    }
}

/* A narrow type's elements for every byte, by channel. */
struct narrow {
    uint16_t of[3][256];
};

static void narrow_fill(const struct normalize *n, struct narrow *narrow)
{
    for (size_t c = 0; c < 3; c++) {
        for (size_t byte = 0; byte < 256; byte++) {
            const float value = (float)byte * n->scale[c] + n->bias[c];
            narrow->of[c][byte] =
                n->type == NORMALIZE_F16 ? float16_bits(value) : bfloat16_bits(value);
        }
    }
}

static void write_narrow(const struct normalize *n, const struct narrow *narrow,
                         const uint8_t *pixels, uint16_t *out)
{
    const size_t step = n->nhwc ? 3 : 1;
    const size_t plane = n->nhwc ? 1 : n->out_plane;
    for (size_t c = 0; c < 3; c++) {
        for (size_t x = 0; x < n->width; x++) {
            out[c * plane + x * step] = narrow->of[c][pixels[3 * x + c]];
        }
    }
}

void normalize_into_host(const struct normalize *n, const uint8_t *in, void *out)
{
    struct narrow narrow;
    if (n->type != NORMALIZE_F32) {
        narrow_fill(n, &narrow);
    }
    for (size_t picture = 0; picture < n->pictures; picture++) {
        for (size_t y = 0; y < n->height; y++) {
            const uint8_t *pixels = in + picture * n->in_picture + y * n->in_row;
            const size_t at = picture * n->out_picture + y * n->out_row;
            if (n->type != NORMALIZE_F32) {
                write_narrow(n, &narrow, pixels, (uint16_t *)out + at);
            } else if (n->nhwc) {
                write_pixels(n, pixels, (float *)out + at);
            } else {
                write_planes(n, pixels, (float *)out + at);
            }
        }
    }
}

void normalize_host(const uint8_t *in, float *out, size_t count, size_t height, size_t width,
                    const float mean[3], const float std[3])
{
    /* A picture without gaps is one long row. */
    struct normalize normalize = normalize_dense(count, 1, height * width, NORMALIZE_F32, false);
    normalize_factors(&normalize, mean, std);
    normalize_into_host(&normalize, in, out);
}
