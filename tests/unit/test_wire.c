/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire.h"

#include <signal.h>
#include <string.h>

#include "support/suite.h"

START_TEST(a_frame_has_the_documented_bytes)
{
    uint8_t frame[64];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 9, UINT64_C(0x1122334455667788));
    wire_put8(&w, 0xAB);
    wire_put16(&w, 0x0102);
    wire_put32(&w, 0x03040506);
    wire_put64(&w, UINT64_C(0x0708090A0B0C0D0E));
    ck_assert_uint_eq(wire_end(&w), 24 + 15 + 8);
    static const uint8_t WANTED[] = {
        'H',  'R',  'W',  '1',  1,    0,    9,    0,    47,   0,    0,    0,    0,
        0,    0,    0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xAB, 0x02,
        0x01, 0x06, 0x05, 0x04, 0x03, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A, 0x09, 0x08, 0x07,
    };
    ck_assert_uint_eq(sizeof(WANTED), 24 + 15);
    ck_assert_mem_eq(frame, WANTED, sizeof(WANTED));
}
END_TEST

START_TEST(what_was_written_is_read)
{
    uint8_t frame[64];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 9, 5);
    wire_put8(&w, 1);
    wire_put16(&w, 2);
    wire_put32_in(&w, 3, 3, 3);
    wire_put64_in(&w, UINT64_MAX, 0, UINT64_MAX);
    wire_put_bytes(&w, "abc", 3);
    const size_t count = wire_end(&w);
    struct wire_reader r;
    uint16_t type;
    uint64_t session;
    ck_assert_int_eq(wire_open(&r, frame, count, &type, &session, NULL), OK);
    ck_assert_uint_eq(type, 9);
    ck_assert_uint_eq(session, 5);
    ck_assert_uint_eq(wire_get8(&r, "a"), 1);
    ck_assert_uint_eq(wire_get16(&r, "b"), 2);
    ck_assert_uint_eq(wire_get32_in(&r, "c", 3, 3), 3);
    ck_assert_uint_eq(wire_get64(&r, "d"), UINT64_MAX);
    ck_assert_mem_eq(wire_get_bytes(&r, "e", 3), "abc", 3);
    ck_assert_int_eq(wire_close(&r), OK);
}
END_TEST

START_TEST(the_first_fault_is_kept_and_nothing_is_read_after_it)
{
    uint8_t frame[64];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 1, 0);
    wire_put32(&w, 7);
    wire_put32(&w, 8);
    const size_t count = wire_end(&w);
    struct wire_reader r;
    uint16_t type;
    uint64_t session;
    struct err err = {0};
    ck_assert_int_eq(wire_open(&r, frame, count, &type, &session, &err), OK);
    r.what = "TEST";
    ck_assert_uint_eq(wire_get32_in(&r, "first", 1, 6), 0);
    ck_assert_uint_eq(wire_get32(&r, "second"), 0);
    ck_assert_ptr_null(wire_get_bytes(&r, "third", 1000));
    ck_assert_int_eq(wire_close(&r), ERR_PEER_WRONG);
    ck_assert_str_eq(err.message, "TEST: first: got 7, allowed 1 to 6");
}
END_TEST

START_TEST(fields_past_the_end_and_bytes_left_over_are_faults)
{
    uint8_t frame[64];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 1, 0);
    wire_put32(&w, 7);
    const size_t count = wire_end(&w);
    struct wire_reader r;
    uint16_t type;
    uint64_t session;
    struct err err = {0};
    ck_assert_int_eq(wire_open(&r, frame, count, &type, &session, &err), OK);
    ck_assert_int_eq(wire_close(&r), ERR_PEER_WRONG);
    ck_assert_str_eq(err.message, "frame: 4 bytes too many after the last field");
    ck_assert_int_eq(wire_open(&r, frame, count, &type, &session, &err), OK);
    ck_assert_uint_eq(wire_get64(&r, "long"), 0);
    ck_assert_str_eq(err.message, "frame: long: 8 bytes at offset 24, but the payload ends at 28");
    ck_assert_int_eq(wire_open(&r, frame, count, &type, &session, &err), OK);
    ck_assert_ptr_null(wire_get_bytes(&r, "huge", SIZE_MAX));
    ck_assert_int_eq(wire_close(&r), ERR_PEER_WRONG);
}
END_TEST

/* For a peer of another release, which is told so. */
START_TEST(another_version_is_recognised_by_an_intact_envelope)
{
    uint8_t frame[64];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 1, 0);
    frame[4] = 7;
    const size_t count = wire_end(&w);
    struct wire_reader r;
    uint16_t type;
    uint64_t session;
    ck_assert_int_eq(wire_open(&r, frame, count, &type, &session, NULL), ERR_PEER_WRONG);
    ck_assert_uint_eq(wire_version(frame, count), 7);
    frame[5] ^= 1;
    ck_assert_uint_eq(wire_version(frame, count), 0);
    ck_assert_uint_eq(wire_version(frame, 3), 0);
    ck_assert_uint_eq(wire_version(NULL, 0), 0);
}
END_TEST

START_TEST(only_printable_characters_stay)
{
    static const struct {
        const char *text, *wanted;
    } CASES[] = {
        {"plain ~ text", "plain ~ text"},
        {"\x01\x1f\x7f\n", "????"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a"},
        {"\xc2\x9b", "?"
                     "?"}, /* C1: a terminal's escape */
        {"\xc0\xaf", "?"
                     "?"}, /* longer than need be */
        {"\xed\xa0\x80", "?"
                         "?"
                         "?"}, /* half a surrogate pair */
        {"\xf4\x90\x80\x80", "?"
                             "?"
                             "?"
                             "?"}, /* past the last character */
        {"\xe2\x82", "?"
                     "?"}, /* cut */
        {"\xe2\x80\xae", "?"
                         "?"
                         "?"}, /* right-to-left override */
        {"\xa9z", "?z"},       /* a continuation alone */
        {"\xff\xfe", "?"
                     "?"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[32];
        snprintf(text, sizeof(text), "%s", CASES[i].text);
        const bool unchanged = wire_make_printable(text, strlen(text));
        ck_assert_str_eq(text, CASES[i].wanted);
        ck_assert(unchanged == (strcmp(CASES[i].text, CASES[i].wanted) == 0));
    }
}
END_TEST

/* Mistakes of ours end the process instead of writing past a buffer or outside a range. */
START_TEST(writing_past_the_buffer_aborts)
{
    uint8_t frame[30];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 1, 0);
    wire_put64(&w, 1);
}
END_TEST

START_TEST(writing_outside_a_range_aborts)
{
    uint8_t frame[64];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 1, 0);
    wire_put32_in(&w, 8, 0, 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tc = tcase_create("wire");
    tcase_add_test(tc, a_frame_has_the_documented_bytes);
    tcase_add_test(tc, what_was_written_is_read);
    tcase_add_test(tc, the_first_fault_is_kept_and_nothing_is_read_after_it);
    tcase_add_test(tc, fields_past_the_end_and_bytes_left_over_are_faults);
    tcase_add_test(tc, another_version_is_recognised_by_an_intact_envelope);
    tcase_add_test(tc, only_printable_characters_stay);
    tcase_add_test_raise_signal(tc, writing_past_the_buffer_aborts, SIGABRT);
    tcase_add_test_raise_signal(tc, writing_outside_a_range_aborts, SIGABRT);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
