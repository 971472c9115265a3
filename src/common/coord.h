/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator: the job's meeting point, a small server in the agent of the first trainer host,
 * and the client side that every agent, rank and producer holds. No batch and no grant passes
 * through it. A FAIL from anybody, or the coordinator's death, ends the job everywhere.
 *
 * Server: a thread of its own in the agent (coord_server_*). Client: a thread of its own per
 * process that answers PINGs and queues events; its calls may come from any thread of the process
 * and block up to their deadline.
 *
 * All ranks stop at the same step: STOP (anybody) -> the server asks every rank, whose client
 * answers at once with the step it is in and a promise not to begin a step past that + 2 before it
 * hears more -> the server broadcasts STOP_AT(highest answer + 2). coord_may_begin() keeps the
 * promise.
 */
#ifndef HEADRACE_COMMON_COORD_H
#define HEADRACE_COMMON_COORD_H

#include "common/config.h"
#include "common/net.h"

enum { COORD_VALUE_BYTES = 4096, COORD_KEY_BYTES = 128 };

enum coord_member_kind { COORD_AGENT = 1, COORD_RANK, COORD_PRODUCER };

/* ---- the roster: everything a producer needs to serve, sent when all expected ranks have joined
 * ---- */
struct roster_rank {
    uint32_t rank, local_rank;
    char host[HOST_BYTES_MAX];
    char address[ADDR_BYTES_MAX];
    uint16_t port;      /* its ROUTER */
    uint16_t ring_port; /* its collective's listener */
};

struct roster_stream {
    char name[NAME_BYTES_MAX];
    char data[CONFIG_TEXT_BYTES];
    char pipeline[PIPELINE_TEXT_BYTES];
    enum shuffle_kind shuffle;
    enum last_kind last;
};

struct roster {
    uint64_t job; /* random, one per start of a job */
    uint64_t seed;
    uint64_t global_batch;
    uint32_t rank_count;
    struct roster_rank *ranks; /* owned */
    uint32_t stream_count;
    struct roster_stream streams[STREAMS_MAX];
};
void roster_fini(struct roster *roster);

/* ---- server ---- */
struct coord_server;
struct coord_server_options {
    const char *address; /* of this host's own name, numeric */
    uint16_t port;       /* config.port */
    bool insecure;
    const struct config
        *config; /* streams, seed, global batch: they make the roster; borrowed for its life */
    uint32_t trainer_hosts; /* how many agents with ranks to wait for before the roster */
    uint32_t hosts;         /* all of them */
    double join_timeout_s;
};
MUST_USE enum status coord_server_start(const struct coord_server_options *options,
                                        struct coord_server **out, struct err *err);
/* The job is over when every rank's agent has said DONE; waits until all members have said BYE or
 * deadline_ns. */
void coord_server_stop(struct coord_server **server, int64_t deadline_ns);

/* ---- client ---- */
struct coord_client;
struct coord_join {
    enum coord_member_kind kind;
    const char *host, *instance_type; /* as in the cluster file */
    const char *address;              /* own numeric address, for ranks: the one they listen on */
    uint32_t local_ranks; /* COORD_AGENT on a trainer host: how many ranks it will start; else 0 */
    uint32_t local_rank;  /* COORD_RANK */
    uint16_t port, ring_port; /* COORD_RANK */
    uint64_t config_digest;   /* differs: the job fails, naming both hosts */
    uint64_t fingerprint;
};
/* Connects to the coordinator and joins, retrying until deadline; starts the thread. ERR_TIMEOUT,
 * ERR_PEER_WRONG (version), ERR_CONFIG (a difference, both hosts named). */
MUST_USE enum status coord_connect(const char *address, uint16_t port, bool insecure,
                                   const struct coord_join *join, int64_t deadline_ns,
                                   struct coord_client **out, struct err *err);
/* Says BYE and ends the thread. */
void coord_close(struct coord_client **client);

enum coord_event_kind {
    COORD_EVENT_FAIL,    /* text: host and reason. End now, exit code 69 (the failing host uses its
                            own) */
    COORD_EVENT_LOST,    /* the coordinator is gone: the same */
    COORD_EVENT_STOP_AT, /* step */
    COORD_EVENT_DONE,    /* the job ended well: producers drain and exit 0 */
    COORD_EVENT_VERDICT, /* sample: has killed a decoder twice; it is bad from now on */
};
struct coord_event {
    enum coord_event_kind kind;
    uint64_t step;   /* STOP_AT */
    uint32_t stream; /* VERDICT */
    uint64_t sample; /* VERDICT */
    char text[TEXT_BYTES_MAX];
};
/* Readable while an event waits; for poll sets. */
int coord_event_fd(const struct coord_client *client);
/* ERR_AGAIN: none. */
MUST_USE enum status coord_next_event(struct coord_client *client, struct coord_event *out);

/* Waits for the roster. Ranks' global numbers stand in it: trainer hosts in natural order of name,
 * local ranks within. */
MUST_USE enum status coord_roster(struct coord_client *client, int64_t deadline_ns,
                                  struct roster *out, struct err *err);
MUST_USE enum status coord_put(struct coord_client *client, const char *key, const void *value,
                               size_t count, struct err *err);
/* Waits until somebody has put the key. value has room for COORD_VALUE_BYTES. */
MUST_USE enum status coord_get(struct coord_client *client, const char *key, int64_t deadline_ns,
                               void *value, size_t *count_out, struct err *err);
/* The first value wins; another one is ERR_CONFIG naming both hosts and both values in hex. */
MUST_USE enum status coord_agree(struct coord_client *client, const char *key, uint64_t value,
                                 int64_t deadline_ns, struct err *err);
/* Returns when `count` members have called it with this name. */
MUST_USE enum status coord_barrier(struct coord_client *client, const char *name, uint32_t count,
                                   int64_t deadline_ns, struct err *err);
/* Adds to a number kept under a name and returns the sum so far (bad samples). */
MUST_USE enum status coord_add(struct coord_client *client, const char *name, uint64_t delta,
                               int64_t deadline_ns, uint64_t *sum_out, struct err *err);
/* A sample that killed a decoder: the server counts, and gives the verdict at two. */
MUST_USE enum status coord_report_crash(struct coord_client *client, uint32_t stream,
                                        uint64_t sample, struct err *err);
void coord_fail(struct coord_client *client,
                const char *text);            /* ends the job everywhere; returns at once */
void coord_stop(struct coord_client *client); /* asks for a common last step; returns at once */
void coord_done(struct coord_client *client); /* this agent's ranks ended well */

/* COORD_RANK, before every step: steps begun so far, over epochs. Returns at once but while a stop
 * is being agreed. *may_out false: the common last step is reached. */
MUST_USE enum status coord_may_begin(struct coord_client *client, uint64_t step,
                                     int64_t deadline_ns, bool *may_out, struct err *err);

#endif
