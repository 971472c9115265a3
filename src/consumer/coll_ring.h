/* SPDX-License-Identifier: Apache-2.0 */
/* What coll_ring.c (the calls) and coll_ring_link.c (making the ring) share; nobody else includes
 * it. */
#ifndef HEADRACE_CONSUMER_COLL_RING_H
#define HEADRACE_CONSUMER_COLL_RING_H

#include "consumer/coll.h"

struct coll {
    uint32_t rank, size;
    int next_fd, prev_fd; /* not blocking */
    int abort_fd;         /* eventfd, readable once aborted */
    bool broken;
    uint64_t calls;
    float *scratch; /* a segment of a block */
};

/*
 * Listens on the own address, connects to the next rank and accepts the one before, each with a
 * handshake that names job, rank and size; whoever says something else is dropped without harm.
 * ERR_CONFIG: an address off the loopback interface without `insecure`; ERR_RESOURCE: the port is
 * in use; ERR_TIMEOUT names the rank that did not come.
 */
MUST_USE enum status ring_link(struct coll *coll, const struct coll_options *options,
                               struct err *err);

#endif
