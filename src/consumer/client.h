/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: the feed's thread. It owns the rank's ROUTER and the scheduler, copies the parts of
 * batches from messages into ring slots (one pass: copy and checksum), and hands complete slots to
 * the rings. It talks to the feed through two small queues and the rings, and never waits for it.
 *
 *   commands:  SURVEY -> FIX -> OPEN ... OPEN -> FINISH        (any may be followed by closing)
 *
 * Before FIX no producer gets a session: HELLOs are kept, counted by the census when this rank was
 * asked for it, and handed to the scheduler as soon as the streams are fixed.
 */
#ifndef HEADRACE_CONSUMER_CLIENT_H
#define HEADRACE_CONSUMER_CLIENT_H

#include "common/layout.h"
#include "common/plan.h"
#include "consumer/census.h"
#include "consumer/ring.h"

struct client;

struct client_stream {
    const char *name; /* borrowed for the client's life, as all pointers here */
    const struct layout *layout;
    struct ring *ring; /* made with the client's wake_fd */
    uint32_t slots;
};

struct client_options {
    uint64_t job, fingerprint; /* what a HELLO must say */
    uint32_t rank;
    const char *address; /* numeric; listens there */
    uint16_t port;
    bool insecure;
    uint32_t stream_count;
    struct client_stream streams[STREAMS_MAX];
    uint32_t producers; /* of the cluster file: what the census waits for */
    uint32_t sessions_max;
    uint64_t session_bytes_max; /* in flight; at least the largest batch */
    int64_t peer_timeout_ns, starve_timeout_ns;
    bool hedge;
    const char *local_host; /* NULL: none */
    int wake_fd;            /* eventfd, written by the rings; owned by the caller */
};

/* Bytes that client_new takes, for the budget (messages in flight are counted apart). */
uint64_t client_bytes(const struct client_options *options);

/* Listens and starts the thread. ERR_RESOURCE: port in use, descriptors, memory; ERR_CONFIG: the
 * address is not loopback and links are not insecure. */
MUST_USE enum status client_new(const struct client_options *options, struct client **out,
                                struct err *err);

/* Where it listens. */
uint16_t client_port(const struct client *client);

/* ---- the feed's thread; each waits for the client's answer ---- */

/* The first rank: waits until as many producers as expected say the same of their data, or until
 * deadline_ns, when it is enough that all that spoke agree. ERR_TIMEOUT: nobody spoke; ERR_DATA:
 * two differ, both named; ERR_CANCELLED. */
MUST_USE enum status client_survey(struct client *client, int64_t deadline_ns,
                                   struct data_facts facts_out[STREAMS_MAX], struct err *err);

/* Once: what the streams are, one of each per stream. Producers get sessions from now on. */
MUST_USE enum status client_fix(struct client *client, const struct data_facts *facts,
                                const struct plan *plans, struct err *err);

/* Delivers steps [first, end) of a stream into its ring, numbered through all epochs. ERR_MISUSE
 * while a batch of it is lent. */
MUST_USE enum status client_open(struct client *client, uint32_t stream, uint64_t first,
                                 uint64_t end, struct err *err);

/* Rows of a lent batch that hold a substitute; of the slot, until it is released. */
uint32_t client_substituted(const struct client *client, uint32_t stream, uint32_t slot);

struct client_stats {
    uint64_t bytes_received, parts, duplicates;
    uint64_t queued_ns, read_ns, decode_ns, augment_ns, send_ns; /* as producers say */
    uint64_t copy_ns; /* message -> slot, with the checksum */
};
/* Any thread. */
void client_stats(const struct client *client, uint32_t stream, struct client_stats *out);

/* Any thread: waiting calls return ERR_CANCELLED from now on. The thread runs on. */
void client_close(struct client *client);

/* Ends the thread. drain: tells producers DONE first and waits for their BYE, 2 s at most. */
void client_free(struct client **client, bool drain);

#endif
