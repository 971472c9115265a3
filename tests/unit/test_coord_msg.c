/* SPDX-License-Identifier: Apache-2.0 */
#include "common/coord_msg.h"

#include <string.h>

#include "common/hash.h"
#include "common/wire.h"
#include "support/random_coord_msg.h"
#include "support/suite.h"

enum { ROUNDS = 200 };

static uint8_t frame[COORD_MSG_BYTES_MAX + 64];
static struct coord_msg msg;
static struct coord_msg read_back;

START_TEST(every_message_survives_the_wire)
{
    struct random_state random = {test_seed()};
    for (int i = 0; i < ROUNDS; i++) {
        random_coord_msg(&random, (enum coord_msg_type)_i, &msg);
        const size_t count = coord_msg_encode(&msg, frame);
        struct err err = {0};
        ck_assert_msg(coord_msg_decode(frame, count, &read_back, &err) == OK, "%s", err.message);
        ck_assert_int_eq(read_back.type, msg.type);
        ck_assert_uint_eq(read_back.member, msg.member);
        static uint8_t again[COORD_MSG_BYTES_MAX];
        ck_assert_uint_eq(coord_msg_encode(&read_back, again), count);
        ck_assert_int_eq(memcmp(frame, again, count), 0);
    }
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    struct random_state random = {test_seed()};
    random_coord_msg(&random, (enum coord_msg_type)_i, &msg);
    const size_t whole = coord_msg_encode(&msg, frame);
    /* Cut, or made longer, with a length and a checksum that fit; a large frame in strides. */
    const size_t stride = whole > 4000 ? 37 : 1;
    for (size_t count = WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES; count < whole + 16;
         count += stride) {
        if (count == whole) {
            continue;
        }
        uint8_t *cut = malloc(count);
        memset(cut, 0, count);
        const size_t kept = whole - WIRE_TRAILER_BYTES;
        const size_t room = count - WIRE_TRAILER_BYTES;
        memcpy(cut, frame, kept < room ? kept : room);
        cut[8] = (uint8_t)count;
        cut[9] = (uint8_t)(count >> 8);
        cut[10] = (uint8_t)(count >> 16);
        hash_put64(cut + room, hash64(cut, room));
        struct err err = {0};
        ck_assert_int_eq(coord_msg_decode(cut, count, &read_back, &err), ERR_PEER_WRONG);
        ck_assert_ptr_nonnull(strstr(err.message, coord_msg_type_name((enum coord_msg_type)_i)));
        free(cut);
    }
}
END_TEST

/* Whatever the payload holds, decoding says yes or no and reads nothing outside. */
START_TEST(any_payload_is_judged)
{
    struct random_state random = {test_seed()};
    for (int i = 0; i < ROUNDS; i++) {
        random_coord_msg(&random, (enum coord_msg_type)_i, &msg);
        const size_t count = coord_msg_encode(&msg, frame);
        for (int changes = 0; changes < 3; changes++) {
            frame[random_in(&random, 16, count - WIRE_TRAILER_BYTES - 1)] =
                (uint8_t)random_in(&random, 0, 255);
        }
        uint8_t *exact = malloc(count);
        memcpy(exact, frame, count);
        hash_put64(exact + count - WIRE_TRAILER_BYTES, hash64(exact, count - WIRE_TRAILER_BYTES));
        struct err err = {0};
        const enum status status = coord_msg_decode(exact, count, &read_back, &err);
        ck_assert(status == OK || status == ERR_PEER_WRONG);
        if (status == OK) { /* what was let in can be said again, byte for byte */
            static uint8_t again[COORD_MSG_BYTES_MAX];
            ck_assert_uint_eq(coord_msg_encode(&read_back, again), count);
        }
        free(exact);
    }
}
END_TEST

START_TEST(a_name_with_a_nul_is_refused)
{
    memset(&msg, 0, sizeof(msg));
    msg.type = COORD_MSG_JOIN;
    msg.join.kind = COORD_AGENT;
    memcpy(msg.join.host, "algo-1", 7);
    const size_t count = coord_msg_encode(&msg, frame);
    frame[count - WIRE_TRAILER_BYTES - 3] = 0;
    hash_put64(frame + count - WIRE_TRAILER_BYTES, hash64(frame, count - WIRE_TRAILER_BYTES));
    struct err err = {0};
    ck_assert_int_eq(coord_msg_decode(frame, count, &read_back, &err), ERR_PEER_WRONG);
    ck_assert_str_eq(err.message, "JOIN: host: holds a NUL byte");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coord_msg");
    TCase *tc = tcase_create("messages");
    tcase_add_loop_test(tc, every_message_survives_the_wire, COORD_MSG_JOIN, COORD_MSG_BYE + 1);
    tcase_add_loop_test(tc, every_truncation_is_refused, COORD_MSG_JOIN, COORD_MSG_BYE + 1);
    tcase_add_loop_test(tc, any_payload_is_judged, COORD_MSG_JOIN, COORD_MSG_BYE + 1);
    tcase_add_test(tc, a_name_with_a_nul_is_refused);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
