/* SPDX-License-Identifier: Apache-2.0 */
/* The mean over positions and its derivative: sums run over positions, vectors over channels. */
#include "kernels/kernels.h"

void mean_pool_host(const float *in, size_t positions, size_t channels, float *out)
{
    const float share = 1.0F / (float)positions;
    for (size_t c = 0; c < channels; c++) {
        out[c] = 0;
    }
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            out[c] += in[p * channels + c];
        }
    }
    for (size_t c = 0; c < channels; c++) {
        out[c] *= share;
    }
}

void mean_pool_gradient_host(const float *d_out, size_t positions, size_t channels, float *d_in)
{
    const float share = 1.0F / (float)positions;
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            d_in[p * channels + c] = d_out[c] * share;
        }
    }
}
