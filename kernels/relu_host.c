/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

void relu_host(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] < 0 ? 0 : values[i];
    }
}

void relu_gradient_host(const float *out, float *d_out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        d_out[i] = out[i] == 0 ? 0 : d_out[i];
    }
}
