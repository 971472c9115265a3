/* SPDX-License-Identifier: Apache-2.0 */
/* Channel norm and its derivative: sums run over positions, vectors over channels. */
#include <math.h>

#include "kernels/kernels.h"

static void clear(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = 0;
    }
}

static void scale(float *values, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++) {
        values[i] *= factor;
    }
}

void channel_norm_host(const float *in, size_t positions, size_t channels, float *out,
                       float *inverse, float *scratch)
{
    const float share = 1.0F / (float)positions;
    float *mean = scratch;
    float *variance = scratch + channels;
    clear(scratch, 2 * channels);
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            mean[c] += in[p * channels + c];
        }
    }
    scale(mean, channels, share);
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            const float distance = in[p * channels + c] - mean[c];
            out[p * channels + c] = distance;
            variance[c] += distance * distance;
        }
    }
    scale(variance, channels, share);
    for (size_t c = 0; c < channels; c++) {
        inverse[c] = 1.0F / sqrtf(variance[c] + CHANNEL_NORM_FLOOR);
    }
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            out[p * channels + c] *= inverse[c];
        }
    }
}

void channel_norm_gradient_host(const float *out, const float *inverse, size_t positions,
                                size_t channels, float *d, float *scratch)
{
    const float share = 1.0F / (float)positions;
    float *mean = scratch;
    float *along = scratch + channels; /* the part of d along out */
    clear(scratch, 2 * channels);
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            mean[c] += d[p * channels + c];
            along[c] += d[p * channels + c] * out[p * channels + c];
        }
    }
    scale(scratch, 2 * channels, share);
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = p * channels + c;
            d[i] = ((d[i] - mean[c]) - out[i] * along[c]) * inverse[c];
        }
    }
}
