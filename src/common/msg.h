/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between a rank and a producer, as values. wire.h turns them into bytes and back;
 * docs/PROTOCOL.md is the specification. The coordinator's messages are in coord_msg.h. Pure.
 */
#ifndef HEADRACE_COMMON_MSG_H
#define HEADRACE_COMMON_MSG_H

#include "common/err.h"
#include "common/limits.h"

enum msg_type {
    MSG_HELLO = 1,
    MSG_WELCOME,
    MSG_REJECT,
    MSG_GRANT,
    MSG_DATA,
    MSG_NACK,
    MSG_RETURN,
    MSG_CANCEL,
    MSG_PING,
    MSG_PONG,
    MSG_LEAVE,
    MSG_DONE,
    MSG_BYE,
};

struct msg_hello { /* the only message without a session */
    uint64_t job;  /* hash of the job's name and start; from the roster */
    char host[HOST_BYTES_MAX];
    uint32_t index;       /* of this producer process on its host */
    uint64_t instance;    /* random, new with every process */
    uint32_t attempt;     /* one higher each time the producer drops its session with this rank */
    uint64_t fingerprint; /* decode fingerprint */
    uint64_t capacity_bytes; /* batch bytes it can hold for this rank */
    uint32_t stream_count;
    struct {
        uint64_t samples;
        uint64_t digest;  /* of the data set: names, sizes, labels */
        uint32_t classes; /* 0: no labels; a rank has no data of its own to count them in */
        uint32_t buckets[INDEX_BUCKETS]; /* low halves of its bucket digests */
    } streams[STREAMS_MAX];              /* in the roster's order */
};

struct msg_welcome {
    uint64_t credit_bytes; /* in-flight bytes this session may have */
    uint32_t attempt;      /* of the HELLO it answers; one of an older attempt changes nothing */
};

enum reject_code {
    REJECT_UNKNOWN_SESSION = 1, /* say HELLO again */
    REJECT_VERSION,
    REJECT_JOB,
    REJECT_FINGERPRINT,
    REJECT_DATA,      /* another data set: re-index and try again */
    REJECT_DUPLICATE, /* another instance for this host and index was heard within its session */
    REJECT_FULL,      /* no room for another session */
};

struct msg_reject {
    uint64_t refused;  /* the session it refuses; 0: a HELLO */
    uint32_t code;     /* enum reject_code */
    uint64_t instance; /* of the HELLO it answers, else 0 */
    uint32_t attempt;
    uint32_t stream;                 /* DATA: the one that differs, when */
    uint32_t bucket_count;           /* is INDEX_BUCKETS; else 0: not known, or another code */
    uint32_t buckets[INDEX_BUCKETS]; /* of the data set that it should have */
    char text[TEXT_BYTES_MAX];
};

struct msg_grant {
    uint32_t lease; /* new for every grant of a session, from 1 */
    uint32_t stream;
    uint32_t epoch;
    uint64_t step;                   /* in the epoch */
    uint32_t due;                    /* batches of this rank consumed before it */
    uint32_t first_part, part_count; /* the range wanted */
};

struct substitution {
    uint32_t row;     /* of the rank's batch */
    uint32_t attempt; /* place on the keyed chain of the sample delivered */
    uint64_t bad;     /* the sample id that the plan named */
    uint64_t taken;   /* the sample id delivered */
};

struct msg_data { /* the header frame; the bytes are the second frame */
    uint32_t lease;
    uint32_t stream;
    uint32_t epoch;
    uint64_t step;
    uint32_t part, part_count; /* i of n of the whole batch */
    uint64_t offset;
    uint32_t length;
    uint64_t sum_low, sum_high; /* XXH3-128 of the bytes */
    uint32_t substitution_count;
    struct substitution substitutions[SUBST_MAX]; /* of samples that have a byte in this part */
    bool last; /* the lease's last part: the durations below are set */
    uint64_t queued_ns, read_ns, decode_ns, augment_ns; /* sums over the lease's samples */
    uint64_t send_ns; /* of this part, from its completion to the socket */
};

enum nack_code {
    NACK_IO = 1,     /* retried, still failing: no sample is bad */
    NACK_BAD_BUDGET, /* on_bad=fail, or no good sample on the chain */
    NACK_RANGE,      /* the grant asks for what does not exist */
    NACK_RESOURCE,
};

struct msg_nack {
    uint32_t lease;
    uint32_t code;
    char text[TEXT_BYTES_MAX];
};

struct msg_lease { /* RETURN and CANCEL */
    uint32_t lease;
};

struct msg_ping { /* PING and PONG */
    uint64_t seq;
    uint64_t samples_done;  /* PONG: finished for this session since it began */
    uint64_t oldest_age_ns; /* PONG: of the oldest sample in work; 0: none */
};

struct msg_text { /* DONE, BYE, LEAVE */
    char text[TEXT_BYTES_MAX];
};

struct msg {
    enum msg_type type;
    uint64_t session; /* 0 in HELLO; in REJECT the same as reject.refused */
    union {
        struct msg_hello hello;
        struct msg_welcome welcome;
        struct msg_reject reject;
        struct msg_grant grant;
        struct msg_data data;
        struct msg_nack nack;
        struct msg_lease lease;
        struct msg_ping ping;
        struct msg_text text;
    };
};

/* "HELLO", ...; "unknown" for what is no message. */
const char *msg_type_name(enum msg_type type);

/* The largest encoding of any message, without DATA's second frame: HELLO with STREAMS_MAX streams
 * (asserted in msg.c). */
enum { MSG_BYTES_MAX = 3072 };

/* Writes a message's (header) frame; out has room for MSG_BYTES_MAX. Returns its length. Values out
 * of range are a mistake of ours (CHECK); a text too long for its field is cut. */
size_t msg_encode(const struct msg *msg, uint8_t out[MSG_BYTES_MAX]);

/* Reads one. ERR_PEER_WRONG names the message, field, got and allowed; *out is then undefined.
 * Every length is checked, reserved bytes must be zero, texts are NUL-terminated and made
 * printable, the frame's checksum must hold. A frame of another protocol version is refused too:
 * wire_version() tells whether that is why, to answer REJECT_VERSION. */
MUST_USE enum status msg_decode(const void *bytes, size_t count, struct msg *out, struct err *err);

#endif
