/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"

#include <errno.h>
#include <string.h>

#include "support/suite.h"

START_TEST(message_is_formatted_and_status_returned)
{
    struct err err = {0};
    ck_assert_int_eq(err_set(&err, ERR_DATA, "shard %d", 7), ERR_DATA);
    ck_assert_int_eq(err.status, ERR_DATA);
    ck_assert_str_eq(err.message, "shard 7");
    ck_assert_int_eq(err_set(NULL, ERR_IO, "ignored"), ERR_IO);
}
END_TEST

START_TEST(errno_text_is_added)
{
    struct err err = {0};
    errno = ENOENT;
    ck_assert_int_eq(err_errno(&err, ERR_MISSING, "open %s", "x"), ERR_MISSING);
    ck_assert_str_eq(err.message, "open x: No such file or directory");
}
END_TEST

START_TEST(prefix_keeps_the_status_and_cuts_long_texts)
{
    struct err err = {0};
    char text[2 * ERR_MESSAGE_BYTES];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ck_assert_int_eq(err_set(&err, ERR_IO, "%s", text), ERR_IO);
    ck_assert_int_eq(err_prefix(&err, "reading %d", 3), ERR_IO);
    ck_assert_uint_eq(strlen(err.message), ERR_MESSAGE_BYTES - 1);
    ck_assert_int_eq(strncmp(err.message, "reading 3: aaa", 14), 0);
}
END_TEST

START_TEST(a_message_is_one_line)
{
    struct err err = {0};
    ck_assert_int_eq(err_set(&err, ERR_DATA, "group '%s'", "a\nb\x7F\xC3\xBC\t"), ERR_DATA);
    ck_assert_str_eq(err.message, "group 'a?b?\xC3\xBC?'");
    ck_assert_int_eq(err_prefix(&err, "%s", "file\r\n"), ERR_DATA);
    ck_assert_str_eq(err.message, "file??: group 'a?b?\xC3\xBC?'");
    errno = ENOENT;
    ck_assert_int_eq(err_errno(&err, ERR_MISSING, "%s", "\n"), ERR_MISSING);
    ck_assert_str_eq(err.message, "?: No such file or directory");
}
END_TEST

START_TEST(every_status_has_a_name_and_an_exit_code)
{
    ck_assert_int_eq(status_exit_code(OK), 0);
    ck_assert_int_eq(status_exit_code(ERR_CONFIG), 78);
    ck_assert_int_eq(status_exit_code(ERR_PEER_GONE), 69);
    ck_assert_int_eq(status_exit_code((enum status) - 99), 70);
    ck_assert_str_eq(status_name(ERR_DATA), "bad data");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("err");
    TCase *tc = tcase_create("err");
    tcase_add_test(tc, message_is_formatted_and_status_returned);
    tcase_add_test(tc, errno_text_is_added);
    tcase_add_test(tc, prefix_keeps_the_status_and_cuts_long_texts);
    tcase_add_test(tc, a_message_is_one_line);
    tcase_add_test(tc, every_status_has_a_name_and_an_exit_code);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
