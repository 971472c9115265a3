/* SPDX-License-Identifier: Apache-2.0 */
/* The table of messages, and what all of them have in common: the envelope and the session. */
#include "common/msg.h"

#include <string.h>

#include "common/msg_codec.h"

enum session_rule { SESSION_NONE, SESSION_SOME, SESSION_ANY };

static const struct {
    const char *name;
    enum session_rule session;
    void (*put)(struct wire_writer *w, const struct msg *msg);
    void (*get)(struct wire_reader *r, struct msg *out);
} MESSAGES[] = {
    [MSG_HELLO] = {"HELLO", SESSION_NONE, msg_put_hello, msg_get_hello},
    [MSG_WELCOME] = {"WELCOME", SESSION_SOME, msg_put_welcome, msg_get_welcome},
    [MSG_REJECT] = {"REJECT", SESSION_ANY, msg_put_reject, msg_get_reject},
    [MSG_GRANT] = {"GRANT", SESSION_SOME, msg_put_grant, msg_get_grant},
    [MSG_DATA] = {"DATA", SESSION_SOME, msg_put_data, msg_get_data},
    [MSG_NACK] = {"NACK", SESSION_SOME, msg_put_nack, msg_get_nack},
    [MSG_RETURN] = {"RETURN", SESSION_SOME, msg_put_lease, msg_get_lease},
    [MSG_CANCEL] = {"CANCEL", SESSION_SOME, msg_put_lease, msg_get_lease},
    [MSG_PING] = {"PING", SESSION_SOME, msg_put_ping, msg_get_ping},
    [MSG_PONG] = {"PONG", SESSION_SOME, msg_put_ping, msg_get_ping},
    [MSG_LEAVE] = {"LEAVE", SESSION_SOME, msg_put_text, msg_get_text},
    [MSG_DONE] = {"DONE", SESSION_SOME, msg_put_text, msg_get_text},
    [MSG_BYE] = {"BYE", SESSION_SOME, msg_put_text, msg_get_text},
};

enum { ENVELOPE_BYTES = WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES };
_Static_assert(ENVELOPE_BYTES + MSG_DATA_FIXED_BYTES + SUBST_MAX * MSG_SUBSTITUTION_BYTES <=
                   MSG_BYTES_MAX,
               "the largest DATA header fits");
_Static_assert(ENVELOPE_BYTES + MSG_HELLO_FIXED_BYTES + STREAMS_MAX * MSG_HELLO_STREAM_BYTES +
                       HOST_BYTES_MAX <=
                   MSG_BYTES_MAX,
               "the largest HELLO fits");
_Static_assert(ENVELOPE_BYTES + MSG_REJECT_FIXED_BYTES + INDEX_BUCKETS * 4 + TEXT_BYTES_MAX <=
                   MSG_BYTES_MAX,
               "the largest REJECT fits, and with it all others with a text");

static bool known(uint32_t type)
{
    return type < ARRAY_LEN(MESSAGES) && MESSAGES[type].name != NULL;
}

const char *msg_type_name(enum msg_type type)
{
    return known(type) ? MESSAGES[type].name : "unknown";
}

static bool session_fits(enum session_rule rule, uint64_t session)
{
    return rule == SESSION_ANY || (session != 0) == (rule == SESSION_SOME);
}

size_t msg_encode(const struct msg *msg, uint8_t out[MSG_BYTES_MAX])
{
    CHECK(known(msg->type) && session_fits(MESSAGES[msg->type].session, msg->session));
    struct wire_writer w;
    wire_begin(&w, out, MSG_BYTES_MAX, (uint16_t)msg->type, msg->session);
    MESSAGES[msg->type].put(&w, msg);
    return wire_end(&w);
}

enum status msg_decode(const void *bytes, size_t count, struct msg *out, struct err *err)
{
    struct wire_reader r;
    uint16_t type;
    uint64_t session;
    TRY(wire_open(&r, bytes, count, &type, &session, err));
    if (!known(type)) {
        return err_set(err, ERR_PEER_WRONG, "frame: type: got %u, which is no message", type);
    }
    r.what = MESSAGES[type].name;
    memset(out, 0, sizeof(*out));
    out->type = type;
    out->session = session;
    if (!session_fits(MESSAGES[type].session, session)) {
        wire_fault(&r, "session: %s",
                   session == 0 ? "got 0, wanted the session's number" : "got a number, wanted 0");
    }
    MESSAGES[type].get(&r, out);
    return wire_close(&r);
}
