/* SPDX-License-Identifier: Apache-2.0 */
/* The derivative of the mean over positions; the mean itself is a sum: sums.cu. */
#include "kernels/tile.h"

extern "C" __global__ void __launch_bounds__(ELEMENT_THREADS)
    mean_pool_gradient(const float *d_out, float *d_in, unsigned pictures, unsigned positions,
                       unsigned channels, float share)
{
    const unsigned count = positions * channels;
    for (unsigned n = blockIdx.y; n < pictures; n += gridDim.y) {
        const float *from = d_out + (unsigned long long)n * channels;
        float *to = d_in + (unsigned long long)n * count;
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
             i += gridDim.x * blockDim.x) {
            to[i] = from[i % channels] * share;
        }
    }
}
