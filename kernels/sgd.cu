/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent with momentum: a thread for a parameter. */
#include "kernels/tile.h"

extern "C" __global__ void __launch_bounds__(ELEMENT_THREADS)
    sgd(float *parameters, float *velocity, const float *gradient, unsigned long long count,
        float scale, float momentum, float learning_rate)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
         i < count; i += step) {
        const float moved = momentum * velocity[i] + gradient[i] * scale;
        velocity[i] = moved;
        parameters[i] -= learning_rate * moved;
    }
}
