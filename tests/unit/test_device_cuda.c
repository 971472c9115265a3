/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device over the fake: which GPU it takes, what it refuses, and a table of every function
 * of CUDA and NVML that has to have a row: what happens when it fails.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "consumer/cuda_api.h"
#include "consumer/device.h"
#include "consumer/ring.h"
#include "support/cuda_fakes.h"
#include "support/suite.h"

enum { SLOTS = 3, SLOT_BYTES = 5000, STEPS = 4 };

static const struct device_ops *const ops = &device_cuda;
static struct config config;
static struct device *device;
static struct err err;

static void set(const char *variable, const char *value)
{
    ck_assert_int_eq(setenv(variable, value, 1), 0);
}

static enum status open_ordinal(uint32_t ordinal)
{
    cuda_fakes_configure(&config);
    snprintf(config.log_level, sizeof(config.log_level), "debug");
    const struct device_options options = {.config = &config, .ordinal = ordinal};
    return ops->open(&options, &device, &err);
}

static void expect_words(const char *words)
{
    ck_assert_msg(strstr(err.message, words) != NULL, "'%s' lacks '%s'", err.message, words);
}

/* ---- the whole way, and every call of it failing ---- */

static enum status take_step(struct ring *ring, uint64_t g)
{
    struct ring_batch batch;
    bool soon = false;
    memset(ring_claim(ring, g), (int)g, SLOT_BYTES);
    TRY(ring_ready(ring, g, &err));
    TRY(ring_take(ring, &batch, &err));
    ck_assert_int_eq(memcmp(batch.device, batch.host, SLOT_BYTES), 0);
    TRY(ring_release(ring, g, NULL, &err));
    ck_assert(ring_reclaim(ring, &soon));
    return OK;
}

static enum status take_steps(struct ring *ring)
{
    TRY(ring_reset(ring, 0, STEPS, &err));
    for (uint64_t g = 0; g < STEPS; g++) {
        TRY(take_step(ring, g));
    }
    return OK;
}

static enum status whole_way(void)
{
    struct ring *ring = NULL;
    TRY(open_ordinal(0));
    const struct ring_options options = {.name = "train",
                                         .ops = ops,
                                         .device = device,
                                         .slots = SLOTS,
                                         .slot_bytes = SLOT_BYTES,
                                         .wake_fd = -1};
    enum status status = ring_new(&options, &ring, &err);
    if (status == OK) {
        status = take_steps(ring);
    }
    ring_free(&ring);
    ops->close(&device);
    return status;
}

enum fate {
    FAILS,  /* ERR_DEVICE, exit code 71, naming the call */
    ROOM,   /* the same, but ERR_RESOURCE and a hint when memory is short */
    ENDING, /* at the end only: the way is gone to its end all the same */
    ASKED,  /* NVML, which the option named: as FAILS */
    SPARED, /* NVML may not tell: nothing is lost but words */
    WORDS,  /* tells of errors, and is asked only then */
    UNUSED, /* not called here at all */
};

static const struct {
    const char *call;
    enum fate fate;
} ROWS[] = {
    {"cuDriverGetVersion", FAILS},
    {"cuInit", FAILS},
    {"cuGetErrorName", WORDS},
    {"cuGetErrorString", WORDS},
    {"cuDeviceGet", UNUSED},
    {"cuDeviceGetName", UNUSED},
    {"cuModuleLoadData", UNUSED},
    {"cuModuleUnload", UNUSED},
    {"cuModuleGetFunction", UNUSED},
    {"cuLaunchKernel", UNUSED},
    {"cudaRuntimeGetVersion", FAILS},
    {"cudaGetErrorName", WORDS},
    {"cudaGetErrorString", WORDS},
    {"cudaGetLastError", UNUSED},
    {"cudaPeekAtLastError", UNUSED},
    {"cudaGetDeviceCount", FAILS},
    {"cudaSetDevice", FAILS},
    {"cudaDeviceGetAttribute", FAILS},
    {"cudaDeviceGetPCIBusId", FAILS},
    {"cudaDeviceGetStreamPriorityRange", UNUSED},
    {"cudaMemGetInfo", UNUSED},
    {"cudaMalloc", ROOM},
    {"cudaFree", ENDING},
    {"cudaHostAlloc", ROOM},
    {"cudaFreeHost", ENDING},
    {"cudaPointerGetAttributes", FAILS},
    {"cudaMemcpyAsync", FAILS},
    {"cudaMemsetAsync", UNUSED},
    {"cudaStreamCreateWithPriority", FAILS},
    {"cudaStreamDestroy", ENDING},
    {"cudaStreamWaitEvent", UNUSED},
    {"cudaEventCreateWithFlags", FAILS},
    {"cudaEventDestroy", ENDING},
    {"cudaEventRecord", FAILS},
    {"cudaEventQuery", FAILS},
    {"cudaEventSynchronize", UNUSED},
    {"nvmlInit_v2", ASKED},
    {"nvmlShutdown", ENDING},
    {"nvmlErrorString", WORDS},
    {"nvmlSystemGetDriverVersion", ASKED},
    {"nvmlDeviceGetHandleByPciBusId_v2", SPARED},
    {"nvmlDeviceGetMemoryAffinity", SPARED},
    {"nvmlDeviceGetTotalEccErrors", WORDS},
    {"nvmlEventSetCreate", SPARED},
    {"nvmlEventSetFree", ENDING},
    {"nvmlDeviceRegisterEvents", SPARED},
    {"nvmlEventSetWait_v2", WORDS},
};

static const unsigned ERRORS[] = {CUDA_OUT_OF_MEMORY, 214, CUDA_FAKE_LOST, 999};

START_TEST(every_function_has_its_row)
{
    static const char *const CALLS[] = {
#define NAME_OF(result, symbol, parameters) #symbol,
#define CUDA_DRIVER_CALL                    NAME_OF
#define CUDA_RUNTIME_CALL                   NAME_OF
#define NVML_CALL                           NAME_OF
#include "consumer/cuda_calls.def"
    };
    for (size_t i = 0; i < ARRAY_LEN(CALLS); i++) {
        size_t rows = 0;
        for (size_t k = 0; k < ARRAY_LEN(ROWS); k++) {
            rows += strcmp(ROWS[k].call, CALLS[i]) == 0;
        }
        ck_assert_msg(rows == 1, "%s has %zu rows", CALLS[i], rows);
    }
    ck_assert_uint_eq(ARRAY_LEN(ROWS), ARRAY_LEN(CALLS));
}
END_TEST

/* Its own number in the first place, so that an error is the call's and not one of another kind. */
static void expect_fate(const char *call, enum fate fate, unsigned error, enum status status)
{
    const bool is_room = fate == ROOM && error == CUDA_OUT_OF_MEMORY;
    if (fate == FAILS || fate == ROOM || fate == ASKED) {
        ck_assert_int_eq(status, is_room ? ERR_RESOURCE : ERR_DEVICE);
        ck_assert_int_eq(status_exit_code(status), EXIT_RESOURCE);
        expect_words(call);
        expect_words(is_room ? "lower slots" : "");
    } else {
        ck_assert_msg(status == OK, "%s", err.message);
    }
}

START_TEST(a_call_that_fails)
{
    const size_t row = (size_t)_i / ARRAY_LEN(ERRORS);
    const unsigned error = ERRORS[(size_t)_i % ARRAY_LEN(ERRORS)];
    char fail[128];
    if (ROWS[row].fate == WORDS) {
        return; /* a_failure_is_told_whole */
    }
    snprintf(fail, sizeof(fail), "%s:1:%u", ROWS[row].call, error);
    set("HR_FAKE_CUDA_FAIL", fail);
    set("HR_FAKE_CUDA_XID", "79");
    ck_assert_uint_eq(cuda_fakes_calls(ROWS[row].call), 0);
    const enum status status = whole_way();
    const uint64_t calls = cuda_fakes_calls(ROWS[row].call);
    ck_assert_msg((calls > 0) == (ROWS[row].fate != UNUSED), "%s: %d calls", ROWS[row].call,
                  (int)calls);
    expect_fate(ROWS[row].call, ROWS[row].fate, error, status);
}
END_TEST

/* The n-th of all calls, whichever it is. Up to the last step's event none fails unheard; after it
 * the ring is only given back. Before the card is known, NVML cannot be asked. */
START_TEST(any_call_that_fails_is_told_and_ends_the_way)
{
    enum { OPENING = 4, AT_LEAST = OPENING + 2 + 2 * (2 + SLOTS) + STEPS * 8 };
    char fail[64];
    snprintf(fail, sizeof(fail), "any:%d:%d", _i, _i % 2 == 0 ? 700 : CUDA_FAKE_LOST);
    set("HR_FAKE_CUDA_FAIL", fail);
    set("HR_FAKE_CUDA_XID", "79");
    const enum status status = whole_way();
    ck_assert(status == ERR_DEVICE || (status == OK && _i > AT_LEAST));
    expect_words(status == OK || _i <= OPENING ? "" : "; Xid 79");
}
END_TEST

START_TEST(a_failure_is_told_whole)
{
    static const struct {
        const char *fail, *xid, *ecc, *text;
    } CASES[] = {
        {"cudaMemcpyAsync:2:719", "79", "3",
         "stream train, step 1, slot 1: GPU 0 (0000:F0:00.0): cudaMemcpyAsync: "
         "cudaErrorLaunchFailure (unspecified launch failure); Xid 79; 3 uncorrected ECC errors "
         "since the driver was loaded"},
        {"cudaEventRecord:4:700", "31", "-1",
         "stream train, step 3, slot 0: GPU 0 (0000:F0:00.0): cudaEventRecord: "
         "cudaErrorIllegalAddress (an illegal memory access was encountered); Xid 31"},
        {"copy:3:214", "-1", "1", /* at its turn in the stream, long after the call */
         "stream train, step 2, slot 2: GPU 0 (0000:F0:00.0): cudaSetDevice for cudaEventQuery: "
         "cudaErrorECCUncorrectable (uncorrectable ECC error encountered); 1 uncorrected ECC "
         "errors "
         "since the driver was loaded"},
        {"copy:1:719,nvmlEventSetWait_v2:1:999,nvmlDeviceGetTotalEccErrors:1:999", "79", "3",
         "stream train, step 0, slot 0: GPU 0 (0000:F0:00.0): cudaSetDevice for cudaEventQuery: "
         "cudaErrorLaunchFailure (unspecified launch failure)"},
        {"cuInit:1:719", "79", "3",
         "device cuda: cuInit: cudaErrorLaunchFailure (unspecified launch failure)"},
        {"nvmlInit_v2:1:999", "-1", "-1", "nvmlInit_v2: an error that was asked for"},
    };
    set("HR_FAKE_CUDA_FAIL", CASES[_i].fail);
    set("HR_FAKE_CUDA_XID", CASES[_i].xid);
    set("HR_FAKE_CUDA_ECC", CASES[_i].ecc);
    set("HR_FAKE_CUDA_LATENCY_US", "2000");
    ck_assert_int_eq(whole_way(), ERR_DEVICE);
    const size_t length = strlen(CASES[_i].text);
    const size_t got = strlen(err.message);
    ck_assert_msg(got >= length && strcmp(err.message + got - length, CASES[_i].text) == 0,
                  "'%s', expected '%s'", err.message, CASES[_i].text);
}
END_TEST

START_TEST(nothing_fails_unasked)
{
    ck_assert_msg(whole_way() == OK, "%s", err.message);
    ck_assert_uint_eq(cuda_fakes_calls("cudaHostAlloc"), 1);
    ck_assert_uint_eq(cuda_fakes_calls("cudaMalloc"), 1);
    ck_assert_uint_eq(cuda_fakes_calls("cudaFreeHost"), 1);
    ck_assert_uint_eq(cuda_fakes_calls("cudaFree"), 1);
    ck_assert_uint_eq(cuda_fakes_calls("cudaStreamDestroy"), 1);
    ck_assert_uint_eq(cuda_fakes_calls("cudaEventDestroy"), SLOTS);
    ck_assert_uint_eq(cuda_fakes_calls("copy"), STEPS);
}
END_TEST

/* ---- after the first failure ---- */

static void *copy_too(void *context)
{
    struct err *told = context;
    CHECK(ops->copy_async(device, NULL, NULL, 1, told) == ERR_DEVICE);
    return NULL;
}

/* The fake ends the process if CUDA is called again. */
START_TEST(the_first_failure_stays_and_cuda_is_left_alone)
{
    void *pinned = NULL;
    void *memory = NULL;
    struct device_event *event = NULL;
    pthread_t thread;
    struct err told = {0};
    set("HR_FAKE_CUDA_FAIL", "cudaEventRecord:1:719");
    ck_assert_int_eq(open_ordinal(1), OK);
    ck_assert_int_eq(ops->alloc_pinned(device, 100, &pinned, &err), OK);
    ck_assert_int_eq(ops->alloc_device(device, 100, &memory, &err), OK);
    ck_assert_int_eq(ops->event_new(device, &event, &err), OK);
    ck_assert_int_eq(ops->copy_async(device, memory, pinned, 100, &err), OK);
    ck_assert_int_eq(ops->record(device, event, &err), ERR_DEVICE);
    const struct err first = err;
    ck_assert_ptr_nonnull(strstr(first.message, "GPU 1 (0000:F1:00.0): cudaEventRecord"));
    ck_assert_int_eq(ops->query(device, event, &err), ERR_DEVICE);
    ck_assert_str_eq(err.message, first.message);
    ck_assert_int_eq(ops->wait(device, event, clock_now_ns() + NS_PER_S, &err), ERR_DEVICE);
    ck_assert_int_eq(ops->alloc_pinned(device, 100, &pinned, &err), ERR_DEVICE);
    ck_assert_str_eq(err.message, first.message);
    ck_assert_int_eq(pthread_create(&thread, NULL, copy_too, &told), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(told.message, first.message);
    ops->event_free(device, &event);
    ops->free_device(device, memory);
    ops->free_pinned(device, pinned, 100);
    ops->close(&device);
}
END_TEST

START_TEST(a_wait_has_its_deadline)
{
    void *pinned = NULL;
    void *memory = NULL;
    struct device_event *event = NULL;
    set("HR_FAKE_CUDA_LATENCY_US", "100000000");
    ck_assert_int_eq(open_ordinal(0), OK);
    ck_assert_int_eq(ops->alloc_pinned(device, 100, &pinned, &err), OK);
    ck_assert_int_eq(ops->alloc_device(device, 100, &memory, &err), OK);
    ck_assert_int_eq(ops->event_new(device, &event, &err), OK);
    ck_assert_int_eq(ops->copy_async(device, memory, pinned, 100, &err), OK);
    ck_assert_int_eq(ops->record(device, event, &err), OK);
    const int64_t begin_ns = clock_now_ns();
    ck_assert_int_eq(ops->wait(device, event, begin_ns + 20 * NS_PER_MS, &err), ERR_TIMEOUT);
    ck_assert_int_ge(clock_now_ns() - begin_ns, 20 * NS_PER_MS);
    _Exit(EXIT_SUCCESS); /* the copy is still under way */
}
END_TEST

/* ---- which GPU ---- */

START_TEST(a_gpu_that_does_not_exist_is_refused)
{
    ck_assert_int_eq(open_ordinal(2), ERR_DEVICE);
    expect_words("device cuda: GPU 2 does not exist, this process sees 2 (CUDA_VISIBLE_DEVICES is "
                 "not set)");
    expect_words("ranks_per_host");
}
END_TEST

START_TEST(what_the_environment_leaves_is_numbered_from_0)
{
    set("CUDA_VISIBLE_DEVICES", "1");
    ck_assert_int_eq(open_ordinal(1), ERR_DEVICE);
    expect_words("GPU 1 does not exist, this process sees 1 (CUDA_VISIBLE_DEVICES is \"1\")");
    ck_assert_int_eq(open_ordinal(0), OK);
    ops->close(&device);
}
END_TEST

START_TEST(is_there_a_gpu)
{
    bool is_there = false;
    const char *gpus = _i == 0 ? "1" : "0";
    set("HR_FAKE_CUDA_GPUS", gpus);
    cuda_fakes_configure(&config);
    ck_assert_int_eq(cuda_is_there(&config, &is_there, &err), OK);
    ck_assert_int_eq(is_there, _i == 0);
    expect_words(_i == 0 ? "" : "cuInit: cudaErrorNoDevice");
}
END_TEST

START_TEST(a_driver_that_is_there_but_of_no_use_is_an_error)
{
    bool is_there = false;
    set("HR_FAKE_CUDA_FAIL", "cuInit:1:999");
    cuda_fakes_configure(&config);
    ck_assert_int_eq(cuda_is_there(&config, &is_there, &err), ERR_DEVICE);
    ck_assert(!is_there);
    expect_words("cuInit");
}
END_TEST

START_TEST(a_driver_named_and_missing_is_an_error_and_none_at_all_is_not)
{
    bool is_there = true;
    snprintf(config.cuda_driver, sizeof(config.cuda_driver), "/nonexistent/libcuda.so.1");
    ck_assert_int_eq(cuda_is_there(&config, &is_there, &err), ERR_DEVICE);
    ck_assert(!is_there);
    config.cuda_driver[0] = '\0';
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver != NULL) {
        puts("not tried: a machine without NVIDIA's driver");
        return;
    }
    ck_assert_int_eq(cuda_is_there(&config, &is_there, &err), OK);
    ck_assert(!is_there);
    expect_words("libcuda.so.1 not found");
}
END_TEST

/* ---- memory ---- */

START_TEST(only_staging_memory_is_copied_from)
{
    static uint8_t bytes[100];
    void *pinned = NULL;
    void *memory = NULL;
    ck_assert_int_eq(open_ordinal(0), OK);
    ck_assert_int_eq(ops->alloc_pinned(device, 100, &pinned, &err), OK);
    ck_assert_int_eq(ops->alloc_device(device, 200, &memory, &err), OK);
    ck_assert_int_eq(ops->copy_async(device, memory, bytes, 100, &err), ERR_INTERNAL);
    expect_words("not staging memory");
    ck_assert_int_eq(ops->copy_async(device, memory, pinned, 101, &err), ERR_INTERNAL);
    ck_assert_int_eq(ops->copy_async(device, memory, memory, 1, &err), ERR_INTERNAL);
    ck_assert_uint_eq(cuda_fakes_calls("cudaMemcpyAsync"), 0);
    ops->free_device(device, memory);
    ops->free_pinned(device, pinned, 100);
    ops->close(&device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_cuda");
    TCase *tc = tcase_create("device_cuda");
    tcase_add_test(tc, every_function_has_its_row);
    tcase_add_loop_test(tc, a_call_that_fails, 0, (int)(ARRAY_LEN(ROWS) * ARRAY_LEN(ERRORS)));
    tcase_add_loop_test(tc, any_call_that_fails_is_told_and_ends_the_way, 1, 80);
    tcase_add_loop_test(tc, a_failure_is_told_whole, 0, 6);
    tcase_add_test(tc, nothing_fails_unasked);
    tcase_add_test(tc, the_first_failure_stays_and_cuda_is_left_alone);
    tcase_add_test(tc, a_wait_has_its_deadline);
    tcase_add_test(tc, a_gpu_that_does_not_exist_is_refused);
    tcase_add_test(tc, what_the_environment_leaves_is_numbered_from_0);
    tcase_add_loop_test(tc, is_there_a_gpu, 0, 2);
    tcase_add_test(tc, a_driver_that_is_there_but_of_no_use_is_an_error);
    tcase_add_test(tc, a_driver_named_and_missing_is_an_error_and_none_at_all_is_not);
    tcase_add_test(tc, only_staging_memory_is_copied_from);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
