/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the collective over NCCL has: buckets on the device, deadlines that hold whatever NCCL
 * does, ranks that differ. Ranks are processes; NCCL is the fake one, so nothing here says what a
 * GPU does.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "consumer/coll_nccl.h"
#include "fakes/nccl/streams.h"
#include "support/coll_rig.h"
#include "support/suite.h"
#include "support/tree.h"

enum { RANKS = 4, DEADLINE_S = 60 };
#define SHORT_S 3.0 /* for a few calls that end in a small part of it, and one that does not */
#define HANG_S  0.3 /* for one that cannot end */
#define ABORT_S 1.0

struct rank;
typedef enum status (*body_fn)(struct rank *rank, struct err *err);

/* What a rank process is to meet. */
struct rank {
    uint32_t rank, size;
    body_fn body;
    const char *fault, *version, *plan; /* NULL: none, usual ones */
    const char *host;
    int device;
    double init_s, second_s, abort_s;
    int fired_fd;
    struct coll_store store;
    struct coll_rig rig;
    struct coll *coll;
    char *message; /* the error's, in memory shared with the test; "": none */
    pid_t pid;
};

static int64_t in_s(double seconds)
{
    return clock_now_ns() + (int64_t)(seconds * NS_PER_S);
}

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 5 * NS_PER_MS};
    nanosleep(&pause, NULL);
}

/* ---- a rank's process ---- */

static void set(const char *name, const char *value)
{
    CHECK(value == NULL ? unsetenv(name) == 0 : setenv(name, value, 1) == 0);
}

static enum status run_body(struct rank *rank, struct err *err)
{
    const char *plan = rank->plan == NULL ? "0123456789abcdef" : rank->plan;
    const struct coll_fact facts[] = {{"plan digest", plan}, {"steps an epoch", "100"}};
    const struct coll_gpu gpu = {.cuda = &rank->rig.cuda,
                                 .nccl = &rank->rig.nccl,
                                 .device = rank->device,
                                 .abort_timeout_ns = (int64_t)(rank->abort_s * NS_PER_S)};
    TRY(coll_rig_open(rank->store, &rank->rig, err));
    const struct coll_options options = {.rank = rank->rank,
                                         .size = rank->size,
                                         .deadline_ns = in_s(rank->init_s),
                                         .store = &rank->rig.store,
                                         .host = rank->host,
                                         .facts = facts,
                                         .fact_count = ARRAY_LEN(facts),
                                         .gpu = &gpu};
    TRY(coll_nccl.init(&options, &rank->coll, err));
    const enum status status = rank->body(rank, err);
    if (status != OK) {
        coll_nccl.abort(rank->coll);
    }
    coll_nccl.free(&rank->coll);
    return status;
}

static _Noreturn void be_rank(struct rank *rank)
{
    struct err err = {0};
    char fd[16];
    snprintf(fd, sizeof(fd), "%d", rank->fired_fd);
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    set("HR_FAKE_NCCL_FAULT", rank->fault);
    set("HR_FAKE_NCCL_VERSION", rank->version);
    set("HR_FAKE_NCCL_FIRED", rank->fired_fd > 0 ? fd : NULL);
    const enum status status = run_body(rank, &err);
    snprintf(rank->message, ERR_MESSAGE_BYTES, "%s", status == OK ? "" : err.message);
    _exit(status_exit_code(status));
}

/* ---- ranks, together ---- */

static char *share_messages(size_t count)
{
    char *messages = mmap(NULL, count * ERR_MESSAGE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(messages != MAP_FAILED);
    return messages;
}

static void start(struct rank *rank)
{
    rank->pid = fork();
    ck_assert_int_ge(rank->pid, 0);
    if (rank->pid == 0) {
        be_rank(rank);
    }
}

/* The exit code, or 128 + signal. */
static int await_exit(const struct rank *rank)
{
    int status = 0;
    ck_assert_int_eq(waitpid(rank->pid, &status, 0), rank->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void make_ranks(struct rank *ranks, uint32_t size, body_fn body)
{
    static const char *const HOSTS[] = {"algo-1", "algo-1", "algo-2", "algo-2"};
    const struct coll_store store = coll_rig_store();
    char *messages = share_messages(size);
    for (uint32_t r = 0; r < size; r++) {
        ranks[r] = (struct rank){.rank = r,
                                 .size = size,
                                 .body = body,
                                 .host = HOSTS[r],
                                 .device = (int)(r % 2),
                                 .init_s = DEADLINE_S,
                                 .second_s = HANG_S,
                                 .abort_s = DEADLINE_S,
                                 .store = store,
                                 .message = messages + r * ERR_MESSAGE_BYTES};
    }
}

static void expect(const struct rank *rank, int code, const char *text)
{
    const int got = await_exit(rank);
    ck_assert_msg(got == code, "rank %u: exit code %d, wanted %d: %s", rank->rank, got, code,
                  rank->message);
    ck_assert_msg(strstr(rank->message, text) != NULL, "rank %u: no '%s' in '%s'", rank->rank, text,
                  rank->message);
}

static void run_ranks(struct rank *ranks, uint32_t size, int code, const char *text)
{
    for (uint32_t r = 0; r < size; r++) {
        start(&ranks[r]);
    }
    for (uint32_t r = 0; r < size; r++) {
        expect(&ranks[r], code, text);
    }
}

/* ---- sums ---- */

enum { FLOATS = 5000, BUCKETS = 5 };

static float value_of(uint32_t rank, size_t i)
{
    return (float)(((i * 2654435761U) ^ (rank * 40503U)) % 100003U) * 1.0009765F +
           1.0F / (float)(1 + rank + i % 97);
}

static void check_sum(const struct rank *rank, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double wanted = 0;
        for (uint32_t r = 0; r < rank->size; r++) {
            wanted += value_of(r, i);
        }
        CHECK(fabs(values[i] - wanted) <= 1e-6 * fabs(wanted));
    }
}

static void be_slow(void *context)
{
    const struct timespec pause = {.tv_nsec = 50 * NS_PER_MS};
    nanosleep(&pause, NULL);
}

/* A backward pass: the compute stream writes a part, then the collective's may sum it. */
static enum status sum_buckets(struct rank *rank, struct err *err)
{
    const struct cuda_runtime *cuda = &rank->rig.cuda.runtime;
    static float gradient[FLOATS];
    static float source[FLOATS];
    static float seen[FLOATS];
    struct CUstream_st *compute = NULL;
    struct CUevent_st *ready[BUCKETS];
    struct CUevent_st *over = NULL;
    for (size_t i = 0; i < FLOATS; i++) {
        source[i] = value_of(rank->rank, i);
    }
    CHECK(cuda->cudaStreamCreateWithPriority(&compute, CUDA_STREAM_NON_BLOCKING, 0) == CUDA_OK);
    CHECK(cuda->cudaEventCreateWithFlags(&over, CUDA_EVENT_NO_TIMING) == CUDA_OK);
    CHECK(cudaLaunchHostFunc(compute, be_slow, NULL) == CUDA_OK);
    for (size_t b = 0; b < BUCKETS; b++) {
        const size_t first = b * FLOATS / BUCKETS;
        const size_t count = FLOATS / BUCKETS;
        CHECK(cuda->cudaEventCreateWithFlags(&ready[b], CUDA_EVENT_NO_TIMING) == CUDA_OK);
        CHECK(cuda->cudaMemcpyAsync(gradient + first, source + first, count * sizeof(float),
                                    CUDA_COPY_ON_DEVICE, compute) == CUDA_OK);
        CHECK(cuda->cudaEventRecord(ready[b], compute) == CUDA_OK);
        TRY(coll_nccl_bucket(rank->coll, gradient + first, count, ready[b], in_s(DEADLINE_S), err));
    }
    TRY(coll_nccl_after(rank->coll, compute, err));
    CHECK(cuda->cudaMemcpyAsync(seen, gradient, sizeof(seen), CUDA_COPY_ON_DEVICE, compute) ==
          CUDA_OK);
    CHECK(cuda->cudaEventRecord(over, compute) == CUDA_OK);
    TRY(coll_nccl_wait(rank->coll, in_s(DEADLINE_S), err));
    check_sum(rank, gradient, FLOATS);
    while (cuda->cudaEventQuery(over) == CUDA_NOT_READY) {
        nap();
    }
    check_sum(rank, seen, FLOATS); /* so the compute stream had waited */
    CHECK(cuda->cudaStreamDestroy(compute) == CUDA_OK);
    for (size_t b = 0; b < BUCKETS; b++) {
        CHECK(cuda->cudaEventDestroy(ready[b]) == CUDA_OK);
    }
    CHECK(cuda->cudaEventDestroy(over) == CUDA_OK);
    return OK;
}

static enum status sum_and_send(struct rank *rank, struct err *err)
{
    float values[FLOATS];
    for (size_t i = 0; i < FLOATS; i++) {
        values[i] = value_of(rank->rank, i);
    }
    TRY(coll_nccl.allreduce(rank->coll, values, FLOATS, in_s(DEADLINE_S), err));
    check_sum(rank, values, FLOATS);
    for (uint32_t root = 0; root < rank->size; root++) {
        uint64_t word = rank->rank == root ? 77 + root : 0;
        TRY(coll_nccl.broadcast(rank->coll, &word, sizeof(word), root, in_s(DEADLINE_S), err));
        CHECK(word == 77 + root);
    }
    TRY(coll_nccl.barrier(rank->coll, in_s(DEADLINE_S), err));
    return sum_buckets(rank, err);
}

START_TEST(processes_sum_host_and_device_memory)
{
    struct rank ranks[RANKS];
    for (uint32_t size = 1; size <= RANKS; size++) {
        make_ranks(ranks, size, sum_and_send);
        run_ranks(ranks, size, EXIT_OK, "");
    }
}
END_TEST

/* ---- ranks that differ ---- */

static enum status do_nothing(struct rank *rank, struct err *err)
{
    return OK;
}

START_TEST(another_version_of_nccl_is_named_on_every_rank)
{
    struct rank ranks[RANKS];
    make_ranks(ranks, RANKS, do_nothing);
    ranks[2].version = "22602";
    run_ranks(ranks, RANKS, EXIT_CONFIG,
              "NCCL: ranks differ: NCCL=2.27.3 on rank 0 (algo-1, GPU 0000:00:10.0), NCCL=2.26.2 "
              "on rank 2 (algo-2, GPU 0000:00:10.0)");
}
END_TEST

START_TEST(another_plan_is_named_on_every_rank)
{
    struct rank ranks[2];
    make_ranks(ranks, 2, do_nothing);
    ranks[1].plan = "ffff";
    run_ranks(ranks, 2, EXIT_CONFIG,
              "plan digest=0123456789abcdef on rank 0 (algo-1, GPU 0000:00:10.0), plan "
              "digest=ffff on rank 1");
}
END_TEST

START_TEST(a_shared_gpu_is_named_on_every_rank)
{
    struct rank ranks[RANKS];
    make_ranks(ranks, RANKS, do_nothing);
    ranks[3].device = 0;
    run_ranks(ranks, RANKS, EXIT_CONFIG,
              "rank 2 and rank 3 share one GPU (algo-2, GPU 0000:00:10.0)");
}
END_TEST

START_TEST(a_rank_that_never_comes_is_named)
{
    struct rank ranks[3];
    make_ranks(ranks, 3, do_nothing);
    ranks[0].init_s = SHORT_S; /* the other one hears of its end */
    start(&ranks[0]);
    start(&ranks[1]); /* but not the third */
    expect(&ranks[0], status_exit_code(ERR_TIMEOUT), "NCCL: waiting for rank 2");
    expect(&ranks[1], EXIT_PEER, "rank 0: NCCL: waiting for rank 2");
}
END_TEST

START_TEST(without_cuda_memory_the_call_is_named)
{
    static const char *const CALLS[] = {
        "cudaSetDevice",   "cudaHostAlloc",   "cudaMalloc",     "cudaDeviceGetPCIBusId",
        "cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery", "cudaStreamCreateWithPriority"};
    struct rank rank;
    make_ranks(&rank, 1, sum_and_send);
    set("HR_FAKE_STREAMS_FAIL", CALLS[_i]);
    run_ranks(&rank, 1, status_exit_code(ERR_DEVICE), CALLS[_i]);
}
END_TEST

/* ---- the end of a peer, of time, of patience ---- */

static enum status sum_twice(struct rank *rank, struct err *err)
{
    float value = 1.0F;
    TRY(coll_nccl.allreduce(rank->coll, &value, 1, in_s(DEADLINE_S), err));
    CHECK(value == (float)rank->size);
    const enum status status =
        coll_nccl.allreduce(rank->coll, &value, 1, in_s(rank->second_s), err);
    struct err later = {0};
    if (status != OK) {
        CHECK(coll_nccl.barrier(rank->coll, in_s(DEADLINE_S), &later) == ERR_MISUSE);
    }
    return status;
}

START_TEST(a_hang_ends_at_the_deadline)
{
    struct rank ranks[2];
    make_ranks(ranks, 2, sum_twice);
    ranks[1].fault = "ncclAllReduce:hang:2";
    ranks[1].second_s = SHORT_S; /* or rank 0 would hear of its end before its own deadline */
    run_ranks(ranks, 2, status_exit_code(ERR_TIMEOUT),
              "NCCL: allreduce did not finish by its deadline (rank ");
}
END_TEST

START_TEST(a_hanging_abort_ends_the_process)
{
    struct rank ranks[2];
    const int64_t begun_ns = clock_now_ns();
    make_ranks(ranks, 2, sum_twice);
    ranks[0].fault = ranks[1].fault = "ncclAllReduce:hang:2,ncclCommAbort:stall:1";
    ranks[0].abort_s = ranks[1].abort_s = ABORT_S;
    run_ranks(ranks, 2, EXIT_PEER, "");
    ck_assert_int_ge(clock_now_ns() - begun_ns, (int64_t)((HANG_S + ABORT_S) * NS_PER_S));
}
END_TEST

START_TEST(a_late_error_is_told_in_nccls_words)
{
    struct rank ranks[2];
    make_ranks(ranks, 2, sum_twice);
    ranks[0].fault = ranks[1].fault = "ncclAllReduce:late:2";
    ranks[0].second_s = ranks[1].second_s = DEADLINE_S;
    run_ranks(ranks, 2, EXIT_PEER,
              "NCCL: allreduce: remote process exited or there was a network error (fake: a late "
              "error)");
}
END_TEST

static enum status die_or_sum(struct rank *rank, struct err *err)
{
    float value = 1.0F;
    TRY(coll_nccl.barrier(rank->coll, in_s(DEADLINE_S), err));
    if (rank->rank == 1) {
        _exit(EXIT_OK);
    }
    return coll_nccl.allreduce(rank->coll, &value, 1, in_s(DEADLINE_S), err);
}

START_TEST(a_dead_rank_ends_the_others)
{
    struct rank ranks[2];
    make_ranks(ranks, 2, die_or_sum);
    start(&ranks[0]);
    start(&ranks[1]);
    expect(&ranks[1], EXIT_OK, "");
    expect(&ranks[0], EXIT_PEER, "closed by rank 1");
}
END_TEST

static void *abort_later(void *coll)
{
    nap();
    coll_nccl.abort(coll);
    return NULL;
}

static enum status be_cancelled(struct rank *rank, struct err *err)
{
    float value = 1.0F;
    pthread_t aborter;
    if (pthread_create(&aborter, NULL, abort_later, rank->coll) != 0) {
        return err_set(err, ERR_RESOURCE, "no thread");
    }
    const enum status status = coll_nccl.allreduce(rank->coll, &value, 1, in_s(DEADLINE_S), err);
    CHECK(pthread_join(aborter, NULL) == 0);
    CHECK(status == ERR_CANCELLED);
    coll_nccl.abort(rank->coll); /* may repeat */
    return OK;
}

START_TEST(abort_from_another_thread_ends_a_call_in_progress)
{
    struct rank rank;
    make_ranks(&rank, 1, be_cancelled);
    rank.fault = "ncclAllReduce:hang:1";
    run_ranks(&rank, 1, EXIT_OK, "");
}
END_TEST

/* The host is elsewhere while the sum hangs: nobody waits, but the watch. */
static enum status sum_and_look_away(struct rank *rank, struct err *err)
{
    static float values[8];
    TRY(coll_nccl_bucket(rank->coll, values, ARRAY_LEN(values), NULL, in_s(0.1), err));
    struct CUevent_st *over = NULL;
    struct CUstream_st *compute = NULL;
    const struct cuda_runtime *cuda = &rank->rig.cuda.runtime;
    CHECK(cuda->cudaEventCreateWithFlags(&over, 0) == CUDA_OK);
    CHECK(cuda->cudaStreamCreateWithPriority(&compute, 0, 0) == CUDA_OK);
    TRY(coll_nccl_after(rank->coll, compute, err));
    CHECK(cuda->cudaEventRecord(over, compute) == CUDA_OK);
    while (cuda->cudaEventQuery(over) == CUDA_NOT_READY) {
        nap(); /* ends by the abort only */
    }
    return coll_nccl_wait(rank->coll, in_s(DEADLINE_S), err);
}

START_TEST(a_bucket_nobody_waits_for_is_aborted)
{
    struct rank rank;
    make_ranks(&rank, 1, sum_and_look_away);
    rank.abort_s = ABORT_S;
    rank.fault = "ncclAllReduce:hang:1";
    run_ranks(&rank, 1, status_exit_code(ERR_TIMEOUT),
              "NCCL: a bucket's sum did not finish by its deadline and was aborted");
}
END_TEST

static char *stuck_text; /* shared with the test */

static void be_stuck(const struct err *err)
{
    snprintf(stuck_text, ERR_MESSAGE_BYTES, "%s", err->message);
    _exit(42);
}

START_TEST(the_process_ends_as_its_owner_wants)
{
    stuck_text = share_messages(1);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct err err = {0};
        struct nccl_watch *watch = NULL;
        struct coll_rig rig;
        CHECK(coll_rig_open(coll_rig_store(), &rig, &err) == OK);
        CHECK(nccl_watch_start(&rig.nccl, NS_PER_S / 10, be_stuck, &watch, &err) == OK);
        nccl_watch_begin(watch, "a call of the test's", clock_now_ns());
        pause();
    }
    const struct rank rank = {.pid = pid};
    ck_assert_int_eq(await_exit(&rank), 42);
    ck_assert_msg(strstr(stuck_text, "a call of the test's has not returned after its deadline "
                                     "within 0.1 s") != NULL,
                  "%s", stuck_text);
}
END_TEST

/* ---- every function, every failure ---- */

enum kind { KIND_FAIL, KIND_STALL, KIND_HANG, KIND_COUNT };
static const char *const KINDS[] = {"fail", "stall", "hang"};

static const struct {
    const char *name;
    bool can_hang; /* begins something that goes on after it has returned */
} CALLS[] = {
#define NCCL_CALL(result, symbol, parameters)                                                   \
    {#symbol,                                                                                   \
     strcmp(#symbol, "ncclCommInitRankConfig") == 0 || strcmp(#symbol, "ncclAllReduce") == 0 || \
         strcmp(#symbol, "ncclBroadcast") == 0 || strcmp(#symbol, "ncclCommFinalize") == 0},
#include "consumer/nccl_calls.def"
};

#define PEER     EXIT_PEER
#define DEVICE   EXIT_RESOURCE
#define RESOURCE EXIT_RESOURCE
#define BROKEN   "ncclAllReduce:fail:1" /* what makes the other call necessary */
#define STUCK    ""                     /* the process ended itself: it left no message */

static const struct row {
    const char *call;
    enum kind kind;
    const char *with; /* a fault beside; NULL: none */
    int code;
    const char *message; /* NULL: not to be met, for the reason in `with` */
} ROWS[] = {
    {"ncclGetVersion", KIND_FAIL, NULL, DEVICE, "ncclGetVersion: unhandled system error"},
    {"ncclGetVersion", KIND_STALL,
     "asked while the library is opened, before there is a watch; it "
     "returns a constant",
     0, NULL},
    {"ncclGetErrorString", KIND_FAIL, BROKEN, PEER, "ncclAllReduce: an error without a text ("},
    {"ncclGetErrorString", KIND_STALL, BROKEN, PEER, STUCK},
    {"ncclGetLastError", KIND_FAIL, BROKEN, PEER,
     "ncclAllReduce: unhandled system error (it says no more)"},
    {"ncclGetLastError", KIND_STALL, BROKEN, PEER, STUCK},
    {"ncclGetUniqueId", KIND_FAIL, NULL, RESOURCE, "ncclGetUniqueId: unhandled system error"},
    {"ncclGetUniqueId", KIND_STALL, NULL, PEER, STUCK},
    {"ncclCommInitRankConfig", KIND_FAIL, NULL, RESOURCE,
     "ncclCommInitRankConfig: unhandled system error"},
    {"ncclCommInitRankConfig", KIND_STALL, NULL, PEER, STUCK},
    {"ncclCommInitRankConfig", KIND_HANG, NULL, EXIT_TEMPORARY,
     "ncclCommInitRankConfig did not finish by its deadline (rank 0 of 1)"},
    {"ncclCommGetAsyncError", KIND_FAIL, NULL, RESOURCE,
     "ncclCommGetAsyncError: unhandled system error"},
    {"ncclCommGetAsyncError", KIND_STALL, NULL, PEER, STUCK},
    {"ncclCommFinalize", KIND_FAIL, NULL, EXIT_OK, ""},
    {"ncclCommFinalize", KIND_STALL, NULL, PEER, STUCK},
    {"ncclCommFinalize", KIND_HANG, NULL, EXIT_OK, ""},
    {"ncclCommDestroy", KIND_FAIL, NULL, EXIT_OK, ""},
    {"ncclCommDestroy", KIND_STALL, NULL, PEER, STUCK},
    {"ncclCommAbort", KIND_FAIL, BROKEN, PEER, "ncclAllReduce: unhandled system error"},
    {"ncclCommAbort", KIND_STALL, BROKEN, PEER, STUCK},
    {"ncclAllReduce", KIND_FAIL, NULL, PEER, "ncclAllReduce: unhandled system error"},
    {"ncclAllReduce", KIND_STALL, NULL, PEER, STUCK},
    {"ncclAllReduce", KIND_HANG, NULL, EXIT_TEMPORARY, "allreduce did not finish by its deadline"},
    {"ncclBroadcast", KIND_FAIL, NULL, PEER, "ncclBroadcast: unhandled system error"},
    {"ncclBroadcast", KIND_STALL, NULL, PEER, STUCK},
    {"ncclBroadcast", KIND_HANG, NULL, EXIT_TEMPORARY, "broadcast did not finish by its deadline"},
};

static enum status call_all(struct rank *rank, struct err *err)
{
    float value = 1.0F;
    TRY(coll_nccl.allreduce(rank->coll, &value, 1, in_s(SHORT_S), err));
    return coll_nccl.broadcast(rank->coll, &value, sizeof(value), 0, in_s(SHORT_S), err);
}

static bool has_row(const char *call, enum kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (strcmp(ROWS[i].call, call) == 0 && ROWS[i].kind == kind) {
            return true;
        }
    }
    return false;
}

START_TEST(every_failure_of_every_function_has_a_row)
{
    for (size_t i = 0; i < ARRAY_LEN(CALLS); i++) {
        for (enum kind kind = KIND_FAIL; kind < KIND_COUNT; kind++) {
            ck_assert_msg(has_row(CALLS[i].name, kind) || (kind == KIND_HANG && !CALLS[i].can_hang),
                          "no row for %s, %s", CALLS[i].name, KINDS[kind]);
        }
    }
}
END_TEST

static int fired_count(int fd)
{
    char bytes[64];
    const ssize_t count = read(fd, bytes, sizeof(bytes));
    return count < 0 ? 0 : (int)count;
}

/* All at once: most of them only wait. */
START_TEST(every_failure_of_every_function_ends_as_its_row_says)
{
    struct rank ranks[ARRAY_LEN(ROWS)];
    int fired[ARRAY_LEN(ROWS)][2];
    static char faults[ARRAY_LEN(ROWS)][128];
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct row *row = &ROWS[i];
        if (row->message == NULL) {
            continue;
        }
        make_ranks(&ranks[i], 1, call_all);
        ck_assert_int_eq(pipe2(fired[i], O_CLOEXEC | O_NONBLOCK), 0);
        snprintf(faults[i], sizeof(faults[i]), "%s:%s:1%s%s", row->call, KINDS[row->kind],
                 row->with == NULL ? "" : ",", row->with == NULL ? "" : row->with);
        ranks[i].fault = faults[i];
        ranks[i].fired_fd = fired[i][1];
        ranks[i].init_s = SHORT_S;
        ranks[i].abort_s = ABORT_S;
        start(&ranks[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct row *row = &ROWS[i];
        if (row->message == NULL) {
            continue;
        }
        const int code = await_exit(&ranks[i]);
        ck_assert_msg(code == row->code && strstr(ranks[i].message, row->message) != NULL &&
                          (row->message[0] == '\0') == (ranks[i].message[0] == '\0'),
                      "%s: exit code %d and '%s', wanted %d and '%s'", faults[i], code,
                      ranks[i].message, row->code, row->message);
        ck_assert_msg(fired_count(fired[i][0]) == (row->with == NULL ? 1 : 2), "%s was not met",
                      faults[i]);
        close(fired[i][0]);
        close(fired[i][1]);
    }
}
END_TEST

/* ---- the network ---- */

START_TEST(the_interface_is_exact_and_the_users_choice_stands)
{
    struct err err = {0};
    ck_assert_int_eq(unsetenv("NCCL_SOCKET_IFNAME"), 0);
    ck_assert_int_eq(coll_nccl_interface("", &err), OK);
    ck_assert_ptr_null(getenv("NCCL_SOCKET_IFNAME"));
    ck_assert_int_eq(coll_nccl_interface("eth0", &err), OK);
    ck_assert_str_eq(getenv("NCCL_SOCKET_IFNAME"), "=eth0");
    set("NCCL_SOCKET_IFNAME", "ens");
    ck_assert_int_eq(coll_nccl_interface("eth0", &err), OK);
    ck_assert_str_eq(getenv("NCCL_SOCKET_IFNAME"), "ens");
}
END_TEST

/* Any library will do for a plugin that has been loaded. */
static void load_copy(const char *from, const char *to)
{
    FILE *in = fopen(from, "r");
    FILE *out = fopen(to, "w");
    ck_assert(in != NULL && out != NULL);
    for (int c = fgetc(in); c != EOF; c = fgetc(in)) {
        fputc(c, out);
    }
    fclose(in);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_ptr_nonnull(dlopen(to, RTLD_NOW | RTLD_LOCAL));
}

START_TEST(the_network_is_described)
{
    struct err err = {0};
    struct coll_rig rig;
    char text[3 * PATH_BYTES_MAX];
    char wanted[3 * PATH_BYTES_MAX];
    ck_assert_int_eq(coll_rig_open(coll_rig_store(), &rig, &err), OK);
    set("NCCL_SOCKET_IFNAME", "=eth0");
    coll_nccl_describe(&rig.nccl, 3, text, sizeof(text));
    snprintf(wanted, sizeof(wanted),
             "NCCL 2.27.3 (%s), 3 ranks, NCCL_SOCKET_IFNAME==eth0, network plugin: none",
             rig.nccl.found.path);
    ck_assert_str_eq(text, wanted);

    struct tree tree = tree_make();
    char plugin[PATH_MAX];
    snprintf(plugin, sizeof(plugin), "%s", tree_path(&tree, "libnccl-net-fake.so"));
    load_copy(rig.nccl.found.path, plugin);
    set("NCCL_SOCKET_IFNAME", NULL);
    coll_nccl_describe(&rig.nccl, 3, text, sizeof(text));
    snprintf(wanted, sizeof(wanted), "NCCL_SOCKET_IFNAME not set, network plugin: %s", plugin);
    ck_assert_msg(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
    tree_remove(&tree);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll_nccl");
    TCase *tc = tcase_create("nccl");
    tcase_add_test(tc, processes_sum_host_and_device_memory);
    tcase_add_test(tc, another_version_of_nccl_is_named_on_every_rank);
    tcase_add_test(tc, another_plan_is_named_on_every_rank);
    tcase_add_test(tc, a_shared_gpu_is_named_on_every_rank);
    tcase_add_test(tc, a_rank_that_never_comes_is_named);
    tcase_add_loop_test(tc, without_cuda_memory_the_call_is_named, 0, 8);
    tcase_add_test(tc, a_hang_ends_at_the_deadline);
    tcase_add_test(tc, a_hanging_abort_ends_the_process);
    tcase_add_test(tc, a_late_error_is_told_in_nccls_words);
    tcase_add_test(tc, a_dead_rank_ends_the_others);
    tcase_add_test(tc, abort_from_another_thread_ends_a_call_in_progress);
    tcase_add_test(tc, a_bucket_nobody_waits_for_is_aborted);
    tcase_add_test(tc, the_process_ends_as_its_owner_wants);
    tcase_add_test(tc, every_failure_of_every_function_has_a_row);
    tcase_add_test(tc, every_failure_of_every_function_ends_as_its_row_says);
    tcase_add_test(tc, the_interface_is_exact_and_the_users_choice_stands);
    tcase_add_test(tc, the_network_is_described);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
