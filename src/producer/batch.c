/* SPDX-License-Identifier: Apache-2.0 */
/* The batch pool. A batch is free when its count is zero, so there is no list to keep. */
#include "producer/batch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

enum { PAGE_BYTES = 4096 };

struct batch_pool {
    int wake_fd;
    uint32_t count;
    uint32_t next; /* where to look first; the taker's alone */
    uint8_t *memory;
    struct batch batches[];
};

enum status batch_pool_new(uint32_t count, size_t bytes, int wake_fd, struct batch_pool **out,
                           struct err *err)
{
    CHECK(count > 0 && bytes > 0);
    const size_t pitch = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct batch_pool *pool = calloc(1, sizeof(*pool) + count * sizeof(pool->batches[0]));
    if (pool == NULL || pitch > SIZE_MAX / count) {
        free(pool);
        return err_set(err, ERR_RESOURCE, "batch pool: %u batches of %zu bytes do not fit", count,
                       bytes);
    }
    pool->memory = aligned_alloc(PAGE_BYTES, pitch * count);
    if (pool->memory == NULL) {
        free(pool);
        return err_set(err, ERR_RESOURCE,
                       "batch pool: no memory for %u batches of %zu bytes; lower producer_batches",
                       count, bytes);
    }
    memset(pool->memory, 0, pitch * count);
    pool->wake_fd = wake_fd;
    pool->count = count;
    for (uint32_t i = 0; i < count; i++) {
        pool->batches[i].bytes = pool->memory + i * pitch;
        pool->batches[i].pool = pool;
    }
    *out = pool;
    return OK;
}

void batch_pool_free(struct batch_pool **pool)
{
    if (*pool == NULL) {
        return;
    }
    CHECK(batch_pool_in_use(*pool) == 0);
    free((*pool)->memory);
    free(*pool);
    *pool = NULL;
}

struct batch *batch_get(struct batch_pool *pool)
{
    for (uint32_t tried = 0; tried < pool->count; tried++) {
        struct batch *batch = &pool->batches[pool->next];
        pool->next = (pool->next + 1) % pool->count;
        if (batch->references == 0) { /* nobody but the taker raises a zero */
            batch->references = 1;
            return batch;
        }
    }
    return NULL;
}

void batch_ref(struct batch *batch)
{
    batch->references++;
}

void batch_unref(struct batch *batch)
{
    /* The pool may be gone once the count is zero and its owner closed the sockets: read the
     * descriptor before. */
    const int wake_fd = batch->pool->wake_fd;
    if (--batch->references == 0) {
        eventfd_write(wake_fd, 1);
    }
}

void batch_release(void *body, void *batch)
{
    batch_unref(batch);
}

uint32_t batch_pool_in_use(const struct batch_pool *pool)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        used += pool->batches[i].references != 0;
    }
    return used;
}
