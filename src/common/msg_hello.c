/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO, WELCOME and REJECT: how a session begins, or does not. */
#include <inttypes.h>
#include <string.h>

#include "common/msg_codec.h"

static void put_buckets(struct wire_writer *w, const uint32_t *buckets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        wire_put32(w, buckets[i]);
    }
}

static void get_buckets(struct wire_reader *r, uint32_t *buckets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        buckets[i] = wire_get32(r, "bucket");
    }
}

void msg_put_hello(struct wire_writer *w, const struct msg *msg)
{
    const struct msg_hello *hello = &msg->hello;
    wire_put64(w, hello->job);                                                             /*  0 */
    wire_put64(w, hello->instance);                                                        /*  8 */
    wire_put64(w, hello->fingerprint);                                                     /* 16 */
    wire_put64(w, hello->capacity_bytes);                                                  /* 24 */
    wire_put32(w, hello->index);                                                           /* 32 */
    wire_put32(w, hello->attempt);                                                         /* 36 */
    wire_put32_in(w, hello->stream_count, 1, STREAMS_MAX);                                 /* 40 */
    wire_put32_in(w, wire_text_bytes(hello->host, HOST_BYTES_MAX), 1, HOST_BYTES_MAX - 1); /* 44 */
    for (uint32_t i = 0; i < hello->stream_count; i++) {
        wire_put64_in(w, hello->streams[i].samples, 1, UINT64_MAX);
        wire_put64(w, hello->streams[i].digest);
        wire_put32(w, hello->streams[i].classes);
        wire_put32(w, 0);
        put_buckets(w, hello->streams[i].buckets, INDEX_BUCKETS);
    }
    wire_put_text(w, hello->host, HOST_BYTES_MAX);
}

void msg_get_hello(struct wire_reader *r, struct msg *out)
{
    struct msg_hello *hello = &out->hello;
    hello->job = wire_get64(r, "job");
    hello->instance = wire_get64(r, "instance");
    hello->fingerprint = wire_get64(r, "fingerprint");
    hello->capacity_bytes = wire_get64(r, "capacity_bytes");
    hello->index = wire_get32(r, "index");
    hello->attempt = wire_get32(r, "attempt");
    hello->stream_count = wire_get32_in(r, "stream_count", 1, STREAMS_MAX);
    const uint32_t host_bytes = wire_get32_in(r, "host_bytes", 1, HOST_BYTES_MAX - 1);
    for (uint32_t i = 0; i < hello->stream_count; i++) {
        hello->streams[i].samples = wire_get64_in(r, "samples", 1, UINT64_MAX);
        hello->streams[i].digest = wire_get64(r, "digest");
        hello->streams[i].classes = wire_get32(r, "classes");
        wire_get32_in(r, "reserved", 0, 0);
        get_buckets(r, hello->streams[i].buckets, INDEX_BUCKETS);
    }
    /* A name is compared, so it is refused where a text for people would be mended. */
    const uint8_t *host = wire_get_bytes(r, "host", host_bytes);
    if (host == NULL) {
        return;
    }
    memcpy(hello->host, host, host_bytes);
    if (!wire_make_printable(hello->host, host_bytes)) {
        wire_fault(r, "host: got \"%s\" with unprintable bytes shown as ?", hello->host);
    }
}

void msg_put_welcome(struct wire_writer *w, const struct msg *msg)
{
    wire_put64_in(w, msg->welcome.credit_bytes, 1, UINT64_MAX); /*  0 */
    wire_put32(w, msg->welcome.attempt);                        /*  8 */
    wire_put32(w, 0);                                           /* 12 */
}

void msg_get_welcome(struct wire_reader *r, struct msg *out)
{
    out->welcome.credit_bytes = wire_get64_in(r, "credit_bytes", 1, UINT64_MAX);
    out->welcome.attempt = wire_get32(r, "attempt");
    wire_get32_in(r, "reserved", 0, 0);
}

void msg_put_reject(struct wire_writer *w, const struct msg *msg)
{
    const struct msg_reject *reject = &msg->reject;
    CHECK(reject->refused == msg->session);
    wire_put64(w, reject->instance);                                     /*  0 */
    wire_put32(w, reject->attempt);                                      /*  8 */
    wire_put32_in(w, reject->code, REJECT_UNKNOWN_SESSION, REJECT_FULL); /* 12 */
    wire_put32(w, wire_text_bytes(reject->text, TEXT_BYTES_MAX));        /* 16 */
    wire_put32_in(w, reject->stream, 0, STREAMS_MAX - 1);                /* 20 */
    CHECK(reject->bucket_count == 0 ||
          (reject->bucket_count == INDEX_BUCKETS && reject->code == REJECT_DATA));
    wire_put32(w, reject->bucket_count); /* 24 */
    wire_put32(w, 0);                    /* 28 */
    put_buckets(w, reject->buckets, reject->bucket_count);
    wire_put_text(w, reject->text, TEXT_BYTES_MAX);
}

void msg_get_reject(struct wire_reader *r, struct msg *out)
{
    struct msg_reject *reject = &out->reject;
    reject->refused = out->session;
    reject->instance = wire_get64(r, "instance");
    reject->attempt = wire_get32(r, "attempt");
    reject->code = wire_get32_in(r, "code", REJECT_UNKNOWN_SESSION, REJECT_FULL);
    const uint32_t text_bytes = wire_get32(r, "text_bytes");
    reject->stream = wire_get32_in(r, "stream", 0, STREAMS_MAX - 1);
    reject->bucket_count = wire_get32_in(r, "bucket_count", 0, INDEX_BUCKETS);
    wire_get32_in(r, "reserved", 0, 0);
    if (reject->bucket_count != 0 &&
        (reject->bucket_count != INDEX_BUCKETS || reject->code != REJECT_DATA)) {
        wire_fault(r, "bucket_count: got %u, allowed 0 or, for code %d, %d", reject->bucket_count,
                   REJECT_DATA, INDEX_BUCKETS);
        return;
    }
    get_buckets(r, reject->buckets, reject->bucket_count);
    wire_get_text(r, "text", text_bytes, reject->text, TEXT_BYTES_MAX);
}
