/* SPDX-License-Identifier: Apache-2.0 */
#include "common/rng.h"

#include <math.h>
#include <string.h>

#include "support/suite.h"

/* Random123 1.14, tests/kat_vectors, the lines "philox4x32 10". */
START_TEST(philox_has_the_published_values)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } KNOWN[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_LEN(KNOWN); i++) {
        uint32_t out[4];
        rng_philox4x32(KNOWN[i].counter, KNOWN[i].key, out);
        ck_assert_mem_eq(out, KNOWN[i].out, sizeof(out));
    }
}
END_TEST

/* DESIGN 7: counter words are position low, position high, epoch, operation << 16 | draw. */
START_TEST(a_draw_is_the_first_word_of_its_counter)
{
    const struct rng_at at = {.key = UINT64_C(0x299f31d0a4093822),
                              .position = UINT64_C(0x85a308d3243f6a88),
                              .epoch = 0x13198a2e};
    ck_assert_uint_eq(rng_draw(&at, 0x0370, 0x7344), 0xd16cfe09);
    ck_assert_uint_ne(rng_draw(&at, 0x0370, 0x7345), 0xd16cfe09);
}
END_TEST

START_TEST(uniform_and_below_stay_inside_and_are_even)
{
    const struct rng_at at = {.key = test_seed(), .position = 3, .epoch = 1};
    enum { DRAWS = 60000, FACES = 6 };
    uint32_t faces[FACES] = {0};
    double sum = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        const double u = rng_uniform(&at, 1, i);
        ck_assert(u >= 0 && u < 1);
        sum += u;
        const uint32_t face = rng_below(&at, 2, i, FACES);
        ck_assert_uint_lt(face, FACES);
        faces[face]++;
    }
    /* 6 standard deviations: one failure in a thousand million runs. */
    ck_assert_double_le(fabs(sum / DRAWS - 0.5), 6 * sqrt(1.0 / 12 / DRAWS));
    for (int i = 0; i < FACES; i++) {
        const double expected = (double)DRAWS / FACES;
        ck_assert_double_le(fabs(faces[i] - expected), 6 * sqrt(expected));
    }
    ck_assert_uint_eq(rng_below(&at, 2, 0, 1), 0);
}
END_TEST

/* Any double but NaN, all exponents alike. */
static double random_double(const struct rng_at *at, uint32_t i)
{
    struct rng_at here = *at;
    here.position = i;
    const uint64_t bits = (uint64_t)rng_draw(&here, 3, 0) << 32 | rng_draw(&here, 3, 1);
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x == x ? x : 1;
}

enum { VALUES = 400000 };

static void check_log2(double x)
{
    const long double truth = log2l((long double)x);
    const long double error = fabsl((long double)rng_log2(x) - truth);
    if (!(error <= 0x1p-53L * (1.01L + fabsl(truth)))) {
        ck_abort_msg("log2(%a) = %a, error %Lg", x, rng_log2(x), error);
    }
}

START_TEST(log2_keeps_its_bound)
{
    const struct rng_at at = {.key = test_seed()};
    for (uint32_t i = 0; i < VALUES; i++) {
        const double x = fabs(random_double(&at, i));
        if (x > 0 && x < INFINITY) {
            check_log2(x);
        }
        check_log2(0.25 + 4 * rng_uniform(&at, 4, i & 0xFFFF) + i * 1e-9); /* as crops use it */
    }
    static const double EDGES[] = {
        0x1p-1074, 0x1.fffffffffffffp-1023, 0x1p-1022,           0x1.fffffffffffffp1023,
        1,         0x1.0000000000001p0,     0x1.fffffffffffffp-1};
    for (size_t i = 0; i < ARRAY_LEN(EDGES); i++) {
        check_log2(EDGES[i]);
    }
    for (int e = -1074; e <= 1023; e++) {
        ck_assert_double_eq(rng_log2(ldexp(1, e)), e);
    }
}
END_TEST

static void check_exp2(double x)
{
    const long double truth = exp2l((long double)x);
    const double got = rng_exp2(x);
    if (truth >= 0x1.fffffffffffff7p1023L) { /* near the largest double, either is right */
        ck_assert(got == INFINITY || got == 0x1.fffffffffffffp1023);
        return;
    }
    int exponent;
    frexpl(truth, &exponent); /* truth is in [2^(exponent-1), 2^exponent) */
    const long double unit = ldexpl(1, (exponent - 1 < -1022 ? -1022 : exponent - 1) - 52);
    const long double error = fabsl((long double)got - truth);
    if (!(error <= 0.51L * unit)) {
        ck_abort_msg("exp2(%a) = %a, error %Lg units", x, got, error / unit);
    }
}

START_TEST(exp2_keeps_its_bound)
{
    const struct rng_at at = {.key = test_seed()};
    for (uint32_t i = 0; i < VALUES; i++) {
        struct rng_at here = at;
        here.position = i;
        const double u = rng_uniform(&here, 5, 0) + 0x1p-32 * rng_uniform(&here, 5, 1);
        check_exp2(2110 * u - 1080); /* all results, subnormal and infinite ones too */
        check_exp2(2 * u - 1);       /* as crops use it */
        const double any = random_double(&at, i);
        if (any > -1100 && any < 1024) {
            check_exp2(any);
        }
    }
    static const double EDGES[] = {
        0,       -0.0,     0x1p-1074,          -0x1p-1074, 0x1p-64, -0x1p-64,
        0x1p-65, -0x1p-65, 1023.9999999999999, -1022,      -1074,   -1074.5,
        -1075,   -1075.5};
    for (size_t i = 0; i < ARRAY_LEN(EDGES); i++) {
        check_exp2(EDGES[i]);
    }
    for (int e = -1074; e <= 1023; e++) {
        ck_assert_double_eq(rng_exp2(e), ldexp(1, e));
    }
}
END_TEST

START_TEST(what_is_no_number_behaves_as_in_libm)
{
    ck_assert_double_infinite(rng_log2(INFINITY));
    ck_assert(rng_log2(0.0) == -INFINITY && rng_log2(-0.0) == -INFINITY);
    ck_assert_double_nan(rng_log2(-1));
    ck_assert_double_nan(rng_log2(-INFINITY));
    ck_assert_double_nan(rng_log2(NAN));
    ck_assert_double_infinite(rng_exp2(INFINITY));
    ck_assert_double_infinite(rng_exp2(1024));
    ck_assert_double_eq(rng_exp2(-INFINITY), 0);
    ck_assert_double_eq(rng_exp2(-2000), 0);
    ck_assert_double_nan(rng_exp2(NAN));
    ck_assert_double_nan(rng_exp2(-NAN));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rng");
    TCase *tc = tcase_create("rng");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, philox_has_the_published_values);
    tcase_add_test(tc, a_draw_is_the_first_word_of_its_counter);
    tcase_add_test(tc, uniform_and_below_stay_inside_and_are_even);
    tcase_add_test(tc, log2_keeps_its_bound);
    tcase_add_test(tc, exp2_keeps_its_bound);
    tcase_add_test(tc, what_is_no_number_behaves_as_in_libm);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
