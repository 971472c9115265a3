/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/bad_set.h"

#include "support/suite.h"

static struct bad_set *set;

static void setup(void)
{
    ck_assert_int_eq(bad_set_new(&set, NULL), OK);
}

static void teardown(void)
{
    bad_set_free(&set);
}

START_TEST(a_sample_is_named_once)
{
    struct bad_sample bad;
    ck_assert(!bad_set_has(set, 0, 7));
    bad_set_add(set, 0, 7, "truncated");
    bad_set_add(set, 0, 7, "truncated");
    ck_assert(bad_set_has(set, 0, 7));
    ck_assert(!bad_set_has(set, 1, 7));
    ck_assert(bad_set_pop(set, &bad));
    ck_assert_uint_eq(bad.sample, 7);
    ck_assert_str_eq(bad.reason, "truncated");
    ck_assert(!bad_set_pop(set, &bad));
}
END_TEST

START_TEST(memory_is_bounded_and_nothing_is_mixed_up)
{
    struct bad_sample bad;
    uint32_t named = 0;
    for (uint64_t i = 0; i < BAD_SET_MAX + 1000; i++) {
        bad_set_add(set, (uint32_t)(i % 2), i * 977, "x");
        named += bad_set_pop(set, &bad);
    }
    ck_assert_uint_eq(named, BAD_SET_MAX);
    for (uint64_t i = 0; i < BAD_SET_MAX + 1000; i++) {
        ck_assert_int_eq(bad_set_has(set, (uint32_t)(i % 2), i * 977), i < BAD_SET_MAX);
    }
    ck_assert(!bad_set_has(set, 0, 1));
}
END_TEST

START_TEST(a_full_queue_leaves_a_sample_for_the_next_time)
{
    struct bad_sample bad;
    for (uint64_t i = 0; i < 1000; i++) {
        bad_set_add(set, 0, i, "x");
    }
    uint64_t named = 0;
    while (bad_set_pop(set, &bad)) {
        ck_assert_uint_eq(bad.sample, named++);
    }
    ck_assert_uint_lt(named, 1000);
    ck_assert(!bad_set_has(set, 0, named));
    bad_set_add(set, 0, named, "x");
    ck_assert(bad_set_pop(set, &bad));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bad_set");
    TCase *tc = tcase_create("bad_set");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_sample_is_named_once);
    tcase_add_test(tc, memory_is_bounded_and_nothing_is_mixed_up);
    tcase_add_test(tc, a_full_queue_leaves_a_sample_for_the_next_time);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
