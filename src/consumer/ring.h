/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging ring of one stream: `slots` batches in pinned memory, their copies on the device, and
 * who may touch which of them now. It is where the client's thread, which fills slots from the
 * network, meets the feed's thread, which lends them to the trainer. It knows steps and slots, not
 * messages.
 *
 * The life of a slot. Step gstep (numbered through all epochs) uses slot gstep % slots.
 *
 *              ring_claim           ring_ready            copy queued
 *      FREE -------------> FILLING ------------> READY -----------------> COPYING
 *       ^  ^                  |                                              |  the copy's event
 *       |  |    ring_reset    |                                              |  has fired,
 *       |  +------------------+                                              |  ring_take
 *       |                                                                    v
 *       +----------------------------------------------------------------- LENT
 *            ring_release, then the reader's event has fired, then
 *            ring_reclaim, oldest step first
 *
 * With lend_early ring_take lends a slot although its copy is still in flight, and ring_reclaim
 * sees to its event, too; until then the bytes are the device's to read, as they are the reader's.
 *
 * With copy_parts the copy is queued piece by piece while the slot is FILLING, and ring_ready only
 * records the event behind the last of them; ring_reset then waits for a slot's pieces, too.
 *
 * Who owns a slot's bytes: FILLING, READY: the client's thread. COPYING: the device. LENT: the
 * reader, until the event given with ring_release has fired. A part of a FILLING slot that
 * ring_part was told of is the device's to read: nobody writes it again. A slot never moves on
 * before its event has fired; on the host device events fire at once and the ring is used the same
 * way.
 */
#ifndef HEADRACE_CONSUMER_RING_H
#define HEADRACE_CONSUMER_RING_H

#include "consumer/device.h"

struct ring;

struct ring_options {
    const char *name; /* of the stream, for errors; borrowed */
    const struct device_ops *ops;
    struct device *device; /* borrowed for the ring's life */
    uint32_t slots;
    size_t slot_bytes;
    bool copy_parts; /* each part is copied as ring_part tells of it, not the batch at ring_ready */
    bool lend_early; /* ring_take does not wait for the copy: the reader's own stream does */
    int wake_fd;     /* eventfd written after ring_release, for the client's poll set; -1: none */
    device_broken_fn on_broken; /* the device has failed, with the text that ring_take will give;
                                   NULL: nobody is told. Once at least, from either thread */
    void *broken_context;
};

/* All memory is taken here: one piece of staging memory and one of the device's. The ring is empty
 * and its range is [0, 0). */
MUST_USE enum status ring_new(const struct ring_options *options, struct ring **out,
                              struct err *err);
/* Waits for events in flight (30 s at most, not at all once the device has failed; memory that it
 * may still use is then leaked).
 * No thread may be inside another call. */
void ring_free(struct ring **ring);
/* Pinned bytes that ring_new takes, for the budget. */
uint64_t ring_pinned_bytes(uint32_t slots, uint64_t slot_bytes);

/* ---- the client's thread ---- */

/* Empties the ring for steps [first, end): waits for copies and readers' events in flight, forgets
 * slots being filled. ERR_MISUSE while the reader keeps a batch. */
MUST_USE enum status ring_reset(struct ring *ring, uint64_t first, uint64_t end, struct err *err);
/* The slot of a step, to be filled: FREE or, for the same step, FILLING. slot_bytes bytes. */
void *ring_claim(struct ring *ring, uint64_t gstep);
/* Bytes of a claimed step are there, checked, and will not be written again before the step's copy
 * is done. Without copy_parts this does nothing. ERR_DEVICE also fails the ring. */
MUST_USE enum status ring_part(struct ring *ring, uint64_t gstep, size_t offset, size_t bytes,
                               struct err *err);
/* All bytes of a claimed step are there; queues its copy, or what records the end of its parts'.
 * ERR_DEVICE also fails the ring. */
MUST_USE enum status ring_ready(struct ring *ring, uint64_t gstep, struct err *err);
/* Frees the oldest lent step if it can be: true, once for each. soon_out: it was released but the
 * reader's event has not fired yet, so ask again in a moment. */
bool ring_reclaim(struct ring *ring, bool *soon_out);
/* ring_take fails with this from now on; the first failure stays. */
void ring_fail(struct ring *ring, const struct err *err);

/* ---- the reader's thread ---- */

struct ring_batch {
    uint64_t gstep;
    uint32_t slot;
    const void *host;
    void *device;                /* NULL: the device uses the host's bytes */
    struct device_event *copied; /* has fired, unless lend_early */
    struct device_event *done;   /* with lend_early: the slot's own, for ring_release; else NULL */
};
/*
 * Waits for the next step in order and lends it. ERR_MISUSE: the range has ended, or the reader
 * keeps the batch whose slot the next step needs, so that waiting could never end. ERR_CANCELLED:
 * ring_close. ERR_DEVICE: the copy failed or took 30 s; the text names stream, step and slot. Else
 * what ring_fail was given.
 */
MUST_USE enum status ring_take(struct ring *ring, struct ring_batch *out, struct err *err);
/* Waits until ring_take need not wait for the step's bytes: OK, ERR_TIMEOUT, or what ring_take
 * would return. */
MUST_USE enum status ring_wait(struct ring *ring, int64_t deadline_ns, struct err *err);
/* Gives a lent slot back. done (NULL: now) has been recorded behind the reader's last use of the
 * device's copy and stays as it is until the step's slot is lent again or ring_free returned. */
MUST_USE enum status ring_release(struct ring *ring, uint64_t gstep, struct device_event *done,
                                  struct err *err);

/* Any thread: ring_take returns ERR_CANCELLED from now on. */
void ring_close(struct ring *ring);

#endif
