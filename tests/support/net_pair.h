/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener and a connection to it on loopback, for tests of net.h: each helper ends the test when
 * what it waits for does not come in time.
 */
#ifndef HEADRACE_TESTS_SUPPORT_NET_PAIR_H
#define HEADRACE_TESTS_SUPPORT_NET_PAIR_H

#include "common/net.h"

enum { PAIR_QUEUE = 8, PAIR_SOCKETS = 32 };

struct pair {
    struct net *net;
    struct net_socket *listener, *connection;
    uint64_t peer; /* the connection, as the listener sees it */
};

struct net *pair_net(void);
struct net_socket *pair_listen(struct net *net, uint16_t port, bool monitor);
struct net_socket *pair_connect(struct net *net, uint16_t port, bool monitor);
/* All three, and one message through it. */
struct pair pair_make(void);

int64_t pair_deadline(void);
/* Polls once for at most 100 ms. */
void pair_wait(struct net *net, struct net_socket *socket, int64_t until_ns);
void pair_receive(struct net *net, struct net_socket *socket, struct net_message *out);
/* Until it is taken: the connection is there and the queue has room. */
void pair_send(struct net_socket *socket, uint64_t peer, const void *head, size_t head_count,
               const struct net_body *body);

#endif
