/* SPDX-License-Identifier: Apache-2.0 */
#include "support/random_coord_msg.h"

#include <string.h>

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

void random_coord_msg(struct random_state *random, enum coord_msg_type type, struct coord_msg *out)
{
    memset(out, 0, sizeof(*out));
    out->type = type;
    out->member = random_u64(random);
    switch (type) {
    case COORD_MSG_JOIN:
        random_join(random, &out->join);
        break;
    case COORD_MSG_WELCOME:
    case COORD_MSG_PONG:
        out->welcome.event_count = (uint32_t)random_u64(random);
        break;
    case COORD_MSG_REFUSE:
        out->refuse.code = (uint32_t)random_in(random, COORD_REFUSE_UNKNOWN, COORD_REFUSE_FULL);
        random_text(random, out->refuse.text, sizeof(out->refuse.text), 0);
        break;
    case COORD_MSG_PING:
        out->ping.begun = random_u64(random);
        out->ping.seen = (uint32_t)random_u64(random);
        out->ping.promised = random_in(random, 0, 1) == 1;
        break;
    case COORD_MSG_REQUEST:
        out->request.kind = (uint32_t)random_in(random, COORD_REQUEST_PUT, COORD_REQUEST_GIVE_UP);
        out->request.number = random_in(random, 1, UINT64_MAX);
        out->request.value = random_u64(random);
        out->request.count = (uint32_t)random_u64(random);
        random_text(random, out->request.key, sizeof(out->request.key), 0);
        random_bytes(random, out->request.bytes, &out->request.bytes_count);
        break;
    case COORD_MSG_ANSWER:
        out->answer.code = (uint32_t)random_in(random, COORD_ANSWER_OK, COORD_ANSWER_CANCELLED);
        out->answer.number = random_u64(random);
        out->answer.value = random_u64(random);
        random_bytes(random, out->answer.bytes, &out->answer.bytes_count);
        break;
    case COORD_MSG_ROSTER:
        random_roster(random, &out->roster);
        break;
    case COORD_MSG_EVENT:
        out->event.index = (uint32_t)random_u64(random);
        out->event.entry.kind = (uint32_t)random_in(random, COORD_LOG_FAIL, COORD_LOG_VERDICT);
        out->event.entry.code = (uint32_t)random_in(random, 0, 255);
        out->event.entry.stream = (uint32_t)random_in(random, 0, STREAMS_MAX - 1);
        out->event.entry.value = random_u64(random);
        random_text(random, out->event.entry.text, sizeof(out->event.entry.text), 0);
        break;
    case COORD_MSG_BYE:
        break;
    }
}
