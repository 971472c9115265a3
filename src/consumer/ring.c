/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging ring. One mutex guards the states; it is never held while bytes move or a device is
 * asked, which is safe because the state itself says who owns the slot meanwhile: only its owner
 * moves it on.
 */
#include "consumer/ring.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

#define EVENT_TIMEOUT_NS (30 * NS_PER_S)  /* a copy of one batch takes milliseconds */
#define CLOSE_CHECK_NS   (50 * NS_PER_MS) /* how soon a reader inside a device wait sees a close */
enum { PAGE_BYTES = 4096 };

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_COPYING, SLOT_LENT };

struct slot {
    enum slot_state state;
    bool released; /* LENT: given back, perhaps with an event still to fire */
    bool copying;  /* FILLING: copies of parts are queued; the client's thread's own */
    uint64_t gstep;
    void *host;
    void *device;
    struct device_event *copied;
    struct device_event *own_done; /* for a reader who has no event of its own */
    struct device_event *done;     /* the reader's; borrowed while released */
};

struct ring {
    struct ring_options options;
    const struct device_ops *ops;
    struct device *device;
    size_t slot_bytes;
    void *host;   /* of all slots */
    void *memory; /* of all slots, on the device */

    pthread_mutex_t mutex; /* guards all below but the pointers in slots, which never change */
    pthread_cond_t moved;  /* a slot began to copy, or the ring failed or closed */
    uint64_t oldest;       /* the oldest step not reclaimed */
    uint64_t next;         /* the next step to lend */
    uint64_t end;
    bool closed;
    struct err failure; /* status OK: none */
    uint32_t slot_count;
    struct slot slots[];
};

static void lock(struct ring *ring)
{
    CHECK(pthread_mutex_lock(&ring->mutex) == 0);
}

static void unlock(struct ring *ring)
{
    CHECK(pthread_mutex_unlock(&ring->mutex) == 0);
}

static struct slot *slot_of(struct ring *ring, uint64_t gstep)
{
    return &ring->slots[gstep % ring->slot_count];
}

static uint64_t stride_of(uint64_t slot_bytes)
{
    return (slot_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

uint64_t ring_pinned_bytes(uint32_t slots, uint64_t slot_bytes)
{
    return slots * stride_of(slot_bytes);
}

/* Pinning is slow, and a piece for each slot would only scatter them. */
static enum status take_memory(struct ring *ring, struct err *err)
{
    const size_t stride = stride_of(ring->slot_bytes);
    const size_t bytes = ring->slot_count * stride;
    TRY(ring->ops->alloc_pinned(ring->device, bytes, &ring->host, err));
    TRY(ring->ops->alloc_device(ring->device, bytes, &ring->memory, err));
    for (uint32_t i = 0; i < ring->slot_count; i++) {
        struct slot *slot = &ring->slots[i];
        slot->host = (uint8_t *)ring->host + i * stride;
        slot->device = ring->memory == NULL ? NULL : (uint8_t *)ring->memory + i * stride;
        TRY(ring->ops->event_new(ring->device, &slot->copied, err));
        if (ring->options.lend_early) {
            TRY(ring->ops->event_new(ring->device, &slot->own_done, err));
        }
    }
    return OK;
}

/* Safe on what take_memory left half-done. */
static void give_memory(struct ring *ring)
{
    if (ring->memory != NULL) {
        ring->ops->free_device(ring->device, ring->memory);
    }
    if (ring->host != NULL) {
        ring->ops->free_pinned(ring->device, ring->host,
                               ring_pinned_bytes(ring->slot_count, ring->slot_bytes));
    }
}

static void free_events(struct ring *ring, struct slot *slot)
{
    if (slot->copied != NULL) {
        ring->ops->event_free(ring->device, &slot->copied);
    }
    if (slot->own_done != NULL) {
        ring->ops->event_free(ring->device, &slot->own_done);
    }
}

enum status ring_new(const struct ring_options *options, struct ring **out, struct err *err)
{
    CHECK(options->slots > 0 && options->slot_bytes > 0);
    struct ring *ring = calloc(1, sizeof(*ring) + options->slots * sizeof(struct slot));
    if (ring == NULL) {
        return err_errno(err, ERR_RESOURCE, "staging ring of %u slots", options->slots);
    }
    ring->options = *options;
    ring->ops = options->ops;
    ring->device = options->device;
    ring->slot_bytes = options->slot_bytes;
    ring->slot_count = options->slots;
    const enum status status = take_memory(ring, err);
    if (status != OK) {
        for (uint32_t i = 0; i < ring->slot_count; i++) {
            free_events(ring, &ring->slots[i]);
        }
        give_memory(ring);
        free(ring);
        return status;
    }
    CHECK(pthread_mutex_init(&ring->mutex, NULL) == 0);
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&ring->moved, &attributes) == 0);
    CHECK(pthread_condattr_destroy(&attributes) == 0);
    *out = ring;
    return OK;
}

/* The events, if any, that stand between a slot and FREE: of its copy and its reader. */
struct in_flight {
    struct device_event *events[2];
};

static struct in_flight events_in_flight(const struct slot *slot)
{
    const bool is_lent = slot->state == SLOT_LENT;
    return (struct in_flight){{slot->state == SLOT_COPYING || is_lent ? slot->copied : NULL,
                               is_lent && slot->released ? slot->done : NULL}};
}

static enum status await(struct ring *ring, const struct in_flight *in_flight, int64_t deadline,
                         struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(in_flight->events); i++) {
        if (in_flight->events[i] != NULL) {
            TRY(ring->ops->wait(ring->device, in_flight->events[i], deadline, err));
        }
    }
    return OK;
}

/* Waits for the copies of a slot's parts, which no event stands behind yet. */
static enum status settle_parts(struct ring *ring, struct slot *slot, int64_t deadline,
                                struct err *err)
{
    if (!slot->copying) {
        return OK;
    }
    TRY(ring->ops->record(ring->device, slot->copied, err));
    TRY(ring->ops->wait(ring->device, slot->copied, deadline, err));
    slot->copying = false;
    return OK;
}

/* A slot that stayed READY had its copy queued, perhaps, and no event recorded: nobody can know. */
static bool may_be_in_flight(struct ring *ring, struct slot *slot, int64_t deadline)
{
    const struct in_flight in_flight = events_in_flight(slot);
    struct err err = {0};
    return slot->state == SLOT_READY || settle_parts(ring, slot, deadline, &err) != OK ||
           await(ring, &in_flight, deadline, &err) == ERR_TIMEOUT;
}

void ring_free(struct ring **ring)
{
    struct ring *r = *ring;
    if (r == NULL) {
        return;
    }
    /* Nothing is waited for on a device that has failed: the process has to end. */
    const bool has_failed = r->failure.status == ERR_DEVICE;
    const int64_t deadline = clock_now_ns() + (has_failed ? 0 : EVENT_TIMEOUT_NS);
    bool leaks = false;
    for (uint32_t i = 0; i < r->slot_count; i++) {
        if (may_be_in_flight(r, &r->slots[i], deadline)) {
            log_error("the staging memory leaks: the device may still use slot %u", i);
            leaks = true;
            continue;
        }
        free_events(r, &r->slots[i]);
    }
    if (!leaks) {
        give_memory(r);
    }
    CHECK(pthread_cond_destroy(&r->moved) == 0);
    CHECK(pthread_mutex_destroy(&r->mutex) == 0);
    free(r);
    *ring = NULL;
}

void ring_fail(struct ring *ring, const struct err *err)
{
    CHECK(err->status != OK);
    lock(ring);
    if (ring->failure.status == OK) {
        ring->failure = *err;
    }
    CHECK(pthread_cond_broadcast(&ring->moved) == 0);
    unlock(ring);
}

/* The device failed at a slot: *err becomes what the ring fails with, which is the first such text.
 */
static enum status fail_device(struct ring *ring, const struct slot *slot, struct err *err)
{
    if (err->status != ERR_DEVICE) {
        return err->status;
    }
    (void)err_prefix(err, "stream %s, step %" PRIu64 ", slot %u", ring->options.name, slot->gstep,
                     (uint32_t)(slot - ring->slots));
    ring_fail(ring, err);
    lock(ring);
    *err = ring->failure;
    unlock(ring);
    if (ring->options.on_broken != NULL) {
        ring->options.on_broken(ring->options.broken_context, err);
    }
    return err_failed(err->status);
}

void ring_close(struct ring *ring)
{
    lock(ring);
    ring->closed = true;
    CHECK(pthread_cond_broadcast(&ring->moved) == 0);
    unlock(ring);
}

/* ---- the client's thread ---- */

enum status ring_reset(struct ring *ring, uint64_t first, uint64_t end, struct err *err)
{
    CHECK(first <= end);
    const int64_t deadline = clock_now_ns() + EVENT_TIMEOUT_NS;
    for (uint32_t i = 0; i < ring->slot_count; i++) {
        struct slot *slot = &ring->slots[i];
        lock(ring);
        const bool kept = slot->state == SLOT_LENT && !slot->released;
        const struct in_flight in_flight = events_in_flight(slot);
        unlock(ring);
        if (kept) {
            return err_set(err, ERR_MISUSE,
                           "a stream was started anew while its batch of step %llu is still lent; "
                           "release it first",
                           (unsigned long long)slot->gstep);
        }
        enum status status = settle_parts(ring, slot, deadline, err);
        if (status == OK) {
            status = await(ring, &in_flight, deadline, err);
        }
        if (status != OK) {
            return fail_device(ring, slot, err);
        }
    }
    lock(ring);
    for (uint32_t i = 0; i < ring->slot_count; i++) {
        ring->slots[i].state = SLOT_FREE;
        ring->slots[i].released = false;
        ring->slots[i].done = NULL;
    }
    ring->oldest = first;
    ring->next = first;
    ring->end = end;
    unlock(ring);
    return OK;
}

void *ring_claim(struct ring *ring, uint64_t gstep)
{
    struct slot *slot = slot_of(ring, gstep);
    lock(ring);
    CHECK(gstep >= ring->oldest && gstep - ring->oldest < ring->slot_count && gstep < ring->end);
    if (slot->state == SLOT_FREE) {
        slot->state = SLOT_FILLING;
        slot->gstep = gstep;
    }
    CHECK(slot->state == SLOT_FILLING && slot->gstep == gstep);
    unlock(ring);
    return slot->host;
}

static void move(struct ring *ring, struct slot *slot, enum slot_state from, enum slot_state to)
{
    lock(ring);
    CHECK(slot->state == from);
    slot->state = to;
    CHECK(pthread_cond_broadcast(&ring->moved) == 0);
    unlock(ring);
}

static enum status copy(struct ring *ring, struct slot *slot, size_t offset, size_t bytes,
                        struct err *err)
{
    void *target = slot->device == NULL ? NULL : (uint8_t *)slot->device + offset;
    return ring->ops->copy_async(ring->device, target, (uint8_t *)slot->host + offset, bytes, err);
}

enum status ring_part(struct ring *ring, uint64_t gstep, size_t offset, size_t bytes,
                      struct err *err)
{
    if (!ring->options.copy_parts) {
        return OK;
    }
    struct slot *slot = slot_of(ring, gstep);
    CHECK(slot->state == SLOT_FILLING && slot->gstep == gstep);
    CHECK(offset <= ring->slot_bytes && bytes <= ring->slot_bytes - offset);
    slot->copying = true;
    return copy(ring, slot, offset, bytes, err) == OK ? OK : fail_device(ring, slot, err);
}

static enum status queue_copy(struct ring *ring, struct slot *slot, struct err *err)
{
    if (!ring->options.copy_parts) {
        TRY(copy(ring, slot, 0, ring->slot_bytes, err));
    }
    return ring->ops->record(ring->device, slot->copied, err);
}

enum status ring_ready(struct ring *ring, uint64_t gstep, struct err *err)
{
    struct slot *slot = slot_of(ring, gstep);
    CHECK(slot->gstep == gstep);
    slot->copying = false;
    move(ring, slot, SLOT_FILLING, SLOT_READY);
    if (queue_copy(ring, slot, err) != OK) {
        return fail_device(ring, slot, err);
    }
    move(ring, slot, SLOT_READY, SLOT_COPYING);
    return OK;
}

bool ring_reclaim(struct ring *ring, bool *soon_out)
{
    *soon_out = false;
    struct slot *slot = slot_of(ring, ring->oldest);
    lock(ring);
    const bool released = slot->state == SLOT_LENT && slot->released;
    unlock(ring);
    if (!released) {
        return false;
    }
    struct err err = {0};
    enum status status = slot->done == NULL ? OK : ring->ops->query(ring->device, slot->done, &err);
    if (status == OK && ring->options.lend_early) { /* the reader may not have waited for it */
        status = ring->ops->query(ring->device, slot->copied, &err);
    }
    if (status == ERR_AGAIN) {
        *soon_out = true;
        return false;
    }
    if (status != OK) {
        (void)fail_device(ring, slot, &err);
        return false;
    }
    lock(ring);
    slot->state = SLOT_FREE;
    slot->released = false;
    slot->done = NULL;
    ring->oldest++;
    unlock(ring);
    return true;
}

/* ---- the reader's thread ---- */

/* Under the lock: OK when the next step is copying, ERR_AGAIN to go on waiting, or why not to. */
static enum status next_ready(const struct ring *ring, const struct slot *slot, struct err *err)
{
    if (ring->failure.status != OK) {
        *err = ring->failure;
        return err->status;
    }
    if (ring->closed) {
        return err_set(err, ERR_CANCELLED, "the feed was closed");
    }
    if (ring->next == ring->end) {
        return err_set(err, ERR_MISUSE, "the stream has ended: start it anew for more batches");
    }
    if (slot->state == SLOT_LENT && !slot->released) {
        return err_set(err, ERR_MISUSE,
                       "the batch of step %llu is still kept, and there are only %u slots: release "
                       "batches in time or raise the option slots",
                       (unsigned long long)slot->gstep, ring->slot_count);
    }
    return slot->state == SLOT_COPYING ? OK : ERR_AGAIN;
}

static enum status wait_next(struct ring *ring, struct slot **out, struct err *err)
{
    lock(ring);
    struct slot *slot = slot_of(ring, ring->next);
    enum status status = OK;
    while ((status = next_ready(ring, slot, err)) == ERR_AGAIN) {
        CHECK(pthread_cond_wait(&ring->moved, &ring->mutex) == 0);
    }
    unlock(ring);
    *out = slot;
    return status;
}

enum status ring_wait(struct ring *ring, int64_t deadline_ns, struct err *err)
{
    const struct timespec deadline = {.tv_sec = deadline_ns / NS_PER_S,
                                      .tv_nsec = deadline_ns % NS_PER_S};
    lock(ring);
    const struct slot *slot = slot_of(ring, ring->next);
    enum status status = OK;
    while ((status = next_ready(ring, slot, err)) == ERR_AGAIN) {
        const int rc = pthread_cond_timedwait(&ring->moved, &ring->mutex, &deadline);
        CHECK(rc == 0 || rc == ETIMEDOUT);
        if (rc == ETIMEDOUT && clock_now_ns() >= deadline_ns) {
            status = next_ready(ring, slot, err);
            status = status == ERR_AGAIN
                         ? err_set(err, ERR_TIMEOUT, "the next batch has not come in time")
                         : status;
            break;
        }
    }
    unlock(ring);
    return status;
}

static bool is_closed(struct ring *ring)
{
    lock(ring);
    const bool closed = ring->closed;
    unlock(ring);
    return closed;
}

/* Waits in short pieces, so that a close is seen although the device is silent. */
static enum status wait_copied(struct ring *ring, const struct slot *slot, struct err *err)
{
    const int64_t deadline = clock_now_ns() + EVENT_TIMEOUT_NS;
    for (;;) {
        const int64_t now = clock_now_ns();
        const enum status status =
            ring->ops->wait(ring->device, slot->copied, now + CLOSE_CHECK_NS, err);
        if (status != ERR_TIMEOUT) {
            return status;
        }
        if (is_closed(ring)) {
            return err_set(err, ERR_CANCELLED, "the feed was closed");
        }
        if (now >= deadline) {
            return err_set(err, ERR_DEVICE,
                           "device %s has not copied the %zu bytes of step %llu within 30 s",
                           ring->ops->name, ring->slot_bytes, (unsigned long long)slot->gstep);
        }
    }
}

enum status ring_take(struct ring *ring, struct ring_batch *out, struct err *err)
{
    struct slot *slot = NULL;
    TRY(wait_next(ring, &slot, err));
    if (!ring->options.lend_early && wait_copied(ring, slot, err) != OK) {
        return fail_device(ring, slot, err);
    }
    lock(ring);
    slot->state = SLOT_LENT;
    ring->next++;
    unlock(ring);
    *out = (struct ring_batch){.gstep = slot->gstep,
                               .slot = (uint32_t)(slot - ring->slots),
                               .host = slot->host,
                               .device = slot->device,
                               .copied = slot->copied,
                               .done = slot->own_done};
    return OK;
}

enum status ring_release(struct ring *ring, uint64_t gstep, struct device_event *done,
                         struct err *err)
{
    struct slot *slot = slot_of(ring, gstep);
    lock(ring);
    const bool lent = slot->state == SLOT_LENT && !slot->released && slot->gstep == gstep;
    if (lent) {
        slot->released = true;
        slot->done = done;
    }
    unlock(ring);
    if (!lent) {
        return err_set(err, ERR_MISUSE, "step %llu is not lent: released twice or never taken",
                       (unsigned long long)gstep);
    }
    const uint64_t one = 1;
    if (ring->options.wake_fd >= 0) {
        CHECK(write(ring->options.wake_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    }
    return OK;
}
