/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch pool: memory in which batches are made and from which their parts are sent without a
 * copy. A batch is counted by its order and by every part on its way; at zero it is free again.
 * Taken by one thread (the server's), given back by any: ZeroMQ's I/O threads do.
 */
#ifndef HEADRACE_PRODUCER_BATCH_H
#define HEADRACE_PRODUCER_BATCH_H

#include <stdatomic.h>

#include "common/err.h"

struct batch_pool;

struct batch {
    uint8_t *bytes; /* aligned to 4096 */
    struct batch_pool *pool;
    _Atomic uint32_t references;
};

/* count batches of `bytes` each, allocated and touched now. wake_fd: an eventfd that is written
 * when a batch comes back; borrowed. */
MUST_USE enum status batch_pool_new(uint32_t count, size_t bytes, int wake_fd,
                                    struct batch_pool **out, struct err *err);
/* All batches must be free: close the sockets first. */
void batch_pool_free(struct batch_pool **pool);

/* A free batch with one reference, or NULL. */
struct batch *batch_get(struct batch_pool *pool);
void batch_ref(struct batch *batch);
void batch_unref(struct batch *batch);
/* As batch_unref, with the signature of net_release_fn. */
void batch_release(void *body, void *batch);
uint32_t batch_pool_in_use(const struct batch_pool *pool);

#endif
