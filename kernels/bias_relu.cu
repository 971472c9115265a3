/* SPDX-License-Identifier: Apache-2.0 */
/* Bias and ReLU, and the ReLU's derivative: a thread for an element, neighbours to neighbours. The
 * bias's derivative is a sum: sums.cu. */
#include "kernels/tile.h"

/* in may be out, so neither is said to be apart. */
extern "C" __global__ void __launch_bounds__(ELEMENT_THREADS)
    bias_relu(const float *in, const float *bias, float *out, unsigned pictures, unsigned positions,
              unsigned channels)
{
    const unsigned count = positions * channels;
    for (unsigned n = blockIdx.y; n < pictures; n += gridDim.y) {
        const unsigned long long first = (unsigned long long)n * count;
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
             i += gridDim.x * blockDim.x) {
            const float sum = in[first + i] + bias[i % channels];
            out[first + i] = sum < 0 ? 0 : sum;
        }
    }
}

extern "C" __global__ void __launch_bounds__(ELEMENT_THREADS)
    relu_gradient(const float *out, float *d, unsigned long long count)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
         i < count; i += step) {
        d[i] = out[i] == 0 ? 0 : d[i];
    }
}
