/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's state: set-up from the environment, injected errors, memory, the driver and NVML. */
#include "fakes/cuda_fake.h"

#include <linux/mempolicy.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fakes/cuda_fake_core.h"

static const char *const NAMES[] = {
#define CUDA_FAKE_NAME(result, symbol, parameters) #symbol,
#define CUDA_DRIVER_CALL                           CUDA_FAKE_NAME
#define CUDA_RUNTIME_CALL                          CUDA_FAKE_NAME
#define NVML_CALL                                  CUDA_FAKE_NAME
#include "consumer/cuda_calls.def"
    "copy",
    "kernel",
    "any",
};

static const struct {
    unsigned error;
    const char *name, *text;
    bool is_sticky;
} ERRORS[] = {
    {CUDA_OK, "cudaSuccess", "no error", false},
    {CUDA_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory", false},
    {CUDA_NO_DEVICE, "cudaErrorNoDevice", "no CUDA-capable device is detected", false},
    {CUDA_FAKE_BAD_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal", false},
    {CUDA_NO_IMAGE, "cudaErrorNoKernelImageForDevice", "no kernel image is available", false},
    {214, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered", true},
    {CUDA_NOT_READY, "cudaErrorNotReady", "device not ready", false},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered", true},
    {CUDA_FAKE_LOST, "cudaErrorLaunchFailure", "unspecified launch failure", true},
};

struct cuda_fake cuda_fake = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A thread's own: the device that it chose, plus 1; whether it was told of the sticky error. No
 * _Thread_local: the leak checker of gcc 12 trips over one in a library that was opened late. */
static pthread_key_t chosen_key, told_key;
static pthread_once_t keys_once = PTHREAD_ONCE_INIT;

static void make_keys(void)
{
    CHECK(pthread_key_create(&chosen_key, NULL) == 0 && pthread_key_create(&told_key, NULL) == 0);
}

static int chosen_device(void)
{
    CHECK(pthread_once(&keys_once, make_keys) == 0);
    return (int)(intptr_t)pthread_getspecific(chosen_key) - 1;
}

void fake_abort(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("cuda_fake: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
    abort();
}

void fake_lock(void)
{
    CHECK(pthread_mutex_lock(&cuda_fake.mutex) == 0);
}

void fake_unlock(void)
{
    CHECK(pthread_mutex_unlock(&cuda_fake.mutex) == 0);
}

/* ---- set-up ---- */

static long number_of(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    char *end = NULL;
    if (text == NULL) {
        return otherwise;
    }
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0') {
        fake_abort("%s=\"%s\" is no number", variable, text);
    }
    return number;
}

static enum cuda_fake_call call_of(const char *name, size_t length)
{
    for (int i = 0; i < FAKE_CALLS; i++) {
        if (strlen(NAMES[i]) == length && strncmp(NAMES[i], name, length) == 0) {
            return (enum cuda_fake_call)i;
        }
    }
    fake_abort("there is no call %.*s", (int)length, name);
}

static void read_fails(const char *at)
{
    while (at != NULL && *at != '\0') {
        struct fake_fail *fail = &cuda_fake.fails[cuda_fake.fail_count++];
        const size_t length = strcspn(at, ":");
        char *end = NULL;
        CHECK(cuda_fake.fail_count <= FAKE_FAILS_MAX && at[length] == ':');
        fail->call = call_of(at, length);
        fail->at = strtoull(at + length + 1, &end, 10);
        CHECK(*end == ':');
        fail->error = (unsigned)strtoul(end + 1, &end, 10);
        CHECK(*end == ',' || *end == '\0');
        at = *end == ',' ? end + 1 : end;
    }
}

/* As the driver does: up to the first entry that is none. */
static void choose_visible(int gpus)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    if (at == NULL) {
        for (int i = 0; i < gpus; i++) {
            cuda_fake.physical[cuda_fake.gpus++] = i;
        }
        return;
    }
    while (*at != '\0') {
        char *end = NULL;
        const long number = strtol(at, &end, 10);
        if (end == at || number < 0 || number >= gpus || cuda_fake.gpus == FAKE_GPUS_MAX) {
            return;
        }
        cuda_fake.physical[cuda_fake.gpus++] = (int)number;
        at = *end == ',' ? end + 1 : end;
    }
}

static void set_up(void)
{
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&cuda_fake.changed, &attributes) == 0);
    CHECK(pthread_condattr_destroy(&attributes) == 0);
    const long gpus = number_of("HR_FAKE_CUDA_GPUS", 2);
    CHECK(gpus >= 0 && gpus <= FAKE_GPUS_MAX);
    choose_visible((int)gpus);
    const long mbps = number_of("HR_FAKE_CUDA_MBPS", 0);
    cuda_fake.ns_per_byte = mbps > 0 ? 1e3 / (double)mbps : 0;
    cuda_fake.latency_ns = number_of("HR_FAKE_CUDA_LATENCY_US", 0) * 1000;
    cuda_fake.node = (int)number_of("HR_FAKE_CUDA_NODE", -1);
    cuda_fake.xid = number_of("HR_FAKE_CUDA_XID", -1);
    cuda_fake.ecc = number_of("HR_FAKE_CUDA_ECC", -1);
    const char *log = getenv("HR_FAKE_CUDA_LOG");
    snprintf(cuda_fake.log, sizeof(cuda_fake.log), "%s", log == NULL ? "" : log);
    read_fails(getenv("HR_FAKE_CUDA_FAIL"));
    cuda_fake.pid = getpid();
    cuda_fake.is_set_up = true;
}

/* One line, one write: several processes share the file. */
__attribute__((destructor)) static void write_log(void)
{
    char line[512];
    if (!cuda_fake.is_set_up || cuda_fake.log[0] == '\0' || cuda_fake.pid != getpid()) {
        return;
    }
    int left = 0;
    for (int i = 0; i < FAKE_MEMORIES_MAX; i++) {
        left += cuda_fake.memories[i].kind != FAKE_FREE;
    }
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        left += cuda_fake.streams[i] != NULL;
    }
    left += cuda_fake.modules;
    snprintf(line, sizeof(line),
             "gpu=%d copies=%llu bytes=%llu kernels=%llu pinned=%llu near=%llu "
             "memories_or_streams_left=%d\n",
             chosen_device() < 0 ? -1 : cuda_fake.physical[chosen_device()],
             (unsigned long long)cuda_fake.copies, (unsigned long long)cuda_fake.bytes,
             (unsigned long long)cuda_fake.kernels, (unsigned long long)cuda_fake.pinned,
             (unsigned long long)cuda_fake.pinned_near, left);
    FILE *file = fopen(cuda_fake.log, "ae");
    CHECK(file != NULL && fputs(line, file) >= 0 && fclose(file) == 0);
}

/* ---- what every call begins with ---- */

unsigned fake_injected(enum cuda_fake_call call)
{
    cuda_fake.calls[call]++;
    for (int i = 0; i < cuda_fake.fail_count; i++) {
        const struct fake_fail *fail = &cuda_fake.fails[i];
        if (fail->call == call && fail->at == cuda_fake.calls[call]) {
            return fail->error;
        }
    }
    return 0;
}

static bool is_sticky(unsigned error)
{
    for (size_t i = 0; i < ARRAY_LEN(ERRORS); i++) {
        if (ERRORS[i].error == error) {
            return ERRORS[i].is_sticky;
        }
    }
    return false;
}

static void enter(enum cuda_fake_call call)
{
    const pid_t owner = cuda_fake.pid;
    if (owner != 0 && owner != getpid()) { /* before the lock, which a lost thread may hold */
        fake_abort("%s in a child that was forked after CUDA was used", NAMES[call]);
    }
    fake_lock();
    if (!cuda_fake.is_set_up) {
        set_up();
    }
}

unsigned fake_begin(enum cuda_fake_call call)
{
    enter(call);
    const unsigned any = fake_injected(FAKE_any);
    const unsigned own = fake_injected(call);
    unsigned error = own != 0 ? own : any;
    if (cuda_fake.lost == 0 && is_sticky(error)) {
        cuda_fake.lost = error;
    }
    if (cuda_fake.lost != 0) {
        CHECK(pthread_once(&keys_once, make_keys) == 0);
        if (pthread_getspecific(told_key) != NULL) {
            fake_abort("%s after a sticky error", NAMES[call]);
        }
        CHECK(pthread_setspecific(told_key, &told_key) == 0);
        error = cuda_fake.lost;
    }
    if (error != 0) {
        fake_unlock();
    }
    return error;
}

unsigned fake_begin_free(enum cuda_fake_call call)
{
    enter(call);
    const unsigned error = fake_injected(call);
    if (error != 0) {
        fake_unlock();
    }
    return error;
}

int fake_current(const char *call)
{
    const int device = chosen_device();
    if (device < 0) {
        fake_abort("%s: wrong device: this thread chose none", call);
    }
    return device;
}

void fake_choose(int device)
{
    CHECK(pthread_once(&keys_once, make_keys) == 0);
    CHECK(pthread_setspecific(chosen_key, (void *)(intptr_t)(device + 1)) == 0);
}

/* ---- memory ---- */

struct fake_memory *fake_find(const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (int i = 0; i < FAKE_MEMORIES_MAX; i++) {
        struct fake_memory *memory = &cuda_fake.memories[i];
        if (memory->kind != FAKE_FREE && at >= memory->base &&
            at + count <= memory->base + memory->bytes) {
            return memory;
        }
    }
    return NULL;
}

/* Does the calling thread's policy ask for the GPU's node? */
static bool is_near(void)
{
    unsigned long nodes[16] = {0};
    int mode = 0;
    return cuda_fake.node >= 0 &&
           syscall(SYS_get_mempolicy, &mode, nodes, sizeof(nodes) * 8, NULL, 0) == 0 &&
           mode == MPOL_PREFERRED && nodes[0] == 1UL << cuda_fake.node;
}

static unsigned allocate(enum fake_memory_kind kind, const char *call, void **out, size_t bytes)
{
    const int device = fake_current(call);
    int at = 0;
    while (cuda_fake.memories[at].kind != FAKE_FREE) {
        at++;
        CHECK(at < FAKE_MEMORIES_MAX);
    }
    void *base = NULL;
    CHECK(bytes > 0 && posix_memalign(&base, 4096, bytes) == 0);
    memset(base, CUDA_FAKE_POISON, bytes);
    cuda_fake.memories[at] =
        (struct fake_memory){.kind = kind, .device = device, .base = base, .bytes = bytes};
    cuda_fake.pinned += kind == FAKE_PINNED;
    cuda_fake.pinned_near += kind == FAKE_PINNED && is_near();
    *out = base;
    fake_unlock();
    return CUDA_OK;
}

static unsigned release(enum fake_memory_kind kind, const char *call, void *base)
{
    if (base != NULL) {
        struct fake_memory *memory = fake_find(base, 1);
        if (memory == NULL || memory->kind != kind || memory->base != base) {
            fake_abort("%s: this is no such memory, or it was freed before", call);
        }
        fake_check_idle(memory);
        free(base);
        *memory = (struct fake_memory){0};
    }
    fake_unlock();
    return CUDA_OK;
}

unsigned cudaMalloc(void **memory, size_t bytes)
{
    const unsigned error = fake_begin(FAKE_cudaMalloc);
    return error != 0 ? error : allocate(FAKE_DEVICE, "cudaMalloc", memory, bytes);
}

unsigned cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    const unsigned error = fake_begin(FAKE_cudaHostAlloc);
    return error != 0 ? error : allocate(FAKE_PINNED, "cudaHostAlloc", memory, bytes);
}

unsigned cudaFree(void *memory)
{
    const unsigned error = fake_begin(FAKE_cudaFree);
    return error != 0 ? error : release(FAKE_DEVICE, "cudaFree", memory);
}

unsigned cudaFreeHost(void *memory)
{
    const unsigned error = fake_begin(FAKE_cudaFreeHost);
    return error != 0 ? error : release(FAKE_PINNED, "cudaFreeHost", memory);
}

unsigned cudaPointerGetAttributes(struct cuda_pointer *attributes, const void *pointer)
{
    const unsigned error = fake_begin(FAKE_cudaPointerGetAttributes);
    if (error != 0) {
        return error;
    }
    const struct fake_memory *memory = fake_find(pointer, 1);
    *attributes = (struct cuda_pointer){.device = -1};
    if (memory != NULL) {
        attributes->kind = memory->kind == FAKE_PINNED ? CUDA_POINTER_HOST : CUDA_POINTER_DEVICE;
        attributes->device = memory->device;
    }
    fake_unlock();
    return CUDA_OK;
}

unsigned cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const unsigned error = fake_begin(FAKE_cudaMemGetInfo);
    if (error != 0) {
        return error;
    }
    *total_bytes = (size_t)16 << 30;
    *free_bytes = *total_bytes;
    for (int i = 0; i < FAKE_MEMORIES_MAX; i++) {
        const struct fake_memory *memory = &cuda_fake.memories[i];
        *free_bytes -= memory->kind == FAKE_DEVICE ? memory->bytes : 0;
    }
    fake_unlock();
    return CUDA_OK;
}

/* ---- the cards ---- */

/* Ends a call that has nothing more to do. */
static unsigned done(unsigned error)
{
    fake_unlock();
    return error;
}

unsigned cudaRuntimeGetVersion(int *version)
{
    const unsigned error = fake_begin_free(FAKE_cudaRuntimeGetVersion);
    if (error != 0) {
        return error;
    }
    *version = 12080;
    return done(CUDA_OK);
}

static const char *text_of(enum cuda_fake_call call, unsigned error, bool wants_name)
{
    (void)fake_begin_free(call);
    fake_unlock();
    for (size_t i = 0; i < ARRAY_LEN(ERRORS); i++) {
        if (ERRORS[i].error == error) {
            return wants_name ? ERRORS[i].name : ERRORS[i].text;
        }
    }
    return wants_name ? "cudaErrorOfTheFake" : "an error that was asked for";
}

const char *cudaGetErrorName(unsigned error)
{
    return text_of(FAKE_cudaGetErrorName, error, true);
}

const char *cudaGetErrorString(unsigned error)
{
    return text_of(FAKE_cudaGetErrorString, error, false);
}

unsigned cudaGetLastError(void)
{
    const unsigned error = fake_begin_free(FAKE_cudaGetLastError);
    return error != 0 ? error : done(cuda_fake.lost);
}

unsigned cudaPeekAtLastError(void)
{
    const unsigned error = fake_begin_free(FAKE_cudaPeekAtLastError);
    return error != 0 ? error : done(cuda_fake.lost);
}

unsigned cudaGetDeviceCount(int *count)
{
    const unsigned error = fake_begin(FAKE_cudaGetDeviceCount);
    if (error != 0) {
        return error;
    }
    *count = cuda_fake.gpus;
    return done(cuda_fake.gpus == 0 ? CUDA_NO_DEVICE : CUDA_OK);
}

unsigned cudaSetDevice(int device)
{
    const unsigned error = fake_begin(FAKE_cudaSetDevice);
    if (error != 0) {
        return error;
    }
    if (device < 0 || device >= cuda_fake.gpus) {
        return done(CUDA_FAKE_BAD_DEVICE);
    }
    fake_choose(device);
    return done(CUDA_OK);
}

unsigned cudaDeviceGetAttribute(int *value, unsigned attribute, int device)
{
    const unsigned error = fake_begin(FAKE_cudaDeviceGetAttribute);
    if (error != 0) {
        return error;
    }
    *value = attribute == CUDA_ATTRIBUTE_MAJOR ? 7 : attribute == CUDA_ATTRIBUTE_MINOR ? 0 : 80;
    return done(device >= 0 && device < cuda_fake.gpus ? CUDA_OK : CUDA_FAKE_BAD_DEVICE);
}

unsigned cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    const unsigned error = fake_begin(FAKE_cudaDeviceGetPCIBusId);
    if (error != 0) {
        return error;
    }
    if (device < 0 || device >= cuda_fake.gpus) {
        return done(CUDA_FAKE_BAD_DEVICE);
    }
    snprintf(id, (size_t)size, "0000:F%X:00.0", (unsigned)cuda_fake.physical[device]);
    return done(CUDA_OK);
}

unsigned cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    const unsigned error = fake_begin(FAKE_cudaDeviceGetStreamPriorityRange);
    if (error != 0) {
        return error;
    }
    *least = 0;
    *greatest = -5;
    return done(CUDA_OK);
}

/* ---- the driver ---- */

unsigned cuDriverGetVersion(int *version)
{
    const unsigned error = fake_begin_free(FAKE_cuDriverGetVersion);
    if (error != 0) {
        return error;
    }
    *version = 12090;
    return done(CUDA_OK);
}

unsigned cuInit(unsigned flags)
{
    const unsigned error = fake_begin_free(FAKE_cuInit);
    if (error != 0) {
        return error;
    }
    return done(flags != 0 ? 1 : cuda_fake.gpus == 0 ? CUDA_NO_DEVICE : CUDA_OK);
}

unsigned cuGetErrorName(unsigned result, const char **name)
{
    *name = text_of(FAKE_cuGetErrorName, result, true);
    return CUDA_OK;
}

unsigned cuGetErrorString(unsigned result, const char **text)
{
    *text = text_of(FAKE_cuGetErrorString, result, false);
    return CUDA_OK;
}

unsigned cuDeviceGet(int *device, int ordinal)
{
    const unsigned error = fake_begin_free(FAKE_cuDeviceGet);
    if (error != 0) {
        return error;
    }
    *device = ordinal;
    return done(ordinal >= 0 && ordinal < cuda_fake.gpus ? CUDA_OK : CUDA_FAKE_BAD_DEVICE);
}

unsigned cuDeviceGetName(char *name, int size, int device)
{
    const unsigned error = fake_begin_free(FAKE_cuDeviceGetName);
    if (error != 0) {
        return error;
    }
    snprintf(name, (size_t)size, "fake card %d", device);
    return done(CUDA_OK);
}

/* ---- NVML ---- */

enum { NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };

unsigned nvmlInit_v2(void)
{
    const unsigned error = fake_begin_free(FAKE_nvmlInit_v2);
    return error != 0 ? error : done(NVML_OK);
}

unsigned nvmlShutdown(void)
{
    const unsigned error = fake_begin_free(FAKE_nvmlShutdown);
    return error != 0 ? error : done(NVML_OK);
}

const char *nvmlErrorString(unsigned result)
{
    return result == NVML_NOT_SUPPORTED ? "Not Supported" : "an error that was asked for";
}

unsigned nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    const unsigned error = fake_begin_free(FAKE_nvmlSystemGetDriverVersion);
    if (error != 0) {
        return error;
    }
    snprintf(version, size, "575.1");
    return done(NVML_OK);
}

/* A handle is the place of the GPU's number. */
unsigned nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct nvmlDevice_st **device)
{
    const unsigned error = fake_begin_free(FAKE_nvmlDeviceGetHandleByPciBusId_v2);
    if (error != 0) {
        return error;
    }
    for (int i = 0; i < cuda_fake.gpus; i++) {
        char own[CUDA_PCI_ID_BYTES];
        snprintf(own, sizeof(own), "0000:F%X:00.0", (unsigned)cuda_fake.physical[i]);
        if (strcmp(own, id) == 0) {
            *device = (struct nvmlDevice_st *)&cuda_fake.physical[i];
            return done(NVML_OK);
        }
    }
    return done(NVML_NOT_FOUND);
}

unsigned nvmlDeviceGetMemoryAffinity(struct nvmlDevice_st *device, unsigned words,
                                     unsigned long *nodes, unsigned scope)
{
    (void)device;
    (void)scope;
    const unsigned error = fake_begin_free(FAKE_nvmlDeviceGetMemoryAffinity);
    if (error != 0) {
        return error;
    }
    memset(nodes, 0, words * sizeof(*nodes));
    if (cuda_fake.node < 0) {
        return done(NVML_NOT_SUPPORTED);
    }
    nodes[cuda_fake.node / 64] = 1UL << (cuda_fake.node % 64);
    return done(NVML_OK);
}

unsigned nvmlDeviceGetTotalEccErrors(struct nvmlDevice_st *device, unsigned kind, unsigned counter,
                                     unsigned long long *count)
{
    (void)device, (void)kind, (void)counter;
    const unsigned error = fake_begin_free(FAKE_nvmlDeviceGetTotalEccErrors);
    if (error != 0) {
        return error;
    }
    *count = (unsigned long long)cuda_fake.ecc;
    return done(cuda_fake.ecc < 0 ? NVML_NOT_SUPPORTED : NVML_OK);
}

unsigned nvmlEventSetCreate(struct nvmlEventSet_st **set)
{
    const unsigned error = fake_begin_free(FAKE_nvmlEventSetCreate);
    if (error != 0) {
        return error;
    }
    *set = (struct nvmlEventSet_st *)&cuda_fake;
    return done(NVML_OK);
}

unsigned nvmlEventSetFree(struct nvmlEventSet_st *set)
{
    (void)set;
    const unsigned error = fake_begin_free(FAKE_nvmlEventSetFree);
    return error != 0 ? error : done(NVML_OK);
}

unsigned nvmlDeviceRegisterEvents(struct nvmlDevice_st *device, unsigned long long kinds,
                                  struct nvmlEventSet_st *set)
{
    (void)device, (void)set;
    const unsigned error = fake_begin_free(FAKE_nvmlDeviceRegisterEvents);
    return error != 0 ? error : done(kinds == NVML_EVENT_XID ? NVML_OK : NVML_NOT_SUPPORTED);
}

unsigned nvmlEventSetWait_v2(struct nvmlEventSet_st *set, struct nvml_event *event,
                             unsigned timeout_ms)
{
    (void)set;
    const unsigned error = fake_begin_free(FAKE_nvmlEventSetWait_v2);
    if (error != 0) {
        return error;
    }
    const bool has_xid = cuda_fake.lost != 0 && cuda_fake.xid >= 0;
    *event = (struct nvml_event){.kind = NVML_EVENT_XID, .data = (unsigned long long)cuda_fake.xid};
    fake_unlock();
    if (!has_xid) {
        usleep(timeout_ms * 1000);
    }
    return has_xid ? NVML_OK : NVML_TIMED_OUT;
}

/* ---- for tests ---- */

EXPORT uint64_t cuda_fake_calls(const char *symbol);
EXPORT uint64_t cuda_fake_calls(const char *symbol)
{
    fake_lock();
    const uint64_t calls = cuda_fake.calls[call_of(symbol, strlen(symbol))];
    fake_unlock();
    return calls;
}
