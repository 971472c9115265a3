/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/limits.h"
#include "support/suite.h"

static struct json *parsed(const char *text)
{
    struct json *json = NULL;
    struct err err = {0};
    ck_assert_msg(json_parse(text, &json, &err) == OK, "%s: %s", text, err.message);
    return json;
}

static void assert_prints(const char *text, const char *wanted)
{
    struct json *json = parsed(text);
    struct err err = {0};
    char *printed = NULL;
    ck_assert_int_eq(json_print(json, &printed, &err), OK);
    ck_assert_str_eq(printed, wanted);
    free(printed);
    json_free(&json);
}

static void assert_refused(const char *text, enum status status, const char *message)
{
    struct json *json = NULL;
    struct err err = {0};
    ck_assert_msg(json_parse(text, &json, &err) == status, "%s: %s", text, err.message);
    ck_assert_ptr_null(json);
    ck_assert_msg(strstr(err.message, message) != NULL, "%s: %s", text, err.message);
}

START_TEST(prints_as_python_dumps)
{
    static const char *const CASES[][2] = {
        {"{\"b\": 1, \"a\" : [ ] , \"B\":{ }}", "{\"B\":{},\"a\":[],\"b\":1}"},
        {" [null,true , false]\n", "[null,true,false]"},
        {"\"Z\xC3\xBCrich \xF0\x9F\x98\x80\"", "\"Z\\u00fcrich \\ud83d\\ude00\""},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\u007f\"",
         "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u007f\""},
        {"\"\\ud83d\\ude00 \\ud800 \\uDC00x \\u0000.\"",
         "\"\\ud83d\\ude00 \\ud800 \\udc00x \\u0000.\""},
        {"\"\\ud800\\u0041\"", "\"\\ud800A\""},
        {"\"\\u0022\\u005c\"", "\"\\\"\\\\\""},
        {"{\"\\u0000\":1,\"\\u0001\":2,\"\":3}", "{\"\":3,\"\\u0000\":1,\"\\u0001\":2}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        assert_prints(CASES[i][0], CASES[i][1]);
    }
}
END_TEST

START_TEST(numbers_keep_their_digits_and_floats_are_shortest)
{
    static const char *const CASES[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.0", "-0.0"},
        {"1.0", "1.0"},
        {"0.10", "0.1"},
        {"1e-5", "1e-05"},
        {"0.0001", "0.0001"},
        {"1e2", "100.0"},
        {"1E16", "1e+16"},
        {"9999999999999998.0", "9999999999999998.0"},
        {"123456789012345680000", "123456789012345680000"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"-9223372036854775809", "-9223372036854775809"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"1e400", "Infinity"},
        {"-1e400", "-Infinity"},
        {"NaN", "NaN"},
        {"[Infinity,-Infinity]", "[Infinity,-Infinity]"},
        {"5e-324", "5e-324"},
        {"5.684341886080801486968994140625e-14", "5.684341886080802e-14"},
        {"9.5367431640625e-07", "9.5367431640625e-07"},
        {"0.1000000000000000055511151231257827", "0.1"},
        {"1e22", "1e+22"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        assert_prints(CASES[i][0], CASES[i][1]);
    }
}
END_TEST

START_TEST(of_equal_keys_the_last_value_wins_in_the_first_place)
{
    struct json *json = parsed("{\"a\":1,\"b\":{\"x\":1,\"x\":[2]},\"a\":{\"c\":3},\"a\":4}");
    const struct json *first = json_first(json);
    ck_assert_str_eq(json_key(first), "a");
    ck_assert_str_eq(json_text(first), "4");
    ck_assert_str_eq(json_key(json_next(first)), "b");
    ck_assert_uint_eq(json_count(json), 2);
    ck_assert_uint_eq(json_count(json_get(json_get(json, "b"), "x")), 1);
    json_free(&json);
    ck_assert_ptr_null(json);
}
END_TEST

START_TEST(many_equal_keys_take_no_quadratic_time)
{
    enum { KEYS = 100000 };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputc('{', out);
    for (unsigned i = 0; i < KEYS; i++) {
        fprintf(out, "%s\"%05u\":1", i == 0 ? "" : ",", i % 90000);
    }
    fputc('}', out);
    fclose(out);
    struct json *json = NULL;
    struct err err = {0};
    ck_assert_int_eq(json_parse(text, &json, &err), OK);
    ck_assert_uint_eq(json_count(json), 90000);
    json_free(&json);
    free(text);
}
END_TEST

START_TEST(what_python_refuses_is_refused_with_its_place)
{
    static const char *const CASES[][2] = {
        {"", "line 1 column 1: found the end, expected a value"},
        {" \n ", "line 2 column 2: found the end"},
        {"{\"a\": 1, ", "expected a key in double quotes"},
        {"{\"a\": 1} x", "line 1 column 10: found 'x', expected nothing after the document"},
        {"[1,]", "line 1 column 4: found ']', expected a value"},
        {"[1 2]", "found '2', expected ',' or ']'"},
        {"{\"a\":1,}", "found '}', expected a key"},
        {"{\"a\" 1}", "expected ':' after a key"},
        {"{a:1}", "found 'a', expected a key"},
        {"01", "found '1', expected nothing"},
        {"+1", "found '+', expected a value"},
        {"-", "found '-', expected a value"},
        {"1.", "found '.', expected nothing"},
        {".5", "found '.', expected a value"},
        {"1e", "found 'e', expected nothing"},
        {"-NaN", "expected a value"},
        {"nul", "expected a value"},
        {"True", "expected a value"},
        {"'a'", "expected a value"},
        {"\"a", "closing double quote"},
        {"\"\\x\"", "after a backslash"},
        {"\"\\u12g4\"", "four hex digits"},
        {"\"\\ud800\\u12\"", "four hex digits"},
        {"\"\t\"", "found U+0009, expected no bare control character"},
        {"\xEF\xBB\xBF{}", "without byte order mark"},
        {"[1]\v", "found U+000B"},
        {"]", "expected a value"},
        {"[}", "expected a value"},
        {"{]", "expected a key"},
        {"[{]}", "expected a key"},
        {"\"\xC3\"", "byte 0xC3, expected UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        assert_refused(CASES[i][0], ERR_DATA, CASES[i][1]);
    }
}
END_TEST

static char *nested(size_t levels, const char *inside)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < levels; i++) {
        fputc('[', out);
    }
    fputs(inside, out);
    for (size_t i = 0; i < levels; i++) {
        fputc(']', out);
    }
    fclose(out);
    return text;
}

START_TEST(depth_and_size_are_limited)
{
    char *text = nested(JSON_DEPTH_MAX, "");
    assert_prints(text, text);
    free(text);
    text = nested(JSON_DEPTH_MAX + 1, "");
    assert_refused(text, ERR_CONFIG, "33 levels deep, at most 32");
    free(text);
    text = nested(JSON_DEPTH_MAX + 1, "!");
    assert_refused(text, ERR_DATA, "found '!'");
    free(text);
    text = nested(200000, "");
    assert_refused(text, ERR_CONFIG, "nested deeper than 32");
    free(text);
    text = malloc(JSON_BYTES_MAX + 2);
    memset(text, ' ', JSON_BYTES_MAX + 1);
    text[JSON_BYTES_MAX] = '1';
    text[JSON_BYTES_MAX + 1] = '\0';
    assert_refused(text, ERR_CONFIG, "at most 1048576");
    assert_prints(text + 1, "1");
    free(text);
    text = malloc(JSON_BYTES_MAX);
    memset(text, '7', 4301);
    text[4301] = '\0';
    assert_refused(text, ERR_DATA, "at most 4300 digits");
    assert_prints(text + 1, text + 1);
    free(text);
}
END_TEST

START_TEST(files_have_to_be_strict_utf8_and_are_named)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum status status;
        const char *message;
    } CASES[] = {
        {"\"\xC3\xBC\"", 4, OK, ""},
        {"\"\xED\xA0\x80\"", 5, ERR_DATA, "expected UTF-8"},
        {"\"\xC0\x80\"", 4, ERR_DATA, "control character"},
        {"\"\xC1\x81\"", 4, ERR_DATA, "expected UTF-8"},
        {"\"\xF4\x90\x80\x80\"", 6, ERR_DATA, "expected UTF-8"},
        {"1\0", 2, ERR_DATA, "found U+0000, expected nothing"},
        {"\"a\0b\"", 5, ERR_DATA, "U+0000"},
    };
    char path[] = "/tmp/headrace-json-XXXXXX";
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct json *json = NULL;
        struct err err = {0};
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        ck_assert_int_eq(pwrite(fd, CASES[i].bytes, CASES[i].len, 0), (int)CASES[i].len);
        const enum status status = json_read_file(path, &json, &err);
        ck_assert_msg(status == CASES[i].status, "case %zu: %s", i, err.message);
        ck_assert_msg(strstr(err.message, CASES[i].message) != NULL, "%s", err.message);
        ck_assert_msg(status == OK || strncmp(err.message, path, strlen(path)) == 0, "%s",
                      err.message);
        json_free(&json);
    }
    close(fd);
    unlink(path);
    struct json *json = NULL;
    struct err err = {0};
    ck_assert_int_eq(json_read_file(path, &json, &err), ERR_MISSING);
    ck_assert_int_eq(json_read_file("/", &json, &err), ERR_IO);
}
END_TEST

START_TEST(truth_is_pythons)
{
    static const char *const FALSE_ONES[] = {"null", "false", "0",    "-0", "0.0",
                                             "-0.0", "0e9",   "\"\"", "[]", "{}"};
    static const char *const TRUE_ONES[] = {"true",     "1",         "-0.5",     "1e-400",
                                            "NaN",      "1e99",      "\"0\"",    "[0]",
                                            "{\"\":0}", "-Infinity", "\"False\""};
    for (size_t i = 0; i < ARRAY_LEN(FALSE_ONES); i++) {
        struct json *json = parsed(FALSE_ONES[i]);
        ck_assert_msg(!json_truth(json), "%s", FALSE_ONES[i]);
        json_free(&json);
    }
    for (size_t i = 0; i < ARRAY_LEN(TRUE_ONES); i++) {
        struct json *json = parsed(TRUE_ONES[i]);
        const bool underflows = strcmp(TRUE_ONES[i], "1e-400") == 0;
        ck_assert_msg(json_truth(json) != underflows, "%s", TRUE_ONES[i]);
        json_free(&json);
    }
}
END_TEST

START_TEST(numbers_convert_within_their_range)
{
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } CASES[] = {
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"1e3", true, 1000},
        {"1.5", false, 0},
        {"NaN", false, 0},
        {"1e300", false, 0},
        {"\"1\"", false, 0},
        {"true", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct json *json = parsed(CASES[i].text);
        int64_t value = 0;
        ck_assert_msg(json_to_integer(json, &value) == CASES[i].fits, "%s", CASES[i].text);
        if (CASES[i].fits) {
            ck_assert_int_eq(value, CASES[i].value);
        }
        json_free(&json);
    }
}
END_TEST

START_TEST(built_values_print_and_own_what_they_hold)
{
    struct err err = {0};
    struct json *object = json_new_object();
    struct json *list = json_new_list();
    ck_assert_int_eq(json_append(list, json_new_integer(INT64_MIN), &err), OK);
    ck_assert_int_eq(json_append(list, json_new_null(), &err), OK);
    ck_assert_int_eq(json_add(object, "x", json_new_text("old"), &err), OK);
    ck_assert_int_eq(json_add(object, "a", json_clone(list), &err), OK);
    ck_assert_int_eq(json_add(object, "x", json_new_bool(true), &err), OK);
    ck_assert_int_eq(json_unite(object, &err), OK);
    ck_assert_int_eq(json_add(object, "none", NULL, &err), ERR_RESOURCE);
    char *text = NULL;
    ck_assert_int_eq(json_print(object, &text, &err), OK);
    ck_assert_str_eq(text, "{\"a\":[-9223372036854775808,null],\"x\":true}");
    ck_assert_str_eq(json_key(json_first(object)), "x");
    free(text);
    json_free(&list);
    json_free(&object);
}
END_TEST

START_TEST(descriptions_are_cut)
{
    struct json *json = parsed("[\"abcdefgh\"]");
    char text[10];
    json_describe(json, text, sizeof(text));
    ck_assert_str_eq(text, "[\"abcd...");
    json_describe(NULL, text, sizeof(text));
    ck_assert_str_eq(text, "nothing");
    json_free(&json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tc = tcase_create("json");
    tcase_add_test(tc, prints_as_python_dumps);
    tcase_add_test(tc, numbers_keep_their_digits_and_floats_are_shortest);
    tcase_add_test(tc, of_equal_keys_the_last_value_wins_in_the_first_place);
    tcase_add_test(tc, many_equal_keys_take_no_quadratic_time);
    tcase_add_test(tc, what_python_refuses_is_refused_with_its_place);
    tcase_add_test(tc, depth_and_size_are_limited);
    tcase_add_test(tc, files_have_to_be_strict_utf8_and_are_named);
    tcase_add_test(tc, truth_is_pythons);
    tcase_add_test(tc, numbers_convert_within_their_range);
    tcase_add_test(tc, built_values_print_and_own_what_they_hold);
    tcase_add_test(tc, descriptions_are_cut);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
