/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's session with a producer, over a real link: the test plays the rank and the server's
 * loop, readers and decoders are the real ones. What settles a lease must arrive in order, or the
 * session must end: a rank keeps books of it.
 */
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "producer/server_internal.h"
#include "support/net_pair.h"
#include "support/picture.h"
#include "support/suite.h"
#include "support/tree.h"

enum { ROWS = 8, SIDE = 224, SAMPLES = 16, BATCHES = 2, QUEUE = 64, SESSION = 77 };

static struct tree tree;
static struct net *rank_net;
static struct net_socket *rank_socket;
static struct config config;
static struct roster_rank rank;
static struct roster roster;
static struct server_options options;
static struct server server;
static struct link link_;
static uint64_t peer;

/* ---- the producer ---- */

static void open_stream(void)
{
    struct err err = {0};
    char path[32];
    tree = tree_make();
    for (uint32_t i = 0; i < SAMPLES; i++) {
        struct picture picture = picture_new(64, 48, i);
        const struct jpeg_kind kind = {.components = 3, .h = {2}, .v = {2}, .quality = 80};
        struct bytes jpeg = picture_jpeg(&picture, &kind);
        snprintf(path, sizeof(path), "data/c/%02u.jpg", i);
        tree_write(&tree, path, jpeg.data, jpeg.count);
        free(jpeg.data);
        picture_free(&picture);
    }
    struct work_stream *stream = &server.streams[0];
    const struct index_options index = {.data_root = tree.root, .data = tree_path(&tree, "data")};
    const struct plan_options plan = {.stream = "train",
                                      .seed = 3,
                                      .samples = SAMPLES,
                                      .global_batch = ROWS,
                                      .world = 1,
                                      .shuffle = SHUFFLE_FULL,
                                      .last = LAST_DROP};
    ck_assert_msg(index_open(&index, &server.indexes[0], &err) == OK, "%s", err.message);
    stream->name = "train";
    stream->index = server.indexes[0];
    ck_assert_int_eq(
        pipeline_parse("[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\",\"size\":224}]",
                       &stream->pipeline, &err),
        OK);
    ck_assert_int_eq(plan_init(&plan, &stream->plan, &err), OK);
    ck_assert_int_eq(layout_init(ROWS, SIDE, SIDE, 3, &stream->layout, &err), OK);
}

static void open_work(void)
{
    struct err err = {0};
    server.stream_count = 1;
    server.quota = 1;
    server.grants_max = 4;
    server.wake_fd = eventfd(0, EFD_NONBLOCK);
    ck_assert_int_eq(
        batch_pool_new(BATCHES, server.streams[0].layout.bytes, server.wake_fd, &server.pool, &err),
        OK);
    const struct work_options work_options = {.threads = 1,
                                              .read_threads = 1,
                                              .stream_count = 1,
                                              .streams = server.streams,
                                              .orders_max = BATCHES,
                                              .wake_fd = server.wake_fd};
    ck_assert_int_eq(work_new(&work_options, &server.work, &err), OK);
}

static void step(void)
{
    struct net_poll_item items[] = {{.socket = link_.socket}, {.fd = server.wake_fd}};
    struct net_message message;
    struct err err;
    ck_assert_int_eq(net_poll(server.net, items, ARRAY_LEN(items), 20, &err), OK);
    eventfd_t ignored;
    (void)eventfd_read(server.wake_fd, &ignored);
    struct work_result result;
    while (work_take(server.work, &result)) {
        link_send_result(&server, &link_, &result);
    }
    while (net_receive(link_.socket, &message, &err) == OK) {
        link_on_message(&server, &link_, &message, clock_now_ns());
        net_message_fini(&message);
    }
    link_on_time(&server, &link_, clock_now_ns());
}

/* ---- the rank ---- */

static void say(const struct msg *msg)
{
    uint8_t bytes[MSG_BYTES_MAX];
    pair_send(rank_socket, peer, bytes, msg_encode(msg, bytes), NULL);
}

/* The next message that is no PING, while the producer goes on. */
static struct msg hear(void)
{
    const int64_t deadline = pair_deadline();
    struct msg msg = {.type = MSG_PING};
    while (msg.type == MSG_PING) {
        struct net_message message;
        struct err err = {0};
        ck_assert_msg(clock_now_ns() < deadline, "nothing came in time");
        step();
        if (net_receive(rank_socket, &message, &err) != OK) {
            continue;
        }
        peer = message.peer;
        ck_assert_int_eq(msg_decode(message.head, message.head_count, &msg, &err), OK);
        net_message_fini(&message);
    }
    return msg;
}

static void begin_session(void)
{
    const struct msg hello = hear();
    ck_assert_int_eq(hello.type, MSG_HELLO);
    say(&(struct msg){.type = MSG_WELCOME,
                      .session = SESSION,
                      .welcome = {.credit_bytes = 1 << 30, .attempt = hello.hello.attempt}});
    const int64_t deadline = pair_deadline();
    while (link_.state != LINK_LIVE) {
        ck_assert(clock_now_ns() < deadline);
        step();
    }
}

static void grant(uint32_t lease, uint64_t at)
{
    say(&(struct msg){.type = MSG_GRANT,
                      .session = SESSION,
                      .grant = {.lease = lease,
                                .step = at,
                                .due = at,
                                .part_count = server.streams[0].layout.part_count}});
}

static void setup(void)
{
    struct err err = {0};
    rank_net = pair_net();
    const struct net_socket_options listen = {.address = "127.0.0.1", .queue_messages = QUEUE};
    ck_assert_int_eq(net_listen(rank_net, &listen, &rank_socket, &err), OK);
    config = (struct config){.peer_timeout_s = 20};
    rank = (struct roster_rank){.port = net_port(rank_socket)};
    snprintf(rank.address, sizeof(rank.address), "127.0.0.1");
    roster = (struct roster){.job = 5, .ranks = &rank, .rank_count = 1};
    options = (struct server_options){.config = &config, .roster = &roster, .host = "algo-1"};
    server = (struct server){.options = &options, .instance = 9};
    link_ = (struct link){.rank = &rank};
    open_stream();
    open_work();
    link_.pending = calloc(server.grants_max, sizeof(*link_.pending));
    ck_assert_ptr_nonnull(link_.pending);
    ck_assert_int_eq(
        net_new(&(struct net_options){.io_threads = 1, .sockets_max = 1}, &server.net, &err), OK);
    const struct net_socket_options connect = {
        .address = "127.0.0.1", .port = rank.port, .queue_messages = QUEUE, .monitor = true};
    ck_assert_int_eq(net_connect(server.net, &connect, &link_.socket, &err), OK);
    begin_session();
}

static void teardown(void)
{
    work_free(&server.work);
    net_free(&server.net);
    net_free(&rank_net);
    free(link_.pending);
    batch_pool_free(&server.pool);
    index_free(&server.indexes[0]);
    close(server.wake_fd);
    tree_remove(&tree);
}

/* ---- tests ---- */

START_TEST(what_settles_leases_comes_in_order)
{
    const uint32_t parts = server.streams[0].layout.part_count;
    ck_assert_uint_gt(parts, 1);
    grant(1, 0);
    grant(2, 1); /* waits: the quota is one batch */
    say(&(struct msg){.type = MSG_CANCEL, .session = SESSION, .lease = {.lease = 2}});
    grant(3, 99); /* no such step */
    grant(4, 1);
    uint32_t data[5] = {0};
    bool returned = false;
    bool refused = false;
    while (data[1] < parts || data[4] < parts || !returned || !refused) {
        const struct msg msg = hear();
        ck_assert_uint_eq(msg.session, SESSION);
        if (msg.type == MSG_RETURN) {
            ck_assert_uint_eq(msg.lease.lease, 2);
            ck_assert(!returned);
            returned = true;
        } else if (msg.type == MSG_NACK) {
            ck_assert_uint_eq(msg.nack.lease, 3);
            ck_assert_int_eq(msg.nack.code, NACK_RANGE);
            ck_assert(returned); /* the grants' order */
            refused = true;
        } else {
            ck_assert_int_eq(msg.type, MSG_DATA);
            ck_assert(msg.data.lease == 1 || msg.data.lease == 4);
            data[msg.data.lease]++;
            ck_assert_int_eq(msg.data.last, data[msg.data.lease] == parts);
        }
    }
    ck_assert_uint_eq(data[1], parts);
    ck_assert_uint_eq(data[4], parts);
}
END_TEST

static struct work_result result_of(enum work_result_kind kind)
{
    struct work_result result = {.kind = kind,
                                 .generation = link_.generation,
                                 .ready_ns = clock_now_ns(),
                                 .nack = {.lease = 1, .code = NACK_IO, .text = "test"}};
    if (kind == WORK_PART) {
        result.batch = batch_get(server.pool);
        ck_assert_ptr_nonnull(result.batch);
        result.data = (struct msg_data){.lease = 1, .part_count = 1, .length = 8, .last = true};
    }
    return result;
}

START_TEST(a_session_ends_when_what_settles_a_lease_cannot_be_sent)
{
    static const enum work_result_kind KINDS[] = {WORK_PART, WORK_NACK, WORK_RETURNED};
    net_close(&rank_socket, 0);
    const int64_t deadline = pair_deadline();
    while (net_send(link_.socket, 0, "lost", 4, NULL) == OK) { /* until the pipe is taken down */
        ck_assert(clock_now_ns() < deadline);
        usleep(1000);
    }
    ck_assert_int_eq(link_.state, LINK_LIVE); /* nobody has said so yet */
    const uint32_t generation = link_.generation;
    const struct work_result result = result_of(KINDS[_i]);
    link_send_result(&server, &link_, &result);
    ck_assert_int_eq(link_.state, LINK_HELLO);
    ck_assert_uint_eq(link_.attempt, 1);
    ck_assert_uint_eq(link_.generation, generation + 1);
    ck_assert_uint_eq(batch_pool_in_use(server.pool), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("server_link");
    TCase *tc = tcase_create("server_link");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_settles_leases_comes_in_order);
    tcase_add_loop_test(tc, a_session_ends_when_what_settles_a_lease_cannot_be_sent, 0, 3);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
