/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator: the job's meeting point, a small server in the agent of the first trainer host,
 * and the client side that every agent, rank and producer holds. No batch and no grant passes
 * through it. A FAIL from anybody, or the coordinator's death, ends the job everywhere.
 *
 * Server: a thread of its own in the agent (coord_server_*), around the state machine in
 * coord_state.h. Client: a thread of its own per process that says PING, follows the server's
 * events and queues them; its calls may come from any thread of the process and block up to their
 * deadline. Once the job has failed or the coordinator is lost, every waiting and every later call
 * returns ERR_PEER_GONE with the reason.
 *
 * All ranks stop at the same step: STOP (anybody) -> the server asks every rank, whose client
 * answers at once with the number of steps it has begun and a promise not to begin more than two
 * others (none, if it has begun none) before it hears more -> the server broadcasts STOP_AT(highest
 * answer + 2), or STOP_AT(0) if nobody has begun. coord_may_begin() keeps the promise.
 *
 * A rank that cannot take a step before that, for its data do not come, gives it up: as the ranks
 * take each step together, none can finish it, and the server broadcasts STOP_AT again, with the
 * number of the step given up. It does so once; evaluation, whose batches are counted but not taken
 * together, is over for all when one rank gives up a batch of it.
 */
#ifndef HEADRACE_COMMON_COORD_H
#define HEADRACE_COMMON_COORD_H

#include "common/cluster.h"
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
    struct roster_rank *ranks; /* ranks[i].rank == i; owned */
    uint32_t stream_count;
    struct roster_stream streams[STREAMS_MAX];
};
void roster_fini(struct roster *roster);

/* ---- server ---- */
struct coord_server;
struct coord_server_options {
    const char *address;           /* of this host's own name, numeric */
    const struct config *config;   /* port, insecure, timeouts, and what makes the roster: streams,
                                      seed, global batch; borrowed for its life */
    const struct cluster *cluster; /* whom to wait for; borrowed for its life */
};
MUST_USE enum status coord_server_start(const struct coord_server_options *options,
                                        struct coord_server **out, struct err *err);
/* Ends the server once every host of the cluster has been there to hear how the job ended and all
 * members have said BYE, or at deadline_ns. (The job is over when every trainer host's agent has
 * said DONE, or anybody FAIL.) */
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
    uint64_t config_digest;   /* differs: the job fails, naming both hosts; 0: not known here (serve
                                 --connect) and not compared */
    uint64_t fingerprint;  /* of the decoder. A producer whose own differs from the first one's is
                              turned away (ERR_CONFIG), the job goes on; 0: not compared */
    double peer_timeout_s; /* config.peer_timeout_s. The coordinator is lost after five times
                              this silence, after once when the connection broke */
    const int *cancel_fd;  /* NULL, or the wait ends with ERR_CANCELLED when it is readable */
};
/* Connects to the coordinator and joins, retrying until deadline; starts the thread. ERR_TIMEOUT,
 * ERR_PEER_WRONG (version), ERR_CONFIG (a difference, both hosts named), ERR_CANCELLED. Events that
 * came before (verdicts) are queued when it returns. */
MUST_USE enum status coord_connect(const char *address, uint16_t port, bool insecure,
                                   const struct coord_join *join, int64_t deadline_ns,
                                   struct coord_client **out, struct err *err);
/* Waits up to 1 s until the server has the notices (fail, stop, done), says BYE and ends the
 * thread. */
void coord_close(struct coord_client **client);

enum coord_event_kind {
    COORD_EVENT_FAIL = 1, /* text: host and reason; code: what a process exits with that has no
                             reason of its own (69, or what the server found: 65, 66, 75, 78) */
    COORD_EVENT_LOST,     /* the coordinator is gone: the same, with 69 */
    COORD_EVENT_STOP_AT,  /* step: how many steps all ranks take altogether. 0: the job
                             was stopped before it began. Again, with a lower one: given up */
    COORD_EVENT_DONE,     /* the job ended well: producers drain and exit 0 */
    COORD_EVENT_VERDICT,  /* sample: has killed a decoder twice; it is bad from now on */
};
struct coord_event {
    enum coord_event_kind kind;
    uint64_t step;   /* STOP_AT */
    uint32_t stream; /* VERDICT */
    uint64_t sample; /* VERDICT */
    int32_t code;    /* FAIL, LOST */
    char text[TEXT_BYTES_MAX];
};
/* Readable while an event waits; for poll sets. */
int coord_event_fd(const struct coord_client *client);
/* ERR_AGAIN: none. Each event is handed out once. */
MUST_USE enum status coord_next_event(struct coord_client *client, struct coord_event *out);

/* Waits for the roster. Ranks' global numbers stand in it: trainer hosts in natural order of name,
 * local ranks within. ERR_CANCELLED: stopped before it began (exit 0). ERR_TIMEOUT: may be called
 * again. */
MUST_USE enum status coord_roster(struct coord_client *client, int64_t deadline_ns,
                                  struct roster *out, struct err *err);
/* Facts of the whole job under a key; at most 1,024 of them, for keys are never forgotten. The last
 * value put stands. */
MUST_USE enum status coord_put(struct coord_client *client, const char *key, const void *value,
                               size_t count, int64_t deadline_ns, struct err *err);
/* Waits until somebody has put the key. value has room for COORD_VALUE_BYTES. */
MUST_USE enum status coord_get(struct coord_client *client, const char *key, int64_t deadline_ns,
                               void *value, size_t *count_out, struct err *err);
/* The first value wins; another one is ERR_CONFIG naming both hosts and both values in hex. */
MUST_USE enum status coord_agree(struct coord_client *client, const char *key, uint64_t value,
                                 int64_t deadline_ns, struct err *err);
/* Returns when `count` members have called it with this name, which may then be used again. One
 * thread of a process at a time for coord_barrier and coord_sum together. */
MUST_USE enum status coord_barrier(struct coord_client *client, const char *name, uint32_t count,
                                   int64_t deadline_ns, struct err *err);
/* A barrier that also gives the sum, modulo 2^64, of what the `count` members brought (stream
 * digests of an epoch). */
MUST_USE enum status coord_sum(struct coord_client *client, const char *name, uint32_t count,
                               uint64_t value, int64_t deadline_ns, uint64_t *sum_out,
                               struct err *err);
/* Adds to a number kept under a name (at most 64 names) and returns the sum so far over all members
 * (bad samples). */
MUST_USE enum status coord_add(struct coord_client *client, const char *name, uint64_t delta,
                               int64_t deadline_ns, uint64_t *sum_out, struct err *err);
/* COORD_AGENT: a sample that killed a decoder: the server counts, and gives the verdict at two.
 * Returns when the server has it. One thread of a process at a time. */
MUST_USE enum status coord_report_crash(struct coord_client *client, uint32_t stream,
                                        uint64_t sample, int64_t deadline_ns, struct err *err);

/* Notices: they return at once and are repeated until the server has them. */
void coord_fail(struct coord_client *client,
                const char *text); /* ends the job everywhere: "rank 1 was killed ..." */
/* The same, for a loss that is likely to be the consequence of another failure ("lost its peer"):
 * ends the job in two seconds, with the first reason that was suspected, unless a better one comes.
 */
void coord_suspect(struct coord_client *client, const char *text);
void coord_stop(struct coord_client *client); /* asks for a common last step */
void coord_done(struct coord_client *client); /* COORD_AGENT: this host's ranks ended well */
/* COORD_AGENT: this host's producer failed for good. The job goes on while there is another one,
 * and else fails with the first such host's code and text. */
void coord_producer_failed(struct coord_client *client, int code, const char *text);

/* COORD_RANK, before every step that all ranks take together (evaluation may be counted too): steps
 * begun so far, over epochs; the same on all ranks. Returns at once but while a stop is being
 * agreed. *may_out false: the common last step is reached. */
MUST_USE enum status coord_may_begin(struct coord_client *client, uint64_t step,
                                     int64_t deadline_ns, bool *may_out, struct err *err);

struct coord_stop_state {
    bool settled;   /* a common last step is agreed on */
    bool given_up;  /* it was lowered: step `step` (from 0) cannot be finished by anybody */
    uint64_t step;  /* as in COORD_EVENT_STOP_AT */
    uint64_t begun; /* by this rank; more than `step`: it is in the one given up */
};
void coord_stop_state(struct coord_client *client, struct coord_stop_state *out);
/* COORD_RANK, once a stop is settled; a notice: this rank has begun step `step` (from 0) and will
 * never take it. */
void coord_give_up(struct coord_client *client, uint64_t step);

#endif
