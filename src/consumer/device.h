/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where batches are staged. One table per kind; every operation is asynchronous by contract, so
 * that the host, a fake with delays and CUDA are used alike: a copy is done when the event recorded
 * behind it has fired, never before.
 *
 * Calls on one device may come from two threads at once, but not two on the same event. None
 * blocks but open, close, the allocations, the frees and wait.
 */
#ifndef HEADRACE_CONSUMER_DEVICE_H
#define HEADRACE_CONSUMER_DEVICE_H

#include "common/err.h"

struct config;
struct device;       /* an opened device */
struct device_event; /* one per slot and purpose, reused */

/* Which device to open. Zeroes will do for the host; nothing is kept. */
struct device_options {
    const struct config *config; /* cuda: never NULL; where its libraries are, log_level */
    uint32_t ordinal;            /* cuda: which of the GPUs that this process sees */
    const char *text;            /* the fake's own; NULL: none */
};

/* Told that a device is of no use any more, from the thread that found out. May not block. */
typedef void (*device_broken_fn)(void *context, const struct err *err);

struct device_ops {
    const char *name; /* "host", "cuda", "fake" */
    /* ERR_DEVICE says what is missing. */
    enum status (*open)(const struct device_options *options, struct device **out, struct err *err);
    /* Everything allocated has been freed and every recorded event has fired; what a broken device
     * may still use is left to the process's end. */
    void (*close)(struct device **device);
    /* Staging memory the device can copy from asynchronously; aligned to 4096, zeroed. */
    enum status (*alloc_pinned)(struct device *device, size_t bytes, void **out, struct err *err);
    void (*free_pinned)(struct device *device, void *memory, size_t bytes);
    /* Device memory. On the host it may be NULL: copy_async then does nothing and a batch is used
     * where it lies. */
    enum status (*alloc_device)(struct device *device, size_t bytes, void **out, struct err *err);
    void (*free_device)(struct device *device, void *memory);
    enum status (*event_new)(struct device *device, struct device_event **out, struct err *err);
    /* Fired, or never recorded. */
    void (*event_free)(struct device *device, struct device_event **event);
    /* Queues a copy on the device's copy stream; source lies in staging memory and must stay
     * unchanged until an event recorded later has fired. */
    enum status (*copy_async)(struct device *device, void *target, const void *source, size_t bytes,
                              struct err *err);
    /* Records behind everything queued so far on the copy stream. */
    enum status (*record)(struct device *device, struct device_event *event, struct err *err);
    /* OK: fired. ERR_AGAIN: not yet. ERR_DEVICE: it never will; sticky. An event never recorded has
     * fired. */
    enum status (*query)(struct device *device, struct device_event *event, struct err *err);
    /* As query, waiting until deadline_ns (ERR_TIMEOUT). */
    enum status (*wait)(struct device *device, struct device_event *event, int64_t deadline_ns,
                        struct err *err);
};

extern const struct device_ops device_host;
extern const struct device_ops device_cuda;

#endif
