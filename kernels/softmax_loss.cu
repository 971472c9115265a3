/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and cross-entropy: a block for a picture. The block finds the highest logit together and
 * takes exponents a tile of classes at a time; its first thread adds them up, in the classes'
 * order. exp and log are the twin's, operation for operation.
 */
#include "kernels/tile.h"

/* ln 2 in two parts, the first with so few bits that its product with an exponent is exact. */
#define LN2_HIGH 0.693359375F
#define LN2_LOW  -2.12194440e-4F

/* e^x for x <= 0; below the normal numbers 0. */
static __device__ float exp_negative(float x)
{
    if (x != x) {
        return x;
    }
    if (x < -87.0F) {
        return 0;
    }
    const int n = (int)(x * 1.44269504088896341F - 0.5F);
    const float r = (x - (float)n * LN2_HIGH) - (float)n * LN2_LOW;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    return (p * (r * r) + r + 1.0F) * __uint_as_float((unsigned)(n + 127) << 23);
}

/* ln x for 1 <= x < infinity; a NaN stays. */
static __device__ float log_positive(float x)
{
    if (x != x) {
        return x;
    }
    const unsigned bits = __float_as_uint(x);
    int exponent = (int)(bits >> 23) - 126;
    float m = __uint_as_float((bits & 0x7fffffU) | 0x3f000000U); /* in [1/2, 1) */
    if (m < 0.707106781186547524F) {
        exponent--;
        m = m + m - 1.0F;
    } else {
        m = m - 1.0F;
    }
    const float z = m * m;
    float p = 7.0376836292e-2F;
    p = p * m - 1.1514610310e-1F;
    p = p * m + 1.1676998740e-1F;
    p = p * m - 1.2420140846e-1F;
    p = p * m + 1.4249322787e-1F;
    p = p * m - 1.6668057665e-1F;
    p = p * m + 2.0000714765e-1F;
    p = p * m - 2.4999993993e-1F;
    p = p * m + 3.3333331174e-1F;
    float y = p * m * z;
    y = y + (float)exponent * LN2_LOW;
    y = y - 0.5F * z;
    return m + y + (float)exponent * LN2_HIGH;
}

/* What the block's threads share. */
struct shared_state {
    float values[SOFTMAX_THREADS];
    unsigned indices[SOFTMAX_THREADS];
    unsigned best;
    float sum;
};

/* The first of the highest logits, where a NaN counts only in front: as if they were looked through
 * in order, each taking the place of a lower one. */
static __device__ unsigned find_best(const float *logits, unsigned classes, shared_state *shared)
{
    float value = 0;
    unsigned index = classes; /* none */
    for (unsigned i = threadIdx.x; i < classes; i += blockDim.x) {
        const float logit = logits[i];
        if (logit == logit && (index == classes || logit > value)) {
            value = logit;
            index = i;
        }
    }
    shared->values[threadIdx.x] = value;
    shared->indices[threadIdx.x] = index;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned t = 1; t < blockDim.x; t++) {
            const unsigned other = shared->indices[t];
            const float rival = shared->values[t];
            if (other < classes &&
                (index == classes || rival > value || (rival == value && other < index))) {
                value = rival;
                index = other;
            }
        }
        shared->best = logits[0] == logits[0] ? index : 0;
    }
    __syncthreads();
    return shared->best;
}

static __device__ float sum_of_exponents(const float *logits, unsigned classes, float highest,
                                         shared_state *shared)
{
    float sum = 0;
    for (unsigned first = 0; first < classes; first += blockDim.x) {
        const unsigned count = classes - first < blockDim.x ? classes - first : blockDim.x;
        if (threadIdx.x < count) {
            shared->values[threadIdx.x] = exp_negative(logits[first + threadIdx.x] - highest);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (unsigned i = 0; i < count; i++) {
                sum += shared->values[i];
            }
            shared->sum = sum;
        }
        __syncthreads();
    }
    return shared->sum;
}

/* d_logits may be null. A label that is no class: the loss is NaN, and no class is the label. */
extern "C" __global__ void __launch_bounds__(SOFTMAX_THREADS)
    softmax_loss(const float *logits, const long long *labels, float *losses, unsigned *corrects,
                 float *d_logits, unsigned pictures, unsigned classes)
{
    SHARED_ARRAY(shared_state, shared);
    for (unsigned n = blockIdx.x; n < pictures; n += gridDim.x) {
        const float *own = logits + (unsigned long long)n * classes;
        const long long label = labels[n];
        const unsigned best = find_best(own, classes, shared);
        const float highest = own[best];
        const float sum = sum_of_exponents(own, classes, highest, shared);
        for (unsigned i = threadIdx.x; d_logits != nullptr && i < classes; i += blockDim.x) {
            d_logits[(unsigned long long)n * classes + i] =
                exp_negative(own[i] - highest) / sum - ((long long)i == label ? 1.0F : 0.0F);
        }
        if (threadIdx.x == 0) {
            const bool is_class = label >= 0 && label < (long long)classes;
            losses[n] = is_class ? log_positive(sum) - (own[label] - highest)
                                 : __uint_as_float(0x7fc00000U);
            corrects[n] = (long long)best == label ? 1 : 0;
        }
    }
}
