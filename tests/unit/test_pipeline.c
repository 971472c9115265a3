/* SPDX-License-Identifier: Apache-2.0 */
#include "common/pipeline.h"

#include <string.h>

#include "support/suite.h"

static void assert_refused(const char *text, const char *message)
{
    struct pipeline pipeline;
    struct err err = {0};
    ck_assert_msg(pipeline_parse(text, &pipeline, &err) == ERR_CONFIG, "%s", text);
    ck_assert_msg(strstr(err.message, message) != NULL, "%s: %s", text, err.message);
}

START_TEST(defaults_are_written_out)
{
    struct pipeline pipeline;
    struct err err = {0};
    ck_assert_int_eq(pipeline_parse("[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\","
                                    "\"size\":224},{\"op\":\"horizontal_flip\"}]",
                                    &pipeline, &err),
                     OK);
    ck_assert_uint_eq(pipeline.op_count, 3);
    ck_assert_uint_eq(pipeline.height, 224);
    ck_assert_uint_eq(pipeline.width, 224);
    ck_assert_uint_eq(pipeline.channels, 3);
    ck_assert_double_eq(pipeline.ops[1].scale[0], 0.08);
    ck_assert_double_eq(pipeline.ops[1].ratio[1], 4.0 / 3.0);
    ck_assert_double_eq(pipeline.ops[2].p, 0.5);
    ck_assert_str_eq(pipeline.text,
                     "[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\",\"size\":[224,224],"
                     "\"scale\":[0.08,1.0],\"ratio\":[0.75,1.3333333333333333]},"
                     "{\"op\":\"horizontal_flip\",\"p\":0.5}]");
}
END_TEST

START_TEST(the_canonical_text_parses_to_itself)
{
    struct pipeline first;
    struct pipeline second;
    struct err err = {0};
    ck_assert_int_eq(pipeline_parse("[{\"op\":\"decode\"},{\"op\":\"resize\",\"size\":256},"
                                    "{\"op\":\"resize\",\"size\":[30,40]},{\"size\":8,\"op\":"
                                    "\"center_crop\"},{\"p\":1e-7,\"op\":\"horizontal_flip\"}]",
                                    &first, &err),
                     OK);
    ck_assert_int_eq(pipeline_parse(first.text, &second, &err), OK);
    ck_assert_str_eq(first.text, second.text);
    ck_assert_uint_eq(first.ops[1].height, 256);
    ck_assert_uint_eq(first.ops[1].width, 0);
    ck_assert_uint_eq(first.height, 8);
    ck_assert_mem_eq(first.ops, second.ops, sizeof(first.ops));
}
END_TEST

START_TEST(mistakes_are_named_with_what_would_be_right)
{
#define DECODE "[{\"op\":\"decode\"},"
    static const char *const CASES[][2] = {
        {"{}", "found {}, expected a list of operations"},
        {"[]", "expected a list of operations"},
        {"[", "line 1 column 2"},
        {"[7]", "operation 0: found 7"},
        {"[{\"size\":3}]", "operation 0: op: found nothing"},
        {"[{\"op\":\"decodes\"}]", "did you mean \"decode\"?"},
        {"[{\"op\":\"resize\",\"size\":3}]", "operation 0: found resize, expected decode"},
        {DECODE "{\"op\":\"decode\"}]", "operation 1: found decode"},
        {DECODE "{\"op\":\"random_resized_crop\"}]", "size: found nothing, it is required"},
        {DECODE "{\"op\":\"center_crop\",\"size\":0}]",
         "size: found 0, expected an integer from 1"},
        {DECODE "{\"op\":\"center_crop\",\"size\":4097}]", "found 4097"},
        {DECODE "{\"op\":\"center_crop\",\"size\":[1,2,3]}]", "found [1,2,3]"},
        {DECODE "{\"op\":\"center_crop\",\"sise\":2}]",
         "no parameter 'sise'; did you mean 'size'?"},
        {DECODE "{\"op\":\"random_resized_crop\",\"size\":2,\"sacle\":2}]", "mean 'scale'?"},
        {DECODE "{\"op\":\"random_resized_crop\",\"size\":2,\"scale\":[0.5,0.1]}]", "low <= high"},
        {DECODE "{\"op\":\"random_resized_crop\",\"size\":2,\"scale\":[NaN,1]}]", "found [NaN,1]"},
        {DECODE "{\"op\":\"horizontal_flip\",\"p\":1.5}]", "found 1.5, expected a probability"},
        {DECODE "{\"op\":\"horizontal_flip\"}]", "depends on the picture"},
        {DECODE "{\"op\":\"resize\",\"size\":256}]", "depends on the picture"},
        {"[{\"op\":\"decode\",\"mode\":\"fast\"}]", "decode has no parameter, found 'mode'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        assert_refused(CASES[i][0], CASES[i][1]);
    }
}
END_TEST

/* decode, then as many operations as a pipeline may have, and `more`. */
static char *repeated(const char *op, int more)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputs("[{\"op\":\"decode\"}", out);
    for (int i = 0; i < OPS_MAX - 1 + more; i++) {
        fprintf(out, ",%s", op);
    }
    fputs("]", out);
    fclose(out);
    return text;
}

START_TEST(too_many_and_too_long_are_refused)
{
    static const char CROP[] = "{\"op\":\"center_crop\",\"size\":9}";
    struct pipeline pipeline;
    struct err err = {0};
    char *text = repeated(CROP, 0);
    ck_assert_int_eq(pipeline_parse(text, &pipeline, &err), OK);
    free(text);
    text = repeated(CROP, 1);
    assert_refused(text, "found 17 operations, at most 16");
    free(text);
    text = repeated("{\"op\":\"random_resized_crop\",\"size\":4096,\"scale\":"
                    "[1.2345678901234567e-300,1.2345678901234567e-299],\"ratio\":"
                    "[1.2345678901234567e-300,1.2345678901234567e-299]}",
                    0);
    assert_refused(text, "more than 2047 bytes");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pipeline");
    TCase *tc = tcase_create("pipeline");
    tcase_add_test(tc, defaults_are_written_out);
    tcase_add_test(tc, the_canonical_text_parses_to_itself);
    tcase_add_test(tc, mistakes_are_named_with_what_would_be_right);
    tcase_add_test(tc, too_many_and_too_long_are_refused);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
