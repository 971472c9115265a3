/* SPDX-License-Identifier: Apache-2.0 */
#include "common/metrics.h"

#include <string.h>

#include "support/suite.h"

static struct histogram histogram;

START_TEST(small_values_are_exact)
{
    memset(&histogram, 0, sizeof(histogram));
    ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 0);
    for (uint64_t v = 1; v <= 10; v++) {
        histogram_add(&histogram, v);
    }
    ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 5);
    ck_assert_uint_eq(histogram_quantile(&histogram, 0.99), 10);
    ck_assert_uint_eq(histogram_quantile(&histogram, 0), 1);
}
END_TEST

START_TEST(a_quantile_is_never_low_and_at_most_a_sixteenth_high)
{
    uint64_t x = test_seed();
    for (int i = 0; i < 20000; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint64_t value = x >> (x & 63);
        memset(&histogram, 0, sizeof(histogram));
        histogram_add(&histogram, value);
        const uint64_t got = histogram_quantile(&histogram, 0.5);
        ck_assert_uint_ge(got, value);
        ck_assert_uint_le(got - value, value / 16);
    }
}
END_TEST

START_TEST(the_tail_shows_in_p99_only)
{
    memset(&histogram, 0, sizeof(histogram));
    for (int i = 0; i < 980; i++) {
        histogram_add(&histogram, 1000);
    }
    for (int i = 0; i < 20; i++) {
        histogram_add(&histogram, 1000000);
    }
    ck_assert_uint_lt(histogram_quantile(&histogram, 0.5), 1063);
    ck_assert_uint_ge(histogram_quantile(&histogram, 0.99), 1000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = tcase_create("metrics");
    tcase_add_test(tc, small_values_are_exact);
    tcase_add_test(tc, a_quantile_is_never_low_and_at_most_a_sixteenth_high);
    tcase_add_test(tc, the_tail_shows_in_p99_only);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
