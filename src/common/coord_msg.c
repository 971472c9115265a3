/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator's messages: each one's encode beside its decode, and the table of them. Offsets
 * in comments are from the payload's first byte, as in docs/PROTOCOL.md. Pure.
 */
#include "common/coord_msg.h"

#include <string.h>

#include "common/wire.h"

enum {
    PAGE_RANK_BYTES = 20, /* of a roster's rank, without its texts */
    PAGE_STREAM_BYTES = 20,
};
_Static_assert(WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES + 64 +
                       COORD_PAGE_RANKS * (PAGE_RANK_BYTES + HOST_BYTES_MAX + ADDR_BYTES_MAX) +
                       STREAMS_MAX * (PAGE_STREAM_BYTES + NAME_BYTES_MAX + CONFIG_TEXT_BYTES +
                                      PIPELINE_TEXT_BYTES) <=
                   COORD_MSG_BYTES_MAX,
               "the largest page of the roster fits");
_Static_assert((int)COORD_MSG_BYTES_MAX <= (int)NET_MESSAGE_BYTES_MAX, "a message fits a link");

/* Texts that are compared or opened, not shown: kept byte for byte, or refused. */
static void put_name_bytes(struct wire_writer *w, const char *name, size_t capacity)
{
    const size_t count = strnlen(name, capacity);
    CHECK(count < capacity);
    wire_put32(w, (uint32_t)count);
}

static void put_name(struct wire_writer *w, const char *name)
{
    wire_put_bytes(w, name, strlen(name));
}

static void get_name(struct wire_reader *r, const char *field, uint32_t count, char *out,
                     size_t capacity)
{
    if (count >= capacity) {
        wire_fault(r, "%s: %u bytes, allowed up to %zu", field, count, capacity - 1);
    }
    const uint8_t *bytes = wire_get_bytes(r, field, count);
    if (bytes == NULL) {
        return;
    }
    if (memchr(bytes, '\0', count) != NULL) {
        wire_fault(r, "%s: holds a NUL byte", field);
        return;
    }
    memcpy(out, bytes, count);
    out[count] = '\0';
}

static void put_join(struct wire_writer *w, const struct coord_msg *msg)
{
    const struct coord_msg_join *join = &msg->join;
    wire_put64(w, join->config_digest);                                  /*  0 */
    wire_put64(w, join->fingerprint);                                    /*  8 */
    wire_put32_in(w, join->kind, COORD_AGENT, COORD_PRODUCER);           /* 16 */
    wire_put32(w, join->local_ranks);                                    /* 20 */
    wire_put32(w, join->local_rank);                                     /* 24 */
    wire_put16(w, join->port);                                           /* 28 */
    wire_put16(w, join->ring_port);                                      /* 30 */
    put_name_bytes(w, join->host, sizeof(join->host));                   /* 32 */
    put_name_bytes(w, join->address, sizeof(join->address));             /* 36 */
    put_name_bytes(w, join->instance_type, sizeof(join->instance_type)); /* 40 */
    wire_put32(w, 0);                                                    /* 44 */
    put_name(w, join->host);
    put_name(w, join->address);
    put_name(w, join->instance_type);
}

static void get_join(struct wire_reader *r, struct coord_msg *out)
{
    struct coord_msg_join *join = &out->join;
    join->config_digest = wire_get64(r, "config_digest");
    join->fingerprint = wire_get64(r, "fingerprint");
    join->kind = wire_get32_in(r, "kind", COORD_AGENT, COORD_PRODUCER);
    join->local_ranks = wire_get32_in(r, "local_ranks", 0, RANKS_MAX);
    join->local_rank = wire_get32_in(r, "local_rank", 0, RANKS_MAX - 1);
    join->port = wire_get16(r, "port");
    join->ring_port = wire_get16(r, "ring_port");
    const uint32_t host = wire_get32_in(r, "host_bytes", 1, HOST_BYTES_MAX - 1);
    const uint32_t address = wire_get32(r, "address_bytes");
    const uint32_t instance_type = wire_get32(r, "instance_type_bytes");
    wire_get32_in(r, "reserved", 0, 0);
    get_name(r, "host", host, join->host, sizeof(join->host));
    get_name(r, "address", address, join->address, sizeof(join->address));
    get_name(r, "instance_type", instance_type, join->instance_type, sizeof(join->instance_type));
}

/* WELCOME and PONG. */
static void put_welcome(struct wire_writer *w, const struct coord_msg *msg)
{
    wire_put32(w, msg->welcome.event_count); /* 0 */
    wire_put32(w, 0);                        /* 4 */
}

static void get_welcome(struct wire_reader *r, struct coord_msg *out)
{
    out->welcome.event_count = wire_get32(r, "event_count");
    wire_get32_in(r, "reserved", 0, 0);
}

static void put_refuse(struct wire_writer *w, const struct coord_msg *msg)
{
    const struct coord_msg_refuse *refuse = &msg->refuse;
    wire_put32_in(w, refuse->code, COORD_REFUSE_UNKNOWN, COORD_REFUSE_FULL); /* 0 */
    wire_put32(w, wire_text_bytes(refuse->text, sizeof(refuse->text)));      /* 4 */
    wire_put_text(w, refuse->text, sizeof(refuse->text));
}

static void get_refuse(struct wire_reader *r, struct coord_msg *out)
{
    struct coord_msg_refuse *refuse = &out->refuse;
    refuse->code = wire_get32_in(r, "code", COORD_REFUSE_UNKNOWN, COORD_REFUSE_FULL);
    const uint32_t text = wire_get32(r, "text_bytes");
    wire_get_text(r, "text", text, refuse->text, sizeof(refuse->text));
}

static void put_ping(struct wire_writer *w, const struct coord_msg *msg)
{
    wire_put64(w, msg->ping.begun);            /*  0 */
    wire_put32(w, msg->ping.seen);             /*  8 */
    wire_put32(w, msg->ping.promised ? 1 : 0); /* 12 */
}

static void get_ping(struct wire_reader *r, struct coord_msg *out)
{
    out->ping.begun = wire_get64(r, "begun");
    out->ping.seen = wire_get32(r, "seen");
    out->ping.promised = wire_get32_in(r, "promised", 0, 1) == 1;
}

static void put_request(struct wire_writer *w, const struct coord_msg *msg)
{
    const struct coord_msg_request *request = &msg->request;
    wire_put64_in(w, request->number, 1, UINT64_MAX);                          /*  0 */
    wire_put64(w, request->value);                                             /*  8 */
    wire_put32_in(w, request->kind, COORD_REQUEST_PUT, COORD_REQUEST_GIVE_UP); /* 16 */
    wire_put32(w, request->count);                                             /* 20 */
    put_name_bytes(w, request->key, sizeof(request->key));                     /* 24 */
    wire_put32_in(w, request->bytes_count, 0, COORD_VALUE_BYTES);              /* 28 */
    put_name(w, request->key);
    wire_put_bytes(w, request->bytes, request->bytes_count);
}

static void get_value(struct wire_reader *r, uint32_t count, uint8_t out[COORD_VALUE_BYTES])
{
    const uint8_t *bytes = wire_get_bytes(r, "bytes", count);
    if (bytes != NULL) {
        memcpy(out, bytes, count);
    }
}

static void get_request(struct wire_reader *r, struct coord_msg *out)
{
    struct coord_msg_request *request = &out->request;
    request->number = wire_get64_in(r, "number", 1, UINT64_MAX);
    request->value = wire_get64(r, "value");
    request->kind = wire_get32_in(r, "kind", COORD_REQUEST_PUT, COORD_REQUEST_GIVE_UP);
    request->count = wire_get32(r, "count");
    const uint32_t key = wire_get32(r, "key_bytes");
    request->bytes_count = wire_get32_in(r, "bytes_count", 0, COORD_VALUE_BYTES);
    get_name(r, "key", key, request->key, sizeof(request->key));
    get_value(r, request->bytes_count, request->bytes);
}

static void put_answer(struct wire_writer *w, const struct coord_msg *msg)
{
    const struct coord_msg_answer *answer = &msg->answer;
    wire_put64(w, answer->number);                                           /*  0 */
    wire_put64(w, answer->value);                                            /*  8 */
    wire_put32_in(w, answer->code, COORD_ANSWER_OK, COORD_ANSWER_CANCELLED); /* 16 */
    wire_put32_in(w, answer->bytes_count, 0, COORD_VALUE_BYTES);             /* 20 */
    wire_put_bytes(w, answer->bytes, answer->bytes_count);
}

static void get_answer(struct wire_reader *r, struct coord_msg *out)
{
    struct coord_msg_answer *answer = &out->answer;
    answer->number = wire_get64(r, "number");
    answer->value = wire_get64(r, "value");
    answer->code = wire_get32_in(r, "code", COORD_ANSWER_OK, COORD_ANSWER_CANCELLED);
    answer->bytes_count = wire_get32_in(r, "bytes_count", 0, COORD_VALUE_BYTES);
    get_value(r, answer->bytes_count, answer->bytes);
}

static void put_roster(struct wire_writer *w, const struct coord_msg *msg)
{
    const struct coord_msg_roster *page = &msg->roster;
    wire_put64(w, page->number);                            /*  0 */
    wire_put64(w, page->job);                               /*  8 */
    wire_put64(w, page->seed);                              /* 16 */
    wire_put64(w, page->global_batch);                      /* 24 */
    wire_put32_in(w, page->rank_count, 1, RANKS_MAX);       /* 32 */
    wire_put32_in(w, page->first, 0, page->rank_count - 1); /* 36 */
    wire_put32_in(w, page->count, 1, COORD_PAGE_RANKS);     /* 40 */
    wire_put32_in(w, page->stream_count, 0, STREAMS_MAX);   /* 44 */
    for (uint32_t i = 0; i < page->count; i++) {
        const struct roster_rank *rank = &page->ranks[i];
        wire_put32(w, rank->local_rank);
        wire_put16(w, rank->port);
        wire_put16(w, rank->ring_port);
        put_name_bytes(w, rank->host, sizeof(rank->host));
        put_name_bytes(w, rank->address, sizeof(rank->address));
        wire_put32(w, 0);
        put_name(w, rank->host);
        put_name(w, rank->address);
    }
    for (uint32_t i = 0; i < page->stream_count; i++) {
        const struct roster_stream *stream = &page->streams[i];
        wire_put32(w, stream->shuffle);
        wire_put32(w, stream->last);
        put_name_bytes(w, stream->name, sizeof(stream->name));
        put_name_bytes(w, stream->data, sizeof(stream->data));
        put_name_bytes(w, stream->pipeline, sizeof(stream->pipeline));
        put_name(w, stream->name);
        put_name(w, stream->data);
        put_name(w, stream->pipeline);
    }
}

static void get_roster_rank(struct wire_reader *r, struct roster_rank *rank)
{
    rank->local_rank = wire_get32_in(r, "local_rank", 0, RANKS_MAX - 1);
    rank->port = wire_get16(r, "port");
    rank->ring_port = wire_get16(r, "ring_port");
    const uint32_t host = wire_get32(r, "host_bytes");
    const uint32_t address = wire_get32(r, "address_bytes");
    wire_get32_in(r, "reserved", 0, 0);
    get_name(r, "host", host, rank->host, sizeof(rank->host));
    get_name(r, "address", address, rank->address, sizeof(rank->address));
}

static void get_roster_stream(struct wire_reader *r, struct roster_stream *stream)
{
    stream->shuffle = (enum shuffle_kind)wire_get32_in(r, "shuffle", SHUFFLE_NONE, SHUFFLE_WINDOW);
    stream->last = (enum last_kind)wire_get32_in(r, "last", LAST_DROP, LAST_PARTIAL);
    const uint32_t name = wire_get32(r, "name_bytes");
    const uint32_t data = wire_get32(r, "data_bytes");
    const uint32_t pipeline = wire_get32(r, "pipeline_bytes");
    get_name(r, "name", name, stream->name, sizeof(stream->name));
    get_name(r, "data", data, stream->data, sizeof(stream->data));
    get_name(r, "pipeline", pipeline, stream->pipeline, sizeof(stream->pipeline));
}

static void get_roster(struct wire_reader *r, struct coord_msg *out)
{
    struct coord_msg_roster *page = &out->roster;
    page->number = wire_get64(r, "number");
    page->job = wire_get64(r, "job");
    page->seed = wire_get64(r, "seed");
    page->global_batch = wire_get64(r, "global_batch");
    page->rank_count = wire_get32_in(r, "rank_count", 1, RANKS_MAX);
    page->first = wire_get32_in(r, "first", 0, RANKS_MAX - 1);
    page->count = wire_get32_in(r, "count", 1, COORD_PAGE_RANKS);
    page->stream_count = wire_get32_in(r, "stream_count", 0, STREAMS_MAX);
    if (page->first + page->count > page->rank_count) {
        wire_fault(r, "count: ranks %u to %u of %u", page->first, page->first + page->count - 1,
                   page->rank_count);
    }
    for (uint32_t i = 0; i < page->count; i++) {
        page->ranks[i].rank = page->first + i;
        get_roster_rank(r, &page->ranks[i]);
    }
    for (uint32_t i = 0; i < page->stream_count; i++) {
        get_roster_stream(r, &page->streams[i]);
    }
}

static void put_event(struct wire_writer *w, const struct coord_msg *msg)
{
    const struct coord_log_entry *entry = &msg->event.entry;
    wire_put64(w, entry->value);                                      /*  0 */
    wire_put32(w, msg->event.index);                                  /*  8 */
    wire_put32_in(w, entry->kind, COORD_LOG_FAIL, COORD_LOG_VERDICT); /* 12 */
    wire_put32(w, entry->code);                                       /* 16 */
    wire_put32(w, entry->stream);                                     /* 20 */
    wire_put32(w, wire_text_bytes(entry->text, sizeof(entry->text))); /* 24 */
    wire_put32(w, 0);                                                 /* 28 */
    wire_put_text(w, entry->text, sizeof(entry->text));
}

static void get_event(struct wire_reader *r, struct coord_msg *out)
{
    struct coord_log_entry *entry = &out->event.entry;
    entry->value = wire_get64(r, "value");
    out->event.index = wire_get32(r, "index");
    entry->kind = wire_get32_in(r, "kind", COORD_LOG_FAIL, COORD_LOG_VERDICT);
    entry->code = wire_get32_in(r, "code", 0, 255);
    entry->stream = wire_get32_in(r, "stream", 0, STREAMS_MAX - 1);
    const uint32_t text = wire_get32(r, "text_bytes");
    wire_get32_in(r, "reserved", 0, 0);
    wire_get_text(r, "text", text, entry->text, sizeof(entry->text));
}

static void put_nothing(struct wire_writer *w, const struct coord_msg *msg)
{
}

static void get_nothing(struct wire_reader *r, struct coord_msg *out)
{
}

static const struct {
    const char *name;
    void (*put)(struct wire_writer *w, const struct coord_msg *msg);
    void (*get)(struct wire_reader *r, struct coord_msg *out);
} MESSAGES[] = {
    [COORD_MSG_JOIN] = {"JOIN", put_join, get_join},
    [COORD_MSG_WELCOME] = {"WELCOME", put_welcome, get_welcome},
    [COORD_MSG_REFUSE] = {"REFUSE", put_refuse, get_refuse},
    [COORD_MSG_PING] = {"PING", put_ping, get_ping},
    [COORD_MSG_PONG] = {"PONG", put_welcome, get_welcome},
    [COORD_MSG_REQUEST] = {"REQUEST", put_request, get_request},
    [COORD_MSG_ANSWER] = {"ANSWER", put_answer, get_answer},
    [COORD_MSG_ROSTER] = {"ROSTER", put_roster, get_roster},
    [COORD_MSG_EVENT] = {"EVENT", put_event, get_event},
    [COORD_MSG_BYE] = {"BYE", put_nothing, get_nothing},
};

static bool known(uint32_t type)
{
    return type < ARRAY_LEN(MESSAGES) && MESSAGES[type].name != NULL;
}

const char *coord_msg_type_name(uint32_t type)
{
    return known(type) ? MESSAGES[type].name : "unknown";
}

size_t coord_msg_encode(const struct coord_msg *msg, uint8_t out[COORD_MSG_BYTES_MAX])
{
    CHECK(known(msg->type));
    struct wire_writer w;
    wire_begin(&w, out, COORD_MSG_BYTES_MAX, (uint16_t)msg->type, msg->member);
    MESSAGES[msg->type].put(&w, msg);
    return wire_end(&w);
}

enum status coord_msg_decode(const void *bytes, size_t count, struct coord_msg *out,
                             struct err *err)
{
    struct wire_reader r;
    uint16_t type;
    uint64_t member;
    TRY(wire_open(&r, bytes, count, &type, &member, err));
    if (!known(type)) {
        return err_set(err, ERR_PEER_WRONG,
                       "frame: type: got %u, which is none of the coordinator's", type);
    }
    r.what = MESSAGES[type].name;
    memset(out, 0, sizeof(*out));
    out->type = type;
    out->member = member;
    MESSAGES[type].get(&r, out);
    return wire_close(&r);
}
