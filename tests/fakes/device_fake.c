/* SPDX-License-Identifier: Apache-2.0 */
/* The fake asynchronous device: a queue of copies and records, and a thread that works it off. */
#include "fakes/device_fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"

enum { OPS_MAX_QUEUED = 1024, RANGES_MAX = 512, PINNED_ALIGN_BYTES = 4096 };

struct device_event {
    int pending; /* records queued and not reached */
    bool broken; /* the device broke before it was reached */
};

struct op {
    struct device_event *event; /* a record; NULL: a copy */
    uint8_t *target;
    const uint8_t *source;
    size_t bytes;
    uint64_t hash;  /* of the source when it was queued */
    int64_t due_ns; /* a copy: when it is done */
    bool breaks, hangs;
};

struct range {
    uint8_t *memory;
    size_t bytes;
    bool pinned;
};

struct device {
    pthread_mutex_t mutex; /* guards all */
    pthread_cond_t changed;
    pthread_t thread;
    uint64_t random;
    unsigned delay_us, fail_at, break_at, hang_at;
    unsigned calls, copies;
    bool failed; /* a fault was injected: leftovers at close are forgiven */
    bool broken, closing;
    struct op ops[OPS_MAX_QUEUED];
    uint32_t first, count;
    struct range ranges[RANGES_MAX];
    struct device_event *events[RANGES_MAX];
};

static struct {
    pthread_mutex_t mutex;
    int breaches, calls;
    char first[160];
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void breach(const char *what)
{
    pthread_mutex_lock(&seen.mutex);
    if (seen.breaches++ == 0) {
        snprintf(seen.first, sizeof(seen.first), "%s", what);
    }
    pthread_mutex_unlock(&seen.mutex);
}

int device_fake_breaches(const char **first_out)
{
    pthread_mutex_lock(&seen.mutex);
    const int breaches = seen.breaches;
    if (first_out != NULL) {
        *first_out = seen.first;
    }
    pthread_mutex_unlock(&seen.mutex);
    return breaches;
}

int device_fake_calls(void)
{
    pthread_mutex_lock(&seen.mutex);
    const int calls = seen.calls;
    pthread_mutex_unlock(&seen.mutex);
    return calls;
}

void device_fake_forget(void)
{
    pthread_mutex_lock(&seen.mutex);
    seen.breaches = 0;
    seen.calls = 0;
    seen.first[0] = '\0';
    pthread_mutex_unlock(&seen.mutex);
}

static void lock(struct device *device)
{
    CHECK(pthread_mutex_lock(&device->mutex) == 0);
}

static void unlock(struct device *device)
{
    CHECK(pthread_mutex_unlock(&device->mutex) == 0);
}

/* Until deadline_ns, or until something changed. */
static void sleep_until(struct device *device, int64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = deadline_ns / NS_PER_S,
                                   .tv_nsec = deadline_ns % NS_PER_S};
    (void)pthread_cond_timedwait(&device->changed, &device->mutex, &until);
}

/* Under the lock, at the top of every call that returns a status. */
static enum status count_call(struct device *device, struct err *err)
{
    device->calls++;
    pthread_mutex_lock(&seen.mutex);
    seen.calls++;
    pthread_mutex_unlock(&seen.mutex);
    if (device->calls == device->fail_at) {
        device->failed = true;
        return err_set(err, ERR_DEVICE, "fake device: call %u fails on request", device->calls);
    }
    return OK;
}

static bool overlaps(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* ---- the copy stream ---- */

static void finish_copy(struct device *device, struct op *op)
{
    if (op->breaks) {
        device->broken = true;
        device->failed = true;
    }
    if (device->broken) {
        return;
    }
    if (hash64(op->source, op->bytes) != op->hash) {
        breach("the source of a copy was changed before its event had fired");
    }
    if (op->target != NULL) {
        memcpy(op->target, op->source, op->bytes);
    }
}

static void finish_record(const struct device *device, struct device_event *event)
{
    event->pending--;
    event->broken = device->broken;
}

static void *run_stream(void *context)
{
    struct device *device = context;
    lock(device);
    while (!device->closing) {
        struct op *op = &device->ops[device->first];
        if (device->count == 0 || op->hangs) {
            pthread_cond_wait(&device->changed, &device->mutex);
            continue;
        }
        if (op->event == NULL && clock_now_ns() < op->due_ns) {
            sleep_until(device, op->due_ns);
            continue;
        }
        if (op->event == NULL) {
            finish_copy(device, op);
        } else {
            finish_record(device, op->event);
        }
        device->first = (device->first + 1) % OPS_MAX_QUEUED;
        device->count--;
        pthread_cond_broadcast(&device->changed);
    }
    unlock(device);
    return NULL;
}

static void push_op(struct device *device, const struct op *op)
{
    CHECK(device->count < OPS_MAX_QUEUED);
    device->ops[(device->first + device->count) % OPS_MAX_QUEUED] = *op;
    device->count++;
    pthread_cond_broadcast(&device->changed);
}

/* Does a queued copy read (or write) this memory? */
static bool in_flight(const struct device *device, const uint8_t *memory, size_t bytes,
                      bool as_target)
{
    for (uint32_t i = 0; i < device->count; i++) {
        const struct op *op = &device->ops[(device->first + i) % OPS_MAX_QUEUED];
        const uint8_t *used = as_target ? op->target : op->source;
        if (op->event == NULL && used != NULL && overlaps(used, op->bytes, memory, bytes)) {
            return true;
        }
    }
    return false;
}

/* ---- the table ---- */

static void parse_options(struct device *device, const char *options)
{
    char text[256];
    snprintf(text, sizeof(text), "%s", options == NULL ? "" : options);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        CHECK(value != NULL);
        *value = '\0';
        const unsigned long long number = strtoull(value + 1, NULL, 0);
        if (strcmp(word, "seed") == 0) {
            device->random = number;
        } else if (strcmp(word, "delay_us") == 0) {
            device->delay_us = (unsigned)number;
        } else if (strcmp(word, "fail_at") == 0) {
            device->fail_at = (unsigned)number;
        } else if (strcmp(word, "break_at") == 0) {
            device->break_at = (unsigned)number;
        } else if (strcmp(word, "hang_at") == 0) {
            device->hang_at = (unsigned)number;
        } else {
            CHECK(!"an option of the fake device");
        }
    }
}

static enum status fake_open(const struct device_options *options, struct device **out,
                             struct err *err)
{
    (void)err;
    struct device *device = calloc(1, sizeof(*device));
    CHECK(device != NULL);
    parse_options(device, options->text);
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&device->changed, &attributes) == 0);
    CHECK(pthread_condattr_destroy(&attributes) == 0);
    CHECK(pthread_mutex_init(&device->mutex, NULL) == 0);
    CHECK(pthread_create(&device->thread, NULL, run_stream, device) == 0);
    *out = device;
    return OK;
}

/* After an injected fault nobody can know what is still in flight: what is left is forgiven. */
static void free_leftovers(struct device *device)
{
    const bool forgiven = device->failed || device->hang_at != 0;
    for (uint32_t i = 0; i < RANGES_MAX; i++) {
        if (device->ranges[i].memory != NULL && !forgiven) {
            breach("memory was not freed before the device closed");
        }
        if (device->events[i] != NULL && !forgiven) {
            breach("an event was not freed before the device closed");
        }
        free(device->ranges[i].memory);
        free(device->events[i]);
    }
}

static void fake_close(struct device **device)
{
    struct device *d = *device;
    if (d == NULL) {
        return;
    }
    lock(d);
    if (!d->failed && d->hang_at == 0 && d->count != 0) {
        breach("the device closed with work in flight");
    }
    d->closing = true;
    pthread_cond_broadcast(&d->changed);
    unlock(d);
    CHECK(pthread_join(d->thread, NULL) == 0);
    free_leftovers(d);
    CHECK(pthread_cond_destroy(&d->changed) == 0);
    CHECK(pthread_mutex_destroy(&d->mutex) == 0);
    free(d);
    *device = NULL;
}

static enum status alloc_range(struct device *device, size_t bytes, bool pinned, void **out,
                               struct err *err)
{
    lock(device);
    const enum status status = count_call(device, err);
    if (status == OK) {
        void *memory = NULL;
        CHECK(posix_memalign(&memory, PINNED_ALIGN_BYTES, bytes) == 0);
        memset(memory, pinned ? 0 : DEVICE_FAKE_POISON, bytes);
        uint32_t at = 0;
        while (device->ranges[at].memory != NULL) {
            at++;
            CHECK(at < RANGES_MAX);
        }
        device->ranges[at] = (struct range){.memory = memory, .bytes = bytes, .pinned = pinned};
        *out = memory;
    }
    unlock(device);
    return status;
}

static void free_range(struct device *device, void *memory, bool pinned)
{
    if (memory == NULL) {
        return;
    }
    lock(device);
    uint32_t at = 0;
    while (device->ranges[at].memory != memory || device->ranges[at].pinned != pinned) {
        at++;
        CHECK(at < RANGES_MAX);
    }
    const bool used = in_flight(device, memory, device->ranges[at].bytes, !pinned);
    if (used) {
        breach(pinned ? "staging memory was freed while a copy read it"
                      : "device memory was freed while a copy wrote it");
    } else {
        device->ranges[at].memory = NULL;
    }
    unlock(device);
    if (!used) { /* else the copy goes on into it; freed when the device closes */
        free(memory);
    }
}

static enum status fake_alloc_pinned(struct device *device, size_t bytes, void **out,
                                     struct err *err)
{
    return alloc_range(device, bytes, true, out, err);
}

static void fake_free_pinned(struct device *device, void *memory, size_t bytes)
{
    (void)bytes;
    free_range(device, memory, true);
}

static enum status fake_alloc_device(struct device *device, size_t bytes, void **out,
                                     struct err *err)
{
    return alloc_range(device, bytes, false, out, err);
}

static void fake_free_device(struct device *device, void *memory)
{
    free_range(device, memory, false);
}

/* The place of an event, or of NULL, in the register. */
static struct device_event **find_event(struct device *device, const struct device_event *event)
{
    uint32_t at = 0;
    while (device->events[at] != event) {
        at++;
        CHECK(at < RANGES_MAX);
    }
    return &device->events[at];
}

static enum status fake_event_new(struct device *device, struct device_event **out, struct err *err)
{
    lock(device);
    const enum status status = count_call(device, err);
    if (status == OK) {
        struct device_event *event = calloc(1, sizeof(*event));
        CHECK(event != NULL);
        *find_event(device, NULL) = event;
        *out = event;
    }
    unlock(device);
    return status;
}

/* An event freed with a record still queued would be written after it is gone: wait that out. */
static void fake_event_free(struct device *device, struct device_event **event)
{
    if (*event == NULL) {
        return;
    }
    lock(device);
    if ((*event)->pending > 0) {
        breach("an event was freed before it had fired");
    }
    while ((*event)->pending > 0) {
        pthread_cond_wait(&device->changed, &device->mutex);
    }
    *find_event(device, *event) = NULL;
    unlock(device);
    free(*event);
    *event = NULL;
}

static bool is_pinned(const struct device *device, const uint8_t *memory, size_t bytes)
{
    for (uint32_t i = 0; i < RANGES_MAX; i++) {
        const struct range *range = &device->ranges[i];
        if (range->memory != NULL && range->pinned && memory >= range->memory &&
            memory + bytes <= range->memory + range->bytes) {
            return true;
        }
    }
    return false;
}

/* xorshift64*, never zero. */
static uint64_t next_random(struct device *device)
{
    uint64_t x = device->random | (UINT64_C(1) << 63);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    device->random = x;
    return x * UINT64_C(2685821657736338717);
}

static void queue_copy(struct device *device, uint8_t *target, const uint8_t *source, size_t bytes)
{
    if (!is_pinned(device, source, bytes)) {
        breach("the source of a copy is not staging memory");
    }
    if (in_flight(device, target, bytes, true)) {
        breach("the target of a copy was used again before its event had fired");
    }
    device->copies++;
    const int64_t delay_us = (int64_t)(next_random(device) % (device->delay_us + 1));
    const struct op op = {
        .target = target,
        .source = source,
        .bytes = bytes,
        .hash = hash64(source, bytes),
        .due_ns = clock_now_ns() + delay_us * 1000,
        .breaks = device->copies == device->break_at,
        .hangs = device->copies == device->hang_at,
    };
    memset(target, DEVICE_FAKE_POISON, bytes);
    push_op(device, &op);
}

static enum status fake_copy_async(struct device *device, void *target, const void *source,
                                   size_t bytes, struct err *err)
{
    lock(device);
    const enum status status = count_call(device, err);
    if (status == OK) {
        queue_copy(device, target, source, bytes);
    }
    unlock(device);
    return status;
}

static enum status fake_record(struct device *device, struct device_event *event, struct err *err)
{
    lock(device);
    const enum status status = count_call(device, err);
    if (status == OK) {
        if (event->pending > 0) {
            breach("an event was recorded again before it had fired");
        }
        event->pending++;
        push_op(device, &(struct op){.event = event});
    }
    unlock(device);
    return status;
}

static enum status state_of(const struct device_event *event, struct err *err)
{
    if (event->pending > 0) {
        return ERR_AGAIN;
    }
    return event->broken ? err_set(err, ERR_DEVICE, "fake device: broken on request") : OK;
}

static enum status fake_query(struct device *device, struct device_event *event, struct err *err)
{
    lock(device);
    enum status status = count_call(device, err);
    if (status == OK) {
        status = state_of(event, err);
    }
    unlock(device);
    return status;
}

static enum status fake_wait(struct device *device, struct device_event *event, int64_t deadline_ns,
                             struct err *err)
{
    lock(device);
    enum status status = count_call(device, err);
    if (status == OK) {
        while ((status = state_of(event, err)) == ERR_AGAIN && clock_now_ns() < deadline_ns) {
            sleep_until(device, deadline_ns);
        }
        if (status == ERR_AGAIN) {
            status = err_set(err, ERR_TIMEOUT, "fake device: event not fired");
        }
    }
    unlock(device);
    return status;
}

const struct device_ops device_fake = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .alloc_pinned = fake_alloc_pinned,
    .free_pinned = fake_free_pinned,
    .alloc_device = fake_alloc_device,
    .free_device = fake_free_device,
    .event_new = fake_event_new,
    .event_free = fake_event_free,
    .copy_async = fake_copy_async,
    .record = fake_record,
    .query = fake_query,
    .wait = fake_wait,
};
