/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler's files share; nobody else includes it but its tests. All of it lies in the
 * one block that sched_init was given: fixed tables, each with its size beside it.
 *
 *   sched.c          the block, the public calls, timers, the order of actions
 *   sched_session.c  producers (kept across sessions), sessions, HELLO and the control messages
 *   sched_lease.c    leases and the session's account: grant, credit, settle, expire
 *   sched_data.c     parts of batches: wanted or not, good or bad
 *   sched_choose.c   which producer gets a step
 *   sched_window.c   streams, their windows of steps, what of a step lies in its slot
 *   sched_say.c      texts for people, answers to connections without a session
 *
 * Invariants: a session's in_flight is the sum of bytes_left over its leases; a lease is live only
 * while its step is in the window, and the step then lists it; leases of a step that are live are
 * at most LIVE_MAX; a step's missing is the number of its clear bits.
 */
#ifndef HEADRACE_CONSUMER_SCHED_INTERNAL_H
#define HEADRACE_CONSUMER_SCHED_INTERNAL_H

#include "consumer/sched.h"
#include "consumer/sched_mutant.h"

enum {
    LIVE_MAX = 2,      /* leases that count for a step at one time */
    LEASE_FACTOR = 4,  /* lease time in measured service times */
    PATIENCE_MAX = 8,  /* a lease time is doubled at most so often */
    HEDGE_FACTOR = 2,  /* a step is late when its lease is older than so many mean leases */
    REST_MAX = 4,      /* a producer's rest is doubled at most so often */
    NACKS_MAX = 16,    /* I/O NACKs of one step that end the job when no producer does better */
    REFUSALS_MAX = 16, /* refusals that are remembered, to be said to people only once */
    ANSWERS_MAX = 32,  /* answers to connections without a session that wait to be sent */
    TEXTS_MAX = 32,    /* texts that wait to be asked for */
    NONE = UINT32_MAX, /* no producer, no session */
};

/* A producer process's place, known by host and index; kept after its session has ended. */
struct sched_producer {
    char host[HOST_BYTES_MAX]; /* "": the record is free */
    uint32_t index;
    bool local;
    uint64_t instance; /* what its last session was begun with */
    uint32_t attempt;
    uint64_t session_id; /* that session, perhaps dead by now */
    uint32_t session;    /* where it lies while it lives, else NONE */
    int64_t seen_ns;
    uint64_t failure;   /* when it failed last, in failures; 0: wrote a part since */
    uint32_t row;       /* failures since it wrote a part */
    int64_t rest_ns;    /* not asked before, while others do well */
    double ns_per_byte; /* measured service time; 0: none yet */
};

enum {
    SAY_WELCOME = 1,
    SAY_DONE = 2,
    SAY_CANCEL = 4,
    SAY_PONG = 8,
    SAY_PING = 16,
};

struct sched_session {
    uint64_t id, peer; /* id 0: the record is free */
    char address[ADDR_BYTES_MAX];
    uint32_t producer;
    uint32_t welcomes; /* given out, and not come back as failed */
    bool leaving;
    uint8_t say; /* SAY_*: messages that are due */
    uint32_t leases_open, leases_live;
    uint32_t last_lease;
    uint64_t bytes_max, in_flight_bytes;
    int64_t heard_ns, progress_ns, settled_ns;
    int64_t ping_ns;   /* when the next PING is due */
    int64_t expiry_ns; /* no live lease expires before */
    int64_t paused_ns; /* no grant before */
    uint64_t samples_done, oldest_age_ns;
    uint64_t ping_seq, pong_seq;
    struct {
        uint64_t samples, digest;
    } said[STREAMS_MAX]; /* by its HELLO, of the streams */
};

struct sched_lease {
    uint32_t number; /* 0: the record is free; lease n lies at n % leases_max of its session */
    uint32_t stream;
    uint64_t gstep;
    uint32_t first_part, part_count;
    uint64_t bytes, bytes_left; /* charged; not yet credited */
    int64_t granted_ns;
    uint32_t patience; /* expiries of its step before it: each doubles the lease time */
    bool live;         /* counts for its step */
    bool cancel_due;   /* CANCEL has to be sent */
};

struct sched_step {
    uint32_t missing; /* parts not yet written */
    uint32_t grants;
    uint32_t expiries;
    uint32_t io_nacks;
    uint32_t live_count;
    struct {
        uint32_t session, lease;
    } live[LIVE_MAX + 1]; /* one more than may be, for the mutant */
    uint64_t *written;    /* a bit for each part */
};

struct sched_stream {
    bool fixed;
    struct sched_data_set data;
    uint32_t bucket_count; /* INDEX_BUCKETS, or 0: nobody with these data has said HELLO yet */
    uint32_t buckets[INDEX_BUCKETS];
    uint64_t base, announced, end; /* window: [base, min(base + slots, end)) */
    uint32_t waiting;              /* steps in the window that are not complete */
    struct sched_step *steps;      /* of gstep g: [g % slots] */
};

struct sched_answer {
    uint64_t peer;
    struct msg msg; /* WELCOME or REJECT */
};

struct sched_text {
    enum sched_action_kind kind;
    uint64_t peer, session;
    char text[TEXT_BYTES_MAX];
};

struct sched {
    struct sched_options options;
    uint32_t leases_max;    /* of a session */
    uint32_t producers_max; /* twice the sessions: some are remembered */
    int64_t now_ns;         /* of the last call */
    int64_t progress_ns;    /* when something came forward, or a step began to wait */
    uint64_t failures;      /* so far: the clock of the failure order */
    uint64_t consumed;      /* steps of all streams so far */
    double ns_per_byte;     /* mean service time of all producers; 0: none yet */
    double lease_ns;        /* mean time from grant to last part; 0: none yet */
    bool finishing;
    enum status failed; /* the job ends with this */
    bool fail_due;
    char fail_text[TEXT_BYTES_MAX];
    struct sched_stats stats;
    struct sched_stream streams[STREAMS_MAX];
    uint64_t *ids; /* sessions[i].id, close together to be searched */
    struct sched_session *sessions;
    struct sched_lease *leases; /* leases_max for each session */
    struct sched_producer *producers;
    uint32_t answer_first, answer_count, text_first, text_count;
    struct sched_answer answers[ANSWERS_MAX];
    uint32_t refusal_next;
    struct {
        uint64_t peer;
        uint32_t code;
    } refusals[REFUSALS_MAX];
    struct sched_text texts[TEXTS_MAX];
};

/* Has a test taken this rule out? */
static inline bool sched_lacks(const struct sched *sched, enum sched_mutant rule)
{
    return sched->options.mutant == (uint32_t)rule;
}

/* sched_session.c */
struct sched_session *sched_session_find(struct sched *sched, uint64_t peer, uint64_t id);
/* failed: counts as a failure of the producer if it had leases. why: for people. */
void sched_session_end(struct sched *sched, struct sched_session *session, bool failed,
                       const char *why);
/* Ends every session of a connection. */
void sched_session_end_peer(struct sched *sched, uint64_t peer, const char *why);
/* A WELCOME could not be sent. If none was before, the session never was: its HELLO comes again. */
void sched_session_unwelcome(struct sched *sched, struct sched_session *session);
/* Are producers to be told that the job is over? */
bool sched_session_is_done(const struct sched *sched);
/* No grant for a ping interval, so that nobody is asked again and again in vain. */
void sched_session_pause(struct sched *sched, struct sched_session *session);
/* Does what is due by now: PING, silence. False: the session has ended. */
bool sched_session_tick(struct sched *sched, struct sched_session *session);
/* The next message that is due, or false. */
bool sched_session_say(struct sched *sched, struct sched_session *session, struct msg *out);
/* A stream's data set is fixed now: a session whose HELLO said another one is turned away. */
void sched_session_check_data(struct sched *sched, struct sched_session *session, uint32_t stream);

/* sched_lease.c */
struct sched_lease *sched_lease_find(struct sched *sched, const struct sched_session *session,
                                     uint32_t number);
/* A new lease for all missing parts of a step, charged to the session. */
struct sched_lease *sched_lease_new(struct sched *sched, struct sched_session *session,
                                    uint32_t stream, uint64_t gstep);
/* The producer has nothing more to send for it: what is left is credited, the record is free. */
void sched_lease_settle(struct sched *sched, struct sched_session *session,
                        struct sched_lease *lease);
/* A part came, good or not: its account gets it back, and the lease is renewed. The lease is
 * settled by its last part. */
void sched_lease_receive(struct sched *sched, struct sched_session *session,
                         struct sched_lease *lease, uint32_t length);
/* It no longer counts for its step, and a CANCEL is sent; its account stays as it is. */
void sched_lease_cancel(struct sched *sched, struct sched_session *session,
                        struct sched_lease *lease);
/* All of a step's or a stream's live leases. */
void sched_lease_cancel_step(struct sched *sched, struct sched_step *step);
void sched_lease_cancel_stream(struct sched *sched, uint32_t stream);
/* Settles all leases of a session that ends. */
void sched_lease_drop_all(struct sched *sched, struct sched_session *session);
/* Expires what has to; sets session->expiry_ns. */
void sched_lease_expire(struct sched *sched, struct sched_session *session);
/* Its producer has failed: last in the order, and to rest; or has written a part: forgiven. */
void sched_lease_fail(struct sched *sched, struct sched_producer *producer);
void sched_lease_forgive(struct sched_producer *producer);
void sched_lease_nack(struct sched *sched, struct sched_session *session,
                      const struct msg_nack *nack);

/* sched_choose.c */
/* Is there a producer that wants grants and has not failed since it wrote a part? */
bool sched_choose_someone_does_well(const struct sched *sched);
/* Makes the next grant and fills its message, or returns false. */
bool sched_choose_grant(struct sched *sched, struct sched_action *out);
/* When a step becomes late enough for a second lease; INT64_MAX: not by time alone. */
int64_t sched_choose_hedge_ns(const struct sched *sched);

/* sched_window.c */
/* The step if it is in the window, else NULL. */
struct sched_step *sched_window_step(struct sched *sched, uint32_t stream, uint64_t gstep);
/* One past the last gstep of the window. */
uint64_t sched_window_end(const struct sched *sched, uint32_t stream);
bool sched_window_is_written(const struct sched_step *step, uint32_t part);
/* Sets the bit of a part that was clear. */
void sched_window_write(struct sched *sched, uint32_t stream, struct sched_step *step,
                        uint32_t part);
/* No part of the step is written. */
void sched_window_clear(struct sched *sched, uint32_t stream, struct sched_step *step);
/* The range from the first to the last missing part of a step that has one. */
void sched_window_missing(const struct sched *sched, uint32_t stream, const struct sched_step *step,
                          uint32_t *first_out, uint32_t *count_out);
uint64_t sched_window_range_bytes(const struct sched *sched, uint32_t stream, uint32_t first,
                                  uint32_t count);
bool sched_window_is_waiting(const struct sched *sched);
void sched_window_open(struct sched *sched, uint32_t stream, uint64_t first, uint64_t end);
void sched_window_advance(struct sched *sched, uint32_t stream);

/* sched_say.c */
void sched_say_text(struct sched *sched, enum sched_action_kind kind,
                    const struct sched_session *session, const char *format, ...) PRINTF(4, 5);
void sched_say_reject(struct sched *sched, uint64_t peer, const struct msg_reject *reject);
/* Has this connection been refused for this before? Remembers it. */
bool sched_say_refused_before(struct sched *sched, uint64_t peer, uint32_t code);
void sched_say_welcome(struct sched *sched, uint64_t peer, uint64_t session,
                       const struct msg_welcome *welcome);
/* The job cannot go on. Said once, the first time. */
void sched_say_fail(struct sched *sched, enum status status, const char *format, ...) PRINTF(3, 4);
/* Takes the oldest one out. */
bool sched_say_next(struct sched *sched, struct sched_action *out);

#endif
