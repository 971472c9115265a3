/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator's server as a state machine: messages and time come in as arguments, messages go
 * out through a callback. No socket, thread, lock or clock, so that tests drive it by hand and on a
 * lossy link. It allocates as members join, within the limits below.
 *
 *             all trainer hosts' agents and ranks joined          every trainer agent DONE
 *   WAITING --------------------------------------> RUNNING ------------------------------> DONE
 *      |  STOP: STOP_AT(0), every agent there DONE     |  STOP: STOP_ASKED .. STOP_AT         ^
 *      +-----------------------------------------------|--------------------------------------+
 *      |  join_timeout, FAIL, a lost agent or rank, global_batch % world, ...
 *      +-----------------------------------------------+--------------------------------> FAILED
 *
 * DONE and FAILED are final; whoever joins then is told at once. Invariants: the log only grows and
 * ends with its DONE or FAIL; STOP_AT is at most two past the steps any rank had begun when it
 * promised, and never below what a rank has begun.
 */
#ifndef HEADRACE_COMMON_COORD_STATE_H
#define HEADRACE_COMMON_COORD_STATE_H

#include "common/coord_msg.h"

enum {
    COORD_MEMBERS_MAX = HOSTS_MAX + RANKS_MAX + 4096,
    COORD_PENDING_MAX = 16,  /* requests of one member that wait */
    COORD_CRASHES_MAX = 1024 /* different samples that have killed a decoder */
};

struct coord_state;

struct coord_state_options {
    const struct config *config;   /* borrowed for life, like cluster */
    const struct cluster *cluster; /* its current host is the server's own */
    uint64_t job;                  /* random */
    int64_t now_ns;
    /* Sends to a member; what is lost is asked for again. */
    void (*send)(void *context, uint64_t peer, const struct coord_msg *msg);
    /* One line for the log of the server's host. */
    void (*note)(void *context, const char *text);
    void *context;
};

MUST_USE enum status coord_state_new(const struct coord_state_options *options,
                                     struct coord_state **out, struct err *err);
void coord_state_free(struct coord_state **state);

/* A message from a peer. Nothing in it can end the server; nonsense is ignored or refused. */
void coord_state_receive(struct coord_state *state, int64_t now_ns, uint64_t peer,
                         const struct coord_msg *msg);
/* A connection broke: somebody's, it is not known whose. Members not heard soon after are lost. */
void coord_state_hint(struct coord_state *state, int64_t now_ns);
/* Time-outs; every 100 ms or so, after all waiting messages were received. */
void coord_state_tick(struct coord_state *state, int64_t now_ns);

/* The log ends with DONE or FAIL. */
bool coord_state_over(const struct coord_state *state);
uint32_t coord_state_member_count(const struct coord_state *state);
/* Nobody is left to be told how the job ended: every host has been here, and no member was heard
 * within the last quiet_ns. */
bool coord_state_all_told(const struct coord_state *state, int64_t now_ns, int64_t quiet_ns);
/* Whom a job in WAITING waits for: "algo-3, ranks of algo-4"; empty: nobody. */
void coord_state_waiting(const struct coord_state *state, char *out, size_t bytes);

#endif
