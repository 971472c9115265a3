/* SPDX-License-Identifier: Apache-2.0 */
/* GRANT, and the ways a lease ends without its bytes: NACK, RETURN and CANCEL. */
#include "common/msg_codec.h"

void msg_put_grant(struct wire_writer *w, const struct msg *msg)
{
    const struct msg_grant *grant = &msg->grant;
    wire_put32_in(w, grant->lease, 1, UINT32_MAX);                         /*  0 */
    wire_put32_in(w, grant->stream, 0, STREAMS_MAX - 1);                   /*  4 */
    wire_put64(w, grant->step);                                            /*  8 */
    wire_put32(w, grant->epoch);                                           /* 16 */
    wire_put32(w, grant->due);                                             /* 20 */
    wire_put32_in(w, grant->first_part, 0, PARTS_MAX - 1);                 /* 24 */
    wire_put32_in(w, grant->part_count, 1, PARTS_MAX - grant->first_part); /* 28 */
}

void msg_get_grant(struct wire_reader *r, struct msg *out)
{
    struct msg_grant *grant = &out->grant;
    grant->lease = wire_get32_in(r, "lease", 1, UINT32_MAX);
    grant->stream = wire_get32_in(r, "stream", 0, STREAMS_MAX - 1);
    grant->step = wire_get64(r, "step");
    grant->epoch = wire_get32(r, "epoch");
    grant->due = wire_get32(r, "due");
    grant->first_part = wire_get32_in(r, "first_part", 0, PARTS_MAX - 1);
    grant->part_count = wire_get32_in(r, "part_count", 1, PARTS_MAX - grant->first_part);
}

void msg_put_nack(struct wire_writer *w, const struct msg *msg)
{
    const struct msg_nack *nack = &msg->nack;
    wire_put32_in(w, nack->lease, 1, UINT32_MAX);               /*  0 */
    wire_put32_in(w, nack->code, NACK_IO, NACK_RESOURCE);       /*  4 */
    wire_put32(w, wire_text_bytes(nack->text, TEXT_BYTES_MAX)); /*  8 */
    wire_put32(w, 0);                                           /* 12 */
    wire_put_text(w, nack->text, TEXT_BYTES_MAX);
}

void msg_get_nack(struct wire_reader *r, struct msg *out)
{
    struct msg_nack *nack = &out->nack;
    nack->lease = wire_get32_in(r, "lease", 1, UINT32_MAX);
    nack->code = wire_get32_in(r, "code", NACK_IO, NACK_RESOURCE);
    const uint32_t text_bytes = wire_get32(r, "text_bytes");
    wire_get32_in(r, "reserved", 0, 0);
    wire_get_text(r, "text", text_bytes, nack->text, TEXT_BYTES_MAX);
}

void msg_put_lease(struct wire_writer *w, const struct msg *msg)
{
    wire_put32_in(w, msg->lease.lease, 1, UINT32_MAX); /* 0 */
    wire_put32(w, 0);                                  /* 4 */
}

void msg_get_lease(struct wire_reader *r, struct msg *out)
{
    out->lease.lease = wire_get32_in(r, "lease", 1, UINT32_MAX);
    wire_get32_in(r, "reserved", 0, 0);
}
