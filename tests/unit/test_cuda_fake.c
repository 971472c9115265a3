/* SPDX-License-Identifier: Apache-2.0 */
/* That the fake CUDA sees what it is there to see, and otherwise does what CUDA does. */
#include "fakes/cuda_fake.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consumer/cuda_api.h"
#include "support/cuda_fakes.h"
#include "support/suite.h"

enum { BYTES = 10000 };

/* One device, a slow stream and what a copy needs. */
static struct cuda_api api;
static struct cuda_runtime *cuda;
static struct CUstream_st *stream;
static struct CUevent_st *event;
static uint8_t *pinned;
static uint8_t *memory;

static void open_fake(void)
{
    static struct config config;
    struct err err = {0};
    cuda_fakes_configure(&config);
    CHECK(cuda_api_open(&config, &api, &err) == OK);
    cuda = &api.runtime;
}

static void open_slow(void)
{
    CHECK(setenv("HR_FAKE_CUDA_LATENCY_US", "300000", 1) == 0);
    open_fake();
    CHECK(cuda->cudaSetDevice(0) == CUDA_OK);
    CHECK(cuda->cudaStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, 0) == CUDA_OK);
    CHECK(cuda->cudaEventCreateWithFlags(&event, CUDA_EVENT_NO_TIMING) == CUDA_OK);
    CHECK(cuda->cudaHostAlloc((void **)&pinned, BYTES, CUDA_HOST_PORTABLE) == CUDA_OK);
    CHECK(cuda->cudaMalloc((void **)&memory, BYTES) == CUDA_OK);
    memset(pinned, 7, BYTES);
}

static void begin_copy(void)
{
    open_slow();
    CHECK(cuda->cudaMemcpyAsync(memory, pinned, BYTES, CUDA_COPY_TO_DEVICE, stream) == CUDA_OK);
    CHECK(cuda->cudaEventRecord(event, stream) == CUDA_OK);
}

static void end_all(void)
{
    CHECK(cuda->cudaEventSynchronize(event) == CUDA_OK);
    CHECK(cuda->cudaEventDestroy(event) == CUDA_OK);
    CHECK(cuda->cudaStreamDestroy(stream) == CUDA_OK);
    CHECK(cuda->cudaFreeHost(pinned) == CUDA_OK);
    CHECK(cuda->cudaFree(memory) == CUDA_OK);
}

START_TEST(a_copy_takes_its_time_and_is_done_when_its_event_fires)
{
    begin_copy();
    ck_assert_uint_eq(cuda->cudaEventQuery(event), CUDA_NOT_READY);
    ck_assert_uint_eq(cuda->cudaEventSynchronize(event), CUDA_OK);
    ck_assert_uint_eq(cuda->cudaEventQuery(event), CUDA_OK);
    ck_assert_int_eq(memcmp(memory, pinned, BYTES), 0);
    ck_assert_uint_eq(cuda_fakes_calls("cudaMemcpyAsync"), 1);
    ck_assert_uint_eq(cuda_fakes_calls("copy"), 1);
    ck_assert_uint_eq(cuda_fakes_calls("cudaMemsetAsync"), 0);
    end_all();
}
END_TEST

START_TEST(one_stream_waits_for_another_s_event)
{
    struct CUstream_st *second = NULL;
    struct CUevent_st *last = NULL;
    begin_copy();
    CHECK(cuda->cudaStreamCreateWithPriority(&second, CUDA_STREAM_NON_BLOCKING, 0) == CUDA_OK);
    CHECK(cuda->cudaEventCreateWithFlags(&last, CUDA_EVENT_NO_TIMING) == CUDA_OK);
    CHECK(cuda->cudaStreamWaitEvent(second, event, 0) == CUDA_OK);
    CHECK(cuda->cudaMemsetAsync(memory, 3, 10, second) == CUDA_OK);
    CHECK(cuda->cudaEventRecord(last, second) == CUDA_OK);
    ck_assert_uint_eq(cuda->cudaEventSynchronize(last), CUDA_OK);
    ck_assert_uint_eq(cuda->cudaEventQuery(event), CUDA_OK);
    ck_assert_uint_eq(memory[9], 3);
    ck_assert_uint_eq(memory[10], 7);
    CHECK(cuda->cudaEventDestroy(last) == CUDA_OK);
    CHECK(cuda->cudaStreamDestroy(second) == CUDA_OK);
    end_all();
}
END_TEST

static void *query_once(void *context)
{
    *(unsigned *)context = cuda->cudaEventQuery(event);
    return NULL;
}

START_TEST(a_sticky_error_is_told_to_every_thread_once)
{
    CHECK(setenv("HR_FAKE_CUDA_FAIL", "copy:1:700,cudaMalloc:2:2", 1) == 0);
    void *more = NULL;
    pthread_t thread;
    unsigned elsewhere = 0;
    begin_copy();
    ck_assert_uint_eq(cuda->cudaMalloc(&more, 1), CUDA_OUT_OF_MEMORY); /* not sticky */
    ck_assert_uint_eq(cuda->cudaEventSynchronize(event), 700);
    ck_assert_str_eq(cuda->cudaGetErrorName(700), "cudaErrorIllegalAddress");
    ck_assert_int_eq(pthread_create(&thread, NULL, query_once, &elsewhere), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(elsewhere, 700);
    ck_assert_uint_eq(memory[0], CUDA_FAKE_POISON);
}
END_TEST

/* ---- what ends the process ---- */

static void pageable_source(void)
{
    static uint8_t bytes[10];
    open_slow();
    (void)cuda->cudaMemcpyAsync(memory, bytes, 10, CUDA_COPY_TO_DEVICE, stream);
}

static void source_out_of_bounds(void)
{
    open_slow();
    (void)cuda->cudaMemcpyAsync(memory, pinned + 1, BYTES, CUDA_COPY_TO_DEVICE, stream);
}

static void target_out_of_bounds(void)
{
    open_slow();
    (void)cuda->cudaMemcpyAsync(memory + 1, pinned, BYTES, CUDA_COPY_TO_DEVICE, stream);
}

static void changed_source(void)
{
    begin_copy();
    pinned[BYTES - 1]++;
    (void)cuda->cudaEventSynchronize(event);
}

static void freed_source(void)
{
    begin_copy();
    (void)cuda->cudaFreeHost(pinned);
}

static void freed_target(void)
{
    begin_copy();
    (void)cuda->cudaFree(memory);
}

static void freed_twice(void)
{
    open_slow();
    (void)cuda->cudaFree(memory);
    (void)cuda->cudaFree(memory);
}

static void event_destroyed_twice(void)
{
    open_slow();
    (void)cuda->cudaEventDestroy(event);
    (void)cuda->cudaEventDestroy(event);
}

static void event_in_flight(void)
{
    begin_copy();
    (void)cuda->cudaEventDestroy(event);
}

static void stream_in_flight(void)
{
    begin_copy();
    (void)cuda->cudaStreamDestroy(stream);
}

static void used_after_sticky(void)
{
    CHECK(setenv("HR_FAKE_CUDA_FAIL", "cudaEventQuery:1:719", 1) == 0);
    open_slow();
    (void)cuda->cudaEventQuery(event);
    (void)cuda->cudaGetLastError();
    (void)cuda->cudaFree(memory);
}

static void default_stream(void)
{
    open_slow();
    (void)cuda->cudaMemcpyAsync(memory, pinned, 1, CUDA_COPY_TO_DEVICE, NULL);
}

static void blocking_stream(void)
{
    open_slow();
    (void)cuda->cudaStreamCreateWithPriority(&stream, 0, 0);
}

static void stream_of_another_device(void)
{
    open_slow();
    CHECK(cuda->cudaSetDevice(1) == CUDA_OK);
    (void)cuda->cudaMemcpyAsync(memory, pinned, 1, CUDA_COPY_TO_DEVICE, stream);
}

static void memory_of_another_device(void)
{
    void *other = NULL;
    open_slow();
    CHECK(cuda->cudaSetDevice(1) == CUDA_OK);
    CHECK(cuda->cudaMalloc(&other, 10) == CUDA_OK);
    CHECK(cuda->cudaSetDevice(0) == CUDA_OK);
    (void)cuda->cudaMemcpyAsync(other, pinned, 10, CUDA_COPY_TO_DEVICE, stream);
}

static void *allocate(void *context)
{
    (void)cuda->cudaMalloc(context, 10);
    return NULL;
}

static void no_device_chosen(void)
{
    pthread_t thread;
    void *other = NULL;
    open_slow();
    CHECK(pthread_create(&thread, NULL, allocate, &other) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void forked_child(void)
{
    int result = 0;
    open_slow();
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)cuda->cudaSetDevice(0);
        _exit(0);
    }
    CHECK(waitpid(pid, &result, 0) == pid && WIFSIGNALED(result));
    abort();
}

static void device_wide_wait(void)
{
    struct config config = {0};
    unsigned (*wait)(void) = NULL;
    cuda_fakes_configure(&config);
    void *library = dlopen(config.cuda_runtime, RTLD_NOW);
    CHECK(library != NULL);
    *(void **)&wait = dlsym(library, "cudaDeviceSynchronize");
    CHECK(wait != NULL);
    (void)wait();
}

static const struct {
    void (*run)(void);
    const char *words;
} MISUSES[] = {
    {pageable_source, "source is pageable"},
    {source_out_of_bounds, "source is pageable"},
    {target_out_of_bounds, "target is not memory of the device"},
    {changed_source, "source of a copy was changed"},
    {freed_source, "freed while a copy in flight"},
    {freed_target, "freed while a copy in flight"},
    {freed_twice, "no such memory, or it was freed before"},
    {event_destroyed_twice, "no event, or it was destroyed before"},
    {event_in_flight, "an event was destroyed before"},
    {stream_in_flight, "stream was destroyed with work"},
    {used_after_sticky, "cudaFree after a sticky error"},
    {default_stream, "on the default stream"},
    {blocking_stream, "waits for the default stream"},
    {stream_of_another_device, "wrong device: this thread chose 1"},
    {memory_of_another_device, "memory of the wrong device"},
    {no_device_chosen, "this thread chose none"},
    {forked_child, "in a child that was forked"},
    {device_wide_wait, "waits for a whole device"},
};

START_TEST(misuse_ends_the_process_and_is_named)
{
    int ends[2];
    int result = 0;
    char said[4096] = "";
    size_t count = 0;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
        MISUSES[_i].run();
        _exit(0);
    }
    close(ends[1]);
    ssize_t got = 0;
    while ((got = read(ends[0], said + count, sizeof(said) - 1 - count)) > 0) {
        count += (size_t)got;
    }
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &result, 0), pid);
    ck_assert_msg(WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT, "%s: no abort",
                  MISUSES[_i].words);
    ck_assert_msg(strstr(said, "cuda_fake: ") != NULL && strstr(said, MISUSES[_i].words) != NULL,
                  "'%s' lacks '%s'", said, MISUSES[_i].words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_fake");
    TCase *tc = tcase_create("cuda_fake");
    tcase_add_test(tc, a_copy_takes_its_time_and_is_done_when_its_event_fires);
    tcase_add_test(tc, one_stream_waits_for_another_s_event);
    tcase_add_test(tc, a_sticky_error_is_told_to_every_thread_once);
    tcase_add_loop_test(tc, misuse_ends_the_process_and_is_named, 0, (int)ARRAY_LEN(MISUSES));
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
