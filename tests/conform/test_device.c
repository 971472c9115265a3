/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What device.h promises, on every device that can be opened here: the host, the fake with and
 * without delays, CUDA over its fake, and the fake failing its n-th call, for every n.
 */
#include "consumer/device.h"

#include <string.h>

#include "common/clock.h"
#include "fakes/device_fake.h"
#include "support/cuda_fakes.h"
#include "support/suite.h"

#define PATIENCE_NS (30 * NS_PER_S)

static const struct {
    const struct device_ops *ops;
    const char *options;
} DEVICES[] = {
    {&device_host, NULL},
    {&device_fake, NULL},
    {&device_fake, "seed=1 delay_us=300"},
    {&device_fake, "seed=2 delay_us=3000"},
    {&device_cuda, "0"}, /* microseconds of a copy */
    {&device_cuda, "2000"},
};

static const struct device_ops *ops;
static struct device *device;
static struct err err;

static void open_device(int number)
{
    device_fake_forget();
    ops = DEVICES[number].ops;
    if (ops == &device_cuda) {
        ck_assert_int_eq(setenv("HR_FAKE_CUDA_LATENCY_US", DEVICES[number].options, 1), 0);
    }
    static struct config config;
    cuda_fakes_configure(&config);
    snprintf(config.log_level, sizeof(config.log_level), "debug"); /* with all checks */
    const struct device_options options = {.config = &config, .text = DEVICES[number].options};
    ck_assert_int_eq(ops->open(&options, &device, &err), OK);
    ck_assert_ptr_nonnull(device);
}

static void close_device(void)
{
    ops->close(&device);
    ck_assert_ptr_null(device);
    const char *first = NULL;
    ck_assert_msg(device_fake_breaches(&first) == 0, "%s", first);
}

/* Staging memory, device memory (NULL on the host) and an event. */
struct buffers {
    size_t bytes;
    void *pinned, *memory;
    struct device_event *event;
};

static void buffers_init(struct buffers *b, size_t bytes)
{
    b->bytes = bytes;
    ck_assert_int_eq(ops->alloc_pinned(device, bytes, &b->pinned, &err), OK);
    ck_assert_int_eq(ops->alloc_device(device, bytes, &b->memory, &err), OK);
    ck_assert_int_eq(ops->event_new(device, &b->event, &err), OK);
}

static void buffers_fini(struct buffers *b)
{
    ops->event_free(device, &b->event);
    ck_assert_ptr_null(b->event);
    ops->free_device(device, b->memory);
    ops->free_pinned(device, b->pinned, b->bytes);
}

static void copy_and_record(struct buffers *b)
{
    ck_assert_int_eq(ops->copy_async(device, b->memory, b->pinned, b->bytes, &err), OK);
    ck_assert_int_eq(ops->record(device, b->event, &err), OK);
}

static void wait_fired(struct buffers *b)
{
    ck_assert_int_eq(ops->wait(device, b->event, clock_now_ns() + PATIENCE_NS, &err), OK);
    ck_assert_int_eq(ops->query(device, b->event, &err), OK);
}

/* Where a batch is used: on the device, or where it was staged. The fake's memory is readable. */
static const uint8_t *used(const struct buffers *b)
{
    return b->memory != NULL ? b->memory : b->pinned;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && bytes[i] == 0) {
        i++;
    }
    return i == count;
}

START_TEST(staging_memory_is_aligned_and_zero)
{
    static const size_t SIZES[] = {1, 4095, 4096, 4097, 1 << 20};
    open_device(_i);
    for (size_t s = 0; s < ARRAY_LEN(SIZES); s++) {
        uint8_t *memory = NULL;
        ck_assert_int_eq(ops->alloc_pinned(device, SIZES[s], (void **)&memory, &err), OK);
        ck_assert_uint_eq((uintptr_t)memory % 4096, 0);
        ck_assert(is_zero(memory, SIZES[s]));
        memset(memory, 0xFF, SIZES[s]);
        ops->free_pinned(device, memory, SIZES[s]);
    }
    close_device();
}
END_TEST

START_TEST(an_event_never_recorded_has_fired)
{
    open_device(_i);
    struct device_event *event = NULL;
    ck_assert_int_eq(ops->event_new(device, &event, &err), OK);
    ck_assert_int_eq(ops->query(device, event, &err), OK);
    ck_assert_int_eq(ops->wait(device, event, 0, &err), OK);
    ops->event_free(device, &event);
    close_device();
}
END_TEST

START_TEST(a_copy_is_done_when_its_event_has_fired)
{
    open_device(_i);
    struct buffers b;
    buffers_init(&b, 100000);
    for (int round = 0; round < 20; round++) {
        memset(b.pinned, round, b.bytes);
        copy_and_record(&b);
        wait_fired(&b);
        ck_assert_uint_eq(used(&b)[0], (unsigned)round);
        ck_assert_uint_eq(used(&b)[b.bytes - 1], (unsigned)round);
    }
    buffers_fini(&b);
    close_device();
}
END_TEST

START_TEST(an_event_covers_all_that_was_queued_before_it)
{
    enum { COPIES = 16 };
    open_device(_i);
    struct buffers b[COPIES];
    for (int i = 0; i < COPIES; i++) {
        buffers_init(&b[i], 5000);
        memset(b[i].pinned, i + 1, b[i].bytes);
    }
    for (int i = 0; i < COPIES; i++) {
        copy_and_record(&b[i]);
    }
    wait_fired(&b[COPIES - 1]);
    for (int i = 0; i < COPIES; i++) {
        ck_assert_int_eq(ops->query(device, b[i].event, &err), OK);
        ck_assert_uint_eq(used(&b[i])[4999], (unsigned)i + 1);
        buffers_fini(&b[i]);
    }
    close_device();
}
END_TEST

START_TEST(waiting_ends_at_its_deadline)
{
    open_device(_i);
    struct buffers b;
    buffers_init(&b, 100000);
    copy_and_record(&b);
    const enum status status = ops->wait(device, b.event, clock_now_ns(), &err);
    ck_assert(status == OK || status == ERR_TIMEOUT);
    wait_fired(&b);
    buffers_fini(&b);
    close_device();
}
END_TEST

/* One batch's whole way; stops at the first failure and still gives everything back. */
static enum status whole_way(void)
{
    struct buffers b = {.bytes = 3000};
    enum status status = ops->alloc_pinned(device, b.bytes, &b.pinned, &err);
    if (status == OK) {
        status = ops->alloc_device(device, b.bytes, &b.memory, &err);
    }
    if (status == OK) {
        status = ops->event_new(device, &b.event, &err);
    }
    bool queued = false;
    if (status == OK) {
        status = ops->copy_async(device, b.memory, b.pinned, b.bytes, &err);
        queued = status == OK;
    }
    if (status == OK) {
        status = ops->record(device, b.event, &err);
    }
    if (status == OK) {
        status = ops->wait(device, b.event, clock_now_ns() + PATIENCE_NS, &err);
    }
    if (queued && status != OK) {
        return status; /* the copy may still run: its memory goes with the device */
    }
    ops->event_free(device, &b.event);
    ops->free_device(device, b.memory);
    if (b.pinned != NULL) {
        ops->free_pinned(device, b.pinned, b.bytes);
    }
    return status;
}

START_TEST(every_call_can_fail_and_says_so)
{
    ops = &device_fake;
    device_fake_forget();
    int failures = 0;
    for (int n = 1;; n++) {
        char options[64];
        snprintf(options, sizeof(options), "seed=%d delay_us=100 fail_at=%d", n, n);
        ck_assert_int_eq(ops->open(&(struct device_options){.text = options}, &device, &err), OK);
        memset(&err, 0, sizeof(err));
        const enum status status = whole_way();
        ck_assert_int_eq(status, err.status);
        close_device();
        if (status == OK) {
            break;
        }
        ck_assert_int_eq(status, ERR_DEVICE);
        ck_assert_uint_gt(strlen(err.message), 0);
        failures++;
    }
    ck_assert_int_eq(failures, 6);
}
END_TEST

START_TEST(a_broken_device_stays_broken)
{
    ops = &device_fake;
    device_fake_forget();
    ck_assert_int_eq(
        ops->open(&(struct device_options){.text = "delay_us=100 break_at=2"}, &device, &err), OK);
    struct buffers b;
    buffers_init(&b, 100);
    copy_and_record(&b);
    wait_fired(&b);
    for (int i = 0; i < 2; i++) {
        copy_and_record(&b);
        ck_assert_int_eq(ops->wait(device, b.event, clock_now_ns() + PATIENCE_NS, &err),
                         ERR_DEVICE);
        ck_assert_int_eq(ops->query(device, b.event, &err), ERR_DEVICE);
    }
    buffers_fini(&b);
    close_device();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tc = tcase_create("device");
    const int devices = (int)ARRAY_LEN(DEVICES);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, staging_memory_is_aligned_and_zero, 0, devices);
    tcase_add_loop_test(tc, an_event_never_recorded_has_fired, 0, devices);
    tcase_add_loop_test(tc, a_copy_is_done_when_its_event_has_fired, 0, devices);
    tcase_add_loop_test(tc, an_event_covers_all_that_was_queued_before_it, 0, devices);
    tcase_add_loop_test(tc, waiting_ends_at_its_deadline, 0, devices);
    tcase_add_test(tc, every_call_can_fail_and_says_so);
    tcase_add_test(tc, a_broken_device_stays_broken);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
