/* SPDX-License-Identifier: Apache-2.0 */
#include "support/random_msg.h"

#include <string.h>

static uint32_t random_u32(struct random_state *random, uint32_t min, uint32_t max)
{
    return (uint32_t)random_in(random, min, max);
}

/* Printable, of 0 or more bytes, with characters of one to four bytes. */
static void random_text(struct random_state *random, size_t least, char *out, size_t capacity)
{
    static const char *const RUNES[] = {
        "a", "Z", " ", "~", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\x8a"};
    const size_t wanted = random_in(random, least, capacity - 1);
    size_t count = 0;
    while (count < wanted) {
        const char *rune = RUNES[random_u64(random) % ARRAY_LEN(RUNES)];
        rune = count + strlen(rune) > wanted ? "x" : rune;
        memcpy(out + count, rune, strlen(rune));
        count += strlen(rune);
    }
    out[count] = '\0';
}

static void random_buckets(struct random_state *random, uint32_t buckets[INDEX_BUCKETS])
{
    for (uint32_t i = 0; i < INDEX_BUCKETS; i++) {
        buckets[i] = random_u32(random, 0, UINT32_MAX);
    }
}

static void random_hello(struct random_state *random, struct msg_hello *hello)
{
    hello->job = random_u64(random);
    hello->instance = random_u64(random);
    hello->fingerprint = random_u64(random);
    hello->capacity_bytes = random_in(random, 0, UINT64_MAX);
    hello->index = random_u32(random, 0, UINT32_MAX);
    hello->attempt = random_u32(random, 0, UINT32_MAX);
    hello->stream_count = random_u32(random, 1, STREAMS_MAX);
    for (uint32_t i = 0; i < hello->stream_count; i++) {
        hello->streams[i].samples = random_in(random, 1, UINT64_MAX);
        hello->streams[i].digest = random_u64(random);
        hello->streams[i].classes = random_u32(random, 0, UINT32_MAX);
        random_buckets(random, hello->streams[i].buckets);
    }
    random_text(random, 1, hello->host, HOST_BYTES_MAX);
}

static void random_data(struct random_state *random, struct msg_data *data)
{
    data->lease = random_u32(random, 1, UINT32_MAX);
    data->stream = random_u32(random, 0, STREAMS_MAX - 1);
    data->epoch = random_u32(random, 0, UINT32_MAX);
    data->step = random_in(random, 0, UINT64_MAX);
    data->part_count = random_u32(random, 1, PARTS_MAX);
    data->part = random_u32(random, 0, data->part_count - 1);
    data->length = random_u32(random, 1, PART_BYTES_MAX);
    data->offset = random_in(random, 0, (uint64_t)PARTS_MAX * PART_BYTES_MAX - data->length);
    data->sum_low = random_u64(random);
    data->sum_high = random_u64(random);
    data->substitution_count = random_u32(random, 0, SUBST_MAX);
    for (uint32_t i = 0; i < data->substitution_count; i++) {
        data->substitutions[i] = (struct substitution){.row = random_u32(random, 0, UINT32_MAX),
                                                       .attempt = random_u32(random, 0, UINT32_MAX),
                                                       .bad = random_u64(random),
                                                       .taken = random_u64(random)};
    }
    data->last = random_u64(random) % 2 == 0;
    if (data->last) {
        data->queued_ns = random_u64(random);
        data->read_ns = random_u64(random);
        data->decode_ns = random_u64(random);
        data->augment_ns = random_u64(random);
        data->send_ns = random_u64(random);
    }
}

static void random_grant(struct random_state *random, struct msg_grant *grant)
{
    grant->lease = random_u32(random, 1, UINT32_MAX);
    grant->stream = random_u32(random, 0, STREAMS_MAX - 1);
    grant->epoch = random_u32(random, 0, UINT32_MAX);
    grant->step = random_in(random, 0, UINT64_MAX);
    grant->due = random_u32(random, 0, UINT32_MAX);
    grant->first_part = random_u32(random, 0, PARTS_MAX - 1);
    grant->part_count = random_u32(random, 1, PARTS_MAX - grant->first_part);
}

struct msg random_msg(struct random_state *random, enum msg_type type)
{
    struct msg msg;
    memset(&msg, 0, sizeof(msg));
    msg.type = type;
    msg.session = type == MSG_HELLO ? 0 : random_in(random, 1, UINT64_MAX);
    switch (type) {
    case MSG_HELLO:
        random_hello(random, &msg.hello);
        break;
    case MSG_WELCOME:
        msg.welcome.credit_bytes = random_in(random, 1, UINT64_MAX);
        msg.welcome.attempt = random_u32(random, 0, UINT32_MAX);
        break;
    case MSG_REJECT:
        msg.session = random_in(random, 0, UINT64_MAX);
        msg.reject.refused = msg.session;
        msg.reject.code = random_u32(random, REJECT_UNKNOWN_SESSION, REJECT_FULL);
        msg.reject.instance = random_u64(random);
        msg.reject.attempt = random_u32(random, 0, UINT32_MAX);
        if (msg.reject.code == REJECT_DATA && random_u64(random) % 4 != 0) {
            msg.reject.stream = random_u32(random, 0, STREAMS_MAX - 1);
            msg.reject.bucket_count = INDEX_BUCKETS;
            random_buckets(random, msg.reject.buckets);
        }
        random_text(random, 0, msg.reject.text, TEXT_BYTES_MAX);
        break;
    case MSG_GRANT:
        random_grant(random, &msg.grant);
        break;
    case MSG_DATA:
        random_data(random, &msg.data);
        break;
    case MSG_NACK:
        msg.nack.lease = random_u32(random, 1, UINT32_MAX);
        msg.nack.code = random_u32(random, NACK_IO, NACK_RESOURCE);
        random_text(random, 0, msg.nack.text, TEXT_BYTES_MAX);
        break;
    case MSG_RETURN:
    case MSG_CANCEL:
        msg.lease.lease = random_u32(random, 1, UINT32_MAX);
        break;
    case MSG_PING:
    case MSG_PONG:
        msg.ping.seq = random_u64(random);
        msg.ping.samples_done = random_in(random, 0, UINT64_MAX);
        msg.ping.oldest_age_ns = random_in(random, 0, UINT64_MAX);
        break;
    case MSG_LEAVE:
    case MSG_DONE:
    case MSG_BYE:
        random_text(random, 0, msg.text.text, TEXT_BYTES_MAX);
        break;
    }
    return msg;
}

static bool hello_equal(const struct msg_hello *a, const struct msg_hello *b)
{
    bool equal = a->job == b->job && a->instance == b->instance &&
                 a->fingerprint == b->fingerprint && a->capacity_bytes == b->capacity_bytes &&
                 a->index == b->index && a->attempt == b->attempt &&
                 a->stream_count == b->stream_count && strcmp(a->host, b->host) == 0;
    for (uint32_t i = 0; equal && i < a->stream_count; i++) {
        equal = a->streams[i].samples == b->streams[i].samples &&
                a->streams[i].digest == b->streams[i].digest &&
                a->streams[i].classes == b->streams[i].classes &&
                memcmp(a->streams[i].buckets, b->streams[i].buckets,
                       sizeof(a->streams[i].buckets)) == 0;
    }
    return equal;
}

static bool data_equal(const struct msg_data *a, const struct msg_data *b)
{
    bool equal = a->lease == b->lease && a->stream == b->stream && a->epoch == b->epoch &&
                 a->step == b->step && a->part == b->part && a->part_count == b->part_count &&
                 a->offset == b->offset && a->length == b->length && a->sum_low == b->sum_low &&
                 a->sum_high == b->sum_high && a->last == b->last && a->queued_ns == b->queued_ns &&
                 a->read_ns == b->read_ns && a->decode_ns == b->decode_ns &&
                 a->augment_ns == b->augment_ns && a->send_ns == b->send_ns &&
                 a->substitution_count == b->substitution_count;
    for (uint32_t i = 0; equal && i < a->substitution_count; i++) {
        const struct substitution *x = &a->substitutions[i];
        const struct substitution *y = &b->substitutions[i];
        equal = x->row == y->row && x->attempt == y->attempt && x->bad == y->bad &&
                x->taken == y->taken;
    }
    return equal;
}

static bool grant_equal(const struct msg_grant *a, const struct msg_grant *b)
{
    return a->lease == b->lease && a->stream == b->stream && a->epoch == b->epoch &&
           a->step == b->step && a->due == b->due && a->first_part == b->first_part &&
           a->part_count == b->part_count;
}

bool msg_equal(const struct msg *a, const struct msg *b)
{
    if (a->type != b->type || a->session != b->session) {
        return false;
    }
    switch (a->type) {
    case MSG_HELLO:
        return hello_equal(&a->hello, &b->hello);
    case MSG_WELCOME:
        return a->welcome.credit_bytes == b->welcome.credit_bytes &&
               a->welcome.attempt == b->welcome.attempt;
    case MSG_REJECT:
        return a->reject.refused == b->reject.refused && a->reject.code == b->reject.code &&
               a->reject.instance == b->reject.instance && a->reject.attempt == b->reject.attempt &&
               a->reject.stream == b->reject.stream &&
               a->reject.bucket_count == b->reject.bucket_count &&
               memcmp(a->reject.buckets, b->reject.buckets, sizeof(a->reject.buckets)) == 0 &&
               strcmp(a->reject.text, b->reject.text) == 0;
    case MSG_GRANT:
        return grant_equal(&a->grant, &b->grant);
    case MSG_DATA:
        return data_equal(&a->data, &b->data);
    case MSG_NACK:
        return a->nack.lease == b->nack.lease && a->nack.code == b->nack.code &&
               strcmp(a->nack.text, b->nack.text) == 0;
    case MSG_RETURN:
    case MSG_CANCEL:
        return a->lease.lease == b->lease.lease;
    case MSG_PING:
    case MSG_PONG:
        return a->ping.seq == b->ping.seq && a->ping.samples_done == b->ping.samples_done &&
               a->ping.oldest_age_ns == b->ping.oldest_age_ns;
    case MSG_LEAVE:
    case MSG_DONE:
    case MSG_BYE:
        return strcmp(a->text.text, b->text.text) == 0;
    }
    return false;
}
