/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GPU through CUDA's runtime: a copy stream of its own that never waits for the default stream,
 * pinned memory from the GPU's memory node, events without timing. Nothing here waits for the
 * device but by asking whether an event has fired.
 *
 * Most errors of CUDA are for good (the context is lost), and which are is the driver's affair: the
 * first error of any call but an allocation breaks the device. It is described once, with Xid and
 * ECC state; from then on every call fails with that text and CUDA is not called any more, not to
 * free memory either: the process has to end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "consumer/device_cuda_internal.h"
#include "consumer/numa.h"

#define PAUSE_FIRST_NS INT64_C(20000) /* between looks at an event; a batch takes about 1 ms */
#define PAUSE_MAX_NS   INT64_C(500000)
enum { HEALTH_BYTES = 128, CALL_BYTES = 200 };

static void lock(struct device *device)
{
    CHECK(pthread_mutex_lock(&device->mutex) == 0);
}

static void unlock(struct device *device)
{
    CHECK(pthread_mutex_unlock(&device->mutex) == 0);
}

/* ---- errors ---- */

static bool is_working(struct device *device)
{
    lock(device);
    const bool works = device->state == WORKING;
    unlock(device);
    return works;
}

/* The first failure's text, which another thread may still be making. */
static enum status refuse(struct device *device, struct err *err)
{
    lock(device);
    while (device->state != BROKEN) {
        CHECK(pthread_cond_wait(&device->told, &device->mutex) == 0);
    }
    if (err != NULL) {
        *err = device->failure;
    }
    unlock(device);
    return ERR_DEVICE;
}

static void describe(const struct device *device, const char *call, unsigned error, struct err *out)
{
    char health[HEALTH_BYTES];
    char text[ERR_MESSAGE_BYTES];
    gpu_health_describe(&device->health, health, sizeof(health));
    (void)cuda_runtime_error(&device->api.runtime, call, error, out);
    snprintf(text, sizeof(text), "%s", out->message);
    (void)err_set(out, ERR_DEVICE, "%s: %s%s", device->label, text, health);
}

static enum status break_down(struct device *device, const char *call, unsigned error,
                              struct err *err)
{
    lock(device);
    const bool is_first = device->state == WORKING;
    device->state = is_first ? FAILING : device->state;
    unlock(device);
    if (is_first) {
        struct err failure = {0};
        describe(device, call, error, &failure);
        lock(device);
        device->failure = failure;
        device->state = BROKEN;
        CHECK(pthread_cond_broadcast(&device->told) == 0);
        unlock(device);
    }
    return refuse(device, err);
}

static enum status check(struct device *device, const char *call, unsigned error, struct err *err)
{
    return error == CUDA_OK ? OK : break_down(device, call, error, err);
}

/* Allocations may fail and leave the device whole. */
static enum status check_room(struct device *device, const char *call, size_t bytes, unsigned error,
                              struct err *err)
{
    if (error != CUDA_OUT_OF_MEMORY) {
        return check(device, call, error, err);
    }
    return err_set(
        err, ERR_RESOURCE,
        "%s: %s: no %zu bytes left for the staging ring: lower slots or global_batch, or "
        "raise the limit on pinned memory",
        device->label, call, bytes);
}

/* Before every call: which device is meant is a thread's own setting. An error of the stream's
 * shows here as well as in the call itself. */
static enum status enter(struct device *device, const char *call, struct err *err)
{
    char text[CALL_BYTES];
    if (!is_working(device)) {
        return refuse(device, err);
    }
    const unsigned error = device->api.runtime.cudaSetDevice(device->ordinal);
    if (error == CUDA_OK) {
        return OK;
    }
    snprintf(text, sizeof(text), "cudaSetDevice for %s", call);
    return break_down(device, text, error, err);
}

enum status device_cuda_enter(struct device *device, const char *call, struct err *err)
{
    return enter(device, call, err);
}

enum status device_cuda_check(struct device *device, const char *call, unsigned error,
                              struct err *err)
{
    return check(device, call, error, err);
}

/* ---- opening ---- */

static enum status find_card(struct device *device, struct err *err)
{
    const struct cuda_runtime *runtime = &device->api.runtime;
    int count = 0;
    const unsigned error = runtime->cudaGetDeviceCount(&count);
    if (error != CUDA_NO_DEVICE) {
        TRY(check(device, "cudaGetDeviceCount", error, err));
    }
    if (device->ordinal < count) {
        return OK;
    }
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return err_set(
        err, ERR_DEVICE,
        "%s does not exist, this process sees %d (CUDA_VISIBLE_DEVICES is %s%s%s): start "
        "no more ranks on a host than it has GPUs (ranks_per_host)",
        device->label, count, visible == NULL ? "" : "\"", visible == NULL ? "not set" : visible,
        visible == NULL ? "" : "\"");
}

static enum status describe_card(struct device *device, struct err *err)
{
    const struct cuda_runtime *runtime = &device->api.runtime;
    char pci_id[CUDA_PCI_ID_BYTES] = "";
    const int ordinal = device->ordinal;
    TRY(check(device, "cudaDeviceGetPCIBusId",
              runtime->cudaDeviceGetPCIBusId(pci_id, sizeof(pci_id), ordinal), err));
    TRY(check(device, "cudaDeviceGetAttribute",
              runtime->cudaDeviceGetAttribute(&device->major, CUDA_ATTRIBUTE_MAJOR, ordinal), err));
    TRY(check(device, "cudaDeviceGetAttribute",
              runtime->cudaDeviceGetAttribute(&device->minor, CUDA_ATTRIBUTE_MINOR, ordinal), err));
    snprintf(device->label, sizeof(device->label), "GPU %d (%s)", ordinal, pci_id);
    gpu_health_open(&device->api, pci_id, &device->health);
    device->node = gpu_health_node(&device->health);
    if (device->node < 0) {
        device->node = numa_node_of_pci("/sys", pci_id);
    }
    log_info("device cuda: %s, sm_%d%d, memory node %d%s", device->label, device->major,
             device->minor, device->node, device->node < 0 ? " (not known)" : "");
    return OK;
}

static enum status set_up(struct device *device, const struct device_options *options,
                          struct err *err)
{
    TRY(cuda_api_open(options->config, &device->api, err));
    TRY(find_card(device, err));
    TRY(describe_card(device, err));
    TRY(enter(device, "cudaStreamCreateWithPriority", err));
    return check(device, "cudaStreamCreateWithPriority",
                 device->api.runtime.cudaStreamCreateWithPriority(&device->copies,
                                                                  CUDA_STREAM_NON_BLOCKING, 0),
                 err);
}

static void free_device(struct device *device)
{
    gpu_health_close(&device->health);
    CHECK(pthread_cond_destroy(&device->told) == 0);
    CHECK(pthread_mutex_destroy(&device->mutex) == 0);
    free(device);
}

static enum status cuda_open(const struct device_options *options, struct device **out,
                             struct err *err)
{
    CHECK(options->config != NULL);
    struct device *device = calloc(1, sizeof(*device));
    if (device == NULL) {
        return err_errno(err, ERR_RESOURCE, "opening GPU %u", options->ordinal);
    }
    CHECK(pthread_mutex_init(&device->mutex, NULL) == 0);
    CHECK(pthread_cond_init(&device->told, NULL) == 0);
    device->ordinal = (int)options->ordinal;
    device->checks_memory = strcmp(options->config->log_level, "debug") == 0;
    snprintf(device->label, sizeof(device->label), "GPU %d", device->ordinal);
    if (set_up(device, options, err) != OK) {
        free_device(device);
        return err_prefix(err, "device cuda");
    }
    *out = device;
    return OK;
}

/* What was not given back, since the device may still use it, keeps its stream. */
static void cuda_close(struct device **device)
{
    struct device *d = *device;
    struct err err = {0};
    if (d == NULL) {
        return;
    }
    if (d->memories == 0 && d->events == NULL && enter(d, "cudaStreamDestroy", &err) == OK) {
        (void)check(d, "cudaStreamDestroy", d->api.runtime.cudaStreamDestroy(d->copies), &err);
    }
    if (err.status != OK) {
        log_debug("%s", err.message);
    }
    while (d->events != NULL) {
        struct device_event *next = d->events->next;
        free(d->events);
        d->events = next;
    }
    free_device(d);
    *device = NULL;
}

/* ---- memory ---- */

static void count_memory(struct device *device, int more)
{
    lock(device);
    device->memories += (uint32_t)more;
    unlock(device);
}

/* Pages are taken when they are pinned or, at the latest, when they are zeroed. */
static unsigned pin_near(struct device *device, size_t bytes, void **out)
{
    struct numa_policy before;
    const bool is_near = numa_prefer(device->node, &before);
    const unsigned error = device->api.runtime.cudaHostAlloc(out, bytes, CUDA_HOST_PORTABLE);
    if (error == CUDA_OK) {
        memset(*out, 0, bytes);
    }
    if (is_near) {
        numa_restore(&before);
    } else if (device->node >= 0) {
        log_info("%s: staging memory comes from any memory node: the system does not let it be "
                 "chosen (in a container: --cap-add SYS_NICE)",
                 device->label);
    }
    return error;
}

static enum status cuda_alloc_pinned(struct device *device, size_t bytes, void **out,
                                     struct err *err)
{
    void *memory = NULL;
    TRY(enter(device, "cudaHostAlloc", err));
    const unsigned error = pin_near(device, bytes, &memory);
    TRY(check_room(device, "cudaHostAlloc", bytes, error, err));
    count_memory(device, 1);
    *out = memory;
    return OK;
}

static void cuda_free_pinned(struct device *device, void *memory, size_t bytes)
{
    (void)bytes;
    struct err err = {0};
    if (memory == NULL || enter(device, "cudaFreeHost", &err) != OK) {
        return;
    }
    count_memory(device, -1);
    if (check(device, "cudaFreeHost", device->api.runtime.cudaFreeHost(memory), &err) != OK) {
        log_error("%s", err.message);
    }
}

static enum status cuda_alloc_device(struct device *device, size_t bytes, void **out,
                                     struct err *err)
{
    void *memory = NULL;
    TRY(enter(device, "cudaMalloc", err));
    const unsigned error = device->api.runtime.cudaMalloc(&memory, bytes);
    TRY(check_room(device, "cudaMalloc", bytes, error, err));
    count_memory(device, 1);
    *out = memory;
    return OK;
}

static void cuda_free_device(struct device *device, void *memory)
{
    struct err err = {0};
    if (memory == NULL || enter(device, "cudaFree", &err) != OK) {
        return;
    }
    count_memory(device, -1);
    if (check(device, "cudaFree", device->api.runtime.cudaFree(memory), &err) != OK) {
        log_error("%s", err.message);
    }
}

/* ---- events ---- */

static enum status cuda_event_new(struct device *device, struct device_event **out, struct err *err)
{
    TRY(enter(device, "cudaEventCreateWithFlags", err));
    struct device_event *event = calloc(1, sizeof(*event));
    if (event == NULL) {
        return err_errno(err, ERR_RESOURCE, "event of %s", device->label);
    }
    const enum status status = check(
        device, "cudaEventCreateWithFlags",
        device->api.runtime.cudaEventCreateWithFlags(&event->cuda, CUDA_EVENT_NO_TIMING), err);
    if (status != OK) {
        free(event);
        return status;
    }
    lock(device);
    event->next = device->events;
    device->events = event;
    unlock(device);
    *out = event;
    return OK;
}

static void forget_event(struct device *device, const struct device_event *event)
{
    lock(device);
    struct device_event **at = &device->events;
    while (*at != event) {
        CHECK(*at != NULL);
        at = &(*at)->next;
    }
    *at = event->next;
    unlock(device);
}

static void cuda_event_free(struct device *device, struct device_event **event)
{
    struct err err = {0};
    if (*event == NULL) {
        return;
    }
    forget_event(device, *event);
    if (enter(device, "cudaEventDestroy", &err) == OK &&
        check(device, "cudaEventDestroy", device->api.runtime.cudaEventDestroy((*event)->cuda),
              &err) != OK) {
        log_error("%s", err.message);
    }
    free(*event);
    *event = NULL;
}

/* ---- copies ---- */

static enum status check_pinned(struct device *device, const void *byte, struct err *err)
{
    struct cuda_pointer attributes = {0};
    TRY(check(device, "cudaPointerGetAttributes",
              device->api.runtime.cudaPointerGetAttributes(&attributes, byte), err));
    if (attributes.kind != CUDA_POINTER_HOST) {
        return err_set(err, ERR_INTERNAL, "%s: a copy's source is not staging memory",
                       device->label);
    }
    return OK;
}

static enum status cuda_copy_async(struct device *device, void *target, const void *source,
                                   size_t bytes, struct err *err)
{
    TRY(enter(device, "cudaMemcpyAsync", err));
    if (device->checks_memory && bytes > 0) {
        TRY(check_pinned(device, source, err));
        TRY(check_pinned(device, (const uint8_t *)source + bytes - 1, err));
    }
    return check(device, "cudaMemcpyAsync",
                 device->api.runtime.cudaMemcpyAsync(target, source, bytes, CUDA_COPY_TO_DEVICE,
                                                     device->copies),
                 err);
}

static enum status cuda_record(struct device *device, struct device_event *event, struct err *err)
{
    TRY(enter(device, "cudaEventRecord", err));
    return check(device, "cudaEventRecord",
                 device->api.runtime.cudaEventRecord(event->cuda, device->copies), err);
}

static enum status cuda_query(struct device *device, struct device_event *event, struct err *err)
{
    TRY(enter(device, "cudaEventQuery", err));
    const unsigned error = device->api.runtime.cudaEventQuery(event->cuda);
    return error == CUDA_NOT_READY ? ERR_AGAIN : check(device, "cudaEventQuery", error, err);
}

static void sleep_ns(int64_t ns)
{
    const struct timespec pause = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    (void)nanosleep(&pause, NULL);
}

/* CUDA's own wait has no deadline. */
static enum status cuda_wait(struct device *device, struct device_event *event, int64_t deadline_ns,
                             struct err *err)
{
    int64_t pause_ns = PAUSE_FIRST_NS;
    enum status status = OK;
    while ((status = cuda_query(device, event, err)) == ERR_AGAIN) {
        const int64_t left_ns = deadline_ns - clock_now_ns();
        if (left_ns <= 0) {
            return err_set(err, ERR_TIMEOUT, "%s: an event has not fired in time", device->label);
        }
        sleep_ns(pause_ns < left_ns ? pause_ns : left_ns);
        pause_ns = 2 * pause_ns < PAUSE_MAX_NS ? 2 * pause_ns : PAUSE_MAX_NS;
    }
    return status;
}

const struct device_ops device_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .alloc_pinned = cuda_alloc_pinned,
    .free_pinned = cuda_free_pinned,
    .alloc_device = cuda_alloc_device,
    .free_device = cuda_free_device,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .copy_async = cuda_copy_async,
    .record = cuda_record,
    .query = cuda_query,
    .wait = cuda_wait,
};
