/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's streams and events: each stream a queue, and a thread that works it off. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fakes/cuda_fake.h"
#include "fakes/cuda_fake_core.h"

enum { TASKS_MAX = 4096 };

struct CUevent_st {
    int device;
    uint64_t recorded, fired; /* counts; equal: fired */
    struct CUevent_st *next;
};

static struct CUevent_st *events; /* all that there are */

enum task_kind { TASK_COPY, TASK_SET, TASK_RECORD, TASK_WAIT, TASK_HOST, TASK_KERNEL };

struct task {
    enum task_kind kind;
    uint8_t *target;
    const uint8_t *source;
    size_t bytes;
    int value;
    uint64_t sum; /* of a pinned source when it was queued */
    bool is_summed;
    struct CUevent_st *event;
    uint64_t count; /* which record of the event */
    void (*run)(void *context);
    void *context;
    struct fake_launch *launch;
};

struct CUstream_st {
    int device;
    bool closing;
    pthread_t thread;
    uint32_t first, count; /* the first stays until it is done */
    struct task tasks[TASKS_MAX];
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* FNV-1a over words: what matters is that a changed byte shows. */
static uint64_t sum_of(const uint8_t *bytes, size_t count)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, 8);
        sum = (sum ^ word) * UINT64_C(0x100000001b3);
    }
    for (; i < count; i++) {
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

/* ---- the stream's thread, under the lock ---- */

static void wait_until(int64_t due_ns)
{
    const struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    while (now_ns() < due_ns) {
        (void)pthread_cond_timedwait(&cuda_fake.changed, &cuda_fake.mutex, &due);
    }
}

static void take_time(size_t bytes)
{
    const int64_t cost_ns = cuda_fake.latency_ns + (int64_t)(cuda_fake.ns_per_byte * (double)bytes);
    if (cost_ns > 0) {
        wait_until(now_ns() + cost_ns);
    }
}

static void run_copy(const struct task *task)
{
    memset(task->target, CUDA_FAKE_POISON, task->bytes);
    take_time(task->bytes);
    const unsigned error = fake_injected(FAKE_copy);
    if (error != 0 && cuda_fake.lost == 0) {
        cuda_fake.lost = error;
    }
    if (task->is_summed && sum_of(task->source, task->bytes) != task->sum) {
        fake_abort("the source of a copy was changed while it was in flight");
    }
    if (cuda_fake.lost == 0) {
        memcpy(task->target, task->source, task->bytes);
        cuda_fake.copies++;
        cuda_fake.bytes += task->bytes;
    }
}

static void run_task(struct task *task)
{
    switch (task->kind) {
    case TASK_COPY:
        run_copy(task);
        break;
    case TASK_SET:
        take_time(task->bytes);
        memset(task->target, task->value, task->bytes);
        break;
    case TASK_RECORD:
        task->event->fired = task->count;
        break;
    case TASK_WAIT:
        while (task->event->fired < task->count) {
            CHECK(pthread_cond_wait(&cuda_fake.changed, &cuda_fake.mutex) == 0);
        }
        break;
    case TASK_HOST: /* may take its time */
        fake_unlock();
        task->run(task->context);
        fake_lock();
        break;
    case TASK_KERNEL:
        fake_launch_run(task->launch);
        task->launch = NULL;
        break;
    }
}

static void *run_stream(void *context)
{
    struct CUstream_st *stream = context;
    fake_lock();
    while (!stream->closing) {
        if (stream->count == 0) {
            CHECK(pthread_cond_wait(&cuda_fake.changed, &cuda_fake.mutex) == 0);
            continue;
        }
        run_task(&stream->tasks[stream->first]);
        stream->first = (stream->first + 1) % TASKS_MAX;
        stream->count--;
        CHECK(pthread_cond_broadcast(&cuda_fake.changed) == 0);
    }
    fake_unlock();
    return NULL;
}

/* ---- what is in flight ---- */

static bool touches(const uint8_t *at, size_t bytes, const struct fake_memory *memory)
{
    return at != NULL && at < memory->base + memory->bytes && memory->base < at + bytes;
}

void fake_check_idle(const struct fake_memory *memory)
{
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        const struct CUstream_st *stream = cuda_fake.streams[i];
        for (uint32_t k = 0; stream != NULL && k < stream->count; k++) {
            const struct task *task = &stream->tasks[(stream->first + k) % TASKS_MAX];
            if (touches(task->target, task->bytes, memory) ||
                touches(task->source, task->bytes, memory) ||
                (task->launch != NULL && fake_launch_touches(task->launch, memory))) {
                fake_abort("memory was freed while a copy in flight uses it");
            }
        }
    }
}

static bool is_queued(const struct CUevent_st *event)
{
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        const struct CUstream_st *stream = cuda_fake.streams[i];
        for (uint32_t k = 0; stream != NULL && k < stream->count; k++) {
            if (stream->tasks[(stream->first + k) % TASKS_MAX].event == event) {
                return true;
            }
        }
    }
    return false;
}

/* ---- streams ---- */

unsigned cudaStreamCreateWithPriority(struct CUstream_st **stream, unsigned flags, int priority)
{
    (void)priority;
    const unsigned error = fake_begin(FAKE_cudaStreamCreateWithPriority);
    if (error != 0) {
        return error;
    }
    if (flags != CUDA_STREAM_NON_BLOCKING) {
        fake_abort("a stream that waits for the default stream");
    }
    int at = 0;
    while (cuda_fake.streams[at] != NULL) {
        at++;
        CHECK(at < FAKE_STREAMS_MAX);
    }
    struct CUstream_st *made = calloc(1, sizeof(*made));
    CHECK(made != NULL);
    made->device = fake_current("cudaStreamCreateWithPriority");
    CHECK(pthread_create(&made->thread, NULL, run_stream, made) == 0);
    cuda_fake.streams[at] = made;
    *stream = made;
    fake_unlock();
    return CUDA_OK;
}

unsigned cudaStreamDestroy(struct CUstream_st *stream)
{
    const unsigned error = fake_begin(FAKE_cudaStreamDestroy);
    if (error != 0) {
        return error;
    }
    int at = 0;
    while (cuda_fake.streams[at] != stream) {
        at++;
        CHECK(at < FAKE_STREAMS_MAX);
    }
    if (stream->count > 0) {
        fake_abort("a stream was destroyed with work in flight");
    }
    cuda_fake.streams[at] = NULL;
    stream->closing = true;
    CHECK(pthread_cond_broadcast(&cuda_fake.changed) == 0);
    fake_unlock();
    CHECK(pthread_join(stream->thread, NULL) == 0);
    free(stream);
    return CUDA_OK;
}

/* Ends the process if this thread may not use the stream now. */
static void check_stream(const char *call, const struct CUstream_st *stream)
{
    enum { PER_THREAD = 2 }; /* the handles NULL, 1 and 2 are kinds of the default stream */
    if ((uintptr_t)stream <= PER_THREAD) {
        fake_abort("%s on the default stream", call);
    }
    if (fake_current(call) != stream->device) {
        fake_abort("%s: wrong device: this thread chose %d, the stream is of %d", call,
                   fake_current(call), stream->device);
    }
}

static void push(struct CUstream_st *stream, const struct task *task)
{
    CHECK(stream->count < TASKS_MAX);
    stream->tasks[(stream->first + stream->count) % TASKS_MAX] = *task;
    stream->count++;
    CHECK(pthread_cond_broadcast(&cuda_fake.changed) == 0);
}

void fake_queue_launch(const char *call, struct CUstream_st *stream, struct fake_launch *launch)
{
    check_stream(call, stream);
    push(stream, &(struct task){.kind = TASK_KERNEL, .launch = launch});
}

static void check_side(const char *side, const void *bytes, size_t count, bool on_device,
                       int device)
{
    const struct fake_memory *memory = fake_find(bytes, count);
    if (!on_device && (memory == NULL || memory->kind != FAKE_PINNED)) {
        fake_abort("a copy's %s is pageable memory", side);
    }
    if (on_device && (memory == NULL || memory->kind != FAKE_DEVICE)) {
        fake_abort("a copy's %s is not memory of the device", side);
    }
    if (on_device && memory->device != device) {
        fake_abort("a copy's %s is memory of the wrong device", side);
    }
}

unsigned cudaMemcpyAsync(void *target, const void *source, size_t bytes, unsigned kind,
                         struct CUstream_st *stream)
{
    const unsigned error = fake_begin(FAKE_cudaMemcpyAsync);
    if (error != 0) {
        return error;
    }
    check_stream("cudaMemcpyAsync", stream);
    check_side("source", source, bytes, kind != CUDA_COPY_TO_DEVICE, stream->device);
    check_side("target", target, bytes, kind != CUDA_COPY_TO_HOST, stream->device);
    const bool is_summed = kind == CUDA_COPY_TO_DEVICE;
    push(stream, &(struct task){.kind = TASK_COPY,
                                .target = target,
                                .source = source,
                                .bytes = bytes,
                                .is_summed = is_summed,
                                .sum = is_summed ? sum_of(source, bytes) : 0});
    fake_unlock();
    return CUDA_OK;
}

unsigned cudaMemsetAsync(void *memory, int value, size_t bytes, struct CUstream_st *stream)
{
    const unsigned error = fake_begin(FAKE_cudaMemsetAsync);
    if (error != 0) {
        return error;
    }
    check_stream("cudaMemsetAsync", stream);
    check_side("target", memory, bytes, true, stream->device);
    push(stream,
         &(struct task){.kind = TASK_SET, .target = memory, .bytes = bytes, .value = value});
    fake_unlock();
    return CUDA_OK;
}

/* Nothing of ours calls it, so it is in no list; the fake NCCL joins a stream by it. */
EXPORT unsigned cudaLaunchHostFunc(struct CUstream_st *stream, void (*run)(void *context),
                                   void *context);
unsigned cudaLaunchHostFunc(struct CUstream_st *stream, void (*run)(void *context), void *context)
{
    fake_lock();
    check_stream("cudaLaunchHostFunc", stream);
    push(stream, &(struct task){.kind = TASK_HOST, .run = run, .context = context});
    fake_unlock();
    return CUDA_OK;
}

/* ---- events ---- */

unsigned cudaEventCreateWithFlags(struct CUevent_st **event, unsigned flags)
{
    (void)flags;
    const unsigned error = fake_begin(FAKE_cudaEventCreateWithFlags);
    if (error != 0) {
        return error;
    }
    *event = calloc(1, sizeof(**event));
    CHECK(*event != NULL);
    (*event)->device = fake_current("cudaEventCreateWithFlags");
    (*event)->next = events;
    events = *event;
    fake_unlock();
    return CUDA_OK;
}

unsigned cudaEventDestroy(struct CUevent_st *event)
{
    const unsigned error = fake_begin(FAKE_cudaEventDestroy);
    if (error != 0) {
        return error;
    }
    if (is_queued(event)) {
        fake_abort("an event was destroyed before it had fired");
    }
    struct CUevent_st **at = &events;
    while (*at != event) {
        if (*at == NULL) {
            fake_abort("cudaEventDestroy: this is no event, or it was destroyed before");
        }
        at = &(*at)->next;
    }
    *at = event->next;
    free(event);
    fake_unlock();
    return CUDA_OK;
}

unsigned cudaEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    const unsigned error = fake_begin(FAKE_cudaEventRecord);
    if (error != 0) {
        return error;
    }
    check_stream("cudaEventRecord", stream);
    if (event->device != stream->device) {
        fake_abort("cudaEventRecord: wrong device: the event is of %d, the stream of %d",
                   event->device, stream->device);
    }
    push(stream, &(struct task){.kind = TASK_RECORD, .event = event, .count = ++event->recorded});
    fake_unlock();
    return CUDA_OK;
}

unsigned cudaEventQuery(struct CUevent_st *event)
{
    const unsigned error = fake_begin(FAKE_cudaEventQuery);
    if (error != 0) {
        return error;
    }
    const bool has_fired = event->fired == event->recorded;
    fake_unlock();
    return has_fired ? CUDA_OK : CUDA_NOT_READY;
}

unsigned cudaEventSynchronize(struct CUevent_st *event)
{
    const unsigned error = fake_begin(FAKE_cudaEventSynchronize);
    if (error != 0) {
        return error;
    }
    const uint64_t wanted = event->recorded;
    while (event->fired < wanted && cuda_fake.lost == 0) {
        CHECK(pthread_cond_wait(&cuda_fake.changed, &cuda_fake.mutex) == 0);
    }
    const unsigned lost = cuda_fake.lost;
    fake_unlock();
    return lost;
}

unsigned cudaStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event, unsigned flags)
{
    (void)flags;
    const unsigned error = fake_begin(FAKE_cudaStreamWaitEvent);
    if (error != 0) {
        return error;
    }
    check_stream("cudaStreamWaitEvent", stream);
    push(stream, &(struct task){.kind = TASK_WAIT, .event = event, .count = event->recorded});
    fake_unlock();
    return CUDA_OK;
}

/* ---- what nobody may call: not in our tables, but in the real library ---- */

#define FORBIDDEN(symbol)                                             \
    EXPORT unsigned symbol(void);                                     \
    EXPORT unsigned symbol(void)                                      \
    {                                                                 \
        fake_abort(#symbol " waits for a whole device, or a stream"); \
    }

FORBIDDEN(cudaDeviceSynchronize)
FORBIDDEN(cudaDeviceReset)
FORBIDDEN(cudaStreamSynchronize)
FORBIDDEN(cudaMemcpy)
FORBIDDEN(cuCtxSynchronize)
