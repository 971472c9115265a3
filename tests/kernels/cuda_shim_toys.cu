/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernels, right ones and wrong ones, for test_cuda_shim.c. */
#include "fakes/cuda_shim_device.h"

/* The sum of in[0 .. blockDim.x), by halves; a power of 2 of threads. */
static void sum_by_halves(const unsigned *in, unsigned *out, bool wait)
{
    SHARED_ARRAY(unsigned, parts);
    const unsigned i = threadIdx.x;
    parts[i] = in[blockIdx.x * blockDim.x + i];
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (wait) {
            __syncthreads();
        }
        if (i < half) {
            parts[i] += parts[i + half];
        }
    }
    if (i == 0) {
        out[blockIdx.x] = parts[0];
    }
}

extern "C" __global__ void toy_sum(const unsigned *in, unsigned *out)
{
    sum_by_halves(in, out, true);
}

extern "C" __global__ void toy_race(const unsigned *in, unsigned *out)
{
    sum_by_halves(in, out, false);
}

/* Counts itself at the index that its six coordinates make. */
extern "C" __global__ void toy_index(unsigned char *counts, unsigned long long size)
{
    const unsigned long long block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned long long at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    if (at < size) {
        counts[at]++;
    }
}

extern "C" __global__ void toy_some_leave(unsigned leave_from)
{
    if (threadIdx.x < leave_from) {
        __syncthreads();
    }
}

extern "C" __global__ void toy_two_barriers(unsigned first_up_to)
{
    if (threadIdx.x < first_up_to) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

/* What a block finds in the shared memory, and what it leaves there. */
extern "C" __global__ void toy_leftover(unsigned *out)
{
    SHARED_ARRAY(unsigned, left);
    out[blockIdx.x] = left[0];
    left[0] = 7;
}

extern "C" __global__ void toy_overflow(unsigned at, unsigned *out)
{
    SHARED_ARRAY(unsigned, shared);
    shared[threadIdx.x] = at;
    *out = shared[at];
}

extern "C" const struct cuda_shim_kernel TOYS[] = {
    CUDA_SHIM_KERNEL(toys, toy_sum),          CUDA_SHIM_KERNEL(toys, toy_race),
    CUDA_SHIM_KERNEL(toys, toy_index),        CUDA_SHIM_KERNEL(toys, toy_some_leave),
    CUDA_SHIM_KERNEL(toys, toy_two_barriers), CUDA_SHIM_KERNEL(toys, toy_leftover),
    CUDA_SHIM_KERNEL(toys, toy_overflow),     {nullptr, nullptr, 0, nullptr, nullptr},
};
