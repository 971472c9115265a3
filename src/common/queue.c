/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded queue: a mutex, a condition and an eventfd whose count is above zero while there is
 * something to see. */
#include "common/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"

struct queue {
    pthread_mutex_t mutex; /* guards all below; held for a copy of one item at most */
    pthread_cond_t filled;
    size_t item_bytes, capacity;
    size_t first, count;
    bool closed;
    int fd;
    uint8_t items[];
};

enum status queue_new(size_t item_bytes, size_t capacity, struct queue **out, struct err *err)
{
    CHECK(item_bytes > 0 && capacity > 0);
    size_t bytes = 0;
    if (__builtin_mul_overflow(item_bytes, capacity, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct queue), &bytes)) {
        return err_set(err, ERR_RESOURCE, "queue of %zu items of %zu bytes is too large", capacity,
                       item_bytes);
    }
    struct queue *queue = calloc(1, bytes);
    if (queue == NULL) {
        return err_errno(err, ERR_RESOURCE, "queue of %zu bytes", bytes);
    }
    queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->fd < 0) {
        free(queue);
        return err_errno(err, ERR_RESOURCE, "eventfd of a queue");
    }
    queue->item_bytes = item_bytes;
    queue->capacity = capacity;
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&queue->filled, &attributes) == 0);
    CHECK(pthread_condattr_destroy(&attributes) == 0);
    CHECK(pthread_mutex_init(&queue->mutex, NULL) == 0);
    *out = queue;
    return OK;
}

void queue_free(struct queue **queue)
{
    struct queue *q = *queue;
    if (q == NULL) {
        return;
    }
    CHECK(close(q->fd) == 0);
    CHECK(pthread_cond_destroy(&q->filled) == 0);
    CHECK(pthread_mutex_destroy(&q->mutex) == 0);
    free(q);
    *queue = NULL;
}

/* An eventfd of a handful of events never overflows, so neither call can block or fail. */
static void raise_fd(const struct queue *queue)
{
    const uint64_t one = 1;
    CHECK(write(queue->fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

static void lower_fd(const struct queue *queue)
{
    uint64_t count = 0;
    CHECK(read(queue->fd, &count, sizeof(count)) == (ssize_t)sizeof(count));
}

enum status queue_push(struct queue *queue, const void *item)
{
    CHECK(pthread_mutex_lock(&queue->mutex) == 0);
    enum status status = OK;
    if (queue->closed) {
        status = ERR_CANCELLED;
    } else if (queue->count == queue->capacity) {
        status = ERR_AGAIN;
    } else {
        const size_t at = (queue->first + queue->count) % queue->capacity;
        memcpy(queue->items + at * queue->item_bytes, item, queue->item_bytes);
        queue->count++;
        if (queue->count == 1) {
            raise_fd(queue);
        }
        CHECK(pthread_cond_signal(&queue->filled) == 0);
    }
    CHECK(pthread_mutex_unlock(&queue->mutex) == 0);
    return status;
}

static bool wait_filled(struct queue *queue, int64_t deadline_ns)
{
    if (clock_now_ns() >= deadline_ns) {
        return false;
    }
    const struct timespec until = {.tv_sec = deadline_ns / NS_PER_S,
                                   .tv_nsec = deadline_ns % NS_PER_S};
    (void)pthread_cond_timedwait(&queue->filled, &queue->mutex, &until);
    return true;
}

enum status queue_pop(struct queue *queue, int64_t deadline_ns, void *item_out)
{
    CHECK(pthread_mutex_lock(&queue->mutex) == 0);
    while (queue->count == 0 && !queue->closed && wait_filled(queue, deadline_ns)) {
    }
    enum status status = OK;
    if (queue->count > 0) {
        memcpy(item_out, queue->items + queue->first * queue->item_bytes, queue->item_bytes);
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
        if (queue->count == 0 && !queue->closed) {
            lower_fd(queue);
        }
    } else {
        status = queue->closed ? ERR_CANCELLED : ERR_TIMEOUT;
    }
    CHECK(pthread_mutex_unlock(&queue->mutex) == 0);
    return status;
}

void queue_close(struct queue *queue)
{
    CHECK(pthread_mutex_lock(&queue->mutex) == 0);
    if (!queue->closed) {
        queue->closed = true;
        if (queue->count == 0) {
            raise_fd(queue);
        }
        CHECK(pthread_cond_broadcast(&queue->filled) == 0);
    }
    CHECK(pthread_mutex_unlock(&queue->mutex) == 0);
}

int queue_fd(const struct queue *queue)
{
    return queue->fd;
}
