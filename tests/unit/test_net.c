/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of net.h over real sockets on loopback. */
#include "common/net.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "support/suite.h"

enum { DEADLINE_S = 20, QUEUE = 8 };

struct pair { /* a listener and one connection to it */
    struct net *net;
    struct net_socket *listener, *connection;
    net_peer peer; /* the connection, as the listener sees it */
};

static struct net *net_make(void)
{
    struct net *net = NULL;
    struct err err = {0};
    ck_assert_msg(net_new(&(struct net_options){.io_threads = 1, .sockets_max = 32}, &net, &err) ==
                      OK,
                  "%s", err.message);
    return net;
}

static struct net_socket *listen_at(struct net *net, uint16_t port, bool monitor)
{
    struct net_socket *socket = NULL;
    struct err err = {0};
    const struct net_socket_options options = {
        .address = "127.0.0.1", .port = port, .queue_messages = QUEUE, .monitor = monitor};
    ck_assert_msg(net_listen(net, &options, &socket, &err) == OK, "%s", err.message);
    return socket;
}

static struct net_socket *connect_to(struct net *net, uint16_t port, bool monitor)
{
    struct net_socket *socket = NULL;
    struct err err = {0};
    const struct net_socket_options options = {
        .address = "127.0.0.1", .port = port, .queue_messages = QUEUE, .monitor = monitor};
    ck_assert_msg(net_connect(net, &options, &socket, &err) == OK, "%s", err.message);
    return socket;
}

static int64_t deadline(void)
{
    return clock_now_ns() + DEADLINE_S * NS_PER_S;
}

static void wait_readable(struct net *net, struct net_socket *socket, int64_t until_ns)
{
    ck_assert_msg(clock_now_ns() < until_ns, "nothing came in time");
    struct net_poll_item item = {.socket = socket};
    ck_assert_int_eq(net_poll(net, &item, 1, 100, NULL), OK);
}

static void receive(struct net *net, struct net_socket *socket, struct net_message *out)
{
    const int64_t until = deadline();
    enum status status;
    while ((status = net_receive(socket, out, NULL)) == ERR_AGAIN) {
        wait_readable(net, socket, until);
    }
    ck_assert_int_eq(status, OK);
}

/* A connection is there once a send is taken. */
static void send_when_connected(struct net_socket *socket, const char *text)
{
    const int64_t until = deadline();
    enum status status;
    while ((status = net_send(socket, 0, text, strlen(text), NULL)) == ERR_AGAIN) {
        ck_assert_msg(clock_now_ns() < until, "no connection in time");
        usleep(1000);
    }
    ck_assert_int_eq(status, OK);
}

static struct pair pair_make(void)
{
    struct pair pair = {.net = net_make()};
    pair.listener = listen_at(pair.net, 0, false);
    pair.connection = connect_to(pair.net, net_port(pair.listener), false);
    send_when_connected(pair.connection, "hello");
    struct net_message message;
    receive(pair.net, pair.listener, &message);
    pair.peer = message.peer;
    net_message_fini(&message);
    ck_assert_uint_ne(pair.peer, 0);
    return pair;
}

static void count_release(void *body, void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

START_TEST(frames_arrive_with_their_bytes)
{
    struct pair pair = pair_make();
    static uint8_t bytes[PART_BYTES_MAX];
    memset(bytes, 0x5A, sizeof(bytes));
    static atomic_int released;
    const struct net_body body = {bytes, sizeof(bytes), count_release, &released};
    struct net_message message;

    ck_assert_int_eq(net_send(pair.connection, 0, "head", 4, &body), OK);
    receive(pair.net, pair.listener, &message);
    ck_assert_uint_eq(message.peer, pair.peer);
    ck_assert_uint_eq(message.head_count, 4);
    ck_assert_int_eq(memcmp(message.head, "head", 4), 0);
    ck_assert_uint_eq(message.body_count, sizeof(bytes));
    ck_assert_int_eq(memcmp(message.body, bytes, sizeof(bytes)), 0);
    net_message_fini(&message);

    ck_assert_int_eq(net_send(pair.listener, pair.peer, "grant", 5, NULL), OK);
    receive(pair.net, pair.connection, &message);
    ck_assert_uint_eq(message.peer, 0);
    ck_assert_uint_eq(message.head_count, 5);
    ck_assert_ptr_null(message.body);
    net_message_fini(&message);

    net_free(&pair.net);
    ck_assert_ptr_null(pair.net);
    ck_assert_int_eq(atomic_load(&released), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net");
    TCase *tc = tcase_create("net");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, frames_arrive_with_their_bytes);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
