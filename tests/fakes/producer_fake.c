/* SPDX-License-Identifier: Apache-2.0 */
/* The fake producer: one thread, one link, one grant after the other. All memory is taken before it
 * runs, so that a test can count what the other side allocates. */
#include "fakes/producer_fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/net.h"

#define HELLO_NS (200 * NS_PER_MS) /* five times as often as a real one, to save time */
enum { BUFFERS = 32, GRANTS_MAX = 512, POLL_MS = 20, QUEUE_MESSAGES = 64 };

struct buffer {
    atomic_bool used;
    uint8_t bytes[PART_BYTES_MAX];
};

struct producer_fake {
    struct producer_fake_options options;
    pthread_t thread;
    atomic_bool stop, done_heard;
    atomic_uint parts, rejects, wanted;
    struct net *net;
    struct net_socket *socket;
    uint64_t session, random;
    uint32_t attempt;
    int64_t hello_ns;
    bool over, hung, garbage_sent;
    struct msg_grant grants[GRANTS_MAX];
    uint32_t first, count;
    uint8_t *batch[STREAMS_MAX]; /* scratch: one whole batch */
    struct buffer *buffers;
};

static uint32_t next_random(struct producer_fake *p)
{
    p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(p->random >> 33);
}

static bool say(struct producer_fake *p, const struct msg *msg)
{
    uint8_t bytes[MSG_BYTES_MAX];
    const size_t count = msg_encode(msg, bytes);
    return net_send(p->socket, 0, bytes, count, NULL) == OK;
}

static void say_hello(struct producer_fake *p, int64_t now_ns)
{
    if (p->session != 0 || now_ns < p->hello_ns) {
        return;
    }
    uint64_t capacity = 0;
    struct msg msg = {.type = MSG_HELLO,
                      .hello = {.job = p->options.job,
                                .instance = p->options.instance,
                                .attempt = p->attempt,
                                .fingerprint = p->options.fingerprint,
                                .stream_count = p->options.stream_count}};
    (void)snprintf(msg.hello.host, sizeof(msg.hello.host), "%s", p->options.host);
    for (uint32_t i = 0; i < p->options.stream_count; i++) {
        msg.hello.streams[i].samples = p->options.streams[i].plan->samples;
        msg.hello.streams[i].digest = p->options.digest;
        msg.hello.streams[i].classes = p->options.classes;
        msg.hello.streams[i].buckets[0] = (uint32_t)p->options.streams[i].plan->samples;
        capacity += 16 * p->options.streams[i].layout->bytes;
    }
    msg.hello.capacity_bytes = capacity;
    (void)say(p, &msg);
    p->hello_ns = now_ns + HELLO_NS;
}

static void drop_session(struct producer_fake *p)
{
    p->session = 0;
    p->attempt++;
    p->count = 0;
    p->hello_ns = 0;
}

static void on_reject(struct producer_fake *p, const struct msg_reject *reject)
{
    if (reject->code == REJECT_DATA) {
        if (reject->bucket_count > 0) {
            atomic_store(&p->wanted, reject->buckets[0]);
        }
        atomic_fetch_add(&p->rejects, 1);
    }
    if (reject->refused != 0 && reject->refused == p->session) {
        drop_session(p);
    }
}

static void on_cancel(struct producer_fake *p, uint32_t lease)
{
    for (uint32_t i = 0; i < p->count; i++) {
        struct msg_grant *grant = &p->grants[(p->first + i) % GRANTS_MAX];
        if (grant->lease == lease && grant->part_count > 0) {
            grant->part_count = 0;
            const struct msg msg = {
                .type = MSG_RETURN, .session = p->session, .lease = {.lease = lease}};
            (void)say(p, &msg);
        }
    }
}

static void on_message(struct producer_fake *p, const struct msg *msg)
{
    struct msg answer = {.session = msg->session};
    switch (msg->type) {
    case MSG_WELCOME:
        p->session = msg->welcome.attempt == p->attempt ? msg->session : p->session;
        return;
    case MSG_REJECT:
        on_reject(p, &msg->reject);
        return;
    case MSG_GRANT:
        if (msg->session == p->session) {
            CHECK(p->count < GRANTS_MAX);
            p->grants[(p->first + p->count++) % GRANTS_MAX] = msg->grant;
        }
        return;
    case MSG_CANCEL:
        on_cancel(p, msg->lease.lease);
        return;
    case MSG_PING:
        answer.type = MSG_PONG;
        answer.ping.seq = msg->ping.seq;
        (void)say(p, &answer);
        return;
    case MSG_DONE:
        answer.type = MSG_BYE;
        (void)say(p, &answer);
        atomic_store(&p->done_heard, true);
        p->count = 0;
        return;
    default:
        return;
    }
}

static void receive(struct producer_fake *p)
{
    struct net_message message;
    struct err err;
    while (net_receive(p->socket, &message, &err) == OK) {
        struct msg msg;
        if (msg_decode(message.head, message.head_count, &msg, &err) == OK) {
            on_message(p, &msg);
        }
        net_message_fini(&message);
    }
}

static void release(void *body, void *context)
{
    (void)body;
    atomic_store(&((struct buffer *)context)->used, false);
}

static struct buffer *free_buffer(struct producer_fake *p)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (!atomic_load(&p->buffers[i].used)) {
            return &p->buffers[i];
        }
    }
    return NULL;
}

static bool is_turn(uint32_t every, uint32_t number)
{
    return every != 0 && number % every == every - 1;
}

/* False: the link is full or gone, try again. */
static bool send_bytes(struct producer_fake *p, const struct msg *msg, const uint8_t *bytes)
{
    struct buffer *buffer = free_buffer(p);
    if (buffer == NULL) {
        return false;
    }
    uint8_t head[MSG_BYTES_MAX];
    const size_t count = msg_encode(msg, head);
    memcpy(buffer->bytes, bytes, msg->data.length);
    atomic_store(&buffer->used, true);
    const struct net_body body = {buffer->bytes, msg->data.length, release, buffer};
    if (net_send(p->socket, 0, head, count, &body) != OK) {
        atomic_store(&buffer->used, false);
        return false;
    }
    return true;
}

/* A second copy that would do harm if it were written: its checksum holds, its pixels are others.
 */
static void send_double(struct producer_fake *p, const struct msg *msg, uint8_t *bytes)
{
    struct msg again = *msg;
    bytes[0] ^= 0xFF;
    const struct hash128 sum = hash128(bytes, msg->data.length);
    again.data.sum_low = sum.low;
    again.data.sum_high = sum.high;
    again.data.last = false;
    (void)send_bytes(p, &again, bytes);
    bytes[0] ^= 0xFF;
}

/* The next part of the oldest grant. False: nothing to do, or not now. */
static bool send_part(struct producer_fake *p)
{
    struct msg_grant *grant = &p->grants[p->first];
    const struct batch_fake *fake = &p->options.streams[grant->stream];
    uint8_t *batch = p->batch[grant->stream];
    const uint32_t number = atomic_load(&p->parts);
    batch_fake_fill(fake, grant->epoch, grant->step, batch);
    struct msg msg = {.type = MSG_DATA, .session = p->session};
    if (is_turn(p->options.wrong_id_every, number)) {
        batch[fake->layout->sample_id_offset] ^= 1;
    }
    batch_fake_part(fake, grant->epoch, grant->step, grant->first_part, batch, &msg.data);
    msg.data.lease = grant->lease;
    msg.data.stream = grant->stream;
    msg.data.last = grant->part_count == 1;
    msg.data.decode_ns = msg.data.last ? 1000 : 0;
    msg.data.sum_low ^= is_turn(p->options.corrupt_every, number);
    uint8_t *bytes = batch + msg.data.offset;
    if (!send_bytes(p, &msg, bytes)) {
        return false;
    }
    if (is_turn(p->options.double_every, number)) {
        send_double(p, &msg, bytes);
    }
    atomic_fetch_add(&p->parts, 1);
    grant->first_part++;
    grant->part_count--;
    return true;
}

static void refuse(struct producer_fake *p, const struct msg_grant *grant)
{
    const struct msg msg = {
        .type = MSG_NACK,
        .session = p->session,
        .nack = {.lease = grant->lease, .code = NACK_BAD_BUDGET, .text = "fake: no good sample"}};
    (void)say(p, &msg);
}

static void misbehave(struct producer_fake *p)
{
    const uint32_t parts = atomic_load(&p->parts);
    const struct producer_fake_options *options = &p->options;
    p->over = options->end_after != 0 && parts >= options->end_after;
    p->hung = options->hang_after != 0 && parts >= options->hang_after;
    if (options->garbage_after != 0 && parts >= options->garbage_after && !p->garbage_sent) {
        p->garbage_sent = net_send(p->socket, 0, "garbage", 7, NULL) == OK;
    }
}

/* Works on grants until there are none or the link is full. */
static bool work(struct producer_fake *p)
{
    misbehave(p);
    if (p->count == 0 || p->hung || p->over) {
        return false;
    }
    struct msg_grant *grant = &p->grants[p->first];
    if (p->options.nack_after != 0 && atomic_load(&p->parts) >= p->options.nack_after) {
        refuse(p, grant);
        grant->part_count = 0;
    }
    if (grant->part_count == 0) {
        p->first = (p->first + 1) % GRANTS_MAX;
        p->count--;
        return true;
    }
    if (p->options.delay_us != 0) {
        const struct timespec delay = {.tv_nsec =
                                           (long)(next_random(p) % p->options.delay_us) * 1000};
        nanosleep(&delay, NULL);
    }
    return send_part(p);
}

static void *run(void *context)
{
    struct producer_fake *p = context;
    struct err err;
    bool busy = false;
    while (!atomic_load(&p->stop) && !p->over) {
        struct net_poll_item item = {.socket = p->socket};
        CHECK(net_poll(p->net, &item, 1, busy ? 0 : (p->count > 0 ? 1 : POLL_MS), &err) == OK);
        receive(p);
        say_hello(p, clock_now_ns());
        busy = work(p);
    }
    net_free(&p->net);
    return NULL;
}

struct producer_fake *producer_fake_start(const struct producer_fake_options *options)
{
    struct producer_fake *p = calloc(1, sizeof(*p));
    struct err err = {0};
    CHECK(p != NULL);
    p->options = *options;
    p->random = options->seed;
    p->buffers = calloc(BUFFERS, sizeof(*p->buffers));
    CHECK(p->buffers != NULL);
    for (uint32_t i = 0; i < options->stream_count; i++) {
        p->batch[i] = malloc(options->streams[i].layout->bytes);
        CHECK(p->batch[i] != NULL);
    }
    const struct net_options net_options = {.io_threads = 1, .sockets_max = 2};
    const struct net_socket_options socket_options = {
        .address = "127.0.0.1", .port = options->port, .queue_messages = QUEUE_MESSAGES};
    CHECK(net_new(&net_options, &p->net, &err) == OK);
    CHECK(net_connect(p->net, &socket_options, &p->socket, &err) == OK);
    CHECK(pthread_create(&p->thread, NULL, run, p) == 0);
    return p;
}

void producer_fake_stop(struct producer_fake **producer)
{
    struct producer_fake *p = *producer;
    if (p == NULL) {
        return;
    }
    atomic_store(&p->stop, true);
    CHECK(pthread_join(p->thread, NULL) == 0);
    for (uint32_t i = 0; i < p->options.stream_count; i++) {
        free(p->batch[i]);
    }
    free(p->buffers);
    free(p);
    *producer = NULL;
}

uint32_t producer_fake_parts(const struct producer_fake *producer)
{
    return atomic_load(&producer->parts);
}

uint32_t producer_fake_rejects(const struct producer_fake *producer)
{
    return atomic_load(&producer->rejects);
}

uint32_t producer_fake_wanted(const struct producer_fake *producer)
{
    return atomic_load(&producer->wanted);
}

bool producer_fake_heard_done(const struct producer_fake *producer)
{
    return atomic_load(&producer->done_heard);
}
