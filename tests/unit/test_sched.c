/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directed cases of the scheduler: one rule each, by hand. That the rules together hold under every
 * mixture of faults is shown by the simulator (tests/sim) and the model (tests/model).
 */
#include "consumer/sched.h"

#include <stdlib.h>
#include <string.h>

#include "support/suite.h"

enum { JOB = 7, PRINT = 9, PARTS = 4, PART = 100, BATCH = 350, SLOTS = 3, STEPS = 5, LOG = 256 };
static const int64_t MS = 1000000;

static const struct layout LAYOUT = {.bytes = BATCH, .part_bytes = PART, .part_count = PARTS};

/* A scheduler, the time, and what it has said since the last call of forget(). */
static struct {
    struct sched_options options;
    struct sched *sched;
    void *memory;
    int64_t now;
    uint64_t fresh;
    uint32_t count;
    struct sched_action log[LOG];
} t;

static void drain(void)
{
    while (sched_next_action(t.sched, t.now, &t.log[t.count])) {
        t.count++;
        ck_assert_uint_lt(t.count, LOG);
    }
}

static void forget(void)
{
    t.count = 0;
}

static void begin(void)
{
    const size_t bytes = (sched_bytes(&t.options) + 63) / 64 * 64;
    t.memory = aligned_alloc(64, bytes);
    ck_assert_ptr_nonnull(t.memory);
    t.sched = sched_init(t.memory, &t.options, t.now);
}

static void setup(void)
{
    memset(&t, 0, sizeof(t));
    t.now = 1000 * MS;
    t.fresh = 100;
    t.options = (struct sched_options){
        .job = JOB,
        .fingerprint = PRINT,
        .stream_count = 1,
        .streams[0] = {.name = "train", .layout = &LAYOUT, .slots = SLOTS},
        .sessions_max = 4,
        .session_bytes_max = 2 * BATCH,
        .lease_min_ns = 500 * MS,
        .ping_interval_ns = 250 * MS,
        .peer_timeout_ns = 2000 * MS,
        .starve_timeout_ns = 20000 * MS,
    };
    begin();
}

static void teardown(void)
{
    free(t.memory);
}

static void open_stream(void)
{
    const struct sched_data_set data = {.samples = 50, .digest = 11, .steps_per_epoch = STEPS};
    sched_fix_stream(t.sched, 0, &data, t.now);
    sched_open(t.sched, 0, 0, 2 * (uint64_t)STEPS, t.now);
    drain();
}

static struct msg hello(const char *host, uint64_t instance, uint32_t attempt)
{
    struct msg msg = {.type = MSG_HELLO,
                      .hello = {.job = JOB,
                                .instance = instance,
                                .attempt = attempt,
                                .fingerprint = PRINT,
                                .capacity_bytes = 100 * BATCH,
                                .stream_count = 1,
                                .streams[0] = {.samples = 50, .digest = 11}}};
    strncpy(msg.hello.host, host, HOST_BYTES_MAX - 1);
    return msg;
}

static void send(uint64_t peer, const struct msg *msg)
{
    sched_on_message(t.sched, peer, msg, t.fresh++, t.now);
    drain();
}

/* The n-th message of a type in the log, from 0, or NULL. */
static const struct sched_action *sent(enum msg_type type, uint32_t n)
{
    for (uint32_t i = 0; i < t.count; i++) {
        if (t.log[i].kind == SCHED_SEND && t.log[i].msg.type == type && n-- == 0) {
            return &t.log[i];
        }
    }
    return NULL;
}

static const struct sched_action *said(enum sched_action_kind kind)
{
    for (uint32_t i = 0; i < t.count; i++) {
        if (t.log[i].kind == kind) {
            return &t.log[i];
        }
    }
    return NULL;
}

/* A producer joins from a peer; returns its session. */
static uint64_t join(uint64_t peer, const char *host)
{
    const struct msg msg = hello(host, peer * 1000, 1);
    const uint64_t session = t.fresh;
    send(peer, &msg);
    ck_assert_ptr_nonnull(sent(MSG_WELCOME, 0));
    return session;
}

static struct msg control(enum msg_type type, uint64_t session)
{
    return (struct msg){.type = type, .session = session};
}

/* Delivers one part of a granted lease. Returns whether it was wanted. */
static bool deliver(const struct sched_action *grant, uint32_t part, bool good)
{
    const struct msg_grant *g = &grant->msg.grant;
    const struct msg msg = {.type = MSG_DATA,
                            .session = grant->session,
                            .data = {.lease = g->lease,
                                     .stream = g->stream,
                                     .epoch = g->epoch,
                                     .step = g->step,
                                     .part = part,
                                     .part_count = PARTS,
                                     .offset = layout_part_offset(&LAYOUT, part),
                                     .length = layout_part_length(&LAYOUT, part)}};
    struct sched_place place;
    const bool wanted = sched_on_data(t.sched, grant->peer, &msg, t.now, &place);
    if (wanted) {
        ck_assert_uint_eq(place.slot, place.gstep % SLOTS);
        ck_assert_uint_eq(place.offset, msg.data.offset);
        sched_on_written(t.sched, grant->peer, &msg, good, t.now);
    }
    drain();
    return wanted;
}

static struct sched_stats stats(void)
{
    struct sched_stats s;
    sched_stats(t.sched, &s);
    return s;
}

START_TEST(grants_fill_the_window_and_steps_come_in_order)
{
    open_stream();
    join(1, "algo-1");
    join(2, "algo-2");
    ck_assert_ptr_nonnull(sent(MSG_GRANT, 2));
    ck_assert_ptr_null(sent(MSG_GRANT, 3));
    const struct sched_action first = *sent(MSG_GRANT, 0);
    const struct sched_action second = *sent(MSG_GRANT, 1);
    ck_assert_uint_eq(first.msg.grant.step, 0);
    ck_assert_uint_eq(second.msg.grant.step, 1);
    ck_assert_uint_eq(second.msg.grant.due, 1);
    ck_assert_uint_eq(stats().in_flight_bytes, 3 * BATCH);
    for (uint32_t part = 0; part < PARTS; part++) {
        ck_assert(deliver(&second, part, true));
    }
    ck_assert_ptr_null(said(SCHED_COMPLETE));
    for (uint32_t part = PARTS; part-- > 0;) {
        ck_assert(deliver(&first, part, true));
    }
    ck_assert_ptr_nonnull(said(SCHED_COMPLETE));
    ck_assert_uint_eq(said(SCHED_COMPLETE)->gstep, 0);
    ck_assert_uint_eq(stats().in_flight_bytes, BATCH);
    forget();
    sched_consumed(t.sched, 0, t.now);
    drain();
    ck_assert_ptr_nonnull(sent(MSG_GRANT, 0));
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.step, 3);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.due, 3);
}
END_TEST

START_TEST(expiry_does_not_credit_and_asks_elsewhere_for_what_is_missing)
{
    open_stream();
    const uint64_t one = join(1, "algo-1");
    const struct sched_action grant = *sent(MSG_GRANT, 0);
    ck_assert(deliver(&grant, 0, true));
    ck_assert(deliver(&grant, 2, true));
    ck_assert(deliver(&grant, 3, true));
    ck_assert_uint_eq(stats().in_flight_bytes, BATCH + PART);
    forget();
    t.now += 600 * MS;
    sched_on_time(t.sched, t.now);
    drain();
    ck_assert_uint_eq(stats().expiries, 2);
    ck_assert_uint_eq(stats().in_flight_bytes, BATCH + 2 * PART);
    ck_assert_ptr_nonnull(sent(MSG_CANCEL, 1));
    ck_assert_uint_eq(sent(MSG_CANCEL, 0)->session, one);
    /* Its account has room left for the missing part only. */
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.first_part, 1);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.part_count, 1);
    ck_assert_ptr_null(sent(MSG_GRANT, 1));
    forget();
    join(2, "algo-2");
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.step, 1);
    /* Parts of the expired lease are taken all the same. */
    ck_assert(deliver(&grant, 1, true));
    ck_assert(!deliver(&grant, 1, true));
}
END_TEST

START_TEST(a_bad_part_cancels_its_lease_and_is_made_again)
{
    open_stream();
    join(1, "algo-1");
    const struct sched_action grant = *sent(MSG_GRANT, 0);
    forget();
    ck_assert(deliver(&grant, 1, false));
    ck_assert_ptr_nonnull(sent(MSG_CANCEL, 0));
    ck_assert_uint_eq(stats().parts_bad, 1);
    ck_assert(deliver(&grant, 0, true));
    struct msg back = control(MSG_RETURN, grant.session);
    back.lease.lease = grant.msg.grant.lease;
    forget();
    send(1, &back);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.step, 0);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.first_part, 1);
}
END_TEST

START_TEST(a_repeated_hello_gets_the_same_session)
{
    const uint64_t session = join(1, "algo-1");
    forget();
    const struct msg again = hello("algo-1", 1000, 1);
    send(1, &again);
    ck_assert_uint_eq(sent(MSG_WELCOME, 0)->session, session);
    ck_assert_uint_eq(stats().sessions_begun, 1);
    sched_on_disconnect(t.sched, 1, t.now);
    forget();
    send(1, &again);
    ck_assert_uint_eq(sent(MSG_WELCOME, 0)->session, session);
    ck_assert_uint_eq(stats().sessions_live, 0);
}
END_TEST

START_TEST(an_unknown_session_is_told_so_by_name)
{
    const uint64_t session = join(1, "algo-1");
    const struct msg ping = control(MSG_PING, session);
    forget();
    send(1, &ping);
    ck_assert_ptr_nonnull(sent(MSG_PONG, 0));
    ck_assert_ptr_null(sent(MSG_REJECT, 0));
    send(2, &ping);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->peer, 2);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->msg.reject.refused, session);
}
END_TEST

START_TEST(another_data_set_is_turned_away)
{
    join(1, "algo-1");
    struct msg other = hello("algo-2", 5, 1);
    other.hello.streams[0].digest = 12;
    const uint64_t session = t.fresh;
    send(2, &other);
    ck_assert_uint_eq(stats().sessions_live, 2);
    forget();
    open_stream();
    ck_assert_uint_eq(stats().sessions_live, 1);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->msg.reject.code, REJECT_DATA);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->msg.reject.refused, session);
    forget();
    other.hello.attempt = 2;
    send(2, &other);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->msg.reject.code, REJECT_DATA);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->msg.reject.attempt, 2);
}
END_TEST

START_TEST(starving_ends_the_job_and_says_who_was_seen)
{
    open_stream();
    join(1, "algo-1");
    t.now += 3000 * MS;
    sched_on_time(t.sched, t.now);
    drain();
    ck_assert_uint_eq(stats().sessions_live, 0);
    ck_assert_ptr_null(said(SCHED_FAIL));
    t.now += 18000 * MS;
    ck_assert_int_le(sched_deadline(t.sched), t.now);
    sched_on_time(t.sched, t.now);
    drain();
    ck_assert_ptr_nonnull(said(SCHED_FAIL));
    ck_assert_int_eq(said(SCHED_FAIL)->status, ERR_PEER_GONE);
    ck_assert_ptr_nonnull(strstr(said(SCHED_FAIL)->text, "algo-1/0 21 s ago"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sched");
    TCase *tc = tcase_create("sched");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, grants_fill_the_window_and_steps_come_in_order);
    tcase_add_test(tc, expiry_does_not_credit_and_asks_elsewhere_for_what_is_missing);
    tcase_add_test(tc, a_bad_part_cancels_its_lease_and_is_made_again);
    tcase_add_test(tc, a_repeated_hello_gets_the_same_session);
    tcase_add_test(tc, an_unknown_session_is_told_so_by_name);
    tcase_add_test(tc, another_data_set_is_turned_away);
    tcase_add_test(tc, starving_ends_the_job_and_says_who_was_seen);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
