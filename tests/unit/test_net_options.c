/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which options ZeroMQ is given, and when: its functions are watched from in front. The values are
 * those of docs/PROTOCOL.md, "Links"; the defaults of many are unsafe, so each is a promise.
 */
#include <dlfcn.h>
#include <zmq.h>

#include "support/net_pair.h"
#include "support/suite.h"

enum { RECORDS_MAX = 256 };

static struct record {
    void *socket; /* or context */
    int option;
    int64_t value;
    bool late; /* set after the socket was bound or connected */
} records[RECORDS_MAX];
static int record_count;
static void *attached[RECORDS_MAX];
static int attached_count;

static void *real(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    ck_assert_ptr_nonnull(function);
    return function;
}

static bool is_attached(const void *socket)
{
    for (int i = 0; i < attached_count; i++) {
        if (attached[i] == socket) {
            return true;
        }
    }
    return false;
}

static void record(void *socket, int option, int64_t value)
{
    ck_assert_int_lt(record_count, RECORDS_MAX);
    records[record_count++] = (struct record){socket, option, value, is_attached(socket)};
}

int zmq_setsockopt(void *socket, int option, const void *value, size_t count)
{
    record(socket, option,
           count == sizeof(int64_t) ? *(const int64_t *)value : *(const int *)value);
    return ((int (*)(void *, int, const void *, size_t))real("zmq_setsockopt"))(socket, option,
                                                                                value, count);
}

int zmq_ctx_set(void *context, int option, int value)
{
    record(context, option, value);
    return ((int (*)(void *, int, int))real("zmq_ctx_set"))(context, option, value);
}

int zmq_bind(void *socket, const char *endpoint)
{
    attached[attached_count++] = socket;
    return ((int (*)(void *, const char *))real("zmq_bind"))(socket, endpoint);
}

int zmq_connect(void *socket, const char *endpoint)
{
    attached[attached_count++] = socket;
    return ((int (*)(void *, const char *))real("zmq_connect"))(socket, endpoint);
}

static void expect(const void *socket, int option, int64_t value)
{
    int found = 0;
    for (int i = 0; i < record_count; i++) {
        if (records[i].socket == socket && records[i].option == option && !records[i].late) {
            ck_assert_msg(records[i].value == value, "option %d is %" PRId64 ", wanted %" PRId64,
                          option, records[i].value, value);
            found++;
        }
    }
    ck_assert_msg(found == 1, "option %d was set %d times before attaching", option, found);
}

static void expect_common(const void *socket)
{
    expect(socket, ZMQ_MAXMSGSIZE, NET_MESSAGE_BYTES_MAX);
    expect(socket, ZMQ_SNDHWM, PAIR_QUEUE);
    expect(socket, ZMQ_RCVHWM, PAIR_QUEUE);
    expect(socket, ZMQ_LINGER, 0);
    expect(socket, ZMQ_HANDSHAKE_IVL, 5000);
    expect(socket, ZMQ_HEARTBEAT_IVL, 0);
    expect(socket, ZMQ_TCP_MAXRT, 180000);
    expect(socket, ZMQ_TCP_KEEPALIVE, 1);
    expect(socket, ZMQ_TCP_KEEPALIVE_IDLE, 15);
    expect(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5);
    expect(socket, ZMQ_TCP_KEEPALIVE_CNT, 3);
    expect(socket, ZMQ_SNDBUF, 1 << 20);
    expect(socket, ZMQ_RCVBUF, 1 << 20);
    expect(socket, ZMQ_IPV6, 0);
}

START_TEST(every_socket_has_its_options_before_it_is_attached)
{
    struct net *net = pair_net();
    struct net_socket *listener = pair_listen(net, 0, false);
    (void)pair_connect(net, net_port(listener), false);
    ck_assert_int_eq(attached_count, 2);
    expect_common(attached[0]);
    expect(attached[0], ZMQ_ROUTER_MANDATORY, 1);
    expect(attached[0], ZMQ_BACKLOG, 256);
    expect_common(attached[1]);
    expect(attached[1], ZMQ_IMMEDIATE, 1);
    expect(attached[1], ZMQ_CONNECT_TIMEOUT, 5000);
    expect(attached[1], ZMQ_RECONNECT_IVL, 100);
    expect(attached[1], ZMQ_RECONNECT_IVL_MAX, 5000);
    net_free(&net);
    for (int i = 0; i < record_count; i++) {
        ck_assert_msg(!records[i].late || records[i].option == ZMQ_LINGER,
                      "option %d was changed late", records[i].option);
        ck_assert_int_ne(records[i].option, ZMQ_ROUTING_ID);
        ck_assert_int_ne(records[i].option, ZMQ_ROUTER_HANDOVER);
    }
}
END_TEST

START_TEST(the_context_is_sized_for_its_links)
{
    struct net *net = pair_net();
    ck_assert_int_eq(record_count, 3);
    const void *context = records[0].socket;
    expect(context, ZMQ_MAX_SOCKETS, 3 * PAIR_SOCKETS + 1);
    expect(context, ZMQ_IO_THREADS, 1);
    expect(context, ZMQ_BLOCKY, 0);
    net_free(&net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net_options");
    TCase *tc = tcase_create("net_options");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_socket_has_its_options_before_it_is_attached);
    tcase_add_test(tc, the_context_is_sized_for_its_links);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
