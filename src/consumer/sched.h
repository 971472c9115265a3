/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grant scheduler of one rank: who makes which batch, and what to do when they do not. A pure
 * state machine over time and messages: no clock, socket, thread, lock or allocation, so that the
 * same code runs in the client and in the simulator. The rules are DESIGN.md sections 9 and 10;
 * each can be removed by a test-only mutant.
 *
 * Sessions belong to the rank, windows to its streams. A step is numbered through all epochs of its
 * stream: gstep = epoch * steps_per_epoch + step. Step gstep owns slot gstep % slots from entering
 * the window until consumed.
 *
 *   todo -> leased -> complete -> consumed      (leased -> todo by expiry, death, NACK, RETURN)
 */
#ifndef HEADRACE_CONSUMER_SCHED_H
#define HEADRACE_CONSUMER_SCHED_H

#include "common/layout.h"
#include "common/msg.h"

struct sched_stream_options {
    const char *name; /* for texts; borrowed, as the layout is, for the scheduler's life */
    const struct layout *layout; /* layout->bytes at most session_bytes_max */
    uint32_t slots;              /* window: steps open at once */
};

struct sched_options {
    uint64_t job, fingerprint; /* what a HELLO must say */
    uint32_t stream_count;
    struct sched_stream_options streams[STREAMS_MAX];
    uint32_t sessions_max;
    uint64_t session_bytes_max; /* in-flight cap of a session; a HELLO's capacity may lower it */
    int64_t lease_min_ns;       /* 500 ms */
    int64_t ping_interval_ns;   /* 250 ms */
    int64_t peer_timeout_ns;
    int64_t starve_timeout_ns;
    bool hedge;
    const char *local_host; /* its producers are preferred; NULL: none */
    uint32_t mutant;        /* enum sched_mutant: a rule taken out by a test; 0 in production */
};

struct sched; /* opaque; lives in memory that the caller gives */
size_t sched_bytes(const struct sched_options *options);
/* memory: sched_bytes() bytes, aligned to 64. */
struct sched *sched_init(void *memory, const struct sched_options *options, int64_t now_ns);

/* What a HELLO must say of a stream, and how long its epochs are. Until it is called any HELLO is
 * right in this, and the caller may look at the HELLOs that it passes on; then sessions that said
 * something else are ended with REJECT_DATA. Once per stream, before sched_open. */
struct sched_data_set {
    uint64_t samples;
    uint64_t digest;
    uint64_t steps_per_epoch;
};
void sched_fix_stream(struct sched *sched, uint32_t stream, const struct sched_data_set *data,
                      int64_t now_ns);

/* Opens the half-open range [first, end) of gsteps of a stream; what was open of it before is
 * forgotten (an evaluation that begins, a resume). All slots of the stream are free: whatever the
 * caller still reads in them, it has stopped reading. */
void sched_open(struct sched *sched, uint32_t stream, uint64_t first, uint64_t end, int64_t now_ns);
/* The oldest step of the window has been consumed and its slot is free again. */
void sched_consumed(struct sched *sched, uint32_t stream, int64_t now_ns);
/* From now on: no grants; DONE to all sessions; BYE answers are awaited. */
void sched_finish(struct sched *sched, int64_t now_ns);

/* A HELLO from a connection. peer is never used again for another connection. */
struct sched_hello {
    uint64_t peer;
    const char *address;         /* it came from there, for people; "": not known. Copied */
    const struct msg_hello *msg; /* borrowed for the call */
    uint64_t fresh; /* a random 64-bit number but 0, taken as the session's if one begins */
};
void sched_on_hello(struct sched *sched, const struct sched_hello *hello, int64_t now_ns);
/* A message other than HELLO and DATA. */
void sched_on_message(struct sched *sched, uint64_t peer, const struct msg *msg, int64_t now_ns);

struct sched_place {
    uint32_t stream, slot;
    uint64_t gstep;
    uint64_t offset; /* in the slot */
    uint32_t length;
};
/* A DATA header; the caller has seen that the body frame has msg's length (else it is garbage).
 * Returns true when the bytes are wanted and where they go: the caller copies, verifies and calls
 * sched_on_written next, before any other call. False: dropped. Credited in both cases. */
bool sched_on_data(struct sched *sched, uint64_t peer, const struct msg *msg, int64_t now_ns,
                   struct sched_place *out);
/* good: the checksum held and ids and substitutions are as the plan says. A bad part cancels its
 * lease. */
void sched_on_written(struct sched *sched, uint64_t peer, const struct msg *msg, bool good,
                      int64_t now_ns);

/* A frame that could not be decoded, or a frame's checksum that failed: ends the session. */
void sched_on_garbage(struct sched *sched, uint64_t peer, int64_t now_ns);
/* A hint that the connection broke. */
void sched_on_disconnect(struct sched *sched, uint64_t peer, int64_t now_ns);

/* Timers: call when now reaches sched_deadline(), or more often; after the messages that wait have
 * been handed in, so that nobody counts as silent who was only not listened to. */
void sched_on_time(struct sched *sched, int64_t now_ns);
int64_t sched_deadline(const struct sched *sched);

enum sched_action_kind {
    SCHED_SEND,          /* msg to peer */
    SCHED_COMPLETE,      /* the oldest step of a stream not yet announced is complete (stream, slot,
                            gstep): steps come in order, each once */
    SCHED_SESSION_BEGAN, /* peer, session and text, for people */
    SCHED_SESSION_ENDED, /* peer, session and text: why */
    SCHED_LOG,           /* text, for people: a HELLO refused, a lease expired, a bad part */
    SCHED_FAIL,          /* text and status, once: starved, or a NACK that ends the job */
};
struct sched_action {
    enum sched_action_kind kind;
    uint64_t peer;
    uint64_t session;
    struct msg msg;
    uint32_t stream, slot;
    uint64_t gstep;
    enum status status;
    char text[TEXT_BYTES_MAX];
};
/* The next thing to do, until it returns false: to be asked after every other call. Grants are made
 * here. Texts that nobody asks for are lost, oldest first; nothing else is. */
bool sched_next_action(struct sched *sched, int64_t now_ns, struct sched_action *out);
/* A message of SCHED_SEND could not be queued (ERR_AGAIN): the peer gets no grant for a while. When
 * the connection is gone (ERR_PEER_GONE) call sched_on_disconnect instead. */
void sched_on_send_failed(struct sched *sched, uint64_t peer, const struct msg *msg,
                          int64_t now_ns);

struct sched_stats {
    uint64_t sessions_begun, sessions_ended, grants, expiries, second_leases, hedges, parts_written,
        parts_duplicate, parts_late, parts_bad, nacks, returns;
    uint32_t sessions_live, leases_live;
    uint64_t in_flight_bytes; /* over all live sessions: what the books say */
};
void sched_stats(const struct sched *sched, struct sched_stats *out);
/* All sessions have answered DONE with BYE, or are gone. */
bool sched_finished(const struct sched *sched);

#endif
