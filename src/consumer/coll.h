/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations between the ranks of a job. After any error only abort and free are legal.
 * All calls of one collective come from one thread, but for abort.
 */
#ifndef HEADRACE_CONSUMER_COLL_H
#define HEADRACE_CONSUMER_COLL_H

#include "common/err.h"

struct coll;

struct coll_peer {
    const char *address; /* numeric */
    uint16_t port;
};

struct coll_options {
    uint32_t rank, size;
    const struct coll_peer
        *peers;   /* size entries; own entry: where to listen. Borrowed for the call */
    uint64_t job; /* refused when a peer says another */
    bool insecure;
    int64_t deadline_ns; /* for init */
};

struct coll_ops {
    const char *name; /* "local", "ring", "nccl" */
    enum status (*init)(const struct coll_options *options, struct coll **out, struct err *err);
    /* Sums count floats over all ranks, in place, in a fixed order: bit-identical on every rank and
     * in every run. */
    enum status (*allreduce)(struct coll *coll, float *values, size_t count, int64_t deadline_ns,
                             struct err *err);
    enum status (*broadcast)(struct coll *coll, void *bytes, size_t count, uint32_t root,
                             int64_t deadline_ns, struct err *err);
    enum status (*barrier)(struct coll *coll, int64_t deadline_ns, struct err *err);
    void (*abort)(struct coll *coll); /* any thread: calls in progress return ERR_CANCELLED */
    void (*free)(struct coll **coll);
};

extern const struct coll_ops coll_local; /* size 1 */
extern const struct coll_ops coll_ring;  /* TCP between ranks: reduce-scatter and all-gather */

#endif
