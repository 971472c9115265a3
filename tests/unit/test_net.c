/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of net.h over real sockets on loopback, with honest peers. Hostile ones:
 * test_net_hostile.c. */
#include "common/net.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "support/alloc_count.h"
#include "support/net_pair.h"
#include "support/suite.h"

static atomic_int released;

static void count_release(void *body, void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

/* ---- what a fault inside ZeroMQ does: the body's frame is refused after the head was taken ----
 */

/* Of the test's thread: ZeroMQ's own threads send monitor events by the same function. */
static _Thread_local bool refuse_next_body;
static int (*real_msg_send)(zmq_msg_t *frame, void *socket, int flags);

__attribute__((constructor)) static void find_real_msg_send(void)
{
    *(void **)&real_msg_send = dlsym(RTLD_NEXT, "zmq_msg_send");
}

int zmq_msg_send(zmq_msg_t *frame, void *socket, int flags)
{
    if (refuse_next_body) {
        refuse_next_body = false;
        errno = EAGAIN;
        return -1;
    }
    return real_msg_send(frame, socket, flags);
}

static uint8_t part[PART_BYTES_MAX];

START_TEST(frames_arrive_with_their_bytes)
{
    struct pair pair = pair_make();
    memset(part, 0x5A, sizeof(part));
    atomic_store(&released, 0);
    const struct net_body body = {part, sizeof(part), count_release, &released};
    struct net_message message;

    ck_assert_int_eq(net_send(pair.connection, 0, "head", 4, &body), OK);
    pair_receive(pair.net, pair.listener, &message);
    ck_assert_uint_eq(message.peer, pair.peer);
    ck_assert_uint_eq(message.head_count, 4);
    ck_assert_int_eq(memcmp(message.head, "head", 4), 0);
    ck_assert_uint_eq(message.body_count, sizeof(part));
    ck_assert_int_eq(memcmp(message.body, part, sizeof(part)), 0);
    char address[ADDR_BYTES_MAX];
    net_message_address(&message, address);
    ck_assert_str_eq(address, "127.0.0.1");
    net_message_fini(&message);

    ck_assert_int_eq(net_send(pair.listener, pair.peer, "grant", 5, NULL), OK);
    pair_receive(pair.net, pair.connection, &message);
    ck_assert_uint_eq(message.peer, 0);
    ck_assert_uint_eq(message.head_count, 5);
    ck_assert_ptr_null(message.body);
    net_message_fini(&message);

    net_free(&pair.net);
    ck_assert_ptr_null(pair.net);
    ck_assert_int_eq(atomic_load(&released), 1);
}
END_TEST

/* A short head lies inside the message itself, a long one does not. */
START_TEST(heads_of_all_sizes_arrive)
{
    struct pair pair = pair_make();
    for (size_t count = 1; count <= 4096; count += count < 40 ? 1 : 97) {
        memset(part, (int)count, count);
        pair_send(pair.connection, 0, part, count, NULL);
        struct net_message message;
        pair_receive(pair.net, pair.listener, &message);
        ck_assert_uint_eq(message.head_count, count);
        ck_assert_int_eq(memcmp(message.head, part, count), 0);
        net_message_fini(&message);
    }
    net_free(&pair.net);
}
END_TEST

START_TEST(messages_of_a_peer_keep_their_order)
{
    enum { CONNECTIONS = 4, MESSAGES = 500 };
    struct net *net = pair_net();
    struct net_socket *listener = pair_listen(net, 0, false);
    struct net_socket *connections[CONNECTIONS];
    uint32_t sent[CONNECTIONS] = {0};
    for (int i = 0; i < CONNECTIONS; i++) {
        connections[i] = pair_connect(net, net_port(listener), false);
    }
    uint64_t peers[CONNECTIONS] = {0};
    uint32_t seen[CONNECTIONS] = {0};
    atomic_store(&released, 0);
    const struct net_body body = {part, 100000, count_release, &released};
    const int64_t until = pair_deadline();
    for (int total = 0; total < CONNECTIONS * MESSAGES;) {
        ck_assert(clock_now_ns() < until);
        for (uint32_t i = 0; i < CONNECTIONS; i++) {
            const uint32_t head[2] = {i, sent[i]};
            if (sent[i] < MESSAGES &&
                net_send(connections[i], 0, head, sizeof(head), &body) == OK) {
                sent[i]++;
            }
        }
        struct net_message message;
        while (net_receive(listener, &message, NULL) == OK) {
            uint32_t head[2];
            memcpy(head, message.head, sizeof(head));
            ck_assert_uint_lt(head[0], CONNECTIONS);
            ck_assert_uint_eq(head[1], seen[head[0]]++);
            ck_assert(peers[head[0]] == 0 || peers[head[0]] == message.peer);
            peers[head[0]] = message.peer;
            net_message_fini(&message);
            total++;
        }
    }
    net_free(&net);
    ck_assert_int_eq(atomic_load(&released), CONNECTIONS * MESSAGES);
}
END_TEST

/* Fills a queue that nobody reads. Returns how many were taken. */
static int send_until_full(struct net_socket *socket, uint64_t peer, const struct net_body *body)
{
    int taken = 0;
    enum status status;
    int quiet = 0; /* the kernel takes from the queue meanwhile */
    while (quiet < 50) {
        status = net_send(socket, peer, "x", 1, body);
        if (status == ERR_AGAIN) {
            quiet++;
            usleep(1000);
            continue;
        }
        ck_assert_int_eq(status, OK);
        quiet = 0;
        taken++;
        ck_assert_int_lt(taken, 1000);
    }
    return taken;
}

START_TEST(a_full_queue_takes_nothing_and_releases_nothing)
{
    struct pair pair = pair_make();
    const bool from_listener = _i == 1;
    struct net_socket *sender = from_listener ? pair.listener : pair.connection;
    struct net_socket *receiver = from_listener ? pair.connection : pair.listener;
    atomic_store(&released, 0);
    const struct net_body body = {part, sizeof(part), count_release, &released};
    const int taken = send_until_full(sender, pair.peer, &body);
    /* Both queues, and what the kernel and a frame under way hold. */
    ck_assert_int_ge(taken, PAIR_QUEUE);
    ck_assert_int_le(taken, 2 * PAIR_QUEUE + 32);
    ck_assert_int_le(atomic_load(&released), taken);

    for (int i = 0; i < taken; i++) {
        struct net_message message;
        pair_receive(pair.net, receiver, &message);
        ck_assert_uint_eq(message.body_count, sizeof(part));
        net_message_fini(&message);
    }
    struct net_message message;
    ck_assert_int_eq(net_receive(receiver, &message, NULL), ERR_AGAIN);
    ck_assert_int_eq(net_send(sender, pair.peer, "x", 1, &body), OK);
    net_free(&pair.net);
    ck_assert_int_eq(atomic_load(&released), taken + 1);
}
END_TEST

START_TEST(closing_releases_what_was_taken_and_not_sent)
{
    struct pair pair = pair_make();
    atomic_store(&released, 0);
    const struct net_body body = {part, sizeof(part), count_release, &released};
    const int taken = send_until_full(pair.connection, 0, &body);
    net_close(&pair.connection, 0);
    ck_assert_ptr_null(pair.connection);
    net_close(&pair.connection, 0); /* may repeat */
    net_free(&pair.net);
    net_free(&pair.net);
    ck_assert_int_eq(atomic_load(&released), taken);
}
END_TEST

START_TEST(a_body_lost_after_its_head_is_released_once)
{
    struct pair pair = pair_make();
    atomic_store(&released, 0);
    const struct net_body body = {part, sizeof(part), count_release, &released};
    refuse_next_body = true;
    ck_assert_int_eq(net_send(pair.connection, 0, "x", 1, &body), OK);
    ck_assert(!refuse_next_body);
    ck_assert_int_eq(atomic_load(&released), 1);
    net_free(&pair.net);
    ck_assert_int_eq(atomic_load(&released), 1);
}
END_TEST

/* One message there. Without ck_assert, which allocates. */
static bool exchange(struct net *net, struct net_socket *listener, struct net_socket *connection,
                     const struct net_body *body, int64_t until_ns)
{
    while (net_send(connection, 0, "x", 1, body) != OK) {
        if (clock_now_ns() > until_ns) {
            return false;
        }
        usleep(1000);
    }
    struct net_message message;
    while (net_receive(listener, &message, NULL) != OK) {
        struct net_poll_item item = {.socket = listener};
        if (clock_now_ns() > until_ns || net_poll(net, &item, 1, 100, NULL) != OK) {
            return false;
        }
        enum net_event_kind kind;
        while (net_event(listener, &kind) == OK) {
        }
    }
    net_message_fini(&message);
    return true;
}

START_TEST(sending_receiving_and_polling_allocate_nothing_of_ours)
{
    struct net *net = pair_net();
    struct net_socket *listener = pair_listen(net, 0, true);
    struct net_socket *connection = pair_connect(net, net_port(listener), true);
    const struct net_body body = {part, sizeof(part), count_release, &released};
    const int64_t until = pair_deadline();
    struct net_poll_item item = {.socket = listener}; /* the first poll makes room for its items */
    bool all =
        net_poll(net, &item, 1, 0, NULL) == OK && exchange(net, listener, connection, &body, until);
    const uint64_t before = alloc_count();
    for (int i = 0; i < 200; i++) {
        all &= exchange(net, listener, connection, &body, until);
    }
    const uint64_t after = alloc_count();
    ck_assert(all);
    ck_assert_uint_eq(after, before);
    net_free(&net);
}
END_TEST

/* Page faults per part, when a few parts are on their way at once. */
static double faults_per_part(void)
{
    enum { WARM = 20, ROUNDS = 100 };
    struct pair pair = pair_make();
    const struct net_body body = {part, sizeof(part), count_release, &released};
    struct rusage before = {0}, after;
    for (int i = 0; i < WARM + ROUNDS; i++) {
        if (i == WARM) {
            getrusage(RUSAGE_SELF, &before);
        }
        for (int k = 0; k < PAIR_QUEUE; k++) {
            pair_send(pair.connection, 0, "x", 1, &body);
        }
        for (int k = 0; k < PAIR_QUEUE; k++) {
            struct net_message message;
            pair_receive(pair.net, pair.listener, &message);
            net_message_fini(&message);
        }
    }
    getrusage(RUSAGE_SELF, &after);
    net_free(&pair.net);
    return (double)(after.ru_minflt - before.ru_minflt) / (ROUNDS * PAIR_QUEUE);
}

START_TEST(kept_memory_saves_page_faults)
{
    const char *sanitizer = getenv("HR_SANITIZE");
    if (sanitizer != NULL && sanitizer[0] != '\0') {
        printf("SKIP kept_memory_saves_page_faults: a sanitizer's malloc\n");
        return;
    }
    const double given_back = faults_per_part();
    net_keep_memory();
    const double kept = faults_per_part();
    printf("page faults per part of 1 MiB: %.1f, kept: %.1f\n", given_back, kept);
    ck_assert_double_lt(kept, 8);
}
END_TEST

START_TEST(without_a_connection_nothing_is_taken)
{
    /* A port that is held, but where nobody listens. */
    const int held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    ck_assert_int_eq(bind(held, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(getsockname(held, (struct sockaddr *)&address, &bytes), 0);

    struct net *net = pair_net();
    struct net_socket *connection = pair_connect(net, ntohs(address.sin_port), false);
    atomic_store(&released, 0);
    const struct net_body body = {part, 10, count_release, &released};
    ck_assert_int_eq(net_send(connection, 0, "x", 1, &body), ERR_AGAIN);
    ck_assert_int_eq(net_send(connection, 0, "x", 1, NULL), ERR_AGAIN);
    net_free(&net);
    close(held);
    ck_assert_int_eq(atomic_load(&released), 0);
}
END_TEST

static enum status send_until_failure(struct net_socket *socket, uint64_t peer,
                                      const struct net_body *body, int *taken)
{
    const int64_t until = pair_deadline();
    enum status status;
    while ((status = net_send(socket, peer, "x", 1, body)) != ERR_PEER_GONE &&
           clock_now_ns() < until) {
        *taken += status == OK;
        usleep(1000);
    }
    return status;
}

START_TEST(a_peer_that_left_is_gone_and_never_returns)
{
    struct pair pair = pair_make();
    net_close(&pair.connection, 0);
    atomic_store(&released, 0);
    int taken = 0;
    const struct net_body body = {part, 1000, count_release, &released};
    ck_assert_int_eq(send_until_failure(pair.listener, pair.peer, &body, &taken), ERR_PEER_GONE);
    ck_assert_int_eq(net_send(pair.listener, 12345, "x", 1, &body), ERR_PEER_GONE);

    pair.connection = pair_connect(pair.net, net_port(pair.listener), false);
    pair_send(pair.connection, 0, "again", 5, NULL);
    struct net_message message;
    pair_receive(pair.net, pair.listener, &message);
    ck_assert_uint_ne(message.peer, pair.peer);
    net_message_fini(&message);
    ck_assert_int_eq(net_send(pair.listener, pair.peer, "x", 1, NULL), ERR_PEER_GONE);
    net_free(&pair.net);
    ck_assert_int_eq(atomic_load(&released), taken);
}
END_TEST

/* Connections break while bodies are on their way: nothing is lost or released twice. */
START_TEST(every_body_taken_is_released_once_when_connections_break)
{
    struct net *net = pair_net();
    struct net_socket *listener = pair_listen(net, 0, false);
    atomic_store(&released, 0);
    const struct net_body body = {part, sizeof(part), count_release, &released};
    int taken = 0;
    for (int round = 0; round < 40; round++) {
        struct net_socket *connection = pair_connect(net, net_port(listener), false);
        pair_send(connection, 0, "hello", 5, NULL);
        struct net_message message;
        pair_receive(net, listener, &message);
        const uint64_t peer = message.peer;
        net_message_fini(&message);
        for (int i = 0; i < 2 * PAIR_QUEUE; i++) {
            taken += net_send(connection, 0, "x", 1, &body) == OK;
            taken += net_send(listener, peer, "x", 1, &body) == OK;
        }
        net_close(&connection, 0);
        taken += net_send(listener, peer, "x", 1, &body) == OK;
        while (net_receive(listener, &message, NULL) == OK) {
            ck_assert(message.body == NULL || message.body_count == sizeof(part));
            net_message_fini(&message);
        }
    }
    ck_assert_int_gt(taken, 40);
    net_free(&net);
    ck_assert_int_eq(atomic_load(&released), taken);
}
END_TEST

static void expect_event(struct net *net, struct net_socket *socket, enum net_event_kind wanted)
{
    const int64_t until = pair_deadline();
    enum net_event_kind kind;
    while (net_event(socket, &kind) == ERR_AGAIN) {
        pair_wait(net, socket, until);
    }
    ck_assert_int_eq(kind, wanted);
}

START_TEST(a_connection_is_made_again_after_a_loss)
{
    struct net *net = pair_net();
    struct net_socket *listener = pair_listen(net, 0, true);
    const uint16_t port = net_port(listener);
    struct net_socket *connection = pair_connect(net, port, true);
    expect_event(net, connection, NET_CONNECTED);
    expect_event(net, listener, NET_CONNECTED);
    net_close(&listener, 0);
    expect_event(net, connection, NET_DISCONNECTED);

    struct err err = {0};
    const struct net_socket_options options = {
        .address = "127.0.0.1", .port = port, .queue_messages = PAIR_QUEUE};
    const int64_t until = pair_deadline();
    while (net_listen(net, &options, &listener, &err) != OK) {
        ck_assert_msg(clock_now_ns() < until, "%s", err.message);
        usleep(1000); /* the old listener closes in the background */
    }
    expect_event(net, connection, NET_CONNECTED);
    pair_send(connection, 0, "again", 5, NULL);
    struct net_message message;
    pair_receive(net, listener, &message);
    ck_assert_uint_eq(message.head_count, 5);
    net_message_fini(&message);
    net_free(&net);
}
END_TEST

START_TEST(a_port_in_use_is_named)
{
    struct net *net = pair_net();
    struct net_socket *listener = pair_listen(net, 0, false);
    struct net_socket *second = NULL;
    struct err err = {0};
    const struct net_socket_options options = {
        .address = "127.0.0.1", .port = net_port(listener), .queue_messages = 1};
    ck_assert_int_eq(net_listen(net, &options, &second, &err), ERR_RESOURCE);
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "127.0.0.1 port %u: Address already in use", options.port);
    ck_assert_msg(strstr(err.message, wanted) != NULL, "%s", err.message);
    ck_assert_ptr_null(second);
    net_free(&net);
}
END_TEST

static void expect_refused(struct net *net, const char *address, const char *reason)
{
    const struct net_socket_options options = {.address = address, .port = 9, .queue_messages = 1};
    struct net_socket *socket = NULL;
    struct err err = {0};
    ck_assert_int_eq(net_listen(net, &options, &socket, NULL), ERR_CONFIG);
    ck_assert_int_eq(net_connect(net, &options, &socket, &err), ERR_CONFIG);
    ck_assert_msg(strstr(err.message, reason) != NULL, "%s", err.message);
    ck_assert_ptr_null(socket);
}

START_TEST(outside_loopback_is_refused_unless_insecure)
{
    static const char *const OUTSIDE[] = {"0.0.0.0", "192.0.2.1", "::", "2001:db8::1"};
    static const char *const NOT_NUMERIC[] = {"*", "eth0", "localhost", "127.0.0.1x", ""};
    struct net *net = pair_net();
    for (size_t i = 0; i < ARRAY_LEN(OUTSIDE); i++) {
        expect_refused(net, OUTSIDE[i], "the option insecure allows it");
    }
    for (size_t i = 0; i < ARRAY_LEN(NOT_NUMERIC); i++) {
        expect_refused(net, NOT_NUMERIC[i], "not a numeric address");
    }
    net_free(&net);
}
END_TEST

/* 192.0.2.1 belongs to nobody, so binding it is tried and fails, and no byte leaves this host. */
START_TEST(insecure_allows_it_and_says_so)
{
    FILE *log = tmpfile();
    ck_assert_ptr_nonnull(log);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(log), STDERR_FILENO);
    struct net *net = NULL;
    const enum status status = net_new(
        &(struct net_options){.io_threads = 1, .sockets_max = 4, .insecure = true}, &net, NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ck_assert_int_eq(status, OK);
    char line[512] = "";
    rewind(log);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), log));
    fclose(log);
    ck_assert_msg(strstr(line, "links are not secured") != NULL, "%s", line);

    const struct net_socket_options options = {
        .address = "192.0.2.1", .port = 9, .queue_messages = 1};
    struct net_socket *socket = NULL;
    struct err err = {0};
    ck_assert_int_eq(net_listen(net, &options, &socket, &err), ERR_RESOURCE);
    expect_refused(net, "localhost", "not a numeric address");
    net_free(&net);
}
END_TEST

START_TEST(links_work_over_ipv6)
{
    struct net *net = pair_net();
    struct net_socket_options options = {.address = "::1", .queue_messages = PAIR_QUEUE};
    struct net_socket *listener = NULL;
    struct err err = {0};
    if (net_listen(net, &options, &listener, &err) != OK) {
        printf("SKIP links_work_over_ipv6: %s\n", err.message);
        net_free(&net);
        return;
    }
    options.port = net_port(listener);
    struct net_socket *connection = NULL;
    ck_assert_int_eq(net_connect(net, &options, &connection, &err), OK);
    pair_send(connection, 0, "six", 3, NULL);
    struct net_message message;
    pair_receive(net, listener, &message);
    char address[ADDR_BYTES_MAX];
    net_message_address(&message, address);
    ck_assert_str_eq(address, "::1");
    net_message_fini(&message);
    net_free(&net);
}
END_TEST

static void nothing(int number)
{
}

START_TEST(polling_waits_for_descriptors_time_and_signals)
{
    struct pair pair = pair_make();
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct net_poll_item items[] = {{.socket = pair.listener}, {.fd = ends[0]}};
    ck_assert_int_eq(net_poll(pair.net, items, 2, 0, NULL), OK);
    ck_assert(!items[0].readable && !items[1].readable);

    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(net_poll(pair.net, items, 2, -1, NULL), OK);
    ck_assert(!items[0].readable && items[1].readable);
    char byte;
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);

    pair_send(pair.connection, 0, "x", 1, NULL);
    ck_assert_int_eq(net_poll(pair.net, items, 2, -1, NULL), OK);
    ck_assert(items[0].readable && !items[1].readable);
    struct net_message message;
    pair_receive(pair.net, pair.listener, &message);
    net_message_fini(&message);

    /* A signal ends the wait, which would else be for ever. */
    const struct sigaction action = {.sa_handler = nothing};
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    const struct itimerval every = {.it_interval = {.tv_usec = 20000},
                                    .it_value = {.tv_usec = 20000}};
    ck_assert_int_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
    ck_assert_int_eq(net_poll(pair.net, items, 2, -1, NULL), OK);
    ck_assert(!items[0].readable && !items[1].readable);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);

    close(ends[0]);
    close(ends[1]);
    net_free(&pair.net);
}
END_TEST

START_TEST(descriptor_limits_are_raised_or_named)
{
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 300}), 0);
    struct net *net = pair_net();
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_ge(limit.rlim_cur, PAIR_SOCKETS * 4);
    net_free(&net);

    struct err err = {0};
    const struct net_options many = {.io_threads = 1, .sockets_max = 100};
    ck_assert_int_eq(net_new(&many, &net, &err), ERR_RESOURCE);
    ck_assert_msg(strstr(err.message, "100 links need 464 file descriptors, the hard limit of this "
                                      "process is 300") != NULL,
                  "%s", err.message);
}
END_TEST

START_TEST(as_many_links_as_promised_can_be_opened)
{
    enum { LINKS = 600 };
    struct net *net = NULL;
    struct err err = {0};
    const struct net_options many = {.io_threads = 1, .sockets_max = 2 * LINKS + 1};
    if (net_new(&many, &net, &err) != OK) {
        printf("SKIP as_many_links_as_promised_can_be_opened: %s\n", err.message);
        return;
    }
    struct net_socket *listener = pair_listen(net, 0, true);
    for (int i = 0; i < LINKS; i++) {
        pair_send(pair_connect(net, net_port(listener), true), 0, "hello", 5, NULL);
    }
    for (int i = 0; i < LINKS; i++) {
        struct net_message message;
        pair_receive(net, listener, &message);
        net_message_fini(&message);
    }
    net_free(&net);
}
END_TEST

START_TEST(congestion_control_has_a_name)
{
    char name[NAME_BYTES_MAX] = "";
    net_congestion_control(name);
    ck_assert_uint_gt(strlen(name), 0);
    ck_assert_ptr_null(strchr(name, '\n'));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net");
    TCase *tc = tcase_create("net");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, frames_arrive_with_their_bytes);
    tcase_add_test(tc, heads_of_all_sizes_arrive);
    tcase_add_test(tc, messages_of_a_peer_keep_their_order);
    tcase_add_loop_test(tc, a_full_queue_takes_nothing_and_releases_nothing, 0, 2);
    tcase_add_test(tc, closing_releases_what_was_taken_and_not_sent);
    tcase_add_test(tc, a_body_lost_after_its_head_is_released_once);
    tcase_add_test(tc, sending_receiving_and_polling_allocate_nothing_of_ours);
    tcase_add_test(tc, kept_memory_saves_page_faults);
    tcase_add_test(tc, without_a_connection_nothing_is_taken);
    tcase_add_test(tc, a_peer_that_left_is_gone_and_never_returns);
    tcase_add_test(tc, every_body_taken_is_released_once_when_connections_break);
    tcase_add_test(tc, a_connection_is_made_again_after_a_loss);
    tcase_add_test(tc, a_port_in_use_is_named);
    tcase_add_test(tc, outside_loopback_is_refused_unless_insecure);
    tcase_add_test(tc, insecure_allows_it_and_says_so);
    tcase_add_test(tc, links_work_over_ipv6);
    tcase_add_test(tc, polling_waits_for_descriptors_time_and_signals);
    tcase_add_test(tc, descriptor_limits_are_raised_or_named);
    tcase_add_test(tc, as_many_links_as_promised_can_be_opened);
    tcase_add_test(tc, congestion_control_has_a_name);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
