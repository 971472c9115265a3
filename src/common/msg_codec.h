/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between msg.c and the files that hold one message's encode beside its decode. Each pair writes
 * and reads the payload only; offsets in comments are from the payload's first byte, as in
 * docs/PROTOCOL.md. Pure.
 */
#ifndef HEADRACE_COMMON_MSG_CODEC_H
#define HEADRACE_COMMON_MSG_CODEC_H

#include "common/msg.h"
#include "common/wire.h"

void msg_put_hello(struct wire_writer *w, const struct msg *msg);
void msg_get_hello(struct wire_reader *r, struct msg *out);
void msg_put_welcome(struct wire_writer *w, const struct msg *msg);
void msg_get_welcome(struct wire_reader *r, struct msg *out);
void msg_put_reject(struct wire_writer *w, const struct msg *msg);
void msg_get_reject(struct wire_reader *r, struct msg *out);

void msg_put_grant(struct wire_writer *w, const struct msg *msg);
void msg_get_grant(struct wire_reader *r, struct msg *out);
void msg_put_nack(struct wire_writer *w, const struct msg *msg);
void msg_get_nack(struct wire_reader *r, struct msg *out);
void msg_put_lease(struct wire_writer *w, const struct msg *msg); /* RETURN, CANCEL */
void msg_get_lease(struct wire_reader *r, struct msg *out);

void msg_put_data(struct wire_writer *w, const struct msg *msg);
void msg_get_data(struct wire_reader *r, struct msg *out);

void msg_put_ping(struct wire_writer *w, const struct msg *msg); /* PING, PONG */
void msg_get_ping(struct wire_reader *r, struct msg *out);
void msg_put_text(struct wire_writer *w, const struct msg *msg); /* LEAVE, DONE, BYE */
void msg_get_text(struct wire_reader *r, struct msg *out);

/* Payload bytes of the largest DATA, HELLO and REJECT, for the assertions about MSG_BYTES_MAX. */
enum {
    MSG_DATA_FIXED_BYTES = 104,
    MSG_SUBSTITUTION_BYTES = 24,
    MSG_HELLO_FIXED_BYTES = 48,
    MSG_HELLO_STREAM_BYTES = 24 + INDEX_BUCKETS * 4,
    MSG_REJECT_FIXED_BYTES = 32,
};

#endif
