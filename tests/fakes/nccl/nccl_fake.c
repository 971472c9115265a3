/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's functions, by the names that the real ones have. */
#include "fakes/nccl/nccl_fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#undef CHECK
#define CHECK(cond) ((cond) ? (void)0 : abort()) /* the library links nothing of ours */

#define EXPORT __attribute__((visibility("default")))

/* Declared, as nothing else here does. */
#define NCCL_CALL(result, symbol, parameters) EXPORT result symbol parameters;
#include "consumer/nccl_calls.def"

typedef void (*host_fn)(void *context);
typedef unsigned (*launch_fn)(struct CUstream_st *stream, host_fn run, void *context);

enum { DEFAULT_VERSION = 22703 };

/* ---- communicators ---- */

static void unref(struct ncclComm *comm)
{
    if (--comm->refs > 0) {
        return;
    }
    for (uint32_t i = 0; i < comm->size; i++) {
        if (comm->peers[i] >= 0) {
            close(comm->peers[i]);
        }
    }
    if (comm->listen_fd >= 0) {
        close(comm->listen_fd);
    }
    close(comm->abort_fd);
    free(comm->peers);
    free(comm);
}

static void break_comm(struct ncclComm *comm)
{
    unsigned expected = NCCL_OK;
    const bool was_up = atomic_compare_exchange_strong(&comm->state, &expected, NCCL_REMOTE_ERROR);
    if (!was_up && expected == NCCL_IN_PROGRESS) {
        comm->state =
            strstr(comm->last, "mismatched") != NULL ? NCCL_USAGE_ERROR : NCCL_REMOTE_ERROR;
    }
}

static void *run_linker(void *context)
{
    struct ncclComm *comm = context;
    if (comm->will_not_connect) {
        fake_await_abort(comm);
    } else if (fake_link(comm)) {
        comm->state = NCCL_OK;
    } else {
        break_comm(comm);
    }
    unref(comm);
    return NULL;
}

/* ---- operations ---- */

struct fake_op {
    struct ncclComm *comm;
    const void *in;
    void *out;
    size_t count;
    int root; /* -1: a sum */
    enum fault fault;
};

static bool sum_at_hub(const struct fake_op *op)
{
    struct ncclComm *comm = op->comm;
    const size_t bytes = op->count * sizeof(float);
    float *sum = malloc(bytes + 1);
    float *other = malloc(bytes + 1);
    bool is_done = sum != NULL && other != NULL;
    if (is_done) {
        memcpy(sum, op->in, bytes);
    }
    for (uint32_t r = 1; is_done && r < comm->size; r++) {
        is_done = fake_receive(comm, r, other, bytes);
        for (size_t i = 0; is_done && i < op->count; i++) {
            sum[i] += other[i];
        }
    }
    for (uint32_t r = 1; is_done && r < comm->size; r++) {
        is_done = fake_send(comm, r, sum, bytes);
    }
    if (is_done) {
        memcpy(op->out, sum, bytes);
    }
    free(sum);
    free(other);
    return is_done;
}

static bool sum_all(const struct fake_op *op)
{
    const size_t bytes = op->count * sizeof(float);
    return op->comm->rank == 0
               ? sum_at_hub(op)
               : fake_send(op->comm, 0, op->in, bytes) && fake_receive(op->comm, 0, op->out, bytes);
}

static bool send_all(const struct fake_op *op)
{
    struct ncclComm *comm = op->comm;
    const uint32_t root = (uint32_t)op->root;
    if (comm->rank == root) {
        memmove(op->out, op->in, op->count);
    }
    if (comm->rank != 0) {
        return comm->rank == root ? fake_send(comm, 0, op->out, op->count)
                                  : fake_receive(comm, 0, op->out, op->count);
    }
    bool is_done = root == 0 || fake_receive(comm, root, op->out, op->count);
    for (uint32_t r = 1; is_done && r < comm->size; r++) {
        is_done = r == root || fake_send(comm, r, op->out, op->count);
    }
    return is_done;
}

/* On the stream. A kernel that lost its peer goes on for ever, or to the abort. */
static void run_op(void *context)
{
    struct fake_op *op = context;
    bool is_done = false;
    if (op->fault == FAULT_LATE) {
        const struct timespec pause = {.tv_nsec = 20000000};
        nanosleep(&pause, NULL);
        snprintf(op->comm->last, sizeof(op->comm->last), "fake: a late error");
        break_comm(op->comm);
    } else if (op->fault != FAULT_HANG && !fake_is_aborted(op->comm)) {
        is_done = op->root < 0 ? sum_all(op) : send_all(op);
        if (!is_done && !fake_is_aborted(op->comm)) {
            break_comm(op->comm);
        }
    }
    if (!is_done) {
        fake_await_abort(op->comm);
    }
    unref(op->comm);
    free(op);
}

static launch_fn find_launch(void)
{
    static const char *const NAMES[] = {"libcudart.so.12", "libcudart.so.13"};
    void *launch = dlsym(RTLD_DEFAULT, "cudaLaunchHostFunc");
    for (size_t i = 0; launch == NULL && i < ARRAY_LEN(NAMES); i++) {
        void *runtime = dlopen(NAMES[i], RTLD_NOW | RTLD_NOLOAD);
        launch = runtime == NULL ? NULL : dlsym(runtime, "cudaLaunchHostFunc");
    }
    return (launch_fn)launch;
}

static unsigned launch(struct fake_op op, struct CUstream_st *stream)
{
    const launch_fn launch_host = find_launch();
    struct fake_op *copy = malloc(sizeof(*copy));
    if (launch_host == NULL || copy == NULL) {
        free(copy);
        return NCCL_SYSTEM_ERROR;
    }
    *copy = op;
    op.comm->refs++;
    return launch_host(stream, run_op, copy) == 0 ? NCCL_OK : NCCL_SYSTEM_ERROR;
}

/* ---- the functions ---- */

unsigned ncclGetVersion(int *version)
{
    if (fake_fault(CALL_ncclGetVersion) == FAULT_FAIL) {
        return NCCL_SYSTEM_ERROR;
    }
    const char *text = getenv("HR_FAKE_NCCL_VERSION");
    *version = text == NULL ? DEFAULT_VERSION : (int)strtol(text, NULL, 10);
    return NCCL_OK;
}

const char *ncclGetErrorString(unsigned result)
{
    static const char *const TEXTS[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "in progress"};
    return fake_fault(CALL_ncclGetErrorString) == FAULT_FAIL ? NULL
           : result < ARRAY_LEN(TEXTS)                       ? TEXTS[result]
                                                             : "unknown result code";
}

const char *ncclGetLastError(struct ncclComm *comm)
{
    return fake_fault(CALL_ncclGetLastError) == FAULT_FAIL ? NULL : comm == NULL ? "" : comm->last;
}

unsigned ncclGetUniqueId(struct nccl_unique_id *id)
{
    if (fake_fault(CALL_ncclGetUniqueId) == FAULT_FAIL) {
        return NCCL_SYSTEM_ERROR;
    }
    char name[32];
    if (!fake_listen(name)) {
        return NCCL_SYSTEM_ERROR;
    }
    memset(id, 0, sizeof(*id));
    memcpy(id->bytes, name, sizeof(name));
    return NCCL_OK;
}

static struct ncclComm *new_comm(int ranks, const struct nccl_unique_id *id, int rank)
{
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    CHECK(comm != NULL);
    comm->refs = 1;
    comm->state = NCCL_IN_PROGRESS;
    comm->rank = (uint32_t)rank;
    comm->size = (uint32_t)ranks;
    comm->abort_fd = eventfd(0, EFD_CLOEXEC);
    memcpy(comm->id, id->bytes, sizeof(comm->id));
    comm->listen_fd = rank == 0 ? fake_take_listener(comm->id) : -1;
    comm->peers = malloc((size_t)ranks * sizeof(int));
    CHECK(comm->peers != NULL);
    for (int i = 0; i < ranks; i++) {
        comm->peers[i] = -1;
    }
    return comm;
}

unsigned ncclCommInitRankConfig(struct ncclComm **out, int ranks, struct nccl_unique_id id,
                                int rank, struct nccl_config *config)
{
    const enum fault fault = fake_fault(CALL_ncclCommInitRankConfig);
    if (fault == FAULT_FAIL) {
        return NCCL_SYSTEM_ERROR;
    }
    if (config->magic != 0xcafebeef || config->blocking != 0) {
        return NCCL_USAGE_ERROR; /* our caller never waits in here */
    }
    struct ncclComm *comm = new_comm(ranks, &id, rank);
    *out = comm;
    if (rank == 0 && comm->listen_fd < 0) {
        return NCCL_SYSTEM_ERROR;
    }
    comm->will_not_connect = fault == FAULT_HANG;
    pthread_t linker;
    comm->refs++;
    CHECK(pthread_create(&linker, NULL, run_linker, comm) == 0);
    pthread_detach(linker);
    return NCCL_IN_PROGRESS;
}

unsigned ncclCommGetAsyncError(struct ncclComm *comm, unsigned *result)
{
    if (fake_fault(CALL_ncclCommGetAsyncError) == FAULT_FAIL) {
        return NCCL_SYSTEM_ERROR;
    }
    *result = comm->state;
    return NCCL_OK;
}

unsigned ncclCommFinalize(struct ncclComm *comm)
{
    const enum fault fault = fake_fault(CALL_ncclCommFinalize);
    if (fault == FAULT_FAIL) {
        return NCCL_SYSTEM_ERROR;
    }
    if (fault == FAULT_HANG) {
        comm->state = NCCL_IN_PROGRESS;
        return NCCL_IN_PROGRESS;
    }
    return NCCL_OK;
}

static void end_comm(struct ncclComm *comm)
{
    eventfd_write(comm->abort_fd, 1);
    unref(comm);
}

unsigned ncclCommDestroy(struct ncclComm *comm)
{
    const enum fault fault = fake_fault(CALL_ncclCommDestroy);
    end_comm(comm);
    return fault == FAULT_FAIL ? NCCL_SYSTEM_ERROR : NCCL_OK;
}

unsigned ncclCommAbort(struct ncclComm *comm)
{
    const enum fault fault = fake_fault(CALL_ncclCommAbort);
    end_comm(comm);
    return fault == FAULT_FAIL ? NCCL_SYSTEM_ERROR : NCCL_OK;
}

unsigned ncclAllReduce(const void *in, void *out, size_t count, unsigned type, unsigned operation,
                       struct ncclComm *comm, struct CUstream_st *stream)
{
    const enum fault fault = fake_fault(CALL_ncclAllReduce);
    if (fault == FAULT_FAIL || type != NCCL_TYPE_FLOAT || operation != NCCL_SUM) {
        return NCCL_SYSTEM_ERROR;
    }
    return launch(
        (struct fake_op){
            .comm = comm, .in = in, .out = out, .count = count, .root = -1, .fault = fault},
        stream);
}

unsigned ncclBroadcast(const void *in, void *out, size_t count, unsigned type, int root,
                       struct ncclComm *comm, struct CUstream_st *stream)
{
    const enum fault fault = fake_fault(CALL_ncclBroadcast);
    if (fault == FAULT_FAIL || type != NCCL_TYPE_BYTE) {
        return NCCL_SYSTEM_ERROR;
    }
    return launch(
        (struct fake_op){
            .comm = comm, .in = in, .out = out, .count = count, .root = root, .fault = fault},
        stream);
}
