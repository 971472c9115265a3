/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channel norm and its derivative, each in two launches: the sums over a picture's positions, a
 * thread for a channel of a picture (see sums.cu for the order and the fetching ahead), then the
 * elements, a thread for each.
 */
#include "kernels/tile.h"

/* One channel of one picture. */
struct column {
    unsigned long long at; /* of its sums: picture * channels + channel */
    unsigned long long first;
};

static __device__ __forceinline__ column column_at(unsigned long long at, unsigned positions,
                                                   unsigned channels)
{
    const unsigned long long n = at / channels;
    return column{at, n * positions * channels + (at - n * channels)};
}

static __device__ __forceinline__ float add(float sum, float value, float mean, bool squared)
{
    if (squared) {
        const float distance = value - mean;
        return sum + distance * distance;
    }
    return sum + value;
}

/* 0 + the values, or + the squares of their distances from the mean. */
template <bool SQUARED>
static __device__ __forceinline__ float moment(const float *__restrict__ in, unsigned positions,
                                               unsigned channels, float mean)
{
    float sum = 0;
    unsigned p = 0;
    for (; p + SUM_AHEAD <= positions; p += SUM_AHEAD) {
        float values[SUM_AHEAD];
#pragma unroll
        for (unsigned j = 0; j < SUM_AHEAD; j++) {
            values[j] = in[(unsigned long long)(p + j) * channels];
        }
#pragma unroll
        for (unsigned j = 0; j < SUM_AHEAD; j++) {
            sum = add(sum, values[j], mean, SQUARED);
        }
    }
    for (; p < positions; p++) {
        sum = add(sum, in[(unsigned long long)p * channels], mean, SQUARED);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    channel_norm_moments(const float *__restrict__ in, float *__restrict__ means,
                         float *__restrict__ inverses, unsigned pictures, unsigned positions,
                         unsigned channels, float share, float floor)
{
    const unsigned long long count = (unsigned long long)pictures * channels;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
         i < count; i += (unsigned long long)gridDim.x * blockDim.x) {
        const column c = column_at(i, positions, channels);
        const float mean = moment<false>(in + c.first, positions, channels, 0) * share;
        const float variance = moment<true>(in + c.first, positions, channels, mean) * share;
        means[i] = mean;
        inverses[i] = 1.0F / sqrtf(variance + floor);
    }
}

/* in may be out. */
extern "C" __global__ void __launch_bounds__(ELEMENT_THREADS)
    channel_norm(const float *in, const float *means, const float *inverses, float *out,
                 unsigned pictures, unsigned positions, unsigned channels)
{
    const unsigned count = positions * channels;
    for (unsigned n = blockIdx.y; n < pictures; n += gridDim.y) {
        const unsigned long long first = (unsigned long long)n * count;
        const unsigned long long sums = (unsigned long long)n * channels;
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
             i += gridDim.x * blockDim.x) {
            const unsigned long long c = sums + i % channels;
            out[first + i] = (in[first + i] - means[c]) * inverses[c];
        }
    }
}

/* Means over positions of d and of d * out. */
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    channel_norm_gradient_means(const float *__restrict__ out, const float *__restrict__ d,
                                float *__restrict__ d_means, float *__restrict__ along_means,
                                unsigned pictures, unsigned positions, unsigned channels,
                                float share)
{
    const unsigned long long count = (unsigned long long)pictures * channels;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
         i < count; i += (unsigned long long)gridDim.x * blockDim.x) {
        const column c = column_at(i, positions, channels);
        float d_sum = 0;
        float along = 0;
        unsigned p = 0;
        for (; p + SUM_AHEAD <= positions; p += SUM_AHEAD) {
            float ds[SUM_AHEAD];
            float outs[SUM_AHEAD];
#pragma unroll
            for (unsigned j = 0; j < SUM_AHEAD; j++) {
                const unsigned long long at = c.first + (unsigned long long)(p + j) * channels;
                ds[j] = d[at];
                outs[j] = out[at];
            }
#pragma unroll
            for (unsigned j = 0; j < SUM_AHEAD; j++) {
                d_sum += ds[j];
                along += ds[j] * outs[j];
            }
        }
        for (; p < positions; p++) {
            const unsigned long long at = c.first + (unsigned long long)p * channels;
            d_sum += d[at];
            along += d[at] * out[at];
        }
        d_means[i] = d_sum * share;
        along_means[i] = along * share;
    }
}

extern "C" __global__ void __launch_bounds__(ELEMENT_THREADS)
    channel_norm_gradient(const float *__restrict__ out, const float *__restrict__ inverses,
                          const float *__restrict__ d_means, const float *__restrict__ along_means,
                          float *__restrict__ d, unsigned pictures, unsigned positions,
                          unsigned channels)
{
    const unsigned count = positions * channels;
    for (unsigned n = blockIdx.y; n < pictures; n += gridDim.y) {
        const unsigned long long first = (unsigned long long)n * count;
        const unsigned long long sums = (unsigned long long)n * channels;
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
             i += gridDim.x * blockDim.x) {
            const unsigned long long c = sums + i % channels;
            const unsigned long long at = first + i;
            d[at] = ((d[at] - d_means[c]) - out[at] * along_means[c]) * inverses[c];
        }
    }
}
