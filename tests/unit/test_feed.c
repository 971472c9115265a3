/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed with its client, scheduler, rings and real links on loopback, and producers that behave:
 * every step once, in order, with the plan's bytes; misuse; ends. Others: test_feed_faults.c.
 */
#include "consumer/feed.h"

#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "fakes/device_fake.h"
#include "support/alloc_count.h"
#include "support/feed_rig.h"
#include "support/suite.h"

/* ---- good producers ---- */

START_TEST(every_step_comes_once_in_order_with_the_plan_s_bytes)
{
    struct rig rig;
    rig_run(&rig, (uint32_t)_i, 3);
    ck_assert_uint_eq(rig.info[0].classes, BATCH_FAKE_CLASSES);
    ck_assert_uint_eq(rig.info[0].data_digest, RIG_DATA_DIGEST);
    ck_assert_uint_eq(rig.info[0].plan.steps, RIG_SAMPLES / RIG_ROWS);
    ck_assert_uint_eq(rig.info[1].plan.steps, (RIG_EVAL_SAMPLES + RIG_ROWS - 1) / RIG_ROWS);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        rig_consume(&rig, 0, epoch, 0, rig.plans[0].steps, 0);
        rig_begin(&rig, 1, epoch, 0, epoch + 1);
        rig_consume(&rig, 1, epoch, 0, rig.plans[1].steps, 0);
    }
    const struct feed_stats train = rig_stats(&rig, 0);
    ck_assert_uint_eq(train.digest, rig_digest(&rig, 0, 3, 0));
    ck_assert_uint_eq(train.batches, 3 * rig.plans[0].steps);
    ck_assert_uint_eq(train.samples, 3 * rig.plans[0].steps * RIG_ROWS);
    ck_assert_uint_eq(train.bad_samples, 0);
    ck_assert_uint_ge(train.wait_p99_ns, train.wait_p50_ns);
    ck_assert_uint_gt(train.decode_ns, 0);
    ck_assert_uint_eq(rig_stats(&rig, 1).samples, RIG_EVAL_SAMPLES);
    struct feed_batch batch;
    struct err err = {0};
    ck_assert_int_eq(feed_next(rig.feed, "train", &batch, &err), ERR_MISUSE);
    rig_close(&rig);
}
END_TEST

START_TEST(a_slow_device_changes_nothing)
{
    struct rig rig;
    rig_init(&rig);
    snprintf(rig.config.stage_copy, sizeof(rig.config.stage_copy), _i == 0 ? "batch" : "part");
    device_fake_forget();
    rig_open_on(&rig, &device_fake, "seed=4 delay_us=2000", 1);
    rig_start_good(&rig, 0);
    rig_learn(&rig);
    rig_begin(&rig, 0, 0, 0, 2);
    rig_consume(&rig, 0, 0, 0, 2 * rig.plans[0].steps, 0);
    ck_assert_uint_eq(rig_stats(&rig, 0).digest, rig_digest(&rig, 0, 2, 0));
    rig_close(&rig);
    const char *first = NULL;
    ck_assert_msg(device_fake_breaches(&first) == 0, "%s", first);
}
END_TEST

START_TEST(resuming_anywhere_gives_the_rest_of_the_stream)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    rig_start_good(&rig, 0);
    rig_learn(&rig);
    const uint64_t steps = rig.plans[0].steps;
    const uint64_t whole = rig_digest(&rig, 0, 2, 0);
    for (uint64_t cut = 0; cut < 2 * steps; cut += 11) {
        uint64_t digest = 0;
        if (cut > 0) {
            rig_begin(&rig, 0, 0, 0, 2);
            rig_consume(&rig, 0, 0, 0, cut, 0);
            digest = rig_stats(&rig, 0).digest;
        }
        rig_begin(&rig, 0, (uint32_t)(cut / steps), cut % steps, 2);
        rig_consume(&rig, 0, (uint32_t)(cut / steps), cut % steps, 2 * steps - cut, 0);
        ck_assert_uint_eq(digest + rig_stats(&rig, 0).digest, whole);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(the_steady_state_allocates_nothing)
{
    struct rig rig;
    rig_run(&rig, 2, 6);
    rig_consume(&rig, 0, 0, 0, rig.plans[0].steps, 0);
    /* Check's assertions allocate: none of them here. */
    const uint64_t before = alloc_count();
    bool good_calls = true;
    struct err err;
    for (uint64_t i = 0; i < 4 * rig.plans[0].steps; i++) {
        struct feed_batch batch;
        good_calls = good_calls && feed_next(rig.feed, "train", &batch, &err) == OK &&
                     feed_release(rig.feed, &batch, NULL, &err) == OK;
    }
    const uint64_t after = alloc_count();
    ck_assert(good_calls);
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_eq(after, before);
    rig_close(&rig);
}
END_TEST

START_TEST(a_flipped_byte_in_a_lent_slot_changes_the_digest)
{
    struct rig rig;
    rig_run(&rig, 1, 1);
    for (uint64_t i = 0; i < rig.plans[0].steps; i++) {
        struct feed_batch batch;
        rig_next(&rig, 0, &batch);
        if (i == 3) {
            ((uint8_t *)(uintptr_t)batch.host)[12345] ^= 1;
        }
        rig_release(&rig, &batch);
    }
    ck_assert_uint_ne(rig_stats(&rig, 0).digest, rig_digest(&rig, 0, 1, 0));
    rig_close(&rig);
}
END_TEST

START_TEST(the_end_is_told_to_producers)
{
    struct rig rig;
    rig_run(&rig, 2, 1);
    rig_consume(&rig, 0, 0, 0, 3, 0);
    const int64_t begin_ns = clock_now_ns();
    feed_free(&rig.feed, true);
    ck_assert_int_lt(clock_now_ns() - begin_ns, 10 * NS_PER_S);
    ck_assert(producer_fake_heard_done(rig.producers[0]));
    ck_assert(producer_fake_heard_done(rig.producers[1]));
    rig_close(&rig);
}
END_TEST

START_TEST(a_producer_that_never_says_bye_delays_the_end_by_two_seconds_at_most)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    rig_start_good(&rig, 0);
    rig_learn(&rig);
    producer_fake_stop(&rig.producers[0]);
    const int64_t begin_ns = clock_now_ns();
    feed_free(&rig.feed, true);
    ck_assert_int_lt(clock_now_ns() - begin_ns, 10 * NS_PER_S);
    rig_close(&rig);
}
END_TEST

/* ---- misuse and ends ---- */

START_TEST(misuse_is_an_error_not_a_hang)
{
    struct rig rig;
    struct err err = {0};
    struct feed_batch batches[8];
    rig_init(&rig);
    rig_open(&rig, 1);
    rig_start_good(&rig, 0);
    ck_assert_int_eq(feed_stream_info(rig.feed, "tarin", &rig.info[0], &err), ERR_USAGE);
    rig_learn(&rig);
    ck_assert_int_eq(feed_next(rig.feed, "train", &batches[0], &err), ERR_MISUSE);
    ck_assert_int_eq(feed_start(rig.feed, "train", 1, 0, 1, &err), ERR_MISUSE);
    ck_assert_int_eq(feed_start(rig.feed, "train", 0, rig.plans[0].steps, 1, &err), ERR_MISUSE);
    rig_begin(&rig, 0, 0, 0, 1);
    for (int i = 0; i < 4; i++) {
        rig_next(&rig, 0, &batches[i]);
    }
    ck_assert_int_eq(feed_next(rig.feed, "train", &batches[4], &err), ERR_MISUSE);
    ck_assert_int_eq(feed_start(rig.feed, "train", 0, 0, 1, &err), ERR_MISUSE);
    for (int i = 3; i >= 0; i--) {
        rig_release(&rig, &batches[i]);
        ck_assert_int_eq(feed_release(rig.feed, &batches[i], NULL, &err), ERR_MISUSE);
    }
    rig_consume(&rig, 0, 0, 4, 3, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_port_in_use_is_a_resource_error)
{
    struct rig rig;
    struct err err = {0};
    rig_init(&rig);
    rig_open(&rig, 1);
    const struct feed_options options = {.config = &rig.config,
                                         .roster = &rig.roster,
                                         .address = "127.0.0.1",
                                         .port = feed_port(rig.feed),
                                         .producers = 1,
                                         .device = &device_host};
    struct feed *second = NULL;
    ck_assert_int_eq(feed_new(&options, &second, &err), ERR_RESOURCE);
    ck_assert_ptr_null(second);
    ck_assert_ptr_nonnull(strstr(err.message, "127.0.0.1"));
    rig_close(&rig);
}
END_TEST

START_TEST(ranks_that_do_not_divide_the_batch_are_a_configuration_error)
{
    struct rig rig;
    struct err err = {0};
    rig_init(&rig);
    rig.roster.rank_count = 3;
    const struct feed_options options = {.config = &rig.config,
                                         .roster = &rig.roster,
                                         .address = "127.0.0.1",
                                         .producers = 1,
                                         .device = &device_host};
    ck_assert_int_eq(feed_new(&options, &rig.feed, &err), ERR_CONFIG);
    ck_assert_ptr_null(rig.feed);
    rig_close(&rig);
}
END_TEST

static void *close_feed(void *context)
{
    feed_close(context);
    return NULL;
}

START_TEST(closing_ends_every_wait)
{
    struct rig rig;
    struct err err = {0};
    struct feed_batch batch;
    pthread_t thread;
    rig_init(&rig);
    rig_open(&rig, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, close_feed, rig.feed), 0);
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_CANCELLED);
    ck_assert_int_eq(feed_next(rig.feed, "train", &batch, &err), ERR_CANCELLED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(the_budget_covers_slots_and_two_accounts_a_producer)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    const uint64_t batch = rig.layouts[0].bytes;
    const uint64_t budget = feed_budget_bytes(rig.feed);
    /* Two streams of four slots; (2 + 2 spare) producers with two accounts of three batches. */
    ck_assert_uint_ge(budget, 8 * batch + 4 * 2 * 3 * batch);
    ck_assert_uint_le(budget, 8 * batch + 4 * 2 * 3 * batch + (1 << 20));
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed");
    TCase *tc = tcase_create("feed");
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, every_step_comes_once_in_order_with_the_plan_s_bytes, 1, 4);
    tcase_add_loop_test(tc, a_slow_device_changes_nothing, 0, 2);
    tcase_add_test(tc, resuming_anywhere_gives_the_rest_of_the_stream);
    tcase_add_test(tc, the_steady_state_allocates_nothing);
    tcase_add_test(tc, a_flipped_byte_in_a_lent_slot_changes_the_digest);
    tcase_add_test(tc, the_end_is_told_to_producers);
    tcase_add_test(tc, a_producer_that_never_says_bye_delays_the_end_by_two_seconds_at_most);
    tcase_add_test(tc, misuse_is_an_error_not_a_hang);
    tcase_add_test(tc, a_port_in_use_is_a_resource_error);
    tcase_add_test(tc, ranks_that_do_not_divide_the_batch_are_a_configuration_error);
    tcase_add_test(tc, closing_ends_every_wait);
    tcase_add_test(tc, the_budget_covers_slots_and_two_accounts_a_producer);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
