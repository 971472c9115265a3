/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake CUDA share: its one state, and what every call begins with. */
#ifndef HEADRACE_TESTS_FAKES_CUDA_FAKE_CORE_H
#define HEADRACE_TESTS_FAKES_CUDA_FAKE_CORE_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "consumer/cuda_api.h"
#include "fakes/cuda_fake.h"

#define EXPORT __attribute__((visibility("default")))

/* Declared from the same list as the tables, so that a function of another shape does not compile.
 */
#define CUDA_FAKE_DECLARE(result, symbol, parameters) EXPORT result symbol parameters;
#define CUDA_DRIVER_CALL                              CUDA_FAKE_DECLARE
#define CUDA_RUNTIME_CALL                             CUDA_FAKE_DECLARE
#define NVML_CALL                                     CUDA_FAKE_DECLARE
#include "consumer/cuda_calls.def"

enum cuda_fake_call {
#define CUDA_FAKE_NUMBER(result, symbol, parameters) FAKE_##symbol,
#define CUDA_DRIVER_CALL                             CUDA_FAKE_NUMBER
#define CUDA_RUNTIME_CALL                            CUDA_FAKE_NUMBER
#define NVML_CALL                                    CUDA_FAKE_NUMBER
#include "consumer/cuda_calls.def"
    FAKE_copy,   /* none of CUDA's: a copy is worked off */
    FAKE_kernel, /* likewise: a kernel */
    FAKE_any,    /* likewise: any call that needs a context */
    FAKE_CALLS,
};

enum { FAKE_GPUS_MAX = 16, FAKE_FAILS_MAX = 8, FAKE_MEMORIES_MAX = 256, FAKE_STREAMS_MAX = 32 };
enum { FAKE_PARAMS_MAX = 32 }; /* of a kernel */

enum fake_memory_kind { FAKE_FREE, FAKE_PINNED, FAKE_DEVICE };

struct fake_memory {
    enum fake_memory_kind kind;
    int device;
    uint8_t *base;
    size_t bytes;
};

struct fake_fail {
    enum cuda_fake_call call;
    uint64_t at;
    unsigned error;
};

struct cuda_fake {
    _Atomic pid_t pid;      /* whose state it is; 0: nobody's yet */
    pthread_mutex_t mutex;  /* guards all below */
    pthread_cond_t changed; /* an event fired, a queue moved */
    bool is_set_up;
    int gpus;                    /* visible */
    int physical[FAKE_GPUS_MAX]; /* number of each */
    int64_t latency_ns;
    double ns_per_byte;
    struct fake_fail fails[FAKE_FAILS_MAX];
    int fail_count;
    int node;
    long xid, ecc; /* -1: not told */
    char log[1024];

    uint64_t calls[FAKE_CALLS];
    unsigned lost; /* the sticky error, 0: none */
    struct fake_memory memories[FAKE_MEMORIES_MAX];
    struct CUstream_st *streams[FAKE_STREAMS_MAX];
    int modules;
    uint64_t copies, bytes, kernels, pinned, pinned_near;
};

extern struct cuda_fake cuda_fake;

_Noreturn void fake_abort(const char *format, ...) PRINTF(1, 2);

void fake_lock(void);
void fake_unlock(void);

/*
 * Every call's first line: counts it, and returns the error that it has to return at once, or 0
 * with the lock held. fake_begin: of the runtime, and of the driver where it needs a context.
 */
unsigned fake_begin(enum cuda_fake_call call);
unsigned fake_begin_free(enum cuda_fake_call call); /* may follow a sticky error */
/* Under the lock: the n-th of its kind? 0: no. */
unsigned fake_injected(enum cuda_fake_call call);

/* The device that this thread chose; ends the process if it chose none. */
int fake_current(const char *call);
void fake_choose(int device);

/* Under the lock: where the bytes lie; NULL: nowhere, or not wholly. */
struct fake_memory *fake_find(const void *bytes, size_t count);

/* Ends the process if something queued uses the memory. */
void fake_check_idle(const struct fake_memory *memory);

/* A kernel that waits in a stream's queue. Both under the lock; the second gives it away for the
 * kernel's time, and frees the launch. */
struct fake_launch;
bool fake_launch_touches(const struct fake_launch *launch, const struct fake_memory *memory);
void fake_launch_run(struct fake_launch *launch);
/* Under the lock: gives the launch to the stream. */
void fake_queue_launch(const char *call, struct CUstream_st *stream, struct fake_launch *launch);

#endif
