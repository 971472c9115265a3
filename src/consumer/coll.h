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

/* Values of the whole job under keys, through which ranks find each other: the coordinator's PUT
 * and GET (common/coord.h has the contracts). */
enum { COLL_VALUE_BYTES = 4096 };
struct coll_store {
    void *context;
    enum status (*put)(void *context, const char *key, const void *value, size_t count,
                       int64_t deadline_ns, struct err *err);
    enum status (*get)(void *context, const char *key, int64_t deadline_ns,
                       uint8_t value[COLL_VALUE_BYTES], size_t *count_out, struct err *err);
};

/* What all ranks must have alike, in words: {"plan digest", "0a1b..."}. No control characters. */
struct coll_fact {
    const char *name, *value;
};

struct coll_options {
    uint32_t rank, size;
    const struct coll_peer
        *peers;   /* size entries; own entry: where to listen. Borrowed for the call */
    uint64_t job; /* refused when a peer says another */
    bool insecure;
    int64_t deadline_ns; /* for init */
    /* nccl only; borrowed for the call but for the GPU's tables */
    const struct coll_store *store;
    const char *host; /* this rank's, as in the cluster file */
    const struct coll_fact *facts;
    uint32_t fact_count;
    const struct coll_gpu *gpu; /* coll_nccl.h */
};

struct coll_ops {
    const char *name; /* "local", "ring", "nccl" */
    enum status (*init)(const struct coll_options *options, struct coll **out, struct err *err);
    /*
     * Sums count floats of host memory over all ranks, in place. local and ring: in a fixed order,
     * bit-identical on every rank and in every run; ranks that disagree about a call find out.
     * nccl: in an order that NCCL chooses by its version, the GPUs and the network between them. It
     * promises neither the same bits in another run nor on every rank, though its ranks do get one
     * result passed on, as all who train with it rely on; and it does not find disagreement.
     */
    enum status (*allreduce)(struct coll *coll, float *values, size_t count, int64_t deadline_ns,
                             struct err *err);
    enum status (*broadcast)(struct coll *coll, void *bytes, size_t count, uint32_t root,
                             int64_t deadline_ns, struct err *err);
    enum status (*barrier)(struct coll *coll, int64_t deadline_ns, struct err *err);
    /* Any thread, does not wait: calls in progress return ERR_CANCELLED. */
    void (*abort)(struct coll *coll);
    /* After a bad end call abort before: nccl waits a while for the other ranks, and leaves the
     * GPU's memory to the process's end where it was aborted. */
    void (*free)(struct coll **coll);
};

/* By the option `collective` (auto, ring, nccl): auto takes nccl where the rank is one of several
 * on GPUs, else the ring, and local for one rank alone. ERR_CONFIG: nccl without a GPU. */
MUST_USE enum status coll_choose(const char *wanted, bool on_gpu, uint32_t world,
                                 const struct coll_ops **out, struct err *err);

extern const struct coll_ops coll_local; /* size 1 */
extern const struct coll_ops coll_ring;  /* TCP between ranks: reduce-scatter and all-gather */
extern const struct coll_ops coll_nccl;  /* between GPUs; coll_nccl.h has what else it can do */

#endif
