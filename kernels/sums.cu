/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums in one fixed order: a thread for a sum, its terms added one after the other. So that it does
 * not wait for memory at every term it fetches SUM_AHEAD of them at a time; neighbouring threads
 * have neighbouring terms.
 */
#include "kernels/tile.h"

/* start + in[0] + in[step] + ... */
static __device__ __forceinline__ float sum_of(const float *__restrict__ in, unsigned count,
                                               unsigned long long step, float start)
{
    float sum = start;
    unsigned i = 0;
    for (; i + SUM_AHEAD <= count; i += SUM_AHEAD) {
        float terms[SUM_AHEAD];
#pragma unroll
        for (unsigned j = 0; j < SUM_AHEAD; j++) {
            terms[j] = in[(i + j) * step];
        }
#pragma unroll
        for (unsigned j = 0; j < SUM_AHEAD; j++) {
            sum += terms[j];
        }
    }
    for (; i < count; i++) {
        sum += in[i * step];
    }
    return sum;
}

/* out[n][c] = (0 + sum over p of in[n][p][c]) * factor. */
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    channel_sums(const float *__restrict__ in, float *__restrict__ out, unsigned pictures,
                 unsigned positions, unsigned channels, float factor)
{
    const unsigned long long count = (unsigned long long)pictures * channels;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
         i < count; i += step) {
        const unsigned long long n = i / channels;
        const float *from = in + n * positions * channels + (i - n * channels);
        out[i] = sum_of(from, positions, channels, 0) * factor;
    }
}

/* sum[i] = sum[i] + parts[0][i] + parts[1][i] + ... */
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    sum_pictures(const float *__restrict__ parts, float *__restrict__ sum, unsigned pictures,
                 unsigned long long count)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
         i < count; i += step) {
        sum[i] = sum_of(parts + i, pictures, count, sum[i]);
    }
}
