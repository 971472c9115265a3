/* SPDX-License-Identifier: Apache-2.0 */
/* Server and clients over real sockets on a loopback address of this test's own. */
#include "common/coord.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/wire.h"
#include "support/coord_fixture.h"
#include "support/random.h"
#include "support/suite.h"

static struct config config;
static struct cluster cluster;
static struct cluster_host hosts[4];
static char address[ADDR_BYTES_MAX];
static struct coord_server *server;
static struct err err;

static int64_t soon(void)
{
    return clock_now_ns() + 20 * NS_PER_S;
}

#define ASSERT_OK(call) ck_assert_msg((call) == OK, "%s", err.message)

static void start_server(void)
{
    const struct coord_server_options options = {
        .address = address, .config = &config, .cluster = &cluster};
    ASSERT_OK(coord_server_start(&options, &server, &err));
}

static void setup(void)
{
    fixture_config(&config);
    fixture_cluster(&cluster, hosts);
    /* Tests that run at the same time have other processes, so other addresses. */
    const int pid = getpid();
    snprintf(address, sizeof(address), "127.%d.%d.%d", 1 + pid / 62500 % 250, 1 + pid / 250 % 250,
             1 + pid % 250);
    config.port = 21400;
    start_server();
}

static void teardown(void)
{
    coord_server_stop(&server, 1); /* at once: most tests have no host to wait for */
}

static enum status try_join(enum coord_member_kind kind, const char *host, uint32_t ranks,
                            struct coord_client **out)
{
    const struct coord_join join = {.kind = kind,
                                    .host = host,
                                    .address = address,
                                    .local_ranks = kind == COORD_AGENT ? ranks : 0,
                                    .local_rank = kind == COORD_RANK ? ranks : 0,
                                    .peer_timeout_s = config.peer_timeout_s};
    return coord_connect(address, (uint16_t)config.port, false, &join, soon(), out, &err);
}

static struct coord_client *join(enum coord_member_kind kind, const char *host, uint32_t ranks)
{
    struct coord_client *client = NULL;
    ASSERT_OK(try_join(kind, host, ranks, &client));
    return client;
}

static struct coord_event wait_event(struct coord_client *client, enum coord_event_kind kind)
{
    struct coord_event event = {0};
    const int64_t deadline = soon();
    while (clock_now_ns() < deadline) {
        if (coord_next_event(client, &event) == OK) {
            if (event.kind == kind) {
                return event;
            }
            continue;
        }
        struct pollfd fd = {.fd = coord_event_fd(client), .events = POLLIN};
        poll(&fd, 1, 100);
    }
    ck_abort_msg("no event %d came; the last one was %d", (int)kind, (int)event.kind);
    return event;
}

/* Two agents and four ranks: 0, 1 on algo-2 and 2, 3 on algo-10. */
struct job {
    struct coord_client *agents[2];
    struct coord_client *ranks[4];
};

static void join_job(struct job *job)
{
    job->agents[0] = join(COORD_AGENT, "algo-2", 2);
    job->agents[1] = join(COORD_AGENT, "algo-10", 2);
    for (uint32_t i = 0; i < 4; i++) {
        job->ranks[i] = join(COORD_RANK, i < 2 ? "algo-2" : "algo-10", i % 2);
    }
}

static void close_job(struct job *job)
{
    for (int i = 0; i < 4; i++) {
        coord_close(&job->ranks[i]);
    }
    coord_close(&job->agents[0]);
    coord_close(&job->agents[1]);
}

START_TEST(a_job_from_join_to_done)
{
    struct job job;
    struct coord_client *producer = join(COORD_PRODUCER, "elsewhere", 0);
    struct roster roster;
    ck_assert_int_eq(coord_roster(producer, clock_now_ns() + NS_PER_MS, &roster, &err),
                     ERR_TIMEOUT);
    join_job(&job);
    ASSERT_OK(coord_roster(producer, soon(), &roster, &err));
    ck_assert_uint_eq(roster.rank_count, 4);
    ck_assert_str_eq(roster.ranks[3].host, "algo-10");
    ck_assert_str_eq(roster.ranks[3].address, address);
    ck_assert_str_eq(roster.streams[0].data, config.streams[0].data);
    roster_fini(&roster);
    coord_done(job.agents[0]);
    coord_done(job.agents[1]);
    wait_event(producer, COORD_EVENT_DONE);
    wait_event(job.ranks[0], COORD_EVENT_DONE);
    coord_close(&producer);
    close_job(&job);
}
END_TEST

static void *stop_server(void *context)
{
    coord_server_stop(&server, soon());
    return NULL;
}

START_TEST(a_server_that_ends_waits_for_hosts_that_are_late)
{
    struct job job;
    pthread_t thread;
    join_job(&job);
    coord_done(job.agents[0]);
    coord_done(job.agents[1]);
    wait_event(job.agents[0], COORD_EVENT_DONE);
    close_job(&job);
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_server, NULL), 0);
    static const char *const LATE[] = {"algo-1", "algo-3"};
    for (size_t i = 0; i < ARRAY_LEN(LATE); i++) {
        struct coord_client *client = join(COORD_AGENT, LATE[i], 0);
        wait_event(client, COORD_EVENT_DONE);
        coord_close(&client);
    }
    const int64_t begin = clock_now_ns();
    pthread_join(thread, NULL);
    ck_assert_int_lt(clock_now_ns() - begin, 15 * NS_PER_S); /* long before its deadline */
}
END_TEST

START_TEST(values_pass_between_members)
{
    struct coord_client *a = join(COORD_AGENT, "algo-2", 1);
    struct coord_client *b = join(COORD_PRODUCER, "elsewhere", 0);
    uint8_t value[COORD_VALUE_BYTES];
    uint8_t got[COORD_VALUE_BYTES];
    size_t count;
    memset(value, 0xA5, sizeof(value));
    ck_assert_int_eq(coord_get(b, "id", clock_now_ns() + NS_PER_MS, got, &count, &err),
                     ERR_TIMEOUT);
    ASSERT_OK(coord_put(a, "id", value, sizeof(value), soon(), &err));
    ASSERT_OK(coord_get(b, "id", soon(), got, &count, &err));
    ck_assert_uint_eq(count, sizeof(value));
    ck_assert_int_eq(memcmp(value, got, count), 0);
    ASSERT_OK(coord_agree(a, "data", 1, soon(), &err));
    ASSERT_OK(coord_agree(b, "data", 1, soon(), &err));
    ck_assert_int_eq(coord_agree(b, "data", 2, soon(), &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.message, "algo-2 has 0000000000000001, elsewhere has"));
    uint64_t sum;
    ASSERT_OK(coord_add(a, "bad", 3, soon(), &sum, &err));
    ASSERT_OK(coord_add(b, "bad", 4, soon(), &sum, &err));
    ASSERT_OK(coord_add(a, "bad", 1, soon(), &sum, &err));
    ck_assert_uint_eq(sum, 8);
    coord_close(&b);
    coord_close(&a);
}
END_TEST

/* ---- ranks as threads ---- */

struct runner {
    struct coord_client *client;
    struct random_state random;
    uint64_t steps;
    uint64_t sum;
    enum status status;
    struct err err;
};

/* Ranks of different speed that do not wait for each other: harder than training. */
static void *run_until_stopped(void *context)
{
    struct runner *runner = context;
    for (bool may = true; may;) {
        runner->status = coord_may_begin(runner->client, runner->steps, soon(), &may, &runner->err);
        if (runner->status != OK) {
            break;
        }
        runner->steps += may ? 1 : 0;
        usleep((useconds_t)random_in(&runner->random, 0, 3000));
    }
    return NULL;
}

START_TEST(all_ranks_stop_at_the_same_step)
{
    struct job job;
    join_job(&job);
    struct roster roster;
    ASSERT_OK(coord_roster(job.ranks[0], soon(), &roster, &err));
    roster_fini(&roster);
    struct runner runners[4];
    pthread_t threads[4];
    const uint64_t seed = random_seed();
    for (int i = 0; i < 4; i++) {
        /* The last one has been slow to begin: a rank that has not begun at all is asked too. */
        runners[i] = (struct runner){.client = job.ranks[i], .random = {seed + (uint64_t)i}};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_until_stopped, &runners[i]), 0);
    }
    usleep((useconds_t)(seed % 50000));
    coord_stop(job.agents[1]);
    const struct coord_event event = wait_event(job.agents[0], COORD_EVENT_STOP_AT);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(runners[i].status, OK);
        ck_assert_uint_eq(runners[i].steps, event.step);
    }
    close_job(&job);
}
END_TEST

START_TEST(a_resumed_rank_that_has_not_begun_does_not_stop_the_others_early)
{
    struct job job;
    join_job(&job);
    bool may;
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(coord_may_begin(job.ranks[i], 1000, soon(), &may, &err));
        ck_assert(may);
    }
    coord_stop(job.agents[0]);
    ck_assert_uint_eq(wait_event(job.ranks[3], COORD_EVENT_STOP_AT).step, 1003);
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(coord_may_begin(job.ranks[i], 1002, soon(), &may, &err));
        ck_assert(may);
        ASSERT_OK(coord_may_begin(job.ranks[i], 1003, soon(), &may, &err));
        ck_assert(!may);
    }
    close_job(&job);
}
END_TEST

START_TEST(a_step_that_one_rank_gives_up_is_begun_by_nobody_more)
{
    struct job job;
    join_job(&job);
    bool may;
    for (int i = 0; i < 3; i++) { /* the last one still takes the step before */
        ASSERT_OK(coord_may_begin(job.ranks[i], 7, soon(), &may, &err));
    }
    ASSERT_OK(coord_may_begin(job.ranks[3], 6, soon(), &may, &err));
    coord_stop(job.agents[0]);
    ck_assert_uint_eq(wait_event(job.ranks[1], COORD_EVENT_STOP_AT).step, 10);
    coord_give_up(job.ranks[1], 7);
    for (int i = 0; i < 4; i++) {
        struct coord_stop_state stop;
        struct coord_event event;
        do {
            event = wait_event(job.ranks[i], COORD_EVENT_STOP_AT);
        } while (event.step == 10);
        ck_assert_uint_eq(event.step, 7);
        coord_stop_state(job.ranks[i], &stop);
        ck_assert(stop.settled && stop.given_up);
        ck_assert_uint_eq(stop.step, 7);
        ck_assert_uint_eq(stop.begun, i < 3 ? 8 : 7);
        ASSERT_OK(coord_may_begin(job.ranks[i], 7, soon(), &may, &err));
        ck_assert(!may);
    }
    close_job(&job);
}
END_TEST

START_TEST(nobody_begins_after_a_stop_before_the_first_step)
{
    struct job job;
    join_job(&job);
    coord_stop(job.agents[0]);
    ck_assert_uint_eq(wait_event(job.ranks[3], COORD_EVENT_STOP_AT).step, 0);
    for (int i = 0; i < 4; i++) {
        bool may = true;
        ASSERT_OK(coord_may_begin(job.ranks[i], 0, soon(), &may, &err));
        ck_assert(!may);
    }
    close_job(&job);
}
END_TEST

static void *run_sums(void *context)
{
    struct runner *runner = context;
    for (uint64_t round = 0; round < 20 && runner->status == OK; round++) {
        uint64_t sum = 0;
        runner->status =
            coord_sum(runner->client, "digest", 4, round + 1, soon(), &sum, &runner->err);
        ck_assert_uint_eq(sum, 4 * (round + 1));
        runner->sum += sum;
    }
    return NULL;
}

START_TEST(sums_wait_for_all_and_can_follow_each_other)
{
    struct job job;
    join_job(&job);
    struct runner runners[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        runners[i] = (struct runner){.client = job.ranks[i]};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_sums, &runners[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_msg(runners[i].status == OK, "%s", runners[i].err.message);
        ck_assert_uint_eq(runners[i].sum, 840);
    }
    close_job(&job);
}
END_TEST

/* ---- failures ---- */

static void *wait_for_key(void *context)
{
    struct runner *runner = context;
    uint8_t value[COORD_VALUE_BYTES];
    size_t count;
    runner->status = coord_get(runner->client, "never", soon(), value, &count, &runner->err);
    return NULL;
}

START_TEST(a_failure_reaches_everybody_also_those_who_wait)
{
    struct job job;
    join_job(&job);
    struct runner runner = {.client = job.ranks[3]};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_key, &runner), 0);
    coord_fail(job.agents[0], "rank 1 was killed by signal 9 (Killed)");
    const struct coord_event event = wait_event(job.agents[1], COORD_EVENT_FAIL);
    ck_assert_str_eq(event.text, "algo-2: rank 1 was killed by signal 9 (Killed)");
    ck_assert_int_eq(event.code, EXIT_PEER);
    pthread_join(thread, NULL);
    ck_assert_int_eq(runner.status, ERR_PEER_GONE);
    ck_assert_ptr_nonnull(strstr(runner.err.message, "killed by signal 9"));
    bool may;
    wait_event(job.ranks[0], COORD_EVENT_FAIL);
    ck_assert_int_eq(coord_may_begin(job.ranks[0], 0, soon(), &may, &err), ERR_PEER_GONE);
    close_job(&job);
}
END_TEST

START_TEST(a_notice_given_right_before_the_end_still_arrives)
{
    struct coord_client *a = join(COORD_AGENT, "algo-2", 1);
    struct coord_client *b = join(COORD_AGENT, "algo-10", 1);
    coord_fail(b, "no disk");
    coord_close(&b);
    ck_assert_str_eq(wait_event(a, COORD_EVENT_FAIL).text, "algo-10: no disk");
    coord_close(&a);
}
END_TEST

START_TEST(a_server_that_dies_is_noticed)
{
    coord_server_stop(&server, 1);
    const pid_t pid = fork(); /* before any thread: the server of this test is the child's */
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        start_server();
        pause();
        _exit(0);
    }
    struct coord_client *client = join(COORD_AGENT, "algo-2", 1);
    struct runner runner = {.client = client};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_key, &runner), 0);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    const int64_t begin = clock_now_ns();
    const struct coord_event event = wait_event(client, COORD_EVENT_LOST);
    ck_assert_int_lt(clock_now_ns() - begin, 10 * NS_PER_S);
    ck_assert_int_eq(event.code, EXIT_PEER);
    pthread_join(thread, NULL);
    ck_assert_int_eq(runner.status, ERR_PEER_GONE);
    coord_close(&client);
}
END_TEST

START_TEST(a_server_that_hangs_is_noticed)
{
    config.peer_timeout_s = 0.5;
    coord_server_stop(&server, 1);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        start_server();
        pause();
        _exit(0);
    }
    struct coord_client *client = join(COORD_AGENT, "algo-2", 1);
    kill(pid, SIGSTOP);
    wait_event(client, COORD_EVENT_LOST);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    coord_close(&client);
}
END_TEST

START_TEST(a_refusal_names_its_reason)
{
    struct coord_client *client = NULL;
    ck_assert_int_eq(try_join(COORD_AGENT, "algo-77", 1, &client), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.message, "host algo-77 is not in the cluster file"));
    const struct coord_join other = {.kind = COORD_AGENT,
                                     .host = "algo-2",
                                     .local_ranks = 1,
                                     .config_digest = config_digest(&config) ^ 1,
                                     .peer_timeout_s = 2};
    ck_assert_int_eq(
        coord_connect(address, (uint16_t)config.port, false, &other, soon(), &client, &err),
        ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.message, "configuration differs"));
}
END_TEST

START_TEST(nobody_there_is_a_timeout_and_a_signal_ends_the_wait)
{
    coord_server_stop(&server, 1);
    int pipe_fds[2];
    ck_assert_int_eq(pipe(pipe_fds), 0);
    const struct coord_join waiting = {.kind = COORD_AGENT,
                                       .host = "algo-2",
                                       .local_ranks = 1,
                                       .peer_timeout_s = 2,
                                       .cancel_fd = &pipe_fds[0]};
    struct coord_client *client = NULL;
    ck_assert_int_eq(coord_connect(address, (uint16_t)config.port, false, &waiting,
                                   clock_now_ns() + 300 * NS_PER_MS, &client, &err),
                     ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(err.message, address));
    ck_assert_int_eq((int)write(pipe_fds[1], "x", 1), 1);
    ck_assert_int_eq(
        coord_connect(address, (uint16_t)config.port, false, &waiting, soon(), &client, &err),
        ERR_CANCELLED);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}
END_TEST

START_TEST(verdicts_reach_those_who_join_later_before_they_begin)
{
    struct coord_client *agent = join(COORD_AGENT, "algo-1", 0);
    enum { SAMPLES = 100 };
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        ASSERT_OK(coord_report_crash(agent, 1, sample, soon(), &err));
        ASSERT_OK(coord_report_crash(agent, 1, sample, soon(), &err));
    }
    struct coord_client *producer = join(COORD_PRODUCER, "algo-1", 0);
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        struct coord_event event;
        ck_assert_int_eq(coord_next_event(producer, &event), OK);
        ck_assert_int_eq(event.kind, COORD_EVENT_VERDICT);
        ck_assert_uint_eq(event.stream, 1);
        ck_assert_uint_eq(event.sample, sample);
    }
    coord_close(&producer);
    coord_close(&agent);
}
END_TEST

START_TEST(another_release_is_told_so)
{
    const struct net_options net_options = {.io_threads = 1, .sockets_max = 4};
    const struct net_socket_options options = {
        .address = address, .port = (uint16_t)config.port, .queue_messages = 4};
    struct net *net;
    struct net_socket *socket;
    ASSERT_OK(net_new(&net_options, &net, &err));
    ASSERT_OK(net_connect(net, &options, &socket, &err));
    uint8_t frame[WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES];
    struct wire_writer w;
    wire_begin(&w, frame, sizeof(frame), 999, 1); /* a type that this release does not know */
    const size_t count = wire_end(&w);
    const int64_t deadline = soon();
    struct net_message message = {0};
    while (net_receive(socket, &message, &err) != OK && clock_now_ns() < deadline) {
        const enum status status = net_send(socket, 0, frame, count, NULL);
        ck_assert(status == OK || status == ERR_AGAIN);
        struct net_poll_item item = {.socket = socket};
        ASSERT_OK(net_poll(net, &item, 1, 50, &err));
    }
    ck_assert_uint_ne(wire_version(message.head, message.head_count), 0);
    net_message_fini(&message);
    net_free(&net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coord");
    TCase *tc = tcase_create("server and clients");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_job_from_join_to_done);
    tcase_add_test(tc, a_server_that_ends_waits_for_hosts_that_are_late);
    tcase_add_test(tc, values_pass_between_members);
    tcase_add_loop_test(tc, all_ranks_stop_at_the_same_step, 0, 5);
    tcase_add_test(tc, a_resumed_rank_that_has_not_begun_does_not_stop_the_others_early);
    tcase_add_test(tc, a_step_that_one_rank_gives_up_is_begun_by_nobody_more);
    tcase_add_test(tc, nobody_begins_after_a_stop_before_the_first_step);
    tcase_add_test(tc, sums_wait_for_all_and_can_follow_each_other);
    tcase_add_test(tc, a_failure_reaches_everybody_also_those_who_wait);
    tcase_add_test(tc, a_notice_given_right_before_the_end_still_arrives);
    tcase_add_test(tc, a_server_that_dies_is_noticed);
    tcase_add_test(tc, a_server_that_hangs_is_noticed);
    tcase_add_test(tc, a_refusal_names_its_reason);
    tcase_add_test(tc, nobody_there_is_a_timeout_and_a_signal_ends_the_wait);
    tcase_add_test(tc, verdicts_reach_those_who_join_later_before_they_begin);
    tcase_add_test(tc, another_release_is_told_so);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
