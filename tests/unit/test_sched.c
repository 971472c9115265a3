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
                                .streams[0] = {.samples = 50, .digest = 11, .buckets[3] = 33}}};
    strncpy(msg.hello.host, host, HOST_BYTES_MAX - 1);
    return msg;
}

static void send(uint64_t peer, const struct msg *msg)
{
    if (msg->type == MSG_HELLO) {
        char address[ADDR_BYTES_MAX];
        (void)snprintf(address, sizeof(address), "10.0.0.%u", (unsigned)peer);
        const struct sched_hello given = {
            .peer = peer, .address = address, .msg = &msg->hello, .fresh = t.fresh++};
        sched_on_hello(t.sched, &given, t.now);
    } else {
        sched_on_message(t.sched, peer, msg, t.now);
    }
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

/* The buckets are those of the first producer with the right data: not known before, and not those
 * of the one that is turned away. */
START_TEST(another_data_set_is_answered_with_the_right_buckets)
{
    open_stream();
    struct msg other = hello("algo-2", 5, 1);
    other.hello.streams[0].digest = 12;
    other.hello.streams[0].buckets[3] = 34;
    send(2, &other);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->msg.reject.code, REJECT_DATA);
    ck_assert_uint_eq(sent(MSG_REJECT, 0)->msg.reject.bucket_count, 0);
    join(1, "algo-1");
    forget();
    send(2, &other);
    const struct msg_reject *reject = &sent(MSG_REJECT, 0)->msg.reject;
    ck_assert_uint_eq(reject->code, REJECT_DATA);
    ck_assert_uint_eq(reject->stream, 0);
    ck_assert_uint_eq(reject->bucket_count, INDEX_BUCKETS);
    ck_assert_uint_eq(reject->buckets[3], 33);
    ck_assert_uint_eq(reject->buckets[4], 0);
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

static void tick(int64_t ms)
{
    t.now += ms * MS;
    sched_on_time(t.sched, t.now);
    drain();
}

static void give_back(enum msg_type type, const struct sched_action *grant, uint32_t nack_code)
{
    struct msg msg = control(type, grant->session);
    if (type == MSG_NACK) {
        msg.nack = (struct msg_nack){.lease = grant->msg.grant.lease, .code = nack_code};
        (void)snprintf(msg.nack.text, sizeof(msg.nack.text), "no such disk");
    } else {
        msg.lease.lease = grant->msg.grant.lease;
    }
    send(grant->peer, &msg);
}

static uint32_t rejected(const struct msg *msg)
{
    forget();
    send(9, msg);
    const struct sched_action *reject = sent(MSG_REJECT, 0);
    ck_assert_ptr_nonnull(reject);
    ck_assert_ptr_null(sent(MSG_WELCOME, 0));
    ck_assert_uint_eq(reject->msg.reject.refused, 0);
    ck_assert_uint_eq(reject->msg.reject.instance, msg->hello.instance);
    ck_assert_uint_ne(reject->msg.reject.text[0], 0);
    return reject->msg.reject.code;
}

START_TEST(a_hello_that_does_not_fit_is_turned_away)
{
    struct msg msg = hello("algo-1", 1, 1);
    msg.hello.job++;
    ck_assert_uint_eq(rejected(&msg), REJECT_JOB);
    msg = hello("algo-1", 1, 1);
    msg.hello.fingerprint++;
    ck_assert_uint_eq(rejected(&msg), REJECT_FINGERPRINT);
    msg = hello("algo-1", 1, 1);
    msg.hello.stream_count = 2;
    ck_assert_uint_eq(rejected(&msg), REJECT_DATA);
    msg = hello("algo-1", 1, 1);
    msg.hello.capacity_bytes = BATCH - 1;
    ck_assert_uint_eq(rejected(&msg), REJECT_FULL);
    for (uint32_t peer = 1; peer <= 4; peer++) {
        char host[] = "algo-0";
        host[5] = (char)('0' + peer);
        join(peer, host);
    }
    msg = hello("algo-7", 1, 1);
    ck_assert_uint_eq(rejected(&msg), REJECT_FULL);
}
END_TEST

START_TEST(attempts_go_up_and_instances_wait_for_each_other)
{
    join(1, "algo-1");
    const struct msg third = hello("algo-1", 1000, 3);
    const uint64_t session = t.fresh;
    forget();
    send(2, &third);
    ck_assert_uint_eq(sent(MSG_WELCOME, 0)->session, session);
    ck_assert_uint_eq(sent(MSG_WELCOME, 0)->msg.welcome.attempt, 3);
    ck_assert_uint_eq(stats().sessions_live, 1);
    /* Read late, from the connection before: a newer attempt has been answered. */
    const struct msg second = hello("algo-1", 1000, 2);
    forget();
    send(1, &second);
    ck_assert_uint_eq(t.count, 0);
    /* Said again by the old connection: the session stays where it is. */
    send(1, &third);
    ck_assert_uint_eq(sent(MSG_WELCOME, 0)->peer, 1);
    ck_assert_uint_eq(sent(MSG_WELCOME, 0)->session, session);
    const struct msg ping = control(MSG_PING, session);
    forget();
    send(2, &ping);
    ck_assert_ptr_nonnull(sent(MSG_PONG, 0));
    /* Another process for the same place has to wait until this one is silent. */
    const struct msg other = hello("algo-1", 77, 1);
    ck_assert_uint_eq(rejected(&other), REJECT_DUPLICATE);
    const char *text = sent(MSG_REJECT, 0)->msg.reject.text;
    ck_assert_ptr_nonnull(strstr(text, "00000000000003e8 at 10.0.0.2, was heard 0 ms ago"));
    ck_assert_ptr_nonnull(strstr(text, "this one is 000000000000004d at 10.0.0.9"));
    tick(2000);
    forget();
    send(9, &other);
    ck_assert_ptr_nonnull(sent(MSG_WELCOME, 0));
}
END_TEST

START_TEST(both_sides_ping_and_silence_ends_a_session)
{
    const uint64_t session = join(1, "algo-1");
    ck_assert_int_eq(sched_deadline(t.sched), t.now + 250 * MS);
    forget();
    tick(250);
    ck_assert_uint_eq(sent(MSG_PING, 0)->session, session);
    const struct msg pong = control(MSG_PONG, session);
    send(1, &pong);
    for (int i = 0; i < 7; i++) {
        tick(250);
    }
    ck_assert_uint_eq(stats().sessions_live, 1);
    tick(250);
    ck_assert_uint_eq(stats().sessions_live, 0);
    ck_assert_uint_eq(said(SCHED_SESSION_ENDED)->session, session);
}
END_TEST

START_TEST(what_is_garbage_ends_the_session)
{
    open_stream();
    join(1, "algo-1");
    struct sched_action grant = *sent(MSG_GRANT, 0);
    grant.msg.grant.lease = 50;
    ck_assert(!deliver(&grant, 0, true));
    ck_assert_uint_eq(stats().sessions_live, 1);
    grant = *sent(MSG_GRANT, 0);
    grant.msg.grant.step = 2;
    ck_assert(!deliver(&grant, 0, true));
    ck_assert_uint_eq(stats().sessions_live, 0);
    ck_assert_uint_eq(stats().in_flight_bytes, 0);
    const uint64_t session = join(2, "algo-2");
    const struct msg grant_from_producer = control(MSG_GRANT, session);
    send(2, &grant_from_producer);
    ck_assert_uint_eq(stats().sessions_live, 0);
    join(3, "algo-3");
    sched_on_garbage(t.sched, 3, t.now);
    ck_assert_uint_eq(stats().sessions_live, 0);
}
END_TEST

START_TEST(a_refusal_goes_elsewhere_and_ends_the_job_only_when_all_refuse)
{
    open_stream();
    join(1, "algo-1");
    for (int i = 0; i < 40 && said(SCHED_FAIL) == NULL; i++) {
        const struct sched_action *grant = sent(MSG_GRANT, 0);
        ck_assert_ptr_nonnull(grant);
        const struct sched_action first = *grant;
        forget();
        give_back(MSG_NACK, &first, NACK_IO);
        tick(250);
        const struct msg pong = control(MSG_PONG, first.session);
        send(1, &pong);
    }
    ck_assert_ptr_nonnull(said(SCHED_FAIL));
    ck_assert_int_eq(said(SCHED_FAIL)->status, ERR_IO);
    ck_assert_ptr_nonnull(strstr(said(SCHED_FAIL)->text, "no such disk"));
}
END_TEST

START_TEST(an_exhausted_budget_of_bad_samples_ends_the_job)
{
    open_stream();
    join(1, "algo-1");
    const struct sched_action grant = *sent(MSG_GRANT, 0);
    give_back(MSG_NACK, &grant, NACK_BAD_BUDGET);
    ck_assert_int_eq(said(SCHED_FAIL)->status, ERR_DATA);
    forget();
    tick(250);
    ck_assert_ptr_null(sent(MSG_GRANT, 0));
    ck_assert_ptr_null(said(SCHED_FAIL));
}
END_TEST

START_TEST(who_leaves_finishes_what_it_has)
{
    open_stream();
    const uint64_t session = join(1, "algo-1");
    const struct sched_action grant = *sent(MSG_GRANT, 0);
    const struct sched_action later = *sent(MSG_GRANT, 1);
    const struct msg leave = control(MSG_LEAVE, session);
    forget();
    send(1, &leave);
    for (uint32_t part = 0; part < PARTS; part++) {
        ck_assert(deliver(&grant, part, true));
    }
    give_back(MSG_RETURN, &later, 0);
    ck_assert_ptr_null(sent(MSG_GRANT, 0));
    ck_assert_uint_eq(stats().in_flight_bytes, 0);
    const struct msg bye = control(MSG_BYE, session);
    send(1, &bye);
    ck_assert_uint_eq(stats().sessions_live, 0);
    join(2, "algo-2");
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.step, 1);
}
END_TEST

START_TEST(the_end_is_done_and_bye)
{
    const uint64_t session = join(1, "algo-1");
    open_stream();
    forget();
    sched_finish(t.sched, t.now);
    drain();
    ck_assert_uint_eq(sent(MSG_DONE, 0)->session, session);
    ck_assert(!sched_finished(t.sched));
    forget();
    tick(250);
    ck_assert_ptr_nonnull(sent(MSG_DONE, 0));
    const struct msg bye = control(MSG_BYE, session);
    send(1, &bye);
    ck_assert(sched_finished(t.sched));
    /* One that comes now is told at once. */
    forget();
    join(2, "algo-2");
    ck_assert_ptr_nonnull(sent(MSG_DONE, 0));
    ck_assert_ptr_null(sent(MSG_GRANT, 0));
}
END_TEST

START_TEST(what_cannot_be_sent_was_never_said)
{
    open_stream();
    const uint64_t session = t.fresh;
    const struct msg first = hello("algo-1", 1000, 1);
    send(1, &first);
    const struct sched_action grant = *sent(MSG_GRANT, 0);
    const struct sched_action welcome = *sent(MSG_WELCOME, 0);
    ck_assert_uint_eq(stats().in_flight_bytes, 2 * BATCH);
    forget();
    sched_on_send_failed(t.sched, 1, &grant.msg, t.now);
    drain();
    ck_assert_uint_eq(stats().in_flight_bytes, BATCH);
    ck_assert_ptr_null(sent(MSG_GRANT, 0));
    tick(250);
    ck_assert_ptr_nonnull(sent(MSG_GRANT, 0));
    /* Without its WELCOME a session does not exist, and the same HELLO begins another. */
    sched_on_send_failed(t.sched, 1, &welcome.msg, t.now);
    ck_assert_uint_eq(stats().sessions_live, 0);
    forget();
    send(1, &first);
    ck_assert_uint_ne(sent(MSG_WELCOME, 0)->session, session);
    ck_assert_uint_eq(stats().sessions_live, 1);
}
END_TEST

START_TEST(opening_a_stream_anew_forgets_what_was_open)
{
    open_stream();
    join(1, "algo-1");
    const struct sched_action grant = *sent(MSG_GRANT, 0);
    ck_assert(deliver(&grant, 0, true));
    forget();
    sched_open(t.sched, 0, 7, 9, t.now);
    drain();
    ck_assert_ptr_nonnull(sent(MSG_CANCEL, 1));
    ck_assert_ptr_null(sent(MSG_GRANT, 0)); /* no room: the old leases still weigh */
    ck_assert(!deliver(&grant, 1, true));
    give_back(MSG_RETURN, &grant, 0);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.epoch, 1);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.step, 2);
}
END_TEST

START_TEST(a_late_step_is_hedged)
{
    teardown();
    t.options.hedge = true;
    t.options.session_bytes_max = 8 * BATCH;
    begin();
    join(1, "algo-1");
    join(2, "algo-2");
    open_stream();
    const struct sched_action stuck = *sent(MSG_GRANT, 0);
    struct sched_action quick = *sent(MSG_GRANT, 1);
    quick = quick.peer == stuck.peer ? *sent(MSG_GRANT, 2) : quick;
    ck_assert_uint_ne(quick.peer, stuck.peer);
    t.now += 10 * MS;
    for (uint32_t part = 0; part < PARTS; part++) {
        ck_assert(deliver(&quick, part, true));
    }
    forget();
    ck_assert_int_le(sched_deadline(t.sched), t.now + 10 * MS);
    tick(10);
    ck_assert_uint_eq(stats().hedges, 1);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->msg.grant.step, 0);
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->peer, quick.peer);
    ck_assert_ptr_null(sent(MSG_CANCEL, 0));
    const struct sched_action second = *sent(MSG_GRANT, 0);
    for (uint32_t part = 0; part < PARTS; part++) {
        ck_assert(deliver(&second, part, true));
    }
    ck_assert_uint_eq(sent(MSG_CANCEL, 0)->session, stuck.session);
}
END_TEST

START_TEST(the_local_producer_and_then_the_faster_one_is_preferred)
{
    teardown();
    t.options.local_host = "algo-2";
    t.options.session_bytes_max = 8 * BATCH;
    begin();
    join(1, "algo-1");
    join(2, "algo-2");
    open_stream();
    const struct sched_action local = *sent(MSG_GRANT, 0);
    const struct sched_action other = *sent(MSG_GRANT, 1);
    ck_assert_uint_eq(local.peer, 2);
    ck_assert_uint_eq(other.peer, 1);
    for (uint32_t part = 0; part < PARTS; part++) {
        t.now += MS;
        ck_assert(deliver(&other, part, true));
    }
    for (uint32_t part = 0; part < PARTS; part++) {
        t.now += 100 * MS;
        ck_assert(deliver(&local, part, true));
    }
    forget();
    sched_consumed(t.sched, 0, t.now);
    drain();
    ck_assert_uint_eq(sent(MSG_GRANT, 0)->peer, 1);
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
    tcase_add_test(tc, another_data_set_is_answered_with_the_right_buckets);
    tcase_add_test(tc, starving_ends_the_job_and_says_who_was_seen);
    tcase_add_test(tc, a_hello_that_does_not_fit_is_turned_away);
    tcase_add_test(tc, attempts_go_up_and_instances_wait_for_each_other);
    tcase_add_test(tc, both_sides_ping_and_silence_ends_a_session);
    tcase_add_test(tc, what_is_garbage_ends_the_session);
    tcase_add_test(tc, a_refusal_goes_elsewhere_and_ends_the_job_only_when_all_refuse);
    tcase_add_test(tc, an_exhausted_budget_of_bad_samples_ends_the_job);
    tcase_add_test(tc, who_leaves_finishes_what_it_has);
    tcase_add_test(tc, the_end_is_done_and_bye);
    tcase_add_test(tc, what_cannot_be_sent_was_never_said);
    tcase_add_test(tc, opening_a_stream_anew_forgets_what_was_open);
    tcase_add_test(tc, a_late_step_is_hedged);
    tcase_add_test(tc, the_local_producer_and_then_the_faster_one_is_preferred);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
