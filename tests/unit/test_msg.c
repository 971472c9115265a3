/* SPDX-License-Identifier: Apache-2.0 */
#include "common/msg.h"

#include <string.h>

#include "common/hash.h"
#include "common/wire.h"
#include "support/random_msg.h"
#include "support/suite.h"

enum { ROUNDS = 300 };

/* Makes the envelope hold again after a test has changed a frame. */
static void reseal(uint8_t *frame, size_t count)
{
    hash_put64(frame + count - WIRE_TRAILER_BYTES, hash64(frame, count - WIRE_TRAILER_BYTES));
}

START_TEST(every_message_survives_the_wire)
{
    struct random_state random = {test_seed()};
    const enum msg_type type = (enum msg_type)_i;
    for (int i = 0; i < ROUNDS; i++) {
        const struct msg msg = random_msg(&random, type);
        uint8_t frame[MSG_BYTES_MAX];
        const size_t count = msg_encode(&msg, frame);
        struct msg read;
        struct err err = {0};
        ck_assert_msg(msg_decode(frame, count, &read, &err) == OK, "%s", err.message);
        ck_assert_msg(msg_equal(&msg, &read), "%s differs", msg_type_name(type));
        uint8_t again[MSG_BYTES_MAX];
        ck_assert_uint_eq(msg_encode(&read, again), count);
        ck_assert_int_eq(memcmp(frame, again, count), 0);
    }
}
END_TEST

START_TEST(every_truncation_and_every_flipped_bit_is_refused)
{
    struct random_state random = {test_seed()};
    const struct msg msg = random_msg(&random, (enum msg_type)_i);
    uint8_t frame[MSG_BYTES_MAX + 1] = {0};
    const size_t count = msg_encode(&msg, frame);
    struct msg read;
    for (size_t kept = 0; kept < count; kept++) {
        uint8_t *exact = malloc(kept == 0 ? 1 : kept); /* so that a sanitizer sees a read past it */
        memcpy(exact, frame, kept);
        struct err err = {0};
        ck_assert_int_eq(msg_decode(exact, kept, &read, &err), ERR_PEER_WRONG);
        free(exact);
    }
    ck_assert_int_eq(msg_decode(frame, count + 1, &read, NULL), ERR_PEER_WRONG);
    for (size_t bit = 0; bit < 8 * count; bit++) {
        frame[bit / 8] ^= (uint8_t)(1U << bit % 8);
        ck_assert_int_eq(msg_decode(frame, count, &read, NULL), ERR_PEER_WRONG);
        frame[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    ck_assert_int_eq(msg_decode(frame, count, &read, NULL), OK);
}
END_TEST

/* The payload cut short or made longer, length and checksum made to fit. */
START_TEST(a_payload_of_another_length_is_refused)
{
    struct random_state random = {test_seed()};
    const struct msg msg = random_msg(&random, (enum msg_type)_i);
    uint8_t frame[MSG_BYTES_MAX + 64] = {0};
    const size_t whole = msg_encode(&msg, frame);
    for (size_t count = WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES; count < whole + 64; count++) {
        if (count == whole) {
            continue;
        }
        uint8_t changed[sizeof(frame)];
        memcpy(changed, frame, sizeof(frame));
        memset(changed + whole - WIRE_TRAILER_BYTES, 0, sizeof(changed) - whole + 8);
        changed[8] = (uint8_t)count;
        changed[9] = (uint8_t)(count >> 8);
        reseal(changed, count);
        struct msg read;
        struct err err = {0};
        ck_assert_int_eq(msg_decode(changed, count, &read, &err), ERR_PEER_WRONG);
        const char *name = msg_type_name(msg.type);
        ck_assert_msg(strncmp(err.message, name, strlen(name)) == 0, "%s", err.message);
    }
}
END_TEST

/* A frame of that type, one field overwritten, the checksum made to hold. at counts from the
 * frame's first byte. */
static void refused(const struct msg *msg, size_t at, uint64_t value, size_t bytes,
                    const char *wanted)
{
    uint8_t frame[MSG_BYTES_MAX];
    const size_t count = msg_encode(msg, frame);
    for (size_t i = 0; i < bytes; i++) {
        frame[at + i] = (uint8_t)(value >> (8 * i));
    }
    reseal(frame, count);
    struct msg read;
    struct err err = {0};
    ck_assert_int_eq(msg_decode(frame, count, &read, &err), ERR_PEER_WRONG);
    ck_assert_msg(strstr(err.message, wanted) != NULL, "\"%s\" lacks \"%s\"", err.message, wanted);
}

START_TEST(unknown_values_are_refused_by_name)
{
    struct random_state random = {test_seed()};
    const size_t p = WIRE_HEADER_BYTES;
    const struct msg ping = random_msg(&random, MSG_PING);
    refused(&ping, 0, 0x12345678, 4, "magic: got 12345678, wanted 31575248");
    refused(&ping, 4, 2, 2, "the peer speaks 2, this program speaks 1");
    refused(&ping, 6, 0, 2, "type: got 0");
    refused(&ping, 6, MSG_BYE + 1, 2, "type: got 14");
    refused(&ping, 8, 57, 4, "the header says 57 bytes, 56 came");
    refused(&ping, 12, 1, 4, "reserved");
    refused(&ping, 16, 0, 8, "PING: session: got 0");

    const struct msg hello = random_msg(&random, MSG_HELLO);
    refused(&hello, 16, 1, 8, "HELLO: session: got a number, wanted 0");
    refused(&hello, p + 40, 0, 4, "HELLO: stream_count: got 0, allowed 1 to 8");
    refused(&hello, p + 40, 9, 4, "HELLO: stream_count: got 9");
    refused(&hello, p + 44, 256, 4, "HELLO: host_bytes: got 256, allowed 1 to 255");
    refused(&hello, p + 48, 0, 8, "HELLO: samples");
    refused(&hello, p + 48 + 20, 1, 4, "HELLO: reserved");

    const struct msg welcome = random_msg(&random, MSG_WELCOME);
    refused(&welcome, p, 0, 8, "WELCOME: credit_bytes");
    refused(&welcome, p + 12, 1, 4, "WELCOME: reserved");

    struct msg reject = random_msg(&random, MSG_REJECT);
    refused(&reject, p + 12, REJECT_FULL + 1, 4, "REJECT: code: got 8, allowed 1 to 7");
    refused(&reject, p + 16, UINT32_MAX, 4, "REJECT: text: 4294967295 bytes, allowed up to 511");
    refused(&reject, p + 20, STREAMS_MAX, 4, "REJECT: stream: got 8, allowed 0 to 7");
    refused(&reject, p + 28, 1, 4, "REJECT: reserved");
    refused(&reject, p + 24, INDEX_BUCKETS + 1, 4, "REJECT: bucket_count: got 65");
    refused(&reject, p + 24, 63, 4, "REJECT: bucket_count: got 63, allowed 0 or, for code 5, 64");
    reject.reject.code = REJECT_DATA;
    reject.reject.bucket_count = INDEX_BUCKETS;
    refused(&reject, p + 12, REJECT_FULL, 4, "REJECT: bucket_count: got 64");
    refused(&reject, p + 24, 0, 4, "REJECT: ");

    const struct msg grant = random_msg(&random, MSG_GRANT);
    refused(&grant, p, 0, 4, "GRANT: lease: got 0");
    refused(&grant, p + 4, STREAMS_MAX, 4, "GRANT: stream: got 8, allowed 0 to 7");
    refused(&grant, p + 24, PARTS_MAX, 4, "GRANT: first_part: got 4096");
    refused(&grant, p + 28, 0, 4, "GRANT: part_count: got 0");
    refused(&grant, p + 28, PARTS_MAX - grant.grant.first_part + 1, 4, "GRANT: part_count");

    const struct msg nack = random_msg(&random, MSG_NACK);
    refused(&nack, p + 4, 0, 4, "NACK: code: got 0, allowed 1 to 4");
    refused(&nack, p + 12, 1, 4, "NACK: reserved");
    const struct msg cancel = random_msg(&random, MSG_CANCEL);
    refused(&cancel, p + 4, 1, 4, "CANCEL: reserved");
    const struct msg bye = random_msg(&random, MSG_BYE);
    refused(&bye, p + 4, 1, 4, "BYE: reserved");
}
END_TEST

START_TEST(data_outside_the_batch_is_refused_by_name)
{
    struct random_state random = {test_seed()};
    const size_t p = WIRE_HEADER_BYTES;
    struct msg data = random_msg(&random, MSG_DATA);
    data.data.last = false;
    data.data.queued_ns = data.data.read_ns = data.data.decode_ns = 0;
    data.data.augment_ns = data.data.send_ns = 0;
    refused(&data, p, 0, 4, "DATA: lease");
    refused(&data, p + 4, STREAMS_MAX, 4, "DATA: stream");
    refused(&data, p + 20, 2, 4, "DATA: flags: got 2, allowed 0 to 1");
    refused(&data, p + 24, PARTS_MAX + 1, 4, "DATA: part_count");
    refused(&data, p + 28, data.data.part_count, 4, "DATA: part: got");
    refused(&data, p + 32, 0, 4, "DATA: length: got 0, allowed 1 to 1048576");
    refused(&data, p + 32, PART_BYTES_MAX + 1, 4, "DATA: length");
    refused(&data, p + 36, SUBST_MAX + 1, 4, "DATA: substitution_count: got 65, allowed 0 to 64");
    refused(&data, p + 40, (uint64_t)PARTS_MAX * PART_BYTES_MAX - data.data.length + 1, 8,
            "DATA: offset");
    refused(&data, p + 40, UINT64_MAX, 8, "DATA: offset");
    refused(&data, p + 64, 1, 8, "DATA: queued_ns: got 1, allowed 0 to 0");
}
END_TEST

START_TEST(texts_become_printable_and_names_must_be)
{
    struct msg msg = {.type = MSG_NACK, .session = 7, .nack = {.lease = 1, .code = NACK_IO}};
    snprintf(msg.nack.text, sizeof(msg.nack.text), "%s", "a\x1b[31m\n\xc3\xa9\xff\xe2\x80\xae!");
    uint8_t frame[MSG_BYTES_MAX];
    struct msg read;
    ck_assert_int_eq(msg_decode(frame, msg_encode(&msg, frame), &read, NULL), OK);
    ck_assert_str_eq(read.nack.text, "a?[31m?\xc3\xa9"
                                     "?"
                                     "?"
                                     "?"
                                     "?"
                                     "!");

    struct random_state random = {test_seed()};
    struct msg hello = random_msg(&random, MSG_HELLO);
    snprintf(hello.hello.host, sizeof(hello.hello.host), "%s", "algo\n1");
    struct err err = {0};
    ck_assert_int_eq(msg_decode(frame, msg_encode(&hello, frame), &read, &err), ERR_PEER_WRONG);
    ck_assert_str_eq(err.message, "HELLO: host: got \"algo?1\" with unprintable bytes shown as ?");
}
END_TEST

START_TEST(a_text_too_long_is_cut_between_characters)
{
    struct msg msg = {.type = MSG_BYE, .session = 7};
    memset(msg.text.text, 'x', sizeof(msg.text.text));
    uint8_t frame[MSG_BYTES_MAX];
    struct msg read;
    ck_assert_int_eq(msg_decode(frame, msg_encode(&msg, frame), &read, NULL), OK);
    ck_assert_uint_eq(strlen(read.text.text), TEXT_BYTES_MAX - 1);
    memcpy(msg.text.text + TEXT_BYTES_MAX - 2, "\xc3\xa9", 2);
    ck_assert_int_eq(msg_decode(frame, msg_encode(&msg, frame), &read, NULL), OK);
    ck_assert_uint_eq(strlen(read.text.text), TEXT_BYTES_MAX - 2);
}
END_TEST

START_TEST(the_largest_messages_fit)
{
    struct random_state random = {test_seed()};
    struct msg data = random_msg(&random, MSG_DATA);
    data.data.substitution_count = SUBST_MAX;
    uint8_t frame[MSG_BYTES_MAX];
    ck_assert_uint_eq(msg_encode(&data, frame), 24 + 104 + 64 * 24 + 8);
    struct msg hello = random_msg(&random, MSG_HELLO);
    hello.hello.stream_count = STREAMS_MAX;
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        hello.hello.streams[i].samples = 1;
    }
    memset(hello.hello.host, 'h', HOST_BYTES_MAX - 1);
    ck_assert_uint_eq(msg_encode(&hello, frame), 24 + 48 + 8 * (24 + 256) + 255 + 8);
    struct msg reject = random_msg(&random, MSG_REJECT);
    reject.reject.code = REJECT_DATA;
    reject.reject.bucket_count = INDEX_BUCKETS;
    memset(reject.reject.text, 't', TEXT_BYTES_MAX - 1);
    ck_assert_uint_eq(msg_encode(&reject, frame), 24 + 32 + 256 + 511 + 8);
}
END_TEST

/* Noise inside a frame whose envelope holds: decoded or refused, never more; what is decoded
 * encodes again. */
START_TEST(noise_in_a_sealed_frame_is_decoded_or_refused)
{
    struct random_state random = {test_seed()};
    for (int i = 0; i < 20000; i++) {
        const struct msg msg =
            random_msg(&random, (enum msg_type)random_in(&random, MSG_HELLO, MSG_BYE));
        uint8_t frame[MSG_BYTES_MAX];
        const size_t count = msg_encode(&msg, frame);
        for (uint64_t changes = random_in(&random, 1, 4); changes > 0; changes--) {
            frame[random_in(&random, WIRE_HEADER_BYTES, count - 1)] = (uint8_t)random_u64(&random);
        }
        reseal(frame, count);
        struct msg read;
        if (msg_decode(frame, count, &read, NULL) == OK) {
            uint8_t again[MSG_BYTES_MAX];
            ck_assert_uint_eq(msg_encode(&read, again), count);
        }
    }
}
END_TEST

START_TEST(names_of_types)
{
    ck_assert_str_eq(msg_type_name(MSG_HELLO), "HELLO");
    ck_assert_str_eq(msg_type_name(MSG_BYE), "BYE");
    ck_assert_str_eq(msg_type_name((enum msg_type)0), "unknown");
    ck_assert_str_eq(msg_type_name((enum msg_type)99), "unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("msg");
    TCase *tc = tcase_create("msg");
    tcase_add_loop_test(tc, every_message_survives_the_wire, MSG_HELLO, MSG_BYE + 1);
    tcase_add_loop_test(tc, every_truncation_and_every_flipped_bit_is_refused, MSG_HELLO,
                        MSG_BYE + 1);
    tcase_add_loop_test(tc, a_payload_of_another_length_is_refused, MSG_HELLO, MSG_BYE + 1);
    tcase_add_test(tc, unknown_values_are_refused_by_name);
    tcase_add_test(tc, data_outside_the_batch_is_refused_by_name);
    tcase_add_test(tc, texts_become_printable_and_names_must_be);
    tcase_add_test(tc, a_text_too_long_is_cut_between_characters);
    tcase_add_test(tc, the_largest_messages_fit);
    tcase_add_test(tc, noise_in_a_sealed_frame_is_decoded_or_refused);
    tcase_add_test(tc, names_of_types);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
