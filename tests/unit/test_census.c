/* SPDX-License-Identifier: Apache-2.0 */
#include "consumer/census.h"

#include <string.h>

#include "support/suite.h"

static const char *const NAMES[] = {"train", "eval"};
static struct census_entry entries[4];
static struct census census;
static char text[TEXT_BYTES_MAX];
static struct msg_reject reject; /* the last one */

static void begin(uint32_t expected)
{
    census = (struct census){
        .names = NAMES, .stream_count = 2, .expected = expected, .capacity = 4, .entries = entries};
}

static struct msg_hello hello(const char *host, uint32_t index, uint64_t samples)
{
    struct msg_hello h = {.index = index, .stream_count = 2};
    snprintf(h.host, sizeof(h.host), "%s", host);
    h.streams[0].samples = samples;
    h.streams[0].digest = samples * 3;
    h.streams[0].classes = 8;
    h.streams[0].buckets[17] = (uint32_t)samples;
    h.streams[1].samples = 100;
    return h;
}

static void add(const char *host, uint64_t samples)
{
    const struct msg_hello h = hello(host, 0, samples);
    ck_assert(census_add(&census, &h));
}

static bool turned_away(const char *host, uint64_t samples)
{
    const struct msg_hello h = hello(host, 0, samples);
    return census_turns_away(&census, &h, &reject);
}

START_TEST(all_expected_producers_must_agree)
{
    begin(2);
    ck_assert_int_eq(census_state(&census, text), CENSUS_WAITING);
    add("algo-2", 2000);
    ck_assert_int_eq(census_state(&census, text), CENSUS_WAITING);
    ck_assert_ptr_nonnull(strstr(text, "1 of 2"));
    ck_assert_ptr_nonnull(strstr(text, "algo-2/0"));
    add("algo-2", 2000); /* says HELLO again */
    ck_assert_int_eq(census_state(&census, text), CENSUS_WAITING);
    add("algo-3", 2000);
    ck_assert_int_eq(census_state(&census, text), CENSUS_AGREED);
    ck_assert_uint_eq(census.entries[0].facts[0].classes, 8);
}
END_TEST

START_TEST(a_difference_names_both_and_heals)
{
    begin(2);
    add("algo-2", 2000);
    add("algo-3", 1999);
    ck_assert_int_eq(census_state(&census, text), CENSUS_DIFFERS);
    ck_assert_ptr_nonnull(strstr(text, "algo-2/0 has 2000 samples"));
    ck_assert_ptr_nonnull(strstr(text, "algo-3/0 has 1999"));
    ck_assert_ptr_nonnull(strstr(text, "stream train"));
    add("algo-3", 2000);
    ck_assert_int_eq(census_state(&census, text), CENSUS_AGREED);
}
END_TEST

START_TEST(digest_and_classes_count_too)
{
    for (int field = 0; field < 3; field++) {
        begin(2);
        add("algo-2", 2000);
        struct msg_hello h = hello("algo-3", 0, 2000);
        h.streams[0].digest += field == 0;
        h.streams[0].classes += field == 1;
        h.streams[1].samples += field == 2;
        ck_assert(census_add(&census, &h));
        ck_assert_int_eq(census_state(&census, text), CENSUS_DIFFERS);
        ck_assert_ptr_nonnull(strstr(text, field == 2 ? "stream eval" : "stream train"));
    }
}
END_TEST

START_TEST(all_but_a_strict_majority_are_turned_away)
{
    begin(3);
    add("algo-2", 2000);
    ck_assert(!turned_away("algo-2", 2000));
    add("algo-3", 1999);
    ck_assert(turned_away("algo-2", 2000));
    ck_assert(turned_away("algo-3", 1999));
    add("algo-4", 2000);
    ck_assert(!turned_away("algo-2", 2000));
    ck_assert(turned_away("algo-3", 1999));
    ck_assert(!turned_away("algo-4", 2000));
}
END_TEST

START_TEST(who_is_turned_away_is_told_how_another_differs)
{
    begin(3);
    add("algo-2", 2000);
    add("algo-3", 2000);
    struct msg_hello h = hello("algo-4", 0, 2000);
    h.instance = 44;
    h.attempt = 5;
    h.streams[1].samples = 99;
    h.streams[1].buckets[3] = 7;
    ck_assert(census_add(&census, &h));
    ck_assert(census_turns_away(&census, &h, &reject));
    ck_assert_uint_eq(reject.code, REJECT_DATA);
    ck_assert_uint_eq(reject.instance, 44);
    ck_assert_uint_eq(reject.attempt, 5);
    ck_assert_uint_eq(reject.stream, 1);
    ck_assert_uint_eq(reject.bucket_count, INDEX_BUCKETS);
    for (uint32_t i = 0; i < INDEX_BUCKETS; i++) {
        ck_assert_uint_eq(reject.buckets[i], 0);
    }
    ck_assert_ptr_nonnull(strstr(reject.text, "stream eval: producer algo-4/0 has 99 samples"));
    ck_assert_ptr_nonnull(strstr(reject.text, "but algo-2/0 has 100"));

    /* Two and two: the first one too is told of another's, not of its own. */
    add("algo-3", 1999);
    h = hello("algo-4", 0, 1999);
    ck_assert(census_add(&census, &h));
    ck_assert(turned_away("algo-2", 2000));
    ck_assert_uint_eq(reject.stream, 0);
    ck_assert_uint_eq(reject.buckets[17], 1999);
}
END_TEST

START_TEST(the_table_is_bounded)
{
    begin(2);
    for (uint32_t i = 0; i < 4; i++) {
        const struct msg_hello h = hello("algo-2", i, 5);
        ck_assert(census_add(&census, &h));
    }
    const struct msg_hello h = hello("algo-2", 4, 5);
    ck_assert(!census_add(&census, &h));
    ck_assert(!census_turns_away(&census, &h, &reject));
    ck_assert_int_eq(census_state(&census, text), CENSUS_AGREED);
}
END_TEST

START_TEST(long_names_fit_the_text)
{
    begin(4);
    char name[HOST_BYTES_MAX];
    memset(name, 'h', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (uint32_t i = 0; i < 4; i++) {
        const struct msg_hello h = hello(name, i, 5);
        ck_assert(census_add(&census, &h));
    }
    ck_assert_int_eq(census_state(&census, text), CENSUS_AGREED);
    ck_assert_uint_lt(strlen(text), sizeof(text));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("census");
    TCase *tc = tcase_create("census");
    tcase_add_test(tc, all_expected_producers_must_agree);
    tcase_add_test(tc, a_difference_names_both_and_heals);
    tcase_add_test(tc, digest_and_classes_count_too);
    tcase_add_test(tc, all_but_a_strict_majority_are_turned_away);
    tcase_add_test(tc, who_is_turned_away_is_told_how_another_differs);
    tcase_add_test(tc, the_table_is_bounded);
    tcase_add_test(tc, long_names_fit_the_text);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
