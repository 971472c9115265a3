/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and cross-entropy of one sample, with exp and log of our own: the polynomials of Cephes'
 * expf and logf (Moshier), in + - * alone.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

/* ln 2 in two parts, the first with so few bits that its product with an exponent is exact. */
static const float LN2_HIGH = 0.693359375F;
static const float LN2_LOW = -2.12194440e-4F;

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* e^x for x <= 0; below the normal numbers 0. */
static float exp_negative(float x)
{
    if (x != x) {
        return x;
    }
    if (x < -87.0F) {
        return 0;
    }
    const int32_t n = (int32_t)(x * 1.44269504088896341F - 0.5F);
    const float r = (x - (float)n * LN2_HIGH) - (float)n * LN2_LOW;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    return (p * (r * r) + r + 1.0F) * float_of_bits((uint32_t)(n + 127) << 23);
}

/* ln x for 1 <= x < infinity; a NaN stays. */
static float log_positive(float x)
{
    if (x != x) {
        return x;
    }
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    int32_t exponent = (int32_t)(bits >> 23) - 126;
    float m = float_of_bits((bits & 0x7fffffU) | 0x3f000000U); /* in [1/2, 1) */
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

float softmax_loss_host(const float *logits, size_t classes, size_t label, float *d_logits,
                        bool *correct_out)
{
    size_t best = 0;
    for (size_t i = 1; i < classes; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    *correct_out = best == label;
    float sum = 0;
    for (size_t i = 0; i < classes; i++) {
        sum += exp_negative(logits[i] - logits[best]);
    }
    for (size_t i = 0; d_logits != NULL && i < classes; i++) {
        d_logits[i] = exp_negative(logits[i] - logits[best]) / sum - (i == label ? 1.0F : 0.0F);
    }
    return log_positive(sum) - (logits[label] - logits[best]);
}
