/* SPDX-License-Identifier: Apache-2.0 */
/* Bias and ReLU, and their derivatives: the loops of kernels.h, left to the vectoriser. */
#include "kernels/kernels.h"

void bias_relu_host(const float *in, const float *bias, size_t positions, size_t channels,
                    float *out)
{
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            const float sum = in[p * channels + c] + bias[c];
            out[p * channels + c] = sum < 0 ? 0 : sum;
        }
    }
}

void bias_relu_gradient_host(const float *out, size_t positions, size_t channels, float *d,
                             float *d_bias)
{
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = p * channels + c;
            d[i] = out[i] == 0 ? 0 : d[i];
            d_bias[c] += d[i];
        }
    }
}
