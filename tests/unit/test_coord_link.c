/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients and server with a link between them that breaks every few hundred milliseconds, wherever
 * it likes: a proxy that forwards bytes and closes its connections at random. What was lost on the
 * way has to be said again, and what was said twice has to count once.
 */
#include "common/coord.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "support/coord_fixture.h"
#include "support/random.h"
#include "support/suite.h"

enum { RANKS = 4, ROUNDS = 30, PAIRS_MAX = 64, PROXY_PORT = 21399, SERVER_PORT = 21400 };

/* ---- the proxy: one thread ---- */

struct pair {
    int ends[2]; /* client, server */
};

static struct {
    pthread_t thread;
    struct random_state random;
    char address[ADDR_BYTES_MAX];
    int listener;
    uint32_t pair_count;
    struct pair pairs[PAIRS_MAX];
    _Atomic uint32_t cuts;
    _Atomic bool ends;
} proxy;

static struct sockaddr_in name_of(uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    ck_assert_int_eq(inet_pton(AF_INET, proxy.address, &name.sin_addr), 1);
    return name;
}

static void close_pair(uint32_t i)
{
    close(proxy.pairs[i].ends[0]);
    close(proxy.pairs[i].ends[1]);
    proxy.pairs[i] = proxy.pairs[--proxy.pair_count];
}

static void accept_pair(void)
{
    const struct sockaddr_in name = name_of(SERVER_PORT);
    const int client = accept4(proxy.listener, NULL, NULL, SOCK_CLOEXEC);
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(client >= 0 && server >= 0 && proxy.pair_count < PAIRS_MAX);
    ck_assert_int_eq(connect(server, (const struct sockaddr *)&name, sizeof(name)), 0);
    proxy.pairs[proxy.pair_count++] = (struct pair){{client, server}};
}

/* Some bytes of one direction; false: the connection is over. */
static bool forward(int from, int to)
{
    char bytes[512];
    const ssize_t count = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count <= 0) {
        return count < 0 && errno == EAGAIN;
    }
    return send(to, bytes, (size_t)count, MSG_NOSIGNAL) == count;
}

static void forward_all(void)
{
    struct pollfd fds[1 + 2 * PAIRS_MAX];
    fds[0] = (struct pollfd){.fd = proxy.listener, .events = POLLIN};
    for (uint32_t i = 0; i < proxy.pair_count; i++) {
        fds[1 + 2 * i] = (struct pollfd){.fd = proxy.pairs[i].ends[0], .events = POLLIN};
        fds[2 + 2 * i] = (struct pollfd){.fd = proxy.pairs[i].ends[1], .events = POLLIN};
    }
    const uint32_t count = proxy.pair_count;
    poll(fds, 1 + 2 * count, 10);
    for (uint32_t i = count; i-- > 0;) {
        const int *ends = proxy.pairs[i].ends;
        if ((fds[1 + 2 * i].revents != 0 && !forward(ends[0], ends[1])) ||
            (fds[2 + 2 * i].revents != 0 && !forward(ends[1], ends[0]))) {
            close_pair(i);
        }
    }
    if (fds[0].revents != 0) {
        accept_pair();
    }
}

static void *run_proxy(void *context)
{
    int64_t cut_ns = 0;
    while (!proxy.ends) {
        forward_all();
        const int64_t now_ns = clock_now_ns();
        if (now_ns >= cut_ns) {
            cut_ns = now_ns + (int64_t)random_in(&proxy.random, 1, 400) * NS_PER_MS;
            if (proxy.pair_count > 0) {
                close_pair((uint32_t)(random_u64(&proxy.random) % proxy.pair_count));
                proxy.cuts++;
            }
        }
    }
    return NULL;
}

static void start_proxy(uint64_t seed)
{
    const int one = 1;
    proxy.random.state = seed;
    const struct sockaddr_in name = name_of(PROXY_PORT);
    proxy.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(proxy.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    ck_assert_int_eq(bind(proxy.listener, (const struct sockaddr *)&name, sizeof(name)), 0);
    ck_assert_int_eq(listen(proxy.listener, 64), 0);
    ck_assert_int_eq(pthread_create(&proxy.thread, NULL, run_proxy, NULL), 0);
}

static void stop_proxy(void)
{
    proxy.ends = true;
    pthread_join(proxy.thread, NULL);
    close(proxy.listener);
    while (proxy.pair_count > 0) {
        close_pair(0);
    }
}

/* ---- the job ---- */

struct rank {
    pthread_t thread;
    struct coord_client *client;
    uint32_t number;
    uint64_t steps;
    uint64_t last_total;
    enum status status;
    struct err err;
};

static int64_t soon(void)
{
    return clock_now_ns() + 60 * NS_PER_S;
}

static struct coord_client *join(enum coord_member_kind kind, const char *host, uint32_t ranks)
{
    struct err err;
    struct coord_client *client = NULL;
    const struct coord_join request = {.kind = kind,
                                       .host = host,
                                       .address = proxy.address,
                                       .local_ranks = kind == COORD_AGENT ? ranks : 0,
                                       .local_rank = kind == COORD_RANK ? ranks : 0,
                                       .peer_timeout_s = 10};
    ck_assert_msg(
        coord_connect(proxy.address, PROXY_PORT, false, &request, soon(), &client, &err) == OK,
        "%s", err.message);
    return client;
}

static enum status take_part(struct rank *rank)
{
    struct coord_client *client = rank->client;
    struct err *err = &rank->err;
    uint8_t value[COORD_VALUE_BYTES];
    size_t count;
    struct roster roster;
    TRY(coord_roster(client, soon(), &roster, err));
    ck_assert_uint_eq(roster.rank_count, RANKS);
    roster_fini(&roster);
    if (rank->number == 0) {
        TRY(coord_put(client, "id", "0123456789", 10, soon(), err));
    }
    TRY(coord_get(client, "id", soon(), value, &count, err));
    ck_assert(count == 10 && memcmp(value, "0123456789", 10) == 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t sum;
        TRY(coord_add(client, "bad", rank->number + 1, soon(), &rank->last_total, err));
        TRY(coord_sum(client, "digest", RANKS, round * RANKS + rank->number, soon(), &sum, err));
        ck_assert_uint_eq(sum, RANKS * RANKS * round + 6); /* 0 + 1 + 2 + 3 */
    }
    TRY(coord_add(client, "bad", 0, soon(), &rank->last_total, err));
    for (bool may = true; may; rank->steps += may ? 1 : 0) {
        TRY(coord_may_begin(client, rank->steps, soon(), &may, err));
        usleep(1000);
    }
    return OK;
}

static void *run_rank(void *context)
{
    struct rank *rank = context;
    rank->status = take_part(rank);
    return NULL;
}

static struct coord_event wait_event(struct coord_client *client, enum coord_event_kind kind)
{
    struct coord_event event = {0};
    const int64_t deadline = soon();
    while (clock_now_ns() < deadline) {
        struct pollfd fd = {.fd = coord_event_fd(client), .events = POLLIN};
        poll(&fd, 1, 100);
        if (coord_next_event(client, &event) == OK && event.kind == kind) {
            return event;
        }
    }
    ck_abort_msg("no event %d came; the last one was %d: %s", (int)kind, (int)event.kind,
                 event.text);
    return event;
}

START_TEST(a_link_that_breaks_again_and_again_loses_nothing)
{
    const uint64_t seed = test_seed();
    const int pid = getpid();
    struct err err;
    struct config config;
    struct cluster cluster;
    struct cluster_host hosts[4];
    struct coord_server *server;
    fixture_config(&config);
    fixture_cluster(&cluster, hosts);
    config.port = SERVER_PORT;
    config.peer_timeout_s = 10;
    snprintf(proxy.address, sizeof(proxy.address), "127.%d.%d.%d", 1 + pid / 62500 % 250,
             1 + pid / 250 % 250, 1 + pid % 250);
    const struct coord_server_options options = {
        .address = proxy.address, .config = &config, .cluster = &cluster};
    ck_assert_msg(coord_server_start(&options, &server, &err) == OK, "%s", err.message);
    start_proxy(seed);
    struct coord_client *agents[] = {join(COORD_AGENT, "algo-2", 2),
                                     join(COORD_AGENT, "algo-10", 2)};
    struct rank ranks[RANKS] = {0};
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].number = i;
        ranks[i].client = join(COORD_RANK, i < 2 ? "algo-2" : "algo-10", i % 2);
        ck_assert_int_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (int report = 0; report < 2; report++) {
        ck_assert_msg(coord_report_crash(agents[0], 0, 4711, soon(), &err) == OK, "%s",
                      err.message);
    }
    ck_assert_uint_eq(wait_event(agents[1], COORD_EVENT_VERDICT).sample, 4711);
    usleep((useconds_t)(seed % 2000000));
    coord_stop(agents[1]);
    const uint64_t step = wait_event(agents[0], COORD_EVENT_STOP_AT).step;
    uint64_t total = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        pthread_join(ranks[i].thread, NULL);
        ck_assert_msg(ranks[i].status == OK, "rank %u: %s", i, ranks[i].err.message);
        ck_assert_uint_eq(ranks[i].steps, step);
        total = ranks[i].last_total > total ? ranks[i].last_total : total;
    }
    ck_assert_uint_eq(total, ROUNDS * (1 + 2 + 3 + 4));
    for (uint32_t i = 0; i < RANKS; i++) {
        coord_close(&ranks[i].client);
    }
    coord_done(agents[0]);
    coord_done(agents[1]);
    wait_event(agents[0], COORD_EVENT_DONE);
    wait_event(agents[1], COORD_EVENT_DONE);
    printf("%u cuts\n", proxy.cuts);
    ck_assert_uint_ge(proxy.cuts, 2);
    coord_close(&agents[0]);
    coord_close(&agents[1]);
    stop_proxy();
    coord_server_stop(&server, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coord_link");
    TCase *tc = tcase_create("breaking links");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc, a_link_that_breaks_again_and_again_loses_nothing);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
