/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text.h"

#include <math.h>
#include <string.h>

#include "common/float_text.h"
#include "support/suite.h"

START_TEST(every_code_point_comes_back)
{
    uint32_t wrong = 0;
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        char bytes[POINT_BYTES_MAX];
        const char *at = bytes;
        const size_t count = text_encode(bytes, point);
        wrong += text_decode(&at, bytes + count) != (int32_t)point;
        wrong += at != bytes + count;
        at = bytes;
        wrong += count > 1 && text_decode(&at, bytes + count - 1) != -1;
        wrong += memchr(bytes, 0, count) != NULL;
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(what_is_no_code_point_is_refused)
{
    static const char *const BAD[] = {"\x80",
                                      "\xBF",
                                      "\xC1\x81",
                                      "\xC3x",
                                      "\xE0\x80\x80",
                                      "\xF0\x80\x80\x80",
                                      "\xE2\x82",
                                      "\xF4\x90\x80\x80",
                                      "\xF8\x80\x80\x80\x80",
                                      "\xFF"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        const char *at = BAD[i];
        ck_assert_msg(text_decode(&at, BAD[i] + strlen(BAD[i])) == -1, "case %zu", i);
        ck_assert_ptr_eq(at, BAD[i]);
    }
}
END_TEST

START_TEST(order_is_that_of_code_points)
{
    static const char *const RISING[] = {"",
                                         "\xC0\x80",
                                         "\x01",
                                         "A",
                                         "Aa",
                                         "a",
                                         "\xC3\xBC",
                                         "\xED\xA0\x80",
                                         "\xEF\xBF\xBF",
                                         "\xF0\x90\x80\x80"};
    for (size_t i = 0; i < ARRAY_LEN(RISING); i++) {
        for (size_t j = 0; j < ARRAY_LEN(RISING); j++) {
            const int wanted = (i > j) - (i < j);
            ck_assert_int_eq(text_compare(RISING[i], RISING[j]), wanted);
        }
    }
}
END_TEST

START_TEST(natural_order_goes_by_the_value_of_numbers)
{
    static const char *const RISING[] = {"",
                                         "a",
                                         "algo-01",
                                         "algo-1",
                                         "algo-1a",
                                         "algo-2",
                                         "algo-9x",
                                         "algo-10",
                                         "algo-10-2",
                                         "algo-10-10",
                                         "algo-99999999999999999999",
                                         "algo-100000000000000000000",
                                         "b1",
                                         "\xC3\xBC"};
    for (size_t i = 0; i < ARRAY_LEN(RISING); i++) {
        for (size_t j = 0; j < ARRAY_LEN(RISING); j++) {
            const int order = text_compare_natural(RISING[i], RISING[j]);
            ck_assert_msg((order > 0) - (order < 0) == (i > j) - (i < j), "%s and %s", RISING[i],
                          RISING[j]);
        }
    }
}
END_TEST

START_TEST(lengths_and_distances)
{
    ck_assert_uint_eq(text_length("\xC3\xBC"
                                  "a\xF0\x9F\x98\x80\xFF"),
                      4);
    ck_assert_uint_eq(text_distance("", "abc"), 3);
    ck_assert_uint_eq(text_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(text_distance("seed", "seed"), 0);
    char longer[200];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    ck_assert_uint_eq(text_distance(longer, ""), 63);
}
END_TEST

START_TEST(bytes_that_are_no_text_come_back)
{
    static const char *const CASES[][2] = {
        {"a\xC3\xBC", "a\xC3\xBC"},
        {"\xFF", "\xED\xB3\xBF"},
        {"\xED\xA0\x80", "\xED\xB3\xAD\xED\xB2\xA0\xED\xB2\x80"},
        {"\xC0\x80", "\xED\xB3\x80\xED\xB2\x80"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[32];
        text_from_bytes(CASES[i][0], text, sizeof(text));
        ck_assert_str_eq(text, CASES[i][1]);
        ck_assert(text_to_bytes(text));
        ck_assert_str_eq(text, CASES[i][0]);
    }
    char cut[4];
    text_from_bytes("ab\xC3\xBC", cut, sizeof(cut));
    ck_assert_str_eq(cut, "ab");
    char nul[] = "a\xC0\x80";
    char surrogate[] = "\xED\xA0\x80";
    ck_assert(!text_to_bytes(nul));
    ck_assert(!text_to_bytes(surrogate));
}
END_TEST

START_TEST(any_double_reads_back_equal_and_no_shorter_text_does)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 30000; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        uint64_t bits = state ^ state >> 29;
        if (i % 4 == 0) {
            bits &= 0xFFF0000000000000U; /* powers of two, where the gaps are uneven */
        }
        double value;
        memcpy(&value, &bits, sizeof(value));
        char text[FLOAT_TEXT_BYTES];
        float_text(value, text);
        if (!isfinite(value)) {
            ck_assert_ptr_null(strpbrk(text, "0123456789"));
            continue;
        }
        ck_assert_msg(strtod(text, NULL) == value, "%a became %s", value, text);
        char shorter[FLOAT_TEXT_BYTES];
        size_t digits = 0;
        const char *end = strchr(text, 'e') != NULL ? strchr(text, 'e') : text + strlen(text);
        for (const char *p = text; p < end; p++) {
            digits += *p >= '0' && *p <= '9' && (digits > 0 || *p != '0');
        }
        if (digits > 1 && strstr(text, ".0") == NULL) {
            snprintf(shorter, sizeof(shorter), "%.*e", (int)digits - 2, value);
            ck_assert_msg(strtod(shorter, NULL) != value, "%s could be %s", text, shorter);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tc = tcase_create("text");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_code_point_comes_back);
    tcase_add_test(tc, what_is_no_code_point_is_refused);
    tcase_add_test(tc, order_is_that_of_code_points);
    tcase_add_test(tc, natural_order_goes_by_the_value_of_numbers);
    tcase_add_test(tc, lengths_and_distances);
    tcase_add_test(tc, bytes_that_are_no_text_come_back);
    tcase_add_test(tc, any_double_reads_back_equal_and_no_shorter_text_does);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
