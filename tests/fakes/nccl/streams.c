/* SPDX-License-Identifier: Apache-2.0 */
/* One lock for all: tests are small. */
#include "fakes/nccl/streams.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*host_fn)(void *context);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct CUevent_st {
    uint64_t recorded, fired;
};

struct job {
    struct job *next;
    host_fn run;
    void *context;
};

struct CUstream_st {
    struct job *first, **last;
    bool is_over, has_ended;
};

/* Never freed: after an abort its owner leaves it to the end of the process. */
struct piece {
    struct piece *next;
    max_align_t bytes[];
};
static struct piece *pieces; /* all, for the leak checker */

static void *take(size_t bytes)
{
    struct piece *piece = calloc(1, sizeof(*piece) + bytes);
    if (piece == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    piece->next = pieces;
    pieces = piece;
    pthread_mutex_unlock(&lock);
    return piece->bytes;
}

static bool fails(const char *call)
{
    const char *failing = getenv("HR_FAKE_STREAMS_FAIL");
    return failing != NULL && strcmp(failing, call) == 0;
}

#define FAILS() (fails(__func__))

/* ---- streams ---- */

static void *run_stream(void *context)
{
    struct CUstream_st *stream = context;
    pthread_mutex_lock(&lock);
    while (!stream->is_over || stream->first != NULL) {
        struct job *job = stream->first;
        if (job == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        job->run(job->context);
        pthread_mutex_lock(&lock);
        stream->first = job->next;
        if (job->next == NULL) {
            stream->last = &stream->first;
        }
        free(job);
    }
    stream->has_ended = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

unsigned cudaLaunchHostFunc(struct CUstream_st *stream, host_fn run, void *context)
{
    struct job *job = calloc(1, sizeof(*job));
    CHECK(job != NULL);
    job->run = run;
    job->context = context;
    pthread_mutex_lock(&lock);
    *stream->last = job;
    stream->last = &job->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

static unsigned cudaStreamCreateWithPriority(struct CUstream_st **out, unsigned flags, int priority)
{
    struct CUstream_st *stream = FAILS() ? NULL : take(sizeof(*stream));
    if (stream == NULL) {
        return CUDA_OUT_OF_MEMORY;
    }
    stream->last = &stream->first;
    pthread_t thread; /* for some streams are never destroyed */
    if (pthread_create(&thread, NULL, run_stream, stream) != 0) {
        return CUDA_OUT_OF_MEMORY;
    }
    pthread_detach(thread);
    *out = stream;
    return CUDA_OK;
}

/* Unlike CUDA's it waits for what is on the stream. */
static unsigned cudaStreamDestroy(struct CUstream_st *stream)
{
    pthread_mutex_lock(&lock);
    stream->is_over = true;
    pthread_cond_broadcast(&changed);
    while (!stream->has_ended) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

static unsigned cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return FAILS() ? CUDA_NO_DEVICE : CUDA_OK;
}

/* ---- events ---- */

struct mark {
    struct CUevent_st *event;
    uint64_t number;
};

static void fire(void *context)
{
    struct mark *mark = context;
    pthread_mutex_lock(&lock);
    if (mark->event->fired < mark->number) {
        mark->event->fired = mark->number;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    free(mark);
}

static void await(void *context)
{
    struct mark *mark = context;
    pthread_mutex_lock(&lock);
    while (mark->event->fired < mark->number) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    free(mark);
}

static unsigned put_mark(struct CUstream_st *stream, struct CUevent_st *event, uint64_t more,
                         host_fn run)
{
    struct mark *mark = malloc(sizeof(*mark));
    if (mark == NULL) {
        return CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&lock);
    event->recorded += more;
    *mark = (struct mark){.event = event, .number = event->recorded};
    pthread_mutex_unlock(&lock);
    return cudaLaunchHostFunc(stream, run, mark);
}

static unsigned cudaEventCreateWithFlags(struct CUevent_st **out, unsigned flags)
{
    *out = FAILS() ? NULL : take(sizeof(**out));
    return *out == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

static unsigned cudaEventDestroy(struct CUevent_st *event)
{
    return CUDA_OK;
}

static unsigned cudaEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    return FAILS() ? CUDA_NO_DEVICE : put_mark(stream, event, 1, fire);
}

static unsigned cudaStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event,
                                    unsigned flags)
{
    return FAILS() ? CUDA_NO_DEVICE : put_mark(stream, event, 0, await);
}

static unsigned cudaEventQuery(struct CUevent_st *event)
{
    pthread_mutex_lock(&lock);
    const bool has_fired = event->fired >= event->recorded;
    pthread_mutex_unlock(&lock);
    return FAILS() ? CUDA_NO_DEVICE : has_fired ? CUDA_OK : CUDA_NOT_READY;
}

/* ---- memory ---- */

static unsigned cudaMalloc(void **out, size_t bytes)
{
    *out = FAILS() ? NULL : take(bytes);
    return *out == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

static unsigned cudaFree(void *memory)
{
    return CUDA_OK;
}

static unsigned cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    *out = FAILS() ? NULL : take(bytes);
    return *out == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

static unsigned cudaFreeHost(void *memory)
{
    return CUDA_OK;
}

struct copy {
    void *target;
    const void *source;
    size_t bytes;
};

static void run_copy(void *context)
{
    struct copy *copy = context;
    memcpy(copy->target, copy->source, copy->bytes);
    free(copy);
}

static unsigned cudaMemcpyAsync(void *target, const void *source, size_t bytes, unsigned kind,
                                struct CUstream_st *stream)
{
    struct copy *copy = FAILS() ? NULL : malloc(sizeof(*copy));
    if (copy == NULL) {
        return CUDA_OUT_OF_MEMORY;
    }
    *copy = (struct copy){.target = target, .source = source, .bytes = bytes};
    return cudaLaunchHostFunc(stream, run_copy, copy);
}

/* ---- the rest ---- */

static unsigned cudaSetDevice(int device)
{
    return FAILS() ? CUDA_NO_DEVICE : CUDA_OK;
}

static unsigned cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    snprintf(id, (size_t)size, "0000:00:%02x.0", 16 + (unsigned)device);
    return FAILS() ? CUDA_NO_DEVICE : CUDA_OK;
}

static const char *cudaGetErrorName(unsigned error)
{
    return error == CUDA_OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : "cudaErrorNoDevice";
}

static const char *cudaGetErrorString(unsigned error)
{
    return error == CUDA_OUT_OF_MEMORY ? "out of memory" : "no device";
}

void streams_table(struct cuda_api *out)
{
    memset(out, 0, sizeof(*out));
    snprintf(out->driver.found.version_text, LIBRARY_VERSION_BYTES, "12.9");
    snprintf(out->runtime.found.version_text, LIBRARY_VERSION_BYTES, "12.8");
    struct cuda_runtime *table = &out->runtime;
#define FUNCTION(name) table->name = name
    FUNCTION(cudaStreamCreateWithPriority);
    FUNCTION(cudaStreamDestroy);
    FUNCTION(cudaStreamWaitEvent);
    FUNCTION(cudaDeviceGetStreamPriorityRange);
    FUNCTION(cudaEventCreateWithFlags);
    FUNCTION(cudaEventDestroy);
    FUNCTION(cudaEventRecord);
    FUNCTION(cudaEventQuery);
    FUNCTION(cudaMalloc);
    FUNCTION(cudaFree);
    FUNCTION(cudaHostAlloc);
    FUNCTION(cudaFreeHost);
    FUNCTION(cudaMemcpyAsync);
    FUNCTION(cudaSetDevice);
    FUNCTION(cudaDeviceGetPCIBusId);
    FUNCTION(cudaGetErrorName);
    FUNCTION(cudaGetErrorString);
#undef FUNCTION
}
