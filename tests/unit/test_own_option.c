/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_option.h"

#include "support/suite.h"

enum { WORDS_MAX = 16 };

static bool keep;
static const char *data;
static uint32_t hosts;
static const struct own_option OPTIONS[] = {
    {.name = "--keep", .flag = &keep},
    {.name = "--data", .text = &data},
    {.name = "--hosts", .number = &hosts, .min = 1, .max = 64},
};

static char *words[WORDS_MAX];
static int word_count;
static struct err err;

/* "command" and the words of a line, which are cut in place. */
static enum status take(char *line)
{
    keep = false;
    data = NULL;
    hosts = 7;
    word_count = 0;
    static char command[] = "command";
    words[word_count++] = command;
    char *save = NULL;
    for (char *word = strtok_r(line, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        ck_assert_int_lt(word_count, WORDS_MAX - 1);
        words[word_count++] = word;
    }
    words[word_count] = NULL;
    return own_options_take(OPTIONS, ARRAY_LEN(OPTIONS), &word_count, words, &err);
}

static void expect_left(const char *line)
{
    char left[256] = "";
    size_t used = 0;
    for (int i = 1; i < word_count; i++) {
        used +=
            (size_t)snprintf(left + used, sizeof(left) - used, "%s%s", i > 1 ? " " : "", words[i]);
    }
    ck_assert_str_eq(left, line);
    ck_assert_str_eq(words[0], "command");
    ck_assert_ptr_null(words[word_count]);
}

START_TEST(own_options_are_taken_and_the_rest_stays_in_order)
{
    char line[] = "--seed 5 --hosts 3 --keep a --data=/x/y=z --hosts=4 --hostss 1";
    ck_assert_msg(take(line) == OK, "%s", err.message);
    expect_left("--seed 5 a --hostss 1");
    ck_assert(keep);
    ck_assert_str_eq(data, "/x/y=z");
    ck_assert_uint_eq(hosts, 4);
}
END_TEST

START_TEST(what_is_not_given_stays_as_it_was)
{
    char line[] = "--seed=5";
    ck_assert_int_eq(take(line), OK);
    expect_left("--seed=5");
    ck_assert(!keep);
    ck_assert_ptr_null(data);
    ck_assert_uint_eq(hosts, 7);
    char nothing[] = "";
    ck_assert_int_eq(take(nothing), OK);
    expect_left("");
}
END_TEST

START_TEST(a_value_may_look_like_an_option)
{
    char line[] = "--data --keep --data=";
    ck_assert_int_eq(take(line), OK);
    ck_assert_str_eq(data, "");
    ck_assert(!keep);
    expect_left("");
}
END_TEST

START_TEST(words_after_two_dashes_are_somebody_elses)
{
    char line[] = "--hosts 2 -- python --hosts 3 --keep";
    ck_assert_int_eq(take(line), OK);
    expect_left("-- python --hosts 3 --keep");
    ck_assert_uint_eq(hosts, 2);
    ck_assert(!keep);
}
END_TEST

static const struct {
    const char *line, *message;
} WRONG[] = {
    {"--hosts", "--hosts: a value has to follow"},
    {"--data", "--data: a value has to follow"},
    {"--hosts 0", "--hosts: found \"0\", expected a number from 1 to 64"},
    {"--hosts 65", "expected a number from 1 to 64"},
    {"--hosts=", "--hosts: found \"\""},
    {"--hosts -1", "found \"-1\""},
    {"--hosts +1", "found \"+1\""},
    {"--hosts 1x", "found \"1x\""},
    {"--hosts 99999999999999999999999", "expected a number from 1 to 64"},
    {"--keep=yes", "--keep: found \"yes\", but it takes no value"},
};

START_TEST(mistakes_are_named)
{
    char line[64];
    snprintf(line, sizeof(line), "%s", WRONG[_i].line);
    ck_assert_int_eq(take(line), ERR_USAGE);
    ck_assert_msg(strstr(err.message, WRONG[_i].message) != NULL, "%s", err.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own_option");
    TCase *tc = tcase_create("own_option");
    tcase_add_test(tc, own_options_are_taken_and_the_rest_stays_in_order);
    tcase_add_test(tc, what_is_not_given_stays_as_it_was);
    tcase_add_test(tc, a_value_may_look_like_an_option);
    tcase_add_test(tc, words_after_two_dashes_are_somebody_elses);
    tcase_add_loop_test(tc, mistakes_are_named, 0, ARRAY_LEN(WRONG));
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
