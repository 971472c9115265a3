/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator does not block (blocking=0): a call that is not done says so, and is waited for
 * here, as are events, by looking again and again: at the abort, at NCCL's state, at the deadline.
 * All work is put on one stream of our own; host values go through a pinned buffer and one on the
 * device, both taken at the beginning.
 */
#include "consumer/coll_nccl.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "consumer/coll_nccl_internal.h"

#define ABORT_NS   (5 * NS_PER_S)
#define CLOSES     2     /* times as long for the other ranks to come to the end, too */
#define NAP_NS     20000 /* between looks; doubled up to NAP_NS_MAX */
#define NAP_NS_MAX NS_PER_MS

enum { STAGE_BYTES = 4 << 20, STAGE_FLOATS = STAGE_BYTES / (int)sizeof(float) };

struct coll {
    struct coll_gpu gpu;
    const struct cuda_runtime *cuda;
    const struct nccl_api *nccl;
    uint32_t rank, size;
    struct nccl_watch *watch;
    struct CUstream_st *stream;
    struct CUevent_st *done; /* all that was put on the stream */
    void *stage_host, *stage_device;
    bool is_up, is_broken;
};

/* ---- errors ---- */

/* "Internal" is what NCCL makes of a lost peer at times (NVIDIA/nccl issue 795); a failing system
 * call is the network's as soon as the ranks have been connected. */
static enum status status_of(unsigned error, bool is_up)
{
    switch (error) {
    case NCCL_REMOTE_ERROR:
        return ERR_PEER_GONE;
    case NCCL_SYSTEM_ERROR:
        return is_up ? ERR_PEER_GONE : ERR_RESOURCE;
    case NCCL_INTERNAL_ERROR:
        return is_up ? ERR_PEER_GONE : ERR_DEVICE;
    default:
        return ERR_DEVICE;
    }
}

enum status nccl_error(const struct nccl_api *nccl, struct ncclComm *comm, bool is_up,
                       const char *call, unsigned error, struct err *err)
{
    const char *text = nccl->ncclGetErrorString(error);
    const char *last = nccl->ncclGetLastError(comm);
    return err_set(err, status_of(error, is_up), "NCCL: %s: %s (%s)", call,
                   text == NULL ? "an error without a text" : text,
                   last == NULL || last[0] == '\0' ? "it says no more" : last);
}

/* ... while the communicator may be being aborted. */
static enum status fail(struct coll *coll, const char *call, unsigned error, struct err *err)
{
    struct ncclComm *comm = nccl_watch_enter(coll->watch);
    const enum status status = nccl_error(coll->nccl, comm, coll->is_up, call, error, err);
    if (comm != NULL) {
        nccl_watch_leave(coll->watch);
    }
    return status;
}

#define TRY_CUDA(coll, symbol, ...)                                            \
    do {                                                                       \
        const unsigned try_error_ = (coll)->cuda->symbol(__VA_ARGS__);         \
        if (try_error_ != CUDA_OK) {                                           \
            return cuda_runtime_error((coll)->cuda, #symbol, try_error_, err); \
        }                                                                      \
    } while (0)

/* ---- waiting ---- */

/* *ready_out: NCCL has done all it was asked on the host's side. */
static enum status look_at_comm(struct coll *coll, const char *call, bool *ready_out,
                                struct err *err)
{
    struct ncclComm *comm = nccl_watch_enter(coll->watch);
    if (comm == NULL) {
        return nccl_watch_aborted(coll->watch, err);
    }
    unsigned state = NCCL_OK;
    const unsigned error = coll->nccl->ncclCommGetAsyncError(comm, &state);
    nccl_watch_leave(coll->watch);
    if (error != NCCL_OK) {
        return fail(coll, "ncclCommGetAsyncError", error, err);
    }
    *ready_out = state == NCCL_OK;
    return state == NCCL_OK || state == NCCL_IN_PROGRESS ? OK : fail(coll, call, state, err);
}

static enum status look_at_event(struct coll *coll, bool *ready_out, struct err *err)
{
    const unsigned error = coll->cuda->cudaEventQuery(coll->done);
    *ready_out = error == CUDA_OK;
    return error == CUDA_OK || error == CUDA_NOT_READY
               ? OK
               : cuda_runtime_error(coll->cuda, "cudaEventQuery", error, err);
}

static enum status look(struct coll *coll, const char *call, bool with_event, bool *ready_out,
                        struct err *err)
{
    TRY(nccl_watch_aborted(coll->watch, err));
    TRY(look_at_comm(coll, call, ready_out, err));
    return *ready_out && with_event ? look_at_event(coll, ready_out, err) : OK;
}

/* Until NCCL is ready and, with_event, all work on the stream is done. */
static enum status settle(struct coll *coll, const char *call, bool with_event, int64_t deadline_ns,
                          struct err *err)
{
    int64_t nap_ns = NAP_NS;
    while (true) {
        bool is_ready = false;
        TRY(look(coll, call, with_event, &is_ready, err));
        if (is_ready) {
            return OK;
        }
        const int64_t left_ns = deadline_ns - clock_now_ns();
        if (left_ns <= 0) {
            return err_set(err, ERR_TIMEOUT,
                           "NCCL: %s did not finish by its deadline (rank %u of %u): another rank "
                           "may be stuck or gone",
                           call, coll->rank, coll->size);
        }
        nap_ns = nap_ns < left_ns ? nap_ns : left_ns;
        const struct timespec nap = {.tv_nsec = nap_ns};
        (void)nanosleep(&nap, NULL);
        nap_ns = nap_ns * 2 < NAP_NS_MAX ? nap_ns * 2 : NAP_NS_MAX;
    }
}

/* What a call returned that may go on in the background. */
static enum status started(struct coll *coll, const char *call, unsigned error, int64_t deadline_ns,
                           struct err *err)
{
    if (error != NCCL_OK && error != NCCL_IN_PROGRESS) {
        return fail(coll, call, error, err);
    }
    return settle(coll, call, false, deadline_ns, err);
}

static enum status begin_call(struct coll *coll, const char *call, int64_t deadline_ns,
                              struct err *err)
{
    TRY(nccl_watch_aborted(coll->watch, err));
    if (coll->is_broken) {
        return err_set(err, ERR_MISUSE, "NCCL: used after an error");
    }
    nccl_watch_begin(coll->watch, call, deadline_ns);
    return OK;
}

static enum status end_call(struct coll *coll, enum status status)
{
    nccl_watch_end(coll->watch);
    coll->is_broken |= status != OK;
    return status;
}

/* ---- device memory ---- */

static enum status sum_device(struct coll *coll, float *values, size_t count, int64_t deadline_ns,
                              struct err *err)
{
    struct ncclComm *comm = nccl_watch_enter(coll->watch);
    if (comm == NULL) {
        return nccl_watch_aborted(coll->watch, err);
    }
    const unsigned error = coll->nccl->ncclAllReduce(values, values, count, NCCL_TYPE_FLOAT,
                                                     NCCL_SUM, comm, coll->stream);
    nccl_watch_leave(coll->watch);
    return started(coll, "ncclAllReduce", error, deadline_ns, err);
}

static enum status send_device(struct coll *coll, void *bytes, size_t count, uint32_t root,
                               int64_t deadline_ns, struct err *err)
{
    struct ncclComm *comm = nccl_watch_enter(coll->watch);
    if (comm == NULL) {
        return nccl_watch_aborted(coll->watch, err);
    }
    const unsigned error = coll->nccl->ncclBroadcast(bytes, bytes, count, NCCL_TYPE_BYTE, (int)root,
                                                     comm, coll->stream);
    nccl_watch_leave(coll->watch);
    return started(coll, "ncclBroadcast", error, deadline_ns, err);
}

static enum status bucket(struct coll *coll, float *device_values, size_t count,
                          struct CUevent_st *ready, int64_t deadline_ns, struct err *err)
{
    if (ready != NULL) {
        TRY_CUDA(coll, cudaStreamWaitEvent, coll->stream, ready, 0);
    }
    TRY(sum_device(coll, device_values, count, deadline_ns, err));
    nccl_watch_flight(coll->watch, deadline_ns);
    return OK;
}

enum status coll_nccl_bucket(struct coll *coll, float *device_values, size_t count,
                             struct CUevent_st *ready, int64_t deadline_ns, struct err *err)
{
    TRY(begin_call(coll, "a bucket's sum", deadline_ns, err));
    return end_call(coll, bucket(coll, device_values, count, ready, deadline_ns, err));
}

static enum status make_wait(struct coll *coll, struct CUstream_st *stream, struct err *err)
{
    TRY_CUDA(coll, cudaEventRecord, coll->done, coll->stream);
    TRY_CUDA(coll, cudaStreamWaitEvent, stream, coll->done, 0);
    return OK;
}

enum status coll_nccl_after(struct coll *coll, struct CUstream_st *stream, struct err *err)
{
    TRY(begin_call(coll, "cudaStreamWaitEvent", clock_now_ns(), err));
    return end_call(coll, make_wait(coll, stream, err));
}

static enum status wait_all(struct coll *coll, const char *call, int64_t deadline_ns,
                            struct err *err)
{
    TRY_CUDA(coll, cudaEventRecord, coll->done, coll->stream);
    return settle(coll, call, true, deadline_ns, err);
}

enum status coll_nccl_wait(struct coll *coll, int64_t deadline_ns, struct err *err)
{
    TRY(begin_call(coll, "the sum of all buckets", deadline_ns, err));
    const enum status status = wait_all(coll, "the sum of all buckets", deadline_ns, err);
    if (status == OK) {
        nccl_watch_flight(coll->watch, 0);
    }
    return end_call(coll, status);
}

/* ---- host memory ---- */

static enum status to_device(struct coll *coll, const void *bytes, size_t count, struct err *err)
{
    memcpy(coll->stage_host, bytes, count);
    TRY_CUDA(coll, cudaMemcpyAsync, coll->stage_device, coll->stage_host, count,
             CUDA_COPY_TO_DEVICE, coll->stream);
    return OK;
}

static enum status from_device(struct coll *coll, void *bytes, size_t count, const char *call,
                               int64_t deadline_ns, struct err *err)
{
    TRY_CUDA(coll, cudaMemcpyAsync, coll->stage_host, coll->stage_device, count, CUDA_COPY_TO_HOST,
             coll->stream);
    TRY(wait_all(coll, call, deadline_ns, err));
    memcpy(bytes, coll->stage_host, count);
    return OK;
}

static enum status sum_host(struct coll *coll, float *values, size_t count, const char *call,
                            int64_t deadline_ns, struct err *err)
{
    for (size_t done = 0; done < count; done += STAGE_FLOATS) {
        const size_t left = count - done;
        const size_t some = left < STAGE_FLOATS ? left : STAGE_FLOATS;
        TRY(to_device(coll, values + done, some * sizeof(float), err));
        TRY(sum_device(coll, coll->stage_device, some, deadline_ns, err));
        TRY(from_device(coll, values + done, some * sizeof(float), call, deadline_ns, err));
    }
    return OK;
}

static enum status nccl_allreduce(struct coll *coll, float *values, size_t count,
                                  int64_t deadline_ns, struct err *err)
{
    TRY(begin_call(coll, "allreduce", deadline_ns, err));
    return end_call(coll, sum_host(coll, values, count, "allreduce", deadline_ns, err));
}

static enum status send_host(struct coll *coll, uint8_t *bytes, size_t count, uint32_t root,
                             int64_t deadline_ns, struct err *err)
{
    for (size_t done = 0; done < count; done += STAGE_BYTES) {
        const size_t left = count - done;
        const size_t some = left < STAGE_BYTES ? left : STAGE_BYTES;
        if (coll->rank == root) {
            TRY(to_device(coll, bytes + done, some, err));
        }
        TRY(send_device(coll, coll->stage_device, some, root, deadline_ns, err));
        TRY(from_device(coll, bytes + done, some, "broadcast", deadline_ns, err));
    }
    return OK;
}

static enum status nccl_broadcast(struct coll *coll, void *bytes, size_t count, uint32_t root,
                                  int64_t deadline_ns, struct err *err)
{
    CHECK(root < coll->size);
    TRY(begin_call(coll, "broadcast", deadline_ns, err));
    return end_call(coll, send_host(coll, bytes, count, root, deadline_ns, err));
}

/* Nobody has the sum before all have given theirs. */
static enum status nccl_barrier(struct coll *coll, int64_t deadline_ns, struct err *err)
{
    float token = 0;
    TRY(begin_call(coll, "barrier", deadline_ns, err));
    return end_call(coll, sum_host(coll, &token, 1, "barrier", deadline_ns, err));
}

/* ---- the end ---- */

static void nccl_abort(struct coll *coll)
{
    nccl_watch_abort(coll->watch);
}

/* As NCCL wants it where all went well: all ranks come to an end together. */
static enum status close_comm(struct coll *coll, int64_t deadline_ns, struct err *err)
{
    struct ncclComm *comm = nccl_watch_enter(coll->watch);
    if (comm == NULL) {
        return nccl_watch_aborted(coll->watch, err);
    }
    unsigned error = coll->nccl->ncclCommFinalize(comm);
    nccl_watch_leave(coll->watch);
    TRY(started(coll, "ncclCommFinalize", error, deadline_ns, err));
    comm = nccl_watch_disown(coll->watch);
    if (comm == NULL) {
        return nccl_watch_aborted(coll->watch, err);
    }
    error = coll->nccl->ncclCommDestroy(comm);
    return error == NCCL_OK ? OK : fail(coll, "ncclCommDestroy", error, err);
}

/* Errors have no reader any more. */
static void free_cuda(struct coll *coll)
{
    if (coll->stream != NULL) {
        (void)coll->cuda->cudaStreamDestroy(coll->stream);
    }
    if (coll->done != NULL) {
        (void)coll->cuda->cudaEventDestroy(coll->done);
    }
    if (coll->stage_device != NULL) {
        (void)coll->cuda->cudaFree(coll->stage_device);
    }
    if (coll->stage_host != NULL) {
        (void)coll->cuda->cudaFreeHost(coll->stage_host);
    }
}

/* After an abort CUDA is not called any more: it may be lost, or still be busy. What was taken goes
 * with the process. */
static void nccl_free(struct coll **coll)
{
    struct coll *c = *coll;
    if (c == NULL) {
        return;
    }
    struct err err = {0};
    if (!c->is_broken && nccl_watch_aborted(c->watch, NULL) == OK) {
        const int64_t deadline_ns = clock_now_ns() + CLOSES * c->gpu.abort_timeout_ns;
        nccl_watch_begin(c->watch, "the communicator's end", deadline_ns);
        c->is_broken = close_comm(c, deadline_ns, &err) != OK;
        if (!c->is_broken) {
            free_cuda(c);
        } else {
            log_warn("%s; aborting it", err.message);
        }
        nccl_watch_end(c->watch);
    }
    if (c->is_broken) {
        nccl_watch_abort(c->watch);
    }
    nccl_watch_stop(&c->watch);
    free(c);
    *coll = NULL;
}

/* ---- the beginning ---- */

static enum status take_memory(struct coll *coll, struct err *err)
{
    int least = 0;
    int greatest = 0;
    TRY_CUDA(coll, cudaSetDevice, coll->gpu.device);
    TRY_CUDA(coll, cudaDeviceGetStreamPriorityRange, &least, &greatest);
    TRY_CUDA(coll, cudaStreamCreateWithPriority, &coll->stream, CUDA_STREAM_NON_BLOCKING, greatest);
    TRY_CUDA(coll, cudaEventCreateWithFlags, &coll->done, CUDA_EVENT_NO_TIMING);
    TRY_CUDA(coll, cudaHostAlloc, &coll->stage_host, STAGE_BYTES, CUDA_HOST_PORTABLE);
    TRY_CUDA(coll, cudaMalloc, &coll->stage_device, STAGE_BYTES);
    return OK;
}

static enum status meet(struct coll *coll, const struct coll_options *options,
                        struct nccl_unique_id *id_out, struct err *err)
{
    char pci_id[CUDA_PCI_ID_BYTES];
    TRY_CUDA(coll, cudaDeviceGetPCIBusId, pci_id, sizeof(pci_id), coll->gpu.device);
    return nccl_meet(options, pci_id, id_out, err);
}

static enum status connect_ranks(struct coll *coll, struct nccl_unique_id id, int64_t deadline_ns,
                                 struct err *err)
{
    struct nccl_config config = NCCL_CONFIG_INIT;
    struct ncclComm *comm = NULL;
    config.blocking = 0;
    const unsigned error =
        coll->nccl->ncclCommInitRankConfig(&comm, (int)coll->size, id, (int)coll->rank, &config);
    nccl_watch_adopt(coll->watch, comm);
    TRY(started(coll, "ncclCommInitRankConfig", error, deadline_ns, err));
    coll->is_up = true;
    return OK;
}

static enum status bring_up(struct coll *coll, const struct coll_options *options, struct err *err)
{
    const int64_t deadline_ns = options->deadline_ns;
    struct nccl_unique_id id = {{0}};
    TRY(begin_call(coll, "taking memory of the GPU", deadline_ns, err));
    TRY(end_call(coll, take_memory(coll, err)));
    TRY(begin_call(coll, "meeting the other ranks", deadline_ns + NCCL_VERDICT_NS, err));
    TRY(end_call(coll, meet(coll, options, &id, err)));
    TRY(begin_call(coll, "ncclCommInitRankConfig", deadline_ns, err));
    return end_call(coll, connect_ranks(coll, id, deadline_ns, err));
}

static void say_network(const struct coll *coll)
{
    char text[PATH_BYTES_MAX + 256];
    coll_nccl_describe(coll->nccl, coll->size, text, sizeof(text));
    log_info("%s", text);
}

static enum status nccl_init(const struct coll_options *options, struct coll **out, struct err *err)
{
    const struct coll_gpu *gpu = options->gpu;
    if (options->rank >= options->size || gpu == NULL || options->store == NULL ||
        options->host == NULL) {
        return err_set(err, ERR_MISUSE, "NCCL: rank %u of %u, without %s", options->rank,
                       options->size, gpu == NULL ? "a GPU" : "a way to find the others");
    }
    struct coll *coll = calloc(1, sizeof(*coll));
    if (coll == NULL) {
        return err_errno(err, ERR_RESOURCE, "NCCL collective");
    }
    coll->gpu = *gpu;
    coll->cuda = &gpu->cuda->runtime;
    coll->nccl = gpu->nccl;
    coll->rank = options->rank;
    coll->size = options->size;
    if (gpu->abort_timeout_ns == 0) {
        coll->gpu.abort_timeout_ns = ABORT_NS;
    }
    enum status status =
        nccl_watch_start(gpu->nccl, coll->gpu.abort_timeout_ns, gpu->stuck, &coll->watch, err);
    if (status != OK) {
        free(coll);
        return status;
    }
    status = bring_up(coll, options, err);
    if (status != OK) {
        nccl_free(&coll);
        return status;
    }
    if (coll->rank == 0) {
        say_network(coll);
    }
    *out = coll;
    return OK;
}

/* ---- the network ---- */

#define INTERFACE_VARIABLE "NCCL_SOCKET_IFNAME"

enum status coll_nccl_interface(const char *interface, struct err *err)
{
    char value[NAME_BYTES_MAX + 2];
    if (interface == NULL || interface[0] == '\0') {
        return OK;
    }
    snprintf(value, sizeof(value), "=%s", interface); /* without "=" it would be a prefix */
    if (setenv(INTERFACE_VARIABLE, value, 0) != 0) {
        return err_errno(err, ERR_RESOURCE, "setting " INTERFACE_VARIABLE);
    }
    return OK;
}

/* A plugin is a library that NCCL has loaded. */
static int find_plugin(struct dl_phdr_info *info, size_t size, void *context)
{
    const char **found = context;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash == NULL ? info->dlpi_name : slash + 1;
    if (strncmp(name, "libnccl-net", strlen("libnccl-net")) != 0) {
        return 0;
    }
    *found = info->dlpi_name;
    return 1;
}

void coll_nccl_describe(const struct nccl_api *nccl, uint32_t size, char *out, size_t out_bytes)
{
    const char *interface = getenv(INTERFACE_VARIABLE);
    const char *plugin = "none";
    (void)dl_iterate_phdr(find_plugin, (void *)&plugin);
    snprintf(out, out_bytes,
             "NCCL %s (%s), %u ranks, " INTERFACE_VARIABLE "%s%s, network plugin: %s",
             nccl->found.version_text, nccl->found.path, size, interface == NULL ? " not set" : "=",
             interface == NULL ? "" : interface, plugin);
}

const struct coll_ops coll_nccl = {
    .name = "nccl",
    .init = nccl_init,
    .allreduce = nccl_allreduce,
    .broadcast = nccl_broadcast,
    .barrier = nccl_barrier,
    .abort = nccl_abort,
    .free = nccl_free,
};
