/* SPDX-License-Identifier: Apache-2.0 */
/* That the fake device sees what it is there to see: each breach once. */
#include "fakes/device_fake.h"

#include <string.h>

#include "common/clock.h"
#include "support/suite.h"

enum { BYTES = 4096 };

static struct device *device;
static struct device_event *event;
static uint8_t *pinned, *memory;
static struct err err;

/* The copy takes up to a second; the seed makes it most of one. */
static void begin_slow_copy(void)
{
    device_fake_forget();
    ck_assert_int_eq(device_fake.open(&(struct device_options){.text = "seed=3 delay_us=1000000"},
                                      &device, &err),
                     OK);
    ck_assert_int_eq(device_fake.alloc_pinned(device, BYTES, (void **)&pinned, &err), OK);
    ck_assert_int_eq(device_fake.alloc_device(device, BYTES, (void **)&memory, &err), OK);
    ck_assert_int_eq(device_fake.event_new(device, &event, &err), OK);
    ck_assert_int_eq(device_fake.copy_async(device, memory, pinned, BYTES, &err), OK);
    ck_assert_int_eq(device_fake.record(device, event, &err), OK);
    ck_assert_int_eq(device_fake.query(device, event, &err), ERR_AGAIN);
    ck_assert_uint_eq(memory[0], DEVICE_FAKE_POISON);
}

static void settle(void)
{
    ck_assert_int_eq(device_fake.wait(device, event, clock_now_ns() + 30 * NS_PER_S, &err), OK);
}

static void finish(void)
{
    device_fake.event_free(device, &event);
    device_fake.free_device(device, memory);
    device_fake.free_pinned(device, pinned, BYTES);
    device_fake.close(&device);
}

static void expect_breach(const char *words)
{
    const char *first = NULL;
    ck_assert_int_eq(device_fake_breaches(&first), 1);
    ck_assert_msg(strstr(first, words) != NULL, "'%s' lacks '%s'", first, words);
}

START_TEST(good_use_is_no_breach)
{
    begin_slow_copy();
    settle();
    ck_assert_uint_eq(memory[0], 0);
    finish();
    ck_assert_int_eq(device_fake_breaches(NULL), 0);
}
END_TEST

START_TEST(a_source_changed_in_flight_is_seen)
{
    begin_slow_copy();
    pinned[17] = 1;
    settle();
    finish();
    expect_breach("source of a copy was changed");
}
END_TEST

START_TEST(a_target_used_again_in_flight_is_seen)
{
    begin_slow_copy();
    ck_assert_int_eq(device_fake.copy_async(device, memory + 4000, pinned, 8, &err), OK);
    struct device_event *second = NULL;
    ck_assert_int_eq(device_fake.event_new(device, &second, &err), OK);
    ck_assert_int_eq(device_fake.record(device, second, &err), OK);
    ck_assert_int_eq(device_fake.wait(device, second, clock_now_ns() + 30 * NS_PER_S, &err), OK);
    device_fake.event_free(device, &second);
    finish();
    expect_breach("target of a copy was used again");
}
END_TEST

START_TEST(an_event_recorded_again_in_flight_is_seen)
{
    begin_slow_copy();
    ck_assert_int_eq(device_fake.record(device, event, &err), OK);
    settle();
    finish();
    expect_breach("recorded again");
}
END_TEST

START_TEST(memory_freed_in_flight_is_seen)
{
    begin_slow_copy();
    device_fake.free_pinned(device, pinned, BYTES);
    expect_breach("staging memory was freed while");
    device_fake_forget();
    device_fake.free_device(device, memory);
    expect_breach("device memory was freed while");
    settle();
    finish();
}
END_TEST

START_TEST(an_event_freed_in_flight_is_seen)
{
    begin_slow_copy();
    device_fake.event_free(device, &event);
    expect_breach("event was freed before");
    finish();
}
END_TEST

START_TEST(a_source_that_is_not_pinned_is_seen)
{
    begin_slow_copy();
    settle();
    static const uint8_t PAGEABLE[8];
    ck_assert_int_eq(device_fake.copy_async(device, memory, PAGEABLE, 8, &err), OK);
    ck_assert_int_eq(device_fake.record(device, event, &err), OK);
    settle();
    finish();
    expect_breach("not staging memory");
}
END_TEST

START_TEST(what_is_not_freed_is_seen)
{
    begin_slow_copy();
    settle();
    device_fake.event_free(device, &event);
    device_fake.free_device(device, memory);
    device_fake.close(&device);
    expect_breach("memory was not freed");
}
END_TEST

START_TEST(closing_in_flight_is_seen)
{
    begin_slow_copy();
    device_fake.close(&device);
    const char *first = NULL;
    ck_assert_int_ge(device_fake_breaches(&first), 1);
    ck_assert_ptr_nonnull(strstr(first, "work in flight"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_fake");
    TCase *tc = tcase_create("device_fake");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, good_use_is_no_breach);
    tcase_add_test(tc, a_source_changed_in_flight_is_seen);
    tcase_add_test(tc, a_target_used_again_in_flight_is_seen);
    tcase_add_test(tc, an_event_recorded_again_in_flight_is_seen);
    tcase_add_test(tc, memory_freed_in_flight_is_seen);
    tcase_add_test(tc, an_event_freed_in_flight_is_seen);
    tcase_add_test(tc, a_source_that_is_not_pinned_is_seen);
    tcase_add_test(tc, what_is_not_freed_is_seen);
    tcase_add_test(tc, closing_in_flight_is_seen);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
