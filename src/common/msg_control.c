/* SPDX-License-Identifier: Apache-2.0 */
/* PING and PONG; LEAVE, DONE and BYE. */
#include "common/msg_codec.h"

void msg_put_ping(struct wire_writer *w, const struct msg *msg)
{
    wire_put64(w, msg->ping.seq);           /*  0 */
    wire_put64(w, msg->ping.samples_done);  /*  8 */
    wire_put64(w, msg->ping.oldest_age_ns); /* 16 */
}

void msg_get_ping(struct wire_reader *r, struct msg *out)
{
    out->ping.seq = wire_get64(r, "seq");
    out->ping.samples_done = wire_get64(r, "samples_done");
    out->ping.oldest_age_ns = wire_get64(r, "oldest_age_ns");
}

void msg_put_text(struct wire_writer *w, const struct msg *msg)
{
    wire_put32(w, wire_text_bytes(msg->text.text, TEXT_BYTES_MAX)); /* 0 */
    wire_put32(w, 0);                                               /* 4 */
    wire_put_text(w, msg->text.text, TEXT_BYTES_MAX);
}

void msg_get_text(struct wire_reader *r, struct msg *out)
{
    const uint32_t text_bytes = wire_get32(r, "text_bytes");
    wire_get32_in(r, "reserved", 0, 0);
    wire_get_text(r, "text", text_bytes, out->text.text, TEXT_BYTES_MAX);
}
