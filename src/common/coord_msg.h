/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the coordinator and its members, as values, and their bytes;
 * docs/PROTOCOL.md is the specification. Pure.
 *
 * A member names itself by a random number, its instance, in every message. Requests carry a
 * number, new for each, and are repeated until answered; all of them may arrive twice. What the
 * server tells everybody (events) is a log: a member says in every PING how many entries it has
 * seen and gets those it has not.
 */
#ifndef HEADRACE_COMMON_COORD_MSG_H
#define HEADRACE_COMMON_COORD_MSG_H

#include "common/coord.h"

enum coord_msg_type {
    COORD_MSG_JOIN = 64, /* member: who I am */
    COORD_MSG_WELCOME,   /* server: you are in */
    COORD_MSG_REFUSE,    /* server: you are not */
    COORD_MSG_PING,      /* member: I live; seen, begun */
    COORD_MSG_PONG,      /* server: so do I */
    COORD_MSG_REQUEST,   /* member: one of enum coord_request_kind */
    COORD_MSG_ANSWER,    /* server */
    COORD_MSG_ROSTER,    /* server: one page, the answer to COORD_REQUEST_ROSTER */
    COORD_MSG_EVENT,     /* server: one entry of the log */
    COORD_MSG_BYE,       /* member: last word */
};

struct coord_msg_join {
    uint32_t kind; /* enum coord_member_kind */
    char host[HOST_BYTES_MAX];
    char address[ADDR_BYTES_MAX];
    char instance_type[NAME_BYTES_MAX];
    uint32_t local_ranks, local_rank;
    uint16_t port, ring_port;
    uint64_t config_digest, fingerprint;
};

struct coord_msg_welcome {
    uint32_t event_count; /* of the log now: a member has joined when it has seen them */
};

enum coord_refusal {
    COORD_REFUSE_UNKNOWN = 1, /* say JOIN again: this server has forgotten or never knew you */
    COORD_REFUSE_CONFIG,      /* another configuration, host, number of ranks or fingerprint */
    COORD_REFUSE_FULL,
};

struct coord_msg_refuse {
    uint32_t code; /* enum coord_refusal */
    char text[TEXT_BYTES_MAX];
};

struct coord_msg_ping {
    uint32_t seen; /* entries of the log */
    bool
        promised; /* COORD_RANK: has seen LOG_STOP_ASKED and keeps to begun + 2, or 0, until STOP_AT
                   */
    uint64_t begun; /* COORD_RANK: steps so far */
};

enum coord_request_kind {
    COORD_REQUEST_PUT = 1,
    COORD_REQUEST_GET, /* answered when the key is there */
    COORD_REQUEST_AGREE,
    COORD_REQUEST_SUM, /* answered when `count` members have asked */
    COORD_REQUEST_ADD,
    COORD_REQUEST_ROSTER, /* answered when all ranks have joined; one page from rank `count` on */
    COORD_REQUEST_CRASH,
    COORD_REQUEST_FAIL,
    COORD_REQUEST_STOP,
    COORD_REQUEST_DONE,
    COORD_REQUEST_PRODUCER_FAILED,
    COORD_REQUEST_SUSPECT, /* FAIL, unless a better reason comes within two seconds */
    COORD_REQUEST_GIVE_UP, /* COORD_RANK, after STOP_AT: will not take step `value` */
};

struct coord_msg_request {
    uint32_t kind; /* enum coord_request_kind */
    uint64_t number;
    char key[COORD_KEY_BYTES]; /* PUT, GET, AGREE, SUM, ADD */
    uint64_t value;            /* AGREE, SUM; ADD: the member's own total; CRASH: the sample;
                                  GIVE_UP: the step, from 0 */
    uint32_t count;            /* SUM: members; ROSTER: first rank; CRASH: the stream;
                                  PRODUCER_FAILED: the exit code */
    uint32_t bytes_count;      /* PUT: the value; FAIL, SUSPECT, PRODUCER_FAILED: a text, no NUL */
    uint8_t bytes[COORD_VALUE_BYTES];
};

enum coord_answer_code {
    COORD_ANSWER_OK = 1,
    COORD_ANSWER_CONFLICT,  /* AGREE: text names both hosts and values */
    COORD_ANSWER_FULL,      /* too many keys */
    COORD_ANSWER_CANCELLED, /* ROSTER: stopped before it began */
};

struct coord_msg_answer {
    uint32_t code; /* enum coord_answer_code */
    uint64_t number;
    uint64_t value;       /* SUM, ADD: the sum */
    uint32_t bytes_count; /* GET: the value; CONFLICT, FULL: the text, without NUL */
    uint8_t bytes[COORD_VALUE_BYTES];
};

enum { COORD_PAGE_RANKS = 64 };

struct coord_msg_roster {
    uint64_t number;
    uint64_t job, seed, global_batch;
    uint32_t rank_count; /* of the job */
    uint32_t first;      /* rank of ranks[0] */
    uint32_t count;      /* of this page */
    struct roster_rank ranks[COORD_PAGE_RANKS];
    uint32_t stream_count; /* on the page with first 0, else 0 */
    struct roster_stream streams[STREAMS_MAX];
};

enum coord_log_kind {
    COORD_LOG_FAIL = 1,
    COORD_LOG_STOP_ASKED, /* ranks answer in their next PING, which they send at once */
    COORD_LOG_STOP_AT,
    COORD_LOG_DONE,
    COORD_LOG_VERDICT,
};

struct coord_log_entry {
    uint32_t kind; /* enum coord_log_kind */
    uint32_t code; /* FAIL: exit code */
    uint32_t stream;
    uint64_t value; /* STOP_AT: the step; VERDICT: the sample */
    char text[TEXT_BYTES_MAX];
};

struct coord_msg_event {
    uint32_t index; /* place in the log, from 0 */
    struct coord_log_entry entry;
};

struct coord_msg {
    enum coord_msg_type type;
    uint64_t member; /* instance of the member it is from or for */
    union {
        struct coord_msg_join join;
        struct coord_msg_welcome welcome;
        struct coord_msg_refuse refuse;
        struct coord_msg_ping ping;
        struct coord_msg_request request;
        struct coord_msg_answer answer;
        struct coord_msg_roster roster;
        struct coord_msg_event event;
    };
};

const char *coord_msg_type_name(uint32_t type);

/* The largest encoding of any message: a full page of the roster with all streams. */
enum { COORD_MSG_BYTES_MAX = 1 << 16 };

/* Writes a message's frame; returns its length. Values out of range are a mistake of ours (CHECK).
 */
size_t coord_msg_encode(const struct coord_msg *msg, uint8_t out[COORD_MSG_BYTES_MAX]);

/* Reads one. ERR_PEER_WRONG names the message, field, got and allowed; *out is then undefined. */
MUST_USE enum status coord_msg_decode(const void *bytes, size_t count, struct coord_msg *out,
                                      struct err *err);

#endif
