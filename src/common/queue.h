/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded queue of small items that are copied in and out, between any number of threads. Its
 * memory is taken once; push never blocks. Closing lets readers take what is left and then tells
 * them; it may be repeated and come from any thread.
 */
#ifndef HEADRACE_COMMON_QUEUE_H
#define HEADRACE_COMMON_QUEUE_H

#include "common/err.h"

struct queue;

MUST_USE enum status queue_new(size_t item_bytes, size_t capacity, struct queue **out,
                               struct err *err);
/* No thread may be inside another call. */
void queue_free(struct queue **queue);

/* Copies the item in: OK, ERR_AGAIN (full), ERR_CANCELLED (closed). */
MUST_USE enum status queue_push(struct queue *queue, const void *item);

/* Copies the oldest item out, waiting until deadline_ns (clock_now_ns's clock; 0: not at all): OK,
 * ERR_TIMEOUT, ERR_CANCELLED (closed, and nothing is left). */
MUST_USE enum status queue_pop(struct queue *queue, int64_t deadline_ns, void *item_out);

void queue_close(struct queue *queue);

/* Readable while an item waits or the queue is closed; for poll sets, never to be read. */
int queue_fd(const struct queue *queue);

#endif
