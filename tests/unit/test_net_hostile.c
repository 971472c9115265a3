/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peers may do to a listener that do not keep to net.h: they speak ZeroMQ or plain TCP
 * themselves. The listener refuses what is wrong and goes on serving the others.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "support/net_pair.h"
#include "support/suite.h"

struct raw { /* a ZeroMQ peer of our listener that obeys nobody */
    void *context, *zmq;
};

static struct raw raw_connect(uint16_t port, const char *name)
{
    struct raw raw = {.context = zmq_ctx_new()};
    ck_assert_ptr_nonnull(raw.context);
    raw.zmq = zmq_socket(raw.context, ZMQ_DEALER);
    ck_assert_ptr_nonnull(raw.zmq);
    const int linger = 1000;
    ck_assert_int_eq(zmq_setsockopt(raw.zmq, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    if (name != NULL) {
        ck_assert_int_eq(zmq_setsockopt(raw.zmq, ZMQ_ROUTING_ID, name, strlen(name)), 0);
    }
    char endpoint[64];
    snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:%u", port);
    ck_assert_int_eq(zmq_connect(raw.zmq, endpoint), 0);
    return raw;
}

static void raw_send(const struct raw *raw, size_t count, int frames)
{
    static uint8_t bytes[NET_MESSAGE_BYTES_MAX + 1];
    for (int i = 0; i < frames; i++) {
        const int sent = zmq_send(raw->zmq, bytes, count, i + 1 < frames ? ZMQ_SNDMORE : 0);
        ck_assert_int_eq(sent, (int)count);
    }
}

static void raw_close(struct raw *raw)
{
    zmq_close(raw->zmq);
    zmq_ctx_term(raw->context);
}

static enum status next(struct pair *pair, struct net_message *message, struct err *err)
{
    const int64_t until = pair_deadline();
    enum status status;
    while ((status = net_receive(pair->listener, message, err)) == ERR_AGAIN) {
        pair_wait(pair->net, pair->listener, until);
    }
    return status;
}

/* The honest peer's message comes through, and it is the next that comes. */
static void expect_service(struct pair *pair)
{
    pair_send(pair->connection, 0, "still here", 10, NULL);
    struct net_message message;
    struct err err = {0};
    ck_assert_msg(next(pair, &message, &err) == OK, "%s", err.message);
    ck_assert_uint_eq(message.peer, pair->peer);
    ck_assert_int_eq(memcmp(message.head, "still here", 10), 0);
    net_message_fini(&message);
}

START_TEST(a_message_of_too_many_frames_is_refused_and_drained)
{
    static const int FRAMES[] = {3, 4, 64, 65, 66, 67, 68, 131, 5000};
    struct pair pair = pair_make();
    struct raw raw = raw_connect(net_port(pair.listener), NULL);
    for (size_t i = 0; i < ARRAY_LEN(FRAMES); i++) {
        raw_send(&raw, 10, FRAMES[i]);
        raw_send(&raw, 11, 2);
        struct net_message message;
        struct err err = {0};
        ck_assert_int_eq(next(&pair, &message, &err), ERR_PEER_WRONG);
        ck_assert_msg(strstr(err.message, "more than two frames") != NULL, "%s", err.message);
        ck_assert_uint_ne(message.peer, 0);
        ck_assert_uint_ne(message.peer, pair.peer);
        const uint64_t wrong = message.peer;
        ck_assert_int_eq(next(&pair, &message, &err), OK);
        ck_assert_uint_eq(message.peer, wrong);
        ck_assert_uint_eq(message.head_count, 11);
        ck_assert_uint_eq(message.body_count, 11);
        net_message_fini(&message);
    }
    expect_service(&pair);
    raw_close(&raw);
    net_free(&pair.net);
}
END_TEST

START_TEST(a_peer_that_names_itself_is_refused)
{
    struct pair pair = pair_make();
    struct raw raw = raw_connect(net_port(pair.listener), "queen");
    for (int frames = 1; frames <= 4; frames++) {
        raw_send(&raw, 10, frames);
        struct net_message message;
        struct err err = {0};
        ck_assert_int_eq(next(&pair, &message, &err), ERR_PEER_WRONG);
        ck_assert_uint_eq(message.peer, 0);
    }
    expect_service(&pair);
    raw_close(&raw);
    net_free(&pair.net);
}
END_TEST

START_TEST(an_empty_frame_is_a_frame)
{
    struct pair pair = pair_make();
    struct raw raw = raw_connect(net_port(pair.listener), NULL);
    raw_send(&raw, 0, 2);
    struct net_message message;
    ck_assert_int_eq(next(&pair, &message, NULL), OK);
    ck_assert_uint_eq(message.head_count, 0);
    ck_assert_ptr_nonnull(message.body);
    ck_assert_uint_eq(message.body_count, 0);
    net_message_fini(&message);
    expect_service(&pair);
    raw_close(&raw);
    net_free(&pair.net);
}
END_TEST

START_TEST(a_frame_over_the_limit_ends_its_link_only)
{
    struct pair pair = pair_make();
    struct raw raw = raw_connect(net_port(pair.listener), NULL);
    raw_send(&raw, NET_MESSAGE_BYTES_MAX, 1);
    struct net_message message;
    ck_assert_int_eq(next(&pair, &message, NULL), OK);
    ck_assert_uint_eq(message.head_count, NET_MESSAGE_BYTES_MAX);
    const uint64_t peer = message.peer;
    net_message_fini(&message);

    raw_send(&raw, NET_MESSAGE_BYTES_MAX + 1, 1);
    const int64_t until = pair_deadline();
    while (net_send(pair.listener, peer, "x", 1, NULL) != ERR_PEER_GONE) {
        ck_assert_msg(clock_now_ns() < until, "the link was not ended");
        pair_wait(pair.net, pair.listener, until);
    }
    expect_service(&pair);
    raw_close(&raw);
    net_free(&pair.net);
}
END_TEST

/* ---- plain TCP ---- */

static int tcp_connect(uint16_t port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static struct pair watched_pair(void)
{
    struct pair pair = {.net = pair_net()};
    pair.listener = pair_listen(pair.net, 0, true);
    pair.connection = pair_connect(pair.net, net_port(pair.listener), false);
    pair_send(pair.connection, 0, "hello", 5, NULL);
    struct net_message message;
    pair_receive(pair.net, pair.listener, &message);
    pair.peer = message.peer;
    net_message_fini(&message);
    return pair;
}

START_TEST(bytes_that_are_no_zeromq_are_reported_and_survived)
{
    struct random_state random = {test_seed()};
    struct pair pair = watched_pair();
    int failed = 0;
    for (int i = 0; i < 200; i++) {
        const int fd = tcp_connect(net_port(pair.listener));
        uint8_t bytes[256];
        for (size_t k = 0; k < sizeof(bytes); k++) {
            bytes[k] = (uint8_t)random_u64(&random);
        }
        /* Some get past the signature, some past the greeting, with noise behind. */
        static const uint8_t GREETING[64] = {0xFF, 0,    0, 0, 0,   0,   0,   0,
                                             1,    0x7F, 3, 0, 'N', 'U', 'L', 'L'};
        memcpy(bytes, GREETING, random_u64(&random) % (sizeof(GREETING) + 1));
        (void)send(fd, bytes, 1 + random_u64(&random) % sizeof(bytes), MSG_NOSIGNAL);
        close(fd);
        enum net_event_kind kind;
        while (net_event(pair.listener, &kind) == OK) {
            failed += kind != NET_CONNECTED;
        }
    }
    const int64_t until = pair_deadline();
    while (failed == 0) {
        pair_wait(pair.net, pair.listener, until);
        enum net_event_kind kind;
        while (net_event(pair.listener, &kind) == OK) {
            failed += kind != NET_CONNECTED;
        }
    }
    /* Noise may happen to be a message of an old ZeroMQ protocol, without a handshake. */
    pair_send(pair.connection, 0, "still here", 10, NULL);
    struct net_message message = {.peer = 0};
    while (message.peer != pair.peer) {
        if (next(&pair, &message, NULL) == OK) {
            net_message_fini(&message);
        }
    }
    net_free(&pair.net);
}
END_TEST

START_TEST(silent_connections_do_not_keep_others_out)
{
    enum { SILENT = 100 };
    struct pair pair = pair_make();
    int fds[SILENT];
    for (int i = 0; i < SILENT; i++) {
        fds[i] = tcp_connect(net_port(pair.listener));
    }
    expect_service(&pair);
    struct net_socket *second = pair_connect(pair.net, net_port(pair.listener), false);
    pair_send(second, 0, "new", 3, NULL);
    struct net_message message;
    pair_receive(pair.net, pair.listener, &message);
    ck_assert_uint_eq(message.head_count, 3);
    net_message_fini(&message);
    for (int i = 0; i < SILENT; i++) {
        close(fds[i]);
    }
    net_free(&pair.net);
}
END_TEST

/* More events than a monitor's queue holds, while the owner polls but never asks for one: were they
 * not drained, the I/O thread would stop, and with it every link. */
START_TEST(events_that_nobody_asks_for_stop_nothing)
{
    struct pair pair = watched_pair();
    for (int i = 0; i < 5000; i++) {
        const int fd = tcp_connect(net_port(pair.listener));
        (void)send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
        close(fd);
        if (i % 16 == 0) {
            struct net_poll_item item = {.socket = pair.listener};
            ck_assert_int_eq(net_poll(pair.net, &item, 1, 0, NULL), OK);
        }
    }
    expect_service(&pair);
    enum net_event_kind kind;
    int kept = 0;
    while (net_event(pair.listener, &kind) == OK) {
        kept++;
    }
    ck_assert_int_gt(kept, 0);
    net_free(&pair.net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net_hostile");
    TCase *tc = tcase_create("net_hostile");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_message_of_too_many_frames_is_refused_and_drained);
    tcase_add_test(tc, a_peer_that_names_itself_is_refused);
    tcase_add_test(tc, an_empty_frame_is_a_frame);
    tcase_add_test(tc, a_frame_over_the_limit_ends_its_link_only);
    tcase_add_test(tc, bytes_that_are_no_zeromq_are_reported_and_survived);
    tcase_add_test(tc, silent_connections_do_not_keep_others_out);
    tcase_add_test(tc, events_that_nobody_asks_for_stop_nothing);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
