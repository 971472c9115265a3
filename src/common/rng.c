/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox 4x32-10 and the integer log2/exp2. Nothing here rounds in a way that depends on the CPU:
 * floating point is taken apart and put together by bits, and in between there are only integers.
 */
#include "common/rng.h"

#include <string.h>

/* Salmon et al., table 2 and section 3: multipliers and Weyl increments of the key. */
static const uint32_t MULTIPLIER_0 = 0xD2511F53U;
static const uint32_t MULTIPLIER_1 = 0xCD9E8D57U;
static const uint32_t WEYL_0 = 0x9E3779B9U; /* golden ratio */
static const uint32_t WEYL_1 = 0xBB67AE85U; /* sqrt(3) - 1 */

enum { PHILOX_ROUNDS = 10 };

void rng_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0;
        const uint64_t p1 = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t rng_draw(const struct rng_at *at, uint32_t op, uint32_t draw)
{
    CHECK(op <= UINT16_MAX && draw <= UINT16_MAX);
    const uint32_t counter[4] = {(uint32_t)at->position, (uint32_t)(at->position >> 32), at->epoch,
                                 op << 16 | draw};
    const uint32_t key[2] = {(uint32_t)at->key, (uint32_t)(at->key >> 32)};
    uint32_t out[4];
    rng_philox4x32(counter, key, out);
    return out[0];
}

double rng_uniform(const struct rng_at *at, uint32_t op, uint32_t draw)
{
    return (double)rng_draw(at, op, draw) * 0x1p-32;
}

uint32_t rng_below(const struct rng_at *at, uint32_t op, uint32_t draw, uint32_t n)
{
    CHECK(n >= 1);
    return (uint32_t)((uint64_t)rng_draw(at, op, draw) * n >> 32);
}

enum {
    FRACTION_BITS = 52, /* of an IEEE 754 binary64 */
    EXPONENT_BIAS = 1023,
    EXPONENT_MAX = 1023,
    EXPONENT_MIN = -1022, /* of a normal number */
};
static const uint64_t LEADING_ONE = UINT64_C(1) << FRACTION_BITS;
static const uint64_t FRACTION_MASK = (UINT64_C(1) << FRACTION_BITS) - 1;
static const uint64_t SIGN_MASK = UINT64_C(1) << 63;
static const uint64_t INFINITY_BITS = UINT64_C(0x7FF) << FRACTION_BITS;
static const uint64_t NAN_BITS = UINT64_C(0x7FF8) << 48;

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* (a * b) >> shift, where that fits. */
static uint64_t multiply_shift(uint64_t a, uint64_t b, int shift)
{
    return (uint64_t)((unsigned __int128)a * b >> shift);
}

/*
 * The mantissa is squared again and again; whenever it passes 2, the next bit of the logarithm is 1
 * and it is halved. In 63 fractional bits a squaring is cut by at most 2^-62, which counts 2^-i in
 * the result after the i-th: less than 2^-60 altogether. 53 bits are found and rounded to 52, so
 * the sum with the exponent is within 2^-53 + 2^-60, and its rounding to double adds half a unit of
 * the result: |error| <= 2^-53 * (1.01 + |log2 x|).
 */
double rng_log2(double x)
{
    uint64_t bits = bits_of(x);
    if (bits << 1 == 0) {
        return from_bits(SIGN_MASK | INFINITY_BITS);
    }
    if (bits > INFINITY_BITS) { /* a NaN or negative */
        return from_bits(NAN_BITS);
    }
    if (bits == INFINITY_BITS) {
        return x;
    }
    int64_t exponent = (int64_t)(bits >> FRACTION_BITS) - EXPONENT_BIAS;
    uint64_t mantissa = ((bits & FRACTION_MASK) | LEADING_ONE) << 11; /* 63 fractional bits */
    if (exponent < EXPONENT_MIN) {                                    /* subnormal */
        const int zeros = __builtin_clzll(bits);
        mantissa = bits << zeros;
        exponent = EXPONENT_MIN + 11 - zeros;
    }
    uint64_t fraction = 0;
    for (int i = 0; i <= FRACTION_BITS; i++) {
        const unsigned __int128 square = (unsigned __int128)mantissa * mantissa;
        const uint64_t bit = (uint64_t)(square >> 127);
        mantissa = (uint64_t)(square >> (63 + bit));
        fraction = fraction << 1 | bit;
    }
    const int64_t fixed = exponent * (int64_t)LEADING_ONE + (int64_t)((fraction + 1) >> 1);
    return (double)fixed * 0x1p-52;
}

/* ln 2 with 64 fractional bits. */
static const uint64_t LN2 = UINT64_C(0xB17217F7D1CF79AC);

/* The terms of e^y for y < ln 2 that reach 2^-63: 0.694^20 / 20! < 2^-71. */
enum { EXP_TERMS = 19 };

/* 2^f for f = fraction / 2^64, with 63 fractional bits: e^y = 1 + y (1 + y/2 (1 + y/3 (...))). Each
 * step is cut by at most 2^-62 and later steps shrink it: within 2^-60. */
static uint64_t exp2_fraction(uint64_t fraction)
{
    const uint64_t one = UINT64_C(1) << 63;
    const uint64_t y = multiply_shift(fraction, LN2, 64);
    uint64_t sum = one;
    for (uint64_t k = EXP_TERMS; k >= 1; k--) {
        sum = one + multiply_shift(sum, y, 64) / k;
    }
    return sum;
}

/* mantissa (63 fractional bits, in [1, 2)) times 2^exponent, rounded to nearest, ties to even. */
static double compose(uint64_t mantissa, int exponent)
{
    const int cut = exponent >= EXPONENT_MIN ? 11 : 11 + (EXPONENT_MIN - exponent);
    if (cut > 64) {
        return 0;
    }
    const uint64_t kept = cut < 64 ? mantissa >> cut : 0;
    const uint64_t rest = cut < 64 ? mantissa << (64 - cut) : mantissa;
    const uint64_t half = UINT64_C(1) << 63;
    const uint64_t up = rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
    /* The leading one of a normal number adds 1 to the exponent field, and a carry out of the
     * fraction does so too. */
    const uint64_t field = exponent >= EXPONENT_MIN ? (uint64_t)(exponent - EXPONENT_MIN) : 0;
    return from_bits((field << FRACTION_BITS) + kept + up);
}

/*
 * x is split into a whole part and a fraction of 64 bits; bits of a tiny negative x below 2^-64 are
 * rounded away, which changes the result by less than 2^-64 of it. So the result is within 2^-60 of
 * itself before the one rounding: |error| <= 0.51 units in the last place.
 */
double rng_exp2(double x)
{
    const uint64_t bits = bits_of(x);
    const bool negative = (bits & SIGN_MASK) != 0;
    const uint64_t magnitude = bits & ~SIGN_MASK;
    if (magnitude > INFINITY_BITS) {
        return from_bits(NAN_BITS);
    }
    if (x >= EXPONENT_MAX + 1) {
        return from_bits(INFINITY_BITS);
    }
    if (x < EXPONENT_MIN - FRACTION_BITS - 1) {
        return 0;
    }
    const int scale = (int)(magnitude >> FRACTION_BITS) - EXPONENT_BIAS; /* |x| < 2^11 here */
    if (scale < -64) {
        return 1;
    }
    /* |x| with 64 fractional bits: 53 bits of mantissa moved by scale + 12. */
    const unsigned __int128 mantissa = (magnitude & FRACTION_MASK) | LEADING_ONE;
    const int shift = scale + 64 - FRACTION_BITS;
    __int128 fixed = (__int128)(shift >= 0 ? mantissa << shift : mantissa >> -shift);
    fixed = negative ? -fixed : fixed;
    const int whole = (int)(fixed >> 64);
    return compose(exp2_fraction((uint64_t)fixed), whole);
}
