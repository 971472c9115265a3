/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed and producers that misbehave, die, hang, bring bad samples or other data: whatever they
 * do, every step comes once, in order, with the plan's bytes, or the job ends and says why.
 */
#include "consumer/feed.h"

#include <pthread.h>
#include <string.h>
#include <zmq.h>

#include "common/clock.h"
#include "support/feed_rig.h"
#include "support/suite.h"

/* ---- producers that misbehave ---- */

static void expect_whole_stream(struct rig *rig)
{
    rig_learn(rig);
    rig_begin(rig, 0, 0, 0, 2);
    rig_consume(rig, 0, 0, 0, 2 * rig->plans[0].steps, 0);
    ck_assert_uint_eq(rig_stats(rig, 0).digest, rig_digest(rig, 0, 2, 0));
}

START_TEST(bad_parts_are_never_lent)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    struct producer_fake_options options = rig_good(&rig, 0);
    options.corrupt_every = _i == 0 ? 5 : 0;
    options.wrong_id_every = _i == 1 ? 5 : 0;
    options.double_every = _i == 2 ? 2 : 0;
    options.delay_us = 3000;
    rig_start(&rig, 0, &options);
    rig_start_good(&rig, 1);
    expect_whole_stream(&rig);
    ck_assert_uint_gt(producer_fake_parts(rig.producers[0]), 5);
    if (_i == 2) {
        ck_assert_uint_gt(rig_stats(&rig, 0).duplicates, 0);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(producers_that_die_hang_or_babble_lose_nothing)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    struct producer_fake_options options = rig_good(&rig, 0);
    options.end_after = _i == 0 ? 10 : 0;
    options.hang_after = _i == 1 ? 10 : 0;
    options.garbage_after = _i == 2 ? 10 : 0;
    rig_start(&rig, 0, &options);
    options = rig_good(&rig, 1);
    options.delay_us = 3000;
    rig_start(&rig, 1, &options);
    expect_whole_stream(&rig);
    ck_assert_uint_ge(producer_fake_parts(rig.producers[0]), 10);
    rig_close(&rig);
}
END_TEST

START_TEST(a_restarted_producer_goes_on)
{
    struct rig rig;
    rig_run(&rig, 1, 1);
    rig_consume(&rig, 0, 0, 0, 4, 0);
    producer_fake_stop(&rig.producers[0]);
    struct producer_fake_options options = rig_good(&rig, 0);
    options.instance = 99;
    rig_start(&rig, 0, &options);
    rig_consume(&rig, 0, 0, 4, rig.plans[0].steps - 4, 0);
    ck_assert_uint_eq(rig_stats(&rig, 0).digest, rig_digest(&rig, 0, 1, 0));
    rig_close(&rig);
}
END_TEST

static enum status consume_until_it_ends(struct rig *rig, struct err *err)
{
    struct feed_batch batch;
    enum status status = OK;
    while ((status = feed_next(rig->feed, "train", &batch, err)) == OK) {
        rig_release(rig, &batch);
    }
    return status;
}

START_TEST(without_producers_the_job_starves)
{
    struct rig rig;
    rig_init(&rig);
    rig.config.starve_timeout_s = 1;
    rig_open(&rig, 1);
    rig_start_good(&rig, 0);
    rig_learn(&rig);
    rig_begin(&rig, 0, 0, 0, 1);
    rig_consume(&rig, 0, 0, 0, 2, 0);
    producer_fake_stop(&rig.producers[0]);
    struct err err = {0};
    ck_assert_int_eq(consume_until_it_ends(&rig, &err), ERR_PEER_GONE);
    ck_assert_ptr_nonnull(strstr(err.message, "algo-1/0"));
    rig_close(&rig);
}
END_TEST

START_TEST(a_nack_for_the_bad_budget_ends_the_job)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    struct producer_fake_options options = rig_good(&rig, 0);
    options.nack_after = 6;
    rig_start(&rig, 0, &options);
    rig_learn(&rig);
    rig_begin(&rig, 0, 0, 0, 1);
    struct err err = {0};
    ck_assert_int_eq(consume_until_it_ends(&rig, &err), ERR_DATA);
    ck_assert_ptr_nonnull(strstr(err.message, "fake: no good sample"));
    rig_close(&rig);
}
END_TEST

/* ---- bad samples ---- */

START_TEST(substitutes_are_counted_once_an_epoch_within_the_budget)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct producer_fake_options options = rig_good(&rig, i);
        options.streams[0].bad_every = 20; /* 7 of 130, the budget is 10 */
        rig_start(&rig, i, &options);
    }
    rig_learn(&rig);
    rig_begin(&rig, 0, 0, 0, 4);
    rig_consume(&rig, 0, 0, 0, 4 * rig.plans[0].steps, 20);
    const uint64_t bad = rig_stats(&rig, 0).bad_samples;
    ck_assert_uint_gt(bad, 10); /* over four epochs, fewer than 10 in each */
    ck_assert_uint_le(bad, 28);
    ck_assert_uint_eq(rig_stats(&rig, 0).digest, rig_digest(&rig, 0, 4, 20));
    rig_close(&rig);
}
END_TEST

START_TEST(more_bad_samples_than_the_budget_end_the_job)
{
    struct rig rig;
    rig_init(&rig);
    rig.config.bad_budget = 3;
    rig_open(&rig, 1);
    struct producer_fake_options options = rig_good(&rig, 0);
    options.streams[0].bad_every = 10;
    rig_start(&rig, 0, &options);
    rig_learn(&rig);
    rig_begin(&rig, 0, 0, 0, 1);
    struct err err = {0};
    enum status status = OK;
    while (status == OK) {
        struct feed_batch batch;
        rig_next(&rig, 0, &batch);
        status = feed_release(rig.feed, &batch, NULL, &err);
    }
    ck_assert_int_eq(status, ERR_DATA);
    ck_assert_ptr_nonnull(strstr(err.message, "bad_budget"));
    rig_close(&rig);
}
END_TEST

/* ---- data sets ---- */

START_TEST(producers_with_different_data_are_turned_away_and_both_named)
{
    struct rig rig;
    struct rig other;
    rig_init(&rig);
    rig_init(&other);
    rig_plan(&other, RIG_SAMPLES - 1);
    rig.config.join_timeout_s = 2;
    rig_open(&rig, 2);
    rig_start_good(&rig, 0);
    other.feed = rig.feed;
    struct producer_fake_options options = rig_good(&other, 1);
    rig_start(&rig, 1, &options);
    struct err err = {0};
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_DATA);
    ck_assert_ptr_nonnull(strstr(err.message, "algo-1/0"));
    ck_assert_ptr_nonnull(strstr(err.message, "algo-2/0"));
    ck_assert_uint_gt(producer_fake_rejects(rig.producers[0]), 0);
    ck_assert_uint_gt(producer_fake_rejects(rig.producers[1]), 0);
    ck_assert_uint_eq(producer_fake_wanted(rig.producers[0]), RIG_SAMPLES - 1);
    ck_assert_uint_eq(producer_fake_wanted(rig.producers[1]), RIG_SAMPLES);
    rig_close(&rig);
    free(other.scratch);
}
END_TEST

static void *replace_producer(void *context)
{
    struct rig *rig = context;
    const int64_t deadline = clock_now_ns() + 60 * NS_PER_S;
    while (producer_fake_rejects(rig->producers[1]) == 0) {
        CHECK(clock_now_ns() < deadline);
    }
    producer_fake_stop(&rig->producers[1]);
    struct producer_fake_options options = rig_good(rig, 1);
    options.instance = 55;
    rig_start(rig, 1, &options);
    return NULL;
}

START_TEST(data_that_come_to_agree_begin_the_job)
{
    struct rig rig;
    struct rig other;
    rig_init(&rig);
    rig_init(&other);
    rig_plan(&other, RIG_SAMPLES - 1);
    rig_open(&rig, 2);
    rig_start_good(&rig, 0);
    other.feed = rig.feed;
    const struct producer_fake_options options = rig_good(&other, 1);
    rig_start(&rig, 1, &options);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_producer, &rig), 0);
    rig_learn(&rig);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(rig.info[0].plan.samples, RIG_SAMPLES);
    rig_begin(&rig, 0, 0, 0, 1);
    rig_consume(&rig, 0, 0, 0, rig.plans[0].steps, 0);
    rig_close(&rig);
    free(other.scratch);
}
END_TEST

START_TEST(a_late_producer_with_other_data_is_turned_away_and_the_job_goes_on)
{
    struct rig rig;
    struct rig other;
    rig_init(&rig);
    rig_init(&other);
    rig_plan(&other, RIG_SAMPLES - 1);
    rig_open(&rig, 1);
    rig_start_good(&rig, 0);
    rig_learn(&rig);
    rig_begin(&rig, 0, 0, 0, 1);
    rig_consume(&rig, 0, 0, 0, 4, 0);
    other.feed = rig.feed;
    const struct producer_fake_options options = rig_good(&other, 1);
    rig_start(&rig, 1, &options);
    const int64_t deadline = clock_now_ns() + 60 * NS_PER_S;
    while (producer_fake_rejects(rig.producers[1]) == 0) {
        ck_assert(clock_now_ns() < deadline);
    }
    rig_consume(&rig, 0, 0, 4, rig.plans[0].steps - 4, 0);
    ck_assert_uint_eq(producer_fake_parts(rig.producers[1]), 0);
    ck_assert_uint_eq(rig_stats(&rig, 0).digest, rig_digest(&rig, 0, 1, 0));
    rig_close(&rig);
    free(other.scratch);
}
END_TEST

/* ---- a host and index twice ---- */

/* Says HELLO from 127.0.0.2, as another instance of a producer, and reads the answer. */
static void knock_as(const struct producer_fake_options *options, struct msg *answer)
{
    struct msg msg = {.type = MSG_HELLO,
                      .hello = {.job = options->job,
                                .instance = options->instance + 1,
                                .fingerprint = options->fingerprint,
                                .capacity_bytes = UINT64_MAX,
                                .stream_count = options->stream_count}};
    snprintf(msg.hello.host, sizeof(msg.hello.host), "%s", options->host);
    for (uint32_t i = 0; i < options->stream_count; i++) {
        msg.hello.streams[i].samples = options->streams[i].plan->samples;
        msg.hello.streams[i].digest = options->digest;
    }
    void *context = zmq_ctx_new();
    void *dealer = zmq_socket(context, ZMQ_DEALER);
    const int wait_ms = 60000;
    ck_assert_int_eq(zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &wait_ms, sizeof(wait_ms)), 0);
    char endpoint[64];
    snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.2:0;127.0.0.1:%u", options->port);
    ck_assert_int_eq(zmq_connect(dealer, endpoint), 0);
    uint8_t bytes[MSG_BYTES_MAX];
    const size_t count = msg_encode(&msg, bytes);
    ck_assert_int_eq(zmq_send(dealer, bytes, count, 0), (int)count);
    const int got = zmq_recv(dealer, bytes, sizeof(bytes), 0);
    ck_assert_msg(got > 0, "no answer: %s", zmq_strerror(zmq_errno()));
    struct err err = {0};
    ck_assert_msg(msg_decode(bytes, (size_t)got, answer, &err) == OK, "%s", err.message);
    zmq_close(dealer);
    zmq_ctx_term(context);
}

START_TEST(another_instance_is_told_of_both_addresses)
{
    struct rig rig;
    rig_init(&rig);
    rig_open(&rig, 1);
    rig_start_good(&rig, 0);
    rig_learn(&rig);
    rig_begin(&rig, 0, 0, 0, 1);
    rig_consume(&rig, 0, 0, 0, 4, 0); /* it has a session */
    const struct producer_fake_options options = rig_good(&rig, 0);
    struct msg answer;
    knock_as(&options, &answer);
    ck_assert_int_eq(answer.type, MSG_REJECT);
    ck_assert_uint_eq(answer.reject.code, REJECT_DUPLICATE);
    char first[64], second[64];
    snprintf(first, sizeof(first), "%016llx at 127.0.0.1, was heard",
             (unsigned long long)options.instance);
    snprintf(second, sizeof(second), "this one is %016llx at 127.0.0.2",
             (unsigned long long)options.instance + 1);
    ck_assert_msg(strstr(answer.reject.text, first) != NULL, "%s", answer.reject.text);
    ck_assert_msg(strstr(answer.reject.text, second) != NULL, "%s", answer.reject.text);
    rig_consume(&rig, 0, 0, 4, rig.plans[0].steps - 4, 0);
    rig_close(&rig);
}
END_TEST

/* ---- too few ---- */

START_TEST(no_producer_at_all_is_a_time_out)
{
    struct rig rig;
    rig_init(&rig);
    rig.config.join_timeout_s = 0.3;
    rig_open(&rig, 1);
    struct err err = {0};
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_TIMEOUT);
    rig_close(&rig);
}
END_TEST

START_TEST(fewer_samples_than_a_batch_are_an_error)
{
    struct rig rig;
    rig_init(&rig);
    rig_plan(&rig, RIG_ROWS - 1);
    rig_open(&rig, 1);
    rig_start_good(&rig, 0);
    struct err err = {0};
    ck_assert_int_eq(feed_stream_info(rig.feed, "train", &rig.info[0], &err), ERR_DATA);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed_faults");
    TCase *tc = tcase_create("feed_faults");
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, bad_parts_are_never_lent, 0, 3);
    tcase_add_loop_test(tc, producers_that_die_hang_or_babble_lose_nothing, 0, 3);
    tcase_add_test(tc, a_restarted_producer_goes_on);
    tcase_add_test(tc, without_producers_the_job_starves);
    tcase_add_test(tc, a_nack_for_the_bad_budget_ends_the_job);
    tcase_add_test(tc, substitutes_are_counted_once_an_epoch_within_the_budget);
    tcase_add_test(tc, more_bad_samples_than_the_budget_end_the_job);
    tcase_add_test(tc, producers_with_different_data_are_turned_away_and_both_named);
    tcase_add_test(tc, data_that_come_to_agree_begin_the_job);
    tcase_add_test(tc, a_late_producer_with_other_data_is_turned_away_and_the_job_goes_on);
    tcase_add_test(tc, another_instance_is_told_of_both_addresses);
    tcase_add_test(tc, no_producer_at_all_is_a_time_out);
    tcase_add_test(tc, fewer_samples_than_a_batch_are_an_error);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
