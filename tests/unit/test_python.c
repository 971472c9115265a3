/* SPDX-License-Identifier: Apache-2.0 */
/* Examples; tests/integration/env_toolkit.py compares with Python itself. */
#include "common/python.h"

#include <string.h>

#include "common/unicode.h"
#include "support/suite.h"

static struct json *parsed(const char *text)
{
    struct json *json = NULL;
    struct err err = {0};
    ck_assert_msg(json_parse(text, &json, &err) == OK, "%s: %s", text, err.message);
    return json;
}

START_TEST(str_writes_texts_bare_and_all_else_as_repr)
{
    static const char *const CASES[][2] = {
        {"\"it's\"", "it's"},
        {"null", "None"},
        {"true", "True"},
        {"[false,1e2,NaN,-Infinity,12345678901234567890]",
         "[False, 100.0, nan, -inf, 12345678901234567890]"},
        {"{\"b\":[],\"a\":{}}", "{'b': [], 'a': {}}"},
        {"[\"a\",\"it's\",\"say \\\"x\\\"\",\"it's \\\"x\\\"\"]",
         "['a', \"it's\", 'say \"x\"', 'it\\'s \"x\"']"},
        {"[\"\\\\\\n\\r\\t\\u0000\\u007f\\u00a0\\u2028\\ud800\\ue000\"]",
         "['\\\\\\n\\r\\t\\x00\\x7f\\xa0\\u2028\\ud800\\ue000']"},
        {"[\"Z\xC3\xBC \xF0\x9F\x98\x80 \xF3\xA0\x80\x81\"]",
         "['Z\xC3\xBC \xF0\x9F\x98\x80 \\U000e0001']"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct json *json = parsed(CASES[i][0]);
        struct json *text = NULL;
        struct err err = {0};
        ck_assert_int_eq(python_str(json, &text, &err), OK);
        ck_assert_str_eq(json_text(text), CASES[i][1]);
        json_free(&text);
        json_free(&json);
    }
}
END_TEST

START_TEST(upper_case_is_unicodes)
{
    static const char *const CASES[][2] = {
        {"batch-size.v2", "BATCH-SIZE.V2"},
        {"stra\xC3\x9F"
         "e",
         "STRASSE"},
        {"\xC3\xBC\xC3\xBF", "\xC3\x9C\xC5\xB8"},
        {"\xC5\x89", "\xCA\xBCN"},
        {"\xF0\x90\x90\xA8", "\xF0\x90\x90\x80"},
        {"\xC0\x80\xED\xA0\x80", "\xC0\x80\xED\xA0\x80"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        python_write_upper(out, CASES[i][0]);
        fclose(out);
        ck_assert_str_eq(text, CASES[i][1]);
        free(text);
    }
}
END_TEST

START_TEST(membership_is_asked_of_lists_keys_and_texts)
{
    static const struct {
        const char *value;
        bool is_iterable;
        bool has_gpu;
    } CASES[] = {
        {"[\"cpu\",\"gpu\"]", true, true},
        {"[\"gpu_big\"]", true, false},
        {"\"gpu_big\"", true, true},
        {"{\"gpu\":0}", true, true},
        {"{\"a\":\"gpu\"}", true, false},
        {"[]", true, false},
        {"1", false, false},
        {"null", false, false},
        {"true", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct json *json = parsed(CASES[i].value);
        bool has = true;
        ck_assert_msg(python_contains(json, "gpu", &has) == CASES[i].is_iterable, "%s",
                      CASES[i].value);
        ck_assert_msg(has == CASES[i].has_gpu, "%s", CASES[i].value);
        ck_assert(python_is_iterable(json) == CASES[i].is_iterable);
        json_free(&json);
    }
    ck_assert(!python_is_iterable(NULL));
}
END_TEST

START_TEST(iteration_takes_elements_keys_and_characters)
{
    static const char *const CASES[][3] = {
        {"[1,\"b\"]", "[1,\"b\"]", "1"},
        {"{\"x\":1,\"y\":2}", "[\"x\",\"y\"]", "\"x\""},
        {"\"a\xC3\xBC\xF0\x9F\x98\x80\"", "[\"a\",\"\\u00fc\",\"\\ud83d\\ude00\"]", "\"a\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct json *json = parsed(CASES[i][0]);
        struct json *list = json_new_list();
        struct json *first = NULL;
        struct err err = {0};
        char *text = NULL;
        ck_assert_int_eq(python_extend(list, json, &err), OK);
        ck_assert_int_eq(json_print(list, &text, &err), OK);
        ck_assert_str_eq(text, CASES[i][1]);
        free(text);
        ck_assert_int_eq(python_first(json, &first, &err), OK);
        ck_assert_int_eq(json_print(first, &text, &err), OK);
        ck_assert_str_eq(text, CASES[i][2]);
        free(text);
        json_free(&first);
        json_free(&list);
        json_free(&json);
    }
}
END_TEST

START_TEST(what_int_reads)
{
    static const char *const GOOD[] = {"20", " +1_0 \n", "-5", "007", "1_2_3"};
    static const char *const BAD[] = {"", " ", "x", "1__0", "_1", "1_", "1.0", "+ 1", "1 2", "0x1"};
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++) {
        ck_assert_msg(python_reads_int(GOOD[i]), "%s", GOOD[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        ck_assert_msg(!python_reads_int(BAD[i]), "%s", BAD[i]);
    }
}
END_TEST

START_TEST(what_an_environment_holds)
{
    static const struct {
        const char *value;
        bool fits;
    } CASES[] = {
        {"\"\xC3\xBC\"", true}, {"\"\"", true},         {"\"\\udc80\\udcff\"", true},
        {"\"\\u0000\"", false}, {"\"\\ud800\"", false}, {"\"\\udc7f\"", false},
        {"\"\\udd00\"", false}, {"1", false},           {"null", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct json *json = parsed(CASES[i].value);
        ck_assert_msg(python_fits_environment(json) == CASES[i].fits, "%s", CASES[i].value);
        json_free(&json);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("python");
    TCase *tc = tcase_create("python");
    tcase_add_test(tc, str_writes_texts_bare_and_all_else_as_repr);
    tcase_add_test(tc, upper_case_is_unicodes);
    tcase_add_test(tc, membership_is_asked_of_lists_keys_and_texts);
    tcase_add_test(tc, iteration_takes_elements_keys_and_characters);
    tcase_add_test(tc, what_int_reads);
    tcase_add_test(tc, what_an_environment_holds);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
