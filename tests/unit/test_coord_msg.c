/* SPDX-License-Identifier: Apache-2.0 */
#include "common/coord_msg.h"

#include <string.h>

#include "common/hash.h"
#include "common/wire.h"
#include "support/random.h"
#include "support/suite.h"

enum { ROUNDS = 200 };

static uint8_t frame[COORD_MSG_BYTES_MAX + 64];
static struct coord_msg msg;
static struct coord_msg read_back;

/* Printable, without a NUL inside; up to capacity - 1 bytes. */
static void random_text(struct random_state *random, char *out, size_t capacity, size_t min)
{
    const size_t count = random_in(random, min, capacity - 1);
    for (size_t i = 0; i < count; i++) {
        out[i] = (char)random_in(random, ' ', '~');
    }
    out[count] = '\0';
}

static void random_bytes(struct random_state *random, uint8_t *out, uint32_t *count_out)
{
    *count_out = (uint32_t)random_in(random, 0, COORD_VALUE_BYTES);
    for (uint32_t i = 0; i < *count_out; i++) {
        out[i] = (uint8_t)random_u64(random);
    }
}

static void random_join(struct random_state *random, struct coord_msg_join *join)
{
    join->kind = (uint32_t)random_in(random, COORD_AGENT, COORD_PRODUCER);
    random_text(random, join->host, sizeof(join->host), 1);
    random_text(random, join->address, sizeof(join->address), 0);
    random_text(random, join->instance_type, sizeof(join->instance_type), 0);
    join->local_ranks = (uint32_t)random_in(random, 0, RANKS_MAX);
    join->local_rank = (uint32_t)random_in(random, 0, RANKS_MAX - 1);
    join->port = (uint16_t)random_u64(random);
    join->ring_port = (uint16_t)random_u64(random);
    join->config_digest = random_u64(random);
    join->fingerprint = random_u64(random);
}

static void random_roster(struct random_state *random, struct coord_msg_roster *page)
{
    page->number = random_u64(random);
    page->job = random_u64(random);
    page->seed = random_u64(random);
    page->global_batch = random_u64(random);
    page->count = (uint32_t)random_in(random, 1, COORD_PAGE_RANKS);
    page->rank_count = (uint32_t)random_in(random, page->count, RANKS_MAX);
    page->first = (uint32_t)random_in(random, 0, page->rank_count - page->count);
    for (uint32_t i = 0; i < page->count; i++) {
        struct roster_rank *rank = &page->ranks[i];
        rank->rank = page->first + i;
        rank->local_rank = (uint32_t)random_in(random, 0, RANKS_MAX - 1);
        rank->port = (uint16_t)random_u64(random);
        rank->ring_port = (uint16_t)random_u64(random);
        random_text(random, rank->host, sizeof(rank->host), 0);
        random_text(random, rank->address, sizeof(rank->address), 0);
    }
    page->stream_count = (uint32_t)random_in(random, 0, STREAMS_MAX);
    for (uint32_t i = 0; i < page->stream_count; i++) {
        struct roster_stream *stream = &page->streams[i];
        stream->shuffle = (enum shuffle_kind)random_in(random, SHUFFLE_NONE, SHUFFLE_WINDOW);
        stream->last = (enum last_kind)random_in(random, LAST_DROP, LAST_PARTIAL);
        random_text(random, stream->name, sizeof(stream->name), 0);
        random_text(random, stream->data, sizeof(stream->data), 0);
        random_text(random, stream->pipeline, sizeof(stream->pipeline), 0);
    }
}

static void random_message(struct random_state *random, enum coord_msg_type type)
{
    memset(&msg, 0, sizeof(msg));
    msg.type = type;
    msg.member = random_u64(random);
    switch (type) {
    case COORD_MSG_JOIN:
        random_join(random, &msg.join);
        break;
    case COORD_MSG_WELCOME:
    case COORD_MSG_PONG:
        msg.welcome.event_count = (uint32_t)random_u64(random);
        break;
    case COORD_MSG_REFUSE:
        msg.refuse.code = (uint32_t)random_in(random, COORD_REFUSE_UNKNOWN, COORD_REFUSE_FULL);
        random_text(random, msg.refuse.text, sizeof(msg.refuse.text), 0);
        break;
    case COORD_MSG_PING:
        msg.ping.begun = random_u64(random);
        msg.ping.seen = (uint32_t)random_u64(random);
        msg.ping.promised = random_in(random, 0, 1) == 1;
        break;
    case COORD_MSG_REQUEST:
        msg.request.kind = (uint32_t)random_in(random, COORD_REQUEST_PUT, COORD_REQUEST_SUSPECT);
        msg.request.number = random_in(random, 1, UINT64_MAX);
        msg.request.value = random_u64(random);
        msg.request.count = (uint32_t)random_u64(random);
        random_text(random, msg.request.key, sizeof(msg.request.key), 0);
        random_bytes(random, msg.request.bytes, &msg.request.bytes_count);
        break;
    case COORD_MSG_ANSWER:
        msg.answer.code = (uint32_t)random_in(random, COORD_ANSWER_OK, COORD_ANSWER_CANCELLED);
        msg.answer.number = random_u64(random);
        msg.answer.value = random_u64(random);
        random_bytes(random, msg.answer.bytes, &msg.answer.bytes_count);
        break;
    case COORD_MSG_ROSTER:
        random_roster(random, &msg.roster);
        break;
    case COORD_MSG_EVENT:
        msg.event.index = (uint32_t)random_u64(random);
        msg.event.entry.kind = (uint32_t)random_in(random, COORD_LOG_FAIL, COORD_LOG_VERDICT);
        msg.event.entry.code = (uint32_t)random_in(random, 0, 255);
        msg.event.entry.stream = (uint32_t)random_in(random, 0, STREAMS_MAX - 1);
        msg.event.entry.value = random_u64(random);
        random_text(random, msg.event.entry.text, sizeof(msg.event.entry.text), 0);
        break;
    case COORD_MSG_BYE:
        break;
    }
}

START_TEST(every_message_survives_the_wire)
{
    struct random_state random = {test_seed()};
    for (int i = 0; i < ROUNDS; i++) {
        random_message(&random, (enum coord_msg_type)_i);
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
    random_message(&random, (enum coord_msg_type)_i);
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
        random_message(&random, (enum coord_msg_type)_i);
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
