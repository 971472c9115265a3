/* SPDX-License-Identifier: Apache-2.0 */
#include "support/net_pair.h"

#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "support/suite.h"

enum { DEADLINE_S = 20 };

struct net *pair_net(void)
{
    struct net *net = NULL;
    struct err err = {0};
    ck_assert_msg(net_new(&(struct net_options){.io_threads = 1, .sockets_max = PAIR_SOCKETS}, &net,
                          &err) == OK,
                  "%s", err.message);
    return net;
}

struct net_socket *pair_listen(struct net *net, uint16_t port, bool monitor)
{
    struct net_socket *socket = NULL;
    struct err err = {0};
    const struct net_socket_options options = {
        .address = "127.0.0.1", .port = port, .queue_messages = PAIR_QUEUE, .monitor = monitor};
    ck_assert_msg(net_listen(net, &options, &socket, &err) == OK, "%s", err.message);
    return socket;
}

struct net_socket *pair_connect(struct net *net, uint16_t port, bool monitor)
{
    struct net_socket *socket = NULL;
    struct err err = {0};
    const struct net_socket_options options = {
        .address = "127.0.0.1", .port = port, .queue_messages = PAIR_QUEUE, .monitor = monitor};
    ck_assert_msg(net_connect(net, &options, &socket, &err) == OK, "%s", err.message);
    return socket;
}

int64_t pair_deadline(void)
{
    return clock_now_ns() + DEADLINE_S * NS_PER_S;
}

void pair_wait(struct net *net, struct net_socket *socket, int64_t until_ns)
{
    ck_assert_msg(clock_now_ns() < until_ns, "nothing came in time");
    struct net_poll_item item = {.socket = socket};
    ck_assert_int_eq(net_poll(net, &item, 1, 100, NULL), OK);
}

void pair_receive(struct net *net, struct net_socket *socket, struct net_message *out)
{
    const int64_t until = pair_deadline();
    enum status status;
    while ((status = net_receive(socket, out, NULL)) == ERR_AGAIN) {
        pair_wait(net, socket, until);
    }
    ck_assert_int_eq(status, OK);
}

void pair_send(struct net_socket *socket, uint64_t peer, const void *head, size_t head_count,
               const struct net_body *body)
{
    const int64_t until = pair_deadline();
    enum status status;
    while ((status = net_send(socket, peer, head, head_count, body)) == ERR_AGAIN) {
        ck_assert_msg(clock_now_ns() < until, "not taken in time");
        usleep(1000);
    }
    ck_assert_int_eq(status, OK);
}

struct pair pair_make(void)
{
    struct pair pair = {.net = pair_net()};
    pair.listener = pair_listen(pair.net, 0, false);
    pair.connection = pair_connect(pair.net, net_port(pair.listener), false);
    pair_send(pair.connection, 0, "hello", 5, NULL);
    struct net_message message;
    pair_receive(pair.net, pair.listener, &message);
    pair.peer = message.peer;
    net_message_fini(&message);
    ck_assert_uint_ne(pair.peer, 0);
    return pair;
}
