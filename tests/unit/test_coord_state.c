/* SPDX-License-Identifier: Apache-2.0 */
#include "common/coord_state.h"

#include "common/clock.h"
#include "support/coord_fixture.h"
#include "support/random_coord_msg.h"
#include "support/suite.h"

enum { SENT_MAX = 4096 };

/* One server, and all that it has sent. A member's instance and peer are the same small number. */
struct world {
    struct config config;
    struct cluster cluster;
    struct cluster_host hosts[4];
    struct coord_state *state;
    int64_t now_ns;
    uint64_t number;
    uint32_t sent_count;
    struct {
        uint64_t peer;
        struct coord_msg msg;
    } * sent;
};

static struct world *world;

static void keep(void *context, uint64_t peer, const struct coord_msg *msg)
{
    ck_assert_uint_lt(world->sent_count, SENT_MAX);
    world->sent[world->sent_count].peer = peer;
    world->sent[world->sent_count++].msg = *msg;
}

static void ignore(void *context, const char *text)
{
}

static void begin(void)
{
    struct err err;
    const struct coord_state_options options = {.config = &world->config,
                                                .cluster = &world->cluster,
                                                .job = 99,
                                                .now_ns = world->now_ns,
                                                .send = keep,
                                                .note = ignore};
    coord_state_free(&world->state);
    ck_assert_int_eq(coord_state_new(&options, &world->state, &err), OK);
}

static void setup(void)
{
    world = calloc(1, sizeof(*world));
    world->sent = calloc(SENT_MAX, sizeof(*world->sent));
    fixture_config(&world->config);
    fixture_cluster(&world->cluster, world->hosts);
    world->now_ns = NS_PER_S;
    begin();
}

static void teardown(void)
{
    coord_state_free(&world->state);
    free(world->sent);
    free(world);
}

static void receive(uint64_t member, const struct coord_msg *msg)
{
    struct coord_msg copy = *msg;
    copy.member = member;
    coord_state_receive(world->state, world->now_ns, member, &copy);
}

/* The newest message of a type to a member; NULL: none. */
static const struct coord_msg *last_sent(uint64_t member, enum coord_msg_type type)
{
    for (uint32_t i = world->sent_count; i-- > 0;) {
        if (world->sent[i].peer == member && world->sent[i].msg.type == type) {
            return &world->sent[i].msg;
        }
    }
    return NULL;
}

static const struct coord_log_entry *last_event(uint64_t member, enum coord_log_kind kind)
{
    for (uint32_t i = world->sent_count; i-- > 0;) {
        if (world->sent[i].peer == member && world->sent[i].msg.type == COORD_MSG_EVENT &&
            world->sent[i].msg.event.entry.kind == kind) {
            return &world->sent[i].msg.event.entry;
        }
    }
    return NULL;
}

static struct coord_msg join_message(enum coord_member_kind kind, const char *host)
{
    struct coord_msg msg = {.type = COORD_MSG_JOIN};
    msg.join.kind = kind;
    snprintf(msg.join.host, sizeof(msg.join.host), "%s", host);
    snprintf(msg.join.address, sizeof(msg.join.address), "127.0.0.1");
    msg.join.config_digest = kind == COORD_PRODUCER ? 0 : config_digest(&world->config);
    return msg;
}

static void join_agent(uint64_t member, const char *host, uint32_t ranks)
{
    struct coord_msg msg = join_message(COORD_AGENT, host);
    msg.join.local_ranks = ranks;
    receive(member, &msg);
}

static void join_rank(uint64_t member, const char *host, uint32_t local_rank)
{
    struct coord_msg msg = join_message(COORD_RANK, host);
    msg.join.local_rank = local_rank;
    msg.join.port = (uint16_t)(1000 + member);
    msg.join.ring_port = (uint16_t)(2000 + member);
    receive(member, &msg);
}

static uint64_t ask(uint64_t member, struct coord_msg_request request)
{
    struct coord_msg msg = {.type = COORD_MSG_REQUEST, .request = request};
    if (msg.request.number == 0) {
        msg.request.number = ++world->number;
    }
    receive(member, &msg);
    return msg.request.number;
}

static uint64_t ask_key(uint64_t member, enum coord_request_kind kind, const char *key,
                        uint64_t value, uint32_t count)
{
    struct coord_msg_request request = {.kind = kind, .value = value, .count = count};
    snprintf(request.key, sizeof(request.key), "%s", key);
    return ask(member, request);
}

static void notice(uint64_t member, enum coord_request_kind kind, uint32_t count, const char *text)
{
    struct coord_msg_request request = {.kind = kind, .count = count};
    request.bytes_count = (uint32_t)strlen(text);
    memcpy(request.bytes, text, request.bytes_count);
    ask(member, request);
}

static void ping(uint64_t member, uint64_t begun, bool promised, uint32_t seen)
{
    const struct coord_msg msg = {.type = COORD_MSG_PING,
                                  .ping = {.seen = seen, .promised = promised, .begun = begun}};
    receive(member, &msg);
}

/* Agents 1 to 4 in the cluster's order; ranks 21, 22 on algo-2 and 41, 42 on algo-10. */
static void join_everybody(void)
{
    join_agent(1, "algo-1", 0);
    join_agent(2, "algo-2", 2);
    join_agent(3, "algo-3", 0);
    join_agent(4, "algo-10", 2);
    join_rank(42, "algo-10", 1);
    join_rank(41, "algo-10", 0);
    join_rank(22, "algo-2", 1);
    join_rank(21, "algo-2", 0);
}

static void expect_fail(uint64_t member, int code, const char *part)
{
    const struct coord_log_entry *entry = last_event(member, COORD_LOG_FAIL);
    ck_assert_msg(entry != NULL, "no FAIL for member %u", (unsigned)member);
    ck_assert_int_eq((int)entry->code, code);
    ck_assert_msg(strstr(entry->text, part) != NULL, "\"%s\" lacks \"%s\"", entry->text, part);
    ck_assert(coord_state_over(world->state));
}

static void tick_after(double seconds)
{
    world->now_ns += (int64_t)(seconds * (double)NS_PER_S);
    coord_state_tick(world->state, world->now_ns);
}

START_TEST(the_roster_comes_when_all_ranks_are_there_in_natural_order)
{
    join_agent(1, "algo-1", 0);
    const uint64_t number = ask(1, (struct coord_msg_request){.kind = COORD_REQUEST_ROSTER});
    join_agent(2, "algo-2", 2);
    join_agent(4, "algo-10", 2);
    join_rank(42, "algo-10", 1);
    join_rank(41, "algo-10", 0);
    join_rank(22, "algo-2", 1);
    ck_assert_ptr_null(last_sent(1, COORD_MSG_ROSTER));
    join_rank(21, "algo-2", 0);
    const struct coord_msg *msg = last_sent(1, COORD_MSG_ROSTER);
    ck_assert_ptr_nonnull(msg);
    const struct coord_msg_roster *page = &msg->roster;
    ck_assert_uint_eq(page->number, number);
    ck_assert_uint_eq(page->job, 99);
    ck_assert_uint_eq(page->seed, 7);
    ck_assert_uint_eq(page->global_batch, 32);
    ck_assert_uint_eq(page->rank_count, 4);
    static const uint16_t PORTS[] = {1021, 1022, 1041, 1042};
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(page->ranks[i].rank, i);
        ck_assert_uint_eq(page->ranks[i].local_rank, i % 2);
        ck_assert_uint_eq(page->ranks[i].port, PORTS[i]);
        ck_assert_str_eq(page->ranks[i].host, i < 2 ? "algo-2" : "algo-10");
    }
    ck_assert_uint_eq(page->stream_count, 1);
    ck_assert_str_eq(page->streams[0].data, world->config.streams[0].data);
}
END_TEST

START_TEST(a_large_roster_comes_in_pages)
{
    world->config.global_batch = 200;
    begin();
    join_agent(2, "algo-2", 100);
    join_agent(4, "algo-10", 100);
    for (uint32_t i = 0; i < 100; i++) {
        join_rank(200 + i, "algo-2", i);
        join_rank(400 + i, "algo-10", i);
    }
    uint32_t have = 0;
    while (have < 200) {
        ask(2, (struct coord_msg_request){.kind = COORD_REQUEST_ROSTER, .count = have});
        const struct coord_msg_roster *page = &last_sent(2, COORD_MSG_ROSTER)->roster;
        ck_assert_uint_eq(page->first, have);
        ck_assert_uint_eq(page->stream_count, have == 0 ? 1 : 0);
        for (uint32_t i = 0; i < page->count; i++) {
            const uint32_t rank = have + i;
            ck_assert_uint_eq(page->ranks[i].rank, rank);
            ck_assert_uint_eq(page->ranks[i].port, 1000 + (rank < 100 ? 200 : 300) + rank);
        }
        have += page->count;
    }
    ck_assert_uint_eq(have, 200);
}
END_TEST

START_TEST(a_world_size_that_does_not_divide_the_batch_fails_everywhere)
{
    world->config.global_batch = 30;
    begin();
    join_everybody();
    expect_fail(1, EXIT_CONFIG, "global_batch 30 cannot be divided by the world size 4");
    expect_fail(41, EXIT_CONFIG, "global_batch");
}
END_TEST

START_TEST(another_configuration_is_refused_and_fails_the_job)
{
    join_agent(2, "algo-2", 2);
    struct coord_msg msg = join_message(COORD_AGENT, "algo-10");
    msg.join.local_ranks = 2;
    msg.join.config_digest ^= 1;
    receive(4, &msg);
    const struct coord_msg *refuse = last_sent(4, COORD_MSG_REFUSE);
    ck_assert_ptr_nonnull(refuse);
    ck_assert_uint_eq(refuse->refuse.code, COORD_REFUSE_CONFIG);
    ck_assert_ptr_nonnull(strstr(refuse->refuse.text, "algo-2"));
    ck_assert_ptr_nonnull(strstr(refuse->refuse.text, "algo-10"));
    expect_fail(2, EXIT_CONFIG, "configuration differs");
}
END_TEST

START_TEST(who_does_not_fit_the_cluster_is_refused)
{
    join_agent(2, "algo-2", 2);
    static const struct {
        enum coord_member_kind kind;
        const char *host;
        uint32_t ranks, local_rank;
        const char *part;
    } CASES[] = {
        {COORD_AGENT, "algo-7", 1, 0, "algo-7 is not in the cluster file"},
        {COORD_AGENT, "algo-1", 2, 0, "does not train"},
        {COORD_AGENT, "algo-10", 0, 0, "trains"},
        {COORD_AGENT, "algo-2", 2, 0, "another agent of host algo-2 has joined from 127.0.0.1"},
        {COORD_RANK, "algo-1", 0, 0, "announced 0 ranks"},
        {COORD_RANK, "algo-10", 0, 0, "announced 0 ranks"},
        {COORD_RANK, "algo-2", 0, 2, "announced 2 ranks"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct coord_msg msg = join_message(CASES[i].kind, CASES[i].host);
        msg.join.local_ranks = CASES[i].ranks;
        msg.join.local_rank = CASES[i].local_rank;
        receive(50 + i, &msg);
        const struct coord_msg *refuse = last_sent(50 + i, COORD_MSG_REFUSE);
        ck_assert_msg(refuse != NULL, "case %zu is let in", i);
        ck_assert_msg(strstr(refuse->refuse.text, CASES[i].part) != NULL, "case %zu: %s", i,
                      refuse->refuse.text);
    }
    ck_assert_uint_eq(coord_state_member_count(world->state), 1);
    ck_assert(!coord_state_over(world->state));
}
END_TEST

START_TEST(a_producer_with_another_decoder_is_turned_away_alone)
{
    struct coord_msg msg = join_message(COORD_PRODUCER, "elsewhere");
    msg.join.fingerprint = 1;
    receive(11, &msg);
    ck_assert_ptr_nonnull(last_sent(11, COORD_MSG_WELCOME));
    msg.join.fingerprint = 2;
    receive(12, &msg);
    ck_assert_ptr_nonnull(last_sent(12, COORD_MSG_REFUSE));
    msg.join.fingerprint = 1;
    receive(13, &msg);
    ck_assert_ptr_nonnull(last_sent(13, COORD_MSG_WELCOME));
    ck_assert(!coord_state_over(world->state));
}
END_TEST

START_TEST(all_ranks_stop_two_past_the_furthest)
{
    join_everybody();
    notice(1, COORD_REQUEST_STOP, 0, "");
    ck_assert_ptr_nonnull(last_event(21, COORD_LOG_STOP_ASKED));
    ping(21, 10, true, 1);
    ping(22, 11, true, 1);
    ping(41, 12, false, 0); /* has not seen it yet: promises nothing */
    ping(42, 9, true, 1);
    ck_assert_ptr_null(last_event(1, COORD_LOG_STOP_AT));
    ping(41, 13, true, 1);
    ck_assert_uint_eq(last_event(1, COORD_LOG_STOP_AT)->value, 15);
    notice(4, COORD_REQUEST_STOP, 0, ""); /* asked again: settled is settled */
    ping(41, 15, true, 2);
    ck_assert_uint_eq(last_event(42, COORD_LOG_STOP_AT)->value, 15);
}
END_TEST

static void give_up(uint64_t member, uint64_t step)
{
    ask(member, (struct coord_msg_request){.kind = COORD_REQUEST_GIVE_UP, .value = step});
}

START_TEST(a_step_given_up_lowers_the_last_one_once)
{
    join_everybody();
    give_up(21, 3); /* no stop was asked for: a mistake */
    notice(1, COORD_REQUEST_STOP, 0, "");
    for (uint64_t member = 21; member <= 41; member += 20) {
        give_up(member, 3); /* not settled yet */
        ping(member, 10, true, 1);
        ping(member + 1, 10, true, 1);
    }
    ck_assert_uint_eq(last_event(1, COORD_LOG_STOP_AT)->value, 12);
    give_up(1, 9);   /* an agent takes no steps */
    give_up(22, 12); /* would not be taken anyhow */
    ck_assert_uint_eq(last_event(1, COORD_LOG_STOP_AT)->value, 12);
    give_up(41, 9);
    for (uint64_t member = 1; member <= 4; member++) {
        ck_assert_uint_eq(last_event(member, COORD_LOG_STOP_AT)->value, 9);
    }
    ck_assert_uint_eq(last_event(42, COORD_LOG_STOP_AT)->value, 9);
    give_up(21, 8);
    ck_assert_uint_eq(last_event(1, COORD_LOG_STOP_AT)->value, 9);
}
END_TEST

START_TEST(a_stop_before_the_first_step_is_a_stop_at_0)
{
    join_everybody();
    notice(1, COORD_REQUEST_STOP, 0, "");
    for (uint64_t member = 21; member <= 41; member += 20) {
        ping(member, 0, true, 1);
        ping(member + 1, 0, true, 1);
    }
    ck_assert_uint_eq(last_event(1, COORD_LOG_STOP_AT)->value, 0);
}
END_TEST

START_TEST(a_rank_that_has_left_counts_in_the_stop)
{
    join_everybody();
    ping(21, 20, false, 0);
    receive(21, &(struct coord_msg){.type = COORD_MSG_BYE});
    notice(1, COORD_REQUEST_STOP, 0, "");
    ping(22, 18, true, 1);
    ping(41, 18, true, 1);
    ping(42, 18, true, 1);
    ck_assert_uint_eq(last_event(1, COORD_LOG_STOP_AT)->value, 22);
}
END_TEST

START_TEST(a_stop_before_the_beginning_ends_the_job_well)
{
    join_agent(1, "algo-1", 0);
    join_agent(2, "algo-2", 2);
    const uint64_t number = ask(1, (struct coord_msg_request){.kind = COORD_REQUEST_ROSTER});
    notice(1, COORD_REQUEST_STOP, 0, "");
    ck_assert_uint_eq(last_event(2, COORD_LOG_STOP_AT)->value, 0);
    bool cancelled = false;
    for (uint32_t i = 0; i < world->sent_count; i++) {
        const struct coord_msg_answer *answer = &world->sent[i].msg.answer;
        cancelled |= world->sent[i].msg.type == COORD_MSG_ANSWER && answer->number == number &&
                     answer->code == COORD_ANSWER_CANCELLED;
    }
    ck_assert(cancelled);
    ck_assert(!coord_state_over(world->state));
    notice(2, COORD_REQUEST_DONE, 0, "");
    ck_assert_ptr_nonnull(last_event(1, COORD_LOG_DONE));
    ck_assert(coord_state_over(world->state));
}
END_TEST

START_TEST(the_job_is_done_when_every_trainer_host_is)
{
    join_everybody();
    notice(2, COORD_REQUEST_DONE, 0, "");
    notice(1, COORD_REQUEST_DONE, 0, "");  /* a host that does not train */
    notice(41, COORD_REQUEST_DONE, 0, ""); /* not an agent */
    receive(2, &(struct coord_msg){.type = COORD_MSG_BYE});
    ck_assert(!coord_state_over(world->state));
    notice(4, COORD_REQUEST_DONE, 0, "");
    ck_assert(coord_state_over(world->state));
    ck_assert_ptr_nonnull(last_event(1, COORD_LOG_DONE));
    /* Whoever comes late is told. */
    struct coord_msg msg = join_message(COORD_PRODUCER, "elsewhere");
    receive(77, &msg);
    ck_assert_uint_eq(last_sent(77, COORD_MSG_WELCOME)->welcome.event_count, 1);
    ping(77, 0, false, 0);
    ck_assert_ptr_nonnull(last_event(77, COORD_LOG_DONE));
}
END_TEST

START_TEST(a_failure_goes_to_everybody_with_its_host_and_the_first_one_stands)
{
    join_everybody();
    notice(4, COORD_REQUEST_FAIL, 0, "rank 2 was killed by signal 9 (Killed)");
    notice(2, COORD_REQUEST_FAIL, 0, "lost a peer");
    expect_fail(1, EXIT_PEER, "algo-10: rank 2 was killed by signal 9 (Killed)");
    expect_fail(21, EXIT_PEER, "algo-10: rank 2");
}
END_TEST

START_TEST(a_suspicion_waits_for_a_better_reason)
{
    const bool better = _i == 1;
    join_everybody();
    notice(2, COORD_REQUEST_SUSPECT, 0, "local rank 0 exited with code 69");
    notice(4, COORD_REQUEST_SUSPECT, 0, "local rank 1 exited with code 69");
    tick_after(0.1);
    tick_after(1.8);
    ck_assert(!coord_state_over(world->state));
    if (better) {
        notice(4, COORD_REQUEST_FAIL, 0, "local rank 0 was killed");
        expect_fail(1, EXIT_PEER, "algo-10: local rank 0 was killed");
        return;
    }
    tick_after(0.3);
    expect_fail(1, EXIT_PEER, "algo-2: local rank 0 exited with code 69");
}
END_TEST

START_TEST(a_silent_agent_fails_the_job_a_silent_rank_or_producer_does_not)
{
    join_everybody();
    struct coord_msg msg = join_message(COORD_PRODUCER, "algo-1");
    receive(11, &msg);
    tick_after(9);
    for (uint64_t member = 1; member <= 3; member++) {
        ping(member, 0, false, 0);
    }
    tick_after(0.5);
    ping(4, 0, false, 0);
    const uint32_t before = coord_state_member_count(world->state);
    tick_after(1.5); /* 11 s for ranks and the producer, 2 s for the agents */
    ck_assert_uint_eq(coord_state_member_count(world->state), before - 5);
    ck_assert(!coord_state_over(world->state));
    tick_after(9); /* 11 s for agents 1 to 3 */
    expect_fail(4, EXIT_PEER, "agent was lost: not heard for 1");
}
END_TEST

START_TEST(a_broken_connection_shortens_the_patience)
{
    join_everybody();
    tick_after(1);
    coord_state_hint(world->state, world->now_ns);
    tick_after(1);
    for (uint64_t member = 1; member <= 3; member++) {
        ping(member, 0, false, 0);
    }
    tick_after(2.5);
    ck_assert(!coord_state_over(world->state));
    tick_after(1); /* 4.5 s after the break, which agent 4 has not outlived */
    expect_fail(1, EXIT_PEER, "algo-10: agent was lost");
}
END_TEST

START_TEST(a_member_that_was_forgotten_is_told_and_may_come_back)
{
    join_everybody();
    struct coord_msg msg = join_message(COORD_PRODUCER, "algo-1");
    receive(11, &msg);
    for (int i = 0; i < 4; i++) {
        tick_after(4);
        for (uint64_t member = 1; member <= 4; member++) {
            ping(member, 0, false, 0);
        }
    }
    ping(11, 0, false, 0);
    ck_assert_uint_eq(last_sent(11, COORD_MSG_REFUSE)->refuse.code, COORD_REFUSE_UNKNOWN);
    world->sent_count = 0;
    receive(11, &msg);
    ck_assert_ptr_nonnull(last_sent(11, COORD_MSG_WELCOME));
}
END_TEST

START_TEST(members_are_found_in_whatever_order_they_come_and_go)
{
    struct random_state random = {random_seed()};
    const struct coord_msg msg = join_message(COORD_PRODUCER, "elsewhere");
    enum { INSTANCES = 200 };
    bool present[INSTANCES + 1] = {false};
    uint32_t count = 0;
    for (int round = 0; round < 4000; round++) {
        const uint64_t instance = random_in(&random, 1, INSTANCES);
        world->sent_count = 0;
        if (random_in(&random, 0, 1) == 0) {
            receive(instance, &msg);
            count += present[instance] ? 0 : 1;
            present[instance] = true;
        } else {
            receive(instance, &(struct coord_msg){.type = COORD_MSG_BYE});
            count -= present[instance] ? 1 : 0;
            present[instance] = false;
        }
        ck_assert_uint_eq(coord_state_member_count(world->state), count);
        const uint64_t other = random_in(&random, 1, INSTANCES);
        world->sent_count = 0;
        ping(other, 0, false, 0);
        ck_assert_ptr_nonnull(last_sent(other, present[other] ? COORD_MSG_PONG : COORD_MSG_REFUSE));
    }
}
END_TEST

/* Whatever members and strangers say, the server stands, and its own messages are encodable. */
START_TEST(any_messages_leave_the_server_standing)
{
    struct random_state random = {random_seed()};
    static struct coord_msg msg;
    static uint8_t frame[COORD_MSG_BYTES_MAX];
    static const char *const HOSTS[] = {"algo-1", "algo-2", "algo-3", "algo-10", "elsewhere"};
    for (int job = 0; job < 30; job++) {
        begin();
        if (job % 2 == 0) {
            join_everybody();
        }
        for (int i = 0; i < 1000; i++) {
            const enum coord_msg_type type =
                (enum coord_msg_type)random_in(&random, COORD_MSG_JOIN, COORD_MSG_BYE);
            random_coord_msg(&random, type, &msg);
            if (type == COORD_MSG_JOIN) {
                snprintf(msg.join.host, sizeof(msg.join.host), "%s",
                         HOSTS[random_in(&random, 0, ARRAY_LEN(HOSTS) - 1)]);
                msg.join.config_digest = 0;
            }
            world->sent_count = 0;
            world->now_ns += (int64_t)random_in(&random, 0, 200) * NS_PER_MS;
            receive(random_in(&random, 1, 50), &msg);
            coord_state_tick(world->state, world->now_ns);
            for (uint32_t sent = 0; sent < world->sent_count; sent++) {
                ck_assert_uint_gt(coord_msg_encode(&world->sent[sent].msg, frame), 0);
            }
        }
    }
}
END_TEST

START_TEST(an_event_that_was_lost_is_sent_again)
{
    join_everybody();
    notice(1, COORD_REQUEST_STOP, 0, "");
    world->sent_count = 0;
    ping(21, 3, false, 0);
    ck_assert_ptr_nonnull(last_event(21, COORD_LOG_STOP_ASKED));
    world->sent_count = 0;
    ping(21, 3, true, 1);
    ck_assert_ptr_null(last_event(21, COORD_LOG_STOP_ASKED));
    ck_assert_uint_eq(last_sent(21, COORD_MSG_PONG)->welcome.event_count, 1);
}
END_TEST

START_TEST(two_crashes_on_a_sample_are_a_verdict_a_repeated_report_is_one)
{
    join_everybody();
    const struct coord_msg_request report = {
        .kind = COORD_REQUEST_CRASH, .count = 1, .value = 4711, .number = 1000};
    ask(1, report);
    ask(1, report);
    ck_assert_ptr_null(last_event(3, COORD_LOG_VERDICT));
    ask(3, (struct coord_msg_request){.kind = COORD_REQUEST_CRASH, .count = 0, .value = 4711});
    ck_assert_ptr_null(last_event(3, COORD_LOG_VERDICT));
    ask(3, report);
    const struct coord_log_entry *verdict = last_event(1, COORD_LOG_VERDICT);
    ck_assert_ptr_nonnull(verdict);
    ck_assert_uint_eq(verdict->stream, 1);
    ck_assert_uint_eq(verdict->value, 4711);
}
END_TEST

START_TEST(a_sum_is_given_when_all_have_come_and_its_name_serves_again)
{
    join_everybody();
    for (uint64_t round = 0; round < 3; round++) {
        world->sent_count = 0;
        const uint64_t first = ask_key(21, COORD_REQUEST_SUM, "digest", UINT64_MAX, 3);
        struct coord_msg_request again = {.kind = COORD_REQUEST_SUM,
                                          .value = UINT64_MAX,
                                          .count = 3,
                                          .number = first,
                                          .key = "digest"};
        ask(21, again); /* repeated: one member still */
        ask_key(22, COORD_REQUEST_SUM, "other", 1, 3);
        ask_key(22, COORD_REQUEST_SUM, "digest", 5 + round, 3);
        ck_assert_ptr_null(last_sent(21, COORD_MSG_ANSWER));
        ask_key(41, COORD_REQUEST_SUM, "digest", 10, 3);
        ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.value, 14 + round);
        ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.number, first);
        ck_assert_uint_eq(last_sent(41, COORD_MSG_ANSWER)->answer.value, 14 + round);
        /* The answer was lost: asked again, it is the same, and no arrival at the next round. */
        world->sent_count = 0;
        ask(21, again);
        ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.value, 14 + round);
    }
}
END_TEST

START_TEST(totals_add_up_once)
{
    join_everybody();
    ask_key(21, COORD_REQUEST_ADD, "bad", 3, 0);
    struct coord_msg_request late = {
        .kind = COORD_REQUEST_ADD, .key = "bad", .value = 3, .number = world->number};
    ask_key(41, COORD_REQUEST_ADD, "bad", 4, 0);
    ck_assert_uint_eq(last_sent(41, COORD_MSG_ANSWER)->answer.value, 7);
    ask_key(21, COORD_REQUEST_ADD, "bad", 5, 0); /* its own total, now 5 */
    ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.value, 9);
    ask(21, late); /* an old request, repeated */
    ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.value, 9);
}
END_TEST

START_TEST(values_are_put_got_and_agreed_on)
{
    join_everybody();
    ask_key(22, COORD_REQUEST_GET, "nccl", 0, 0);
    ck_assert_ptr_null(last_sent(22, COORD_MSG_ANSWER));
    struct coord_msg_request put = {
        .kind = COORD_REQUEST_PUT, .key = "nccl", .bytes_count = 3, .bytes = {1, 0, 2}};
    ask(21, put);
    const struct coord_msg_answer *got = &last_sent(22, COORD_MSG_ANSWER)->answer;
    ck_assert_uint_eq(got->bytes_count, 3);
    ck_assert_int_eq(memcmp(got->bytes, put.bytes, 3), 0);
    ask_key(21, COORD_REQUEST_AGREE, "data", 0xAB, 0);
    ask_key(22, COORD_REQUEST_AGREE, "data", 0xAB, 0);
    ck_assert_uint_eq(last_sent(22, COORD_MSG_ANSWER)->answer.code, COORD_ANSWER_OK);
    ask_key(41, COORD_REQUEST_AGREE, "data", 0xAC, 0);
    const struct coord_msg_answer *refused = &last_sent(41, COORD_MSG_ANSWER)->answer;
    ck_assert_uint_eq(refused->code, COORD_ANSWER_CONFLICT);
    char text[COORD_VALUE_BYTES + 1] = {0};
    memcpy(text, refused->bytes, refused->bytes_count);
    ck_assert_str_eq(text, "data differs between hosts: algo-2 has 00000000000000ab, algo-10 has "
                           "00000000000000ac");
}
END_TEST

START_TEST(keys_are_bounded)
{
    join_everybody();
    char key[32];
    for (int i = 0; i < 1024; i++) {
        world->sent_count = 0;
        snprintf(key, sizeof(key), "key-%d", i);
        ask_key(21, COORD_REQUEST_AGREE, key, 1, 0);
        ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.code, COORD_ANSWER_OK);
    }
    ask_key(21, COORD_REQUEST_AGREE, "one more", 1, 0);
    ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.code, COORD_ANSWER_FULL);
    ask_key(21, COORD_REQUEST_AGREE, "key-7", 1, 0);
    ck_assert_uint_eq(last_sent(21, COORD_MSG_ANSWER)->answer.code, COORD_ANSWER_OK);
}
END_TEST

START_TEST(a_member_cannot_make_the_server_keep_more_than_its_places)
{
    join_everybody();
    char key[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "never-%d", i);
        ask_key(21, COORD_REQUEST_GET, key, 0, 0);
    }
    /* The newest ones are still known. */
    world->sent_count = 0;
    struct coord_msg_request put = {.kind = COORD_REQUEST_PUT, .key = "never-999"};
    ask(22, put);
    ck_assert_ptr_nonnull(last_sent(21, COORD_MSG_ANSWER));
}
END_TEST

START_TEST(the_job_fails_when_the_last_producer_host_has_failed)
{
    join_everybody();
    struct coord_msg msg = join_message(COORD_PRODUCER, "elsewhere");
    receive(11, &msg);
    notice(3, COORD_REQUEST_PRODUCER_FAILED, EXIT_MISSING, "no such folder: /data");
    notice(1, COORD_REQUEST_PRODUCER_FAILED, EXIT_DATA, "empty");
    ck_assert(!coord_state_over(world->state)); /* one from outside is left */
    receive(11, &(struct coord_msg){.type = COORD_MSG_BYE});
    expect_fail(2, EXIT_MISSING, "algo-3: no such folder: /data");
}
END_TEST

START_TEST(hosts_that_do_not_join_are_named_at_the_deadline)
{
    join_agent(1, "algo-1", 0);
    join_agent(2, "algo-2", 2);
    join_rank(21, "algo-2", 0);
    for (int i = 0; i < 20; i++) {
        tick_after(4.9);
        ping(1, 0, false, 0);
        ping(2, 0, false, 0);
        ping(21, 0, false, 0);
    }
    ck_assert(!coord_state_over(world->state));
    char waiting[256];
    coord_state_waiting(world->state, waiting, sizeof(waiting));
    ck_assert_str_eq(waiting, "ranks of algo-2, algo-3, algo-10");
    tick_after(3);
    expect_fail(1, EXIT_TEMPORARY, "ranks of algo-2, algo-3, algo-10");
}
END_TEST

START_TEST(a_producer_host_that_does_not_join_is_one_that_failed)
{
    static const uint64_t MEMBERS[] = {1, 2, 4, 21, 41};
    const bool tolerate = _i == 0;
    snprintf(world->config.producer_failure, sizeof(world->config.producer_failure), "%s",
             tolerate ? "tolerate" : "fail");
    begin();
    join_agent(1, "algo-1", 0);
    join_agent(2, "algo-2", 1);
    join_agent(4, "algo-10", 1);
    join_rank(21, "algo-2", 0);
    join_rank(41, "algo-10", 0);
    for (int i = 0; i < 25; i++) {
        for (size_t j = 0; j < ARRAY_LEN(MEMBERS); j++) {
            ping(MEMBERS[j], 0, false, 0);
        }
        tick_after(4.5);
    }
    if (!tolerate) {
        expect_fail(2, EXIT_TEMPORARY, "did not join within 100 s (join_timeout_s): algo-3");
        return;
    }
    ck_assert(!coord_state_over(world->state));
    notice(1, COORD_REQUEST_PRODUCER_FAILED, EXIT_DATA, "empty");
    expect_fail(2, EXIT_TEMPORARY, "algo-3: did not join");
}
END_TEST

START_TEST(a_trainer_host_that_leaves_early_fails_the_job)
{
    join_everybody();
    receive(1, &(struct coord_msg){.type = COORD_MSG_BYE}); /* a producing host may */
    ck_assert(!coord_state_over(world->state));
    receive(4, &(struct coord_msg){.type = COORD_MSG_BYE});
    expect_fail(2, EXIT_PEER, "algo-10: agent left before the job was done");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coord_state");
    TCase *tc = tcase_create("state");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_roster_comes_when_all_ranks_are_there_in_natural_order);
    tcase_add_test(tc, a_large_roster_comes_in_pages);
    tcase_add_test(tc, a_world_size_that_does_not_divide_the_batch_fails_everywhere);
    tcase_add_test(tc, another_configuration_is_refused_and_fails_the_job);
    tcase_add_test(tc, who_does_not_fit_the_cluster_is_refused);
    tcase_add_test(tc, a_producer_with_another_decoder_is_turned_away_alone);
    tcase_add_test(tc, all_ranks_stop_two_past_the_furthest);
    tcase_add_test(tc, a_step_given_up_lowers_the_last_one_once);
    tcase_add_test(tc, a_stop_before_the_first_step_is_a_stop_at_0);
    tcase_add_test(tc, a_rank_that_has_left_counts_in_the_stop);
    tcase_add_test(tc, a_stop_before_the_beginning_ends_the_job_well);
    tcase_add_test(tc, the_job_is_done_when_every_trainer_host_is);
    tcase_add_test(tc, a_failure_goes_to_everybody_with_its_host_and_the_first_one_stands);
    tcase_add_loop_test(tc, a_suspicion_waits_for_a_better_reason, 0, 2);
    tcase_add_test(tc, a_silent_agent_fails_the_job_a_silent_rank_or_producer_does_not);
    tcase_add_test(tc, a_broken_connection_shortens_the_patience);
    tcase_add_test(tc, a_member_that_was_forgotten_is_told_and_may_come_back);
    tcase_add_test(tc, members_are_found_in_whatever_order_they_come_and_go);
    tcase_add_test(tc, any_messages_leave_the_server_standing);
    tcase_add_test(tc, an_event_that_was_lost_is_sent_again);
    tcase_add_test(tc, two_crashes_on_a_sample_are_a_verdict_a_repeated_report_is_one);
    tcase_add_test(tc, a_sum_is_given_when_all_have_come_and_its_name_serves_again);
    tcase_add_test(tc, totals_add_up_once);
    tcase_add_test(tc, values_are_put_got_and_agreed_on);
    tcase_add_test(tc, keys_are_bounded);
    tcase_add_test(tc, a_member_cannot_make_the_server_keep_more_than_its_places);
    tcase_add_test(tc, the_job_fails_when_the_last_producer_host_has_failed);
    tcase_add_test(tc, hosts_that_do_not_join_are_named_at_the_deadline);
    tcase_add_loop_test(tc, a_producer_host_that_does_not_join_is_one_that_failed, 0, 2);
    tcase_add_test(tc, a_trainer_host_that_leaves_early_fails_the_job);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
