/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as a device: a batch is used where it was staged, so there is no device memory, nothing
 * to copy, and every event has fired as soon as it is recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "consumer/device.h"

enum { PINNED_ALIGN_BYTES = 4096 };

struct device {
    uint32_t alive; /* staging memory and events: close finds what was forgotten */
};

struct device_event {
    const struct device *device; /* an event of another device is a mistake of ours */
};

static enum status host_open(const struct device_options *options, struct device **out,
                             struct err *err)
{
    (void)options;
    struct device *device = calloc(1, sizeof(*device));
    if (device == NULL) {
        return err_errno(err, ERR_RESOURCE, "opening the host device");
    }
    *out = device;
    return OK;
}

static void host_close(struct device **device)
{
    if (*device == NULL) {
        return;
    }
    CHECK((*device)->alive == 0);
    free(*device);
    *device = NULL;
}

static enum status host_alloc_pinned(struct device *device, size_t bytes, void **out,
                                     struct err *err)
{
    void *memory = NULL;
    const int failed = posix_memalign(&memory, PINNED_ALIGN_BYTES, bytes);
    if (failed != 0) {
        return err_set(err, ERR_RESOURCE, "%zu bytes of staging memory: %s", bytes,
                       strerror(failed));
    }
    memset(memory, 0, bytes);
    device->alive++;
    *out = memory;
    return OK;
}

static void host_free_pinned(struct device *device, void *memory, size_t bytes)
{
    (void)bytes;
    device->alive -= memory != NULL;
    free(memory);
}

static enum status host_alloc_device(struct device *device, size_t bytes, void **out,
                                     struct err *err)
{
    (void)device;
    (void)bytes;
    (void)err;
    *out = NULL;
    return OK;
}

static void host_free_device(struct device *device, void *memory)
{
    (void)device;
    CHECK(memory == NULL);
}

static enum status host_event_new(struct device *device, struct device_event **out, struct err *err)
{
    struct device_event *event = calloc(1, sizeof(*event));
    if (event == NULL) {
        return err_errno(err, ERR_RESOURCE, "event of the host device");
    }
    event->device = device;
    device->alive++;
    *out = event;
    return OK;
}

static void host_event_free(struct device *device, struct device_event **event)
{
    device->alive -= *event != NULL;
    free(*event);
    *event = NULL;
}

static enum status host_copy_async(struct device *device, void *target, const void *source,
                                   size_t bytes, struct err *err)
{
    (void)device;
    (void)source;
    (void)bytes;
    (void)err;
    CHECK(target == NULL);
    return OK;
}

static enum status host_record(struct device *device, struct device_event *event, struct err *err)
{
    (void)err;
    CHECK(event->device == device);
    return OK;
}

static enum status host_query(struct device *device, struct device_event *event, struct err *err)
{
    (void)err;
    CHECK(event->device == device);
    return OK;
}

static enum status host_wait(struct device *device, struct device_event *event, int64_t deadline_ns,
                             struct err *err)
{
    (void)deadline_ns;
    return host_query(device, event, err);
}

const struct device_ops device_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .alloc_pinned = host_alloc_pinned,
    .free_pinned = host_free_pinned,
    .alloc_device = host_alloc_device,
    .free_device = host_free_device,
    .event_new = host_event_new,
    .event_free = host_event_free,
    .copy_async = host_copy_async,
    .record = host_record,
    .query = host_query,
    .wait = host_wait,
};
