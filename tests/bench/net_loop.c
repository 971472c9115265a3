/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baseline for `headrace bench feed`: what moving the same parts costs when nothing else is
 * done. Two processes and bare libzmq, no code of ours but the checksum: a DEALER sends header and
 * body frames without a copy, a ROUTER receives them; XXH3-128 of every body on both sides. Prints
 * one JSON object; CPU time is that of both processes, all threads, after a warm-up.
 *
 *   net_loop [--images N] [--image-bytes N] [--part-images N] [--copy] [--keep-memory]
 *
 * --copy: the receiver copies every body to a slot, checksum in the same pass, as the client does;
 * without it the bytes stay where libzmq put them. --keep-memory: malloc as our own processes set
 * it (net_keep_memory); without it, as it is.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/net.h"

enum {
    WARM_PARTS = 64,
    QUEUE_PARTS = 16,
    BUFFERS = 32, /* parts that the sender takes turns with: more than a cache holds */
    HEAD_BYTES = 160,
    BUFFER_BYTES = 1 << 20, /* of the kernel, as in net_zmq.c */
};

struct loop {
    size_t part_bytes;
    int parts; /* without the warm-up */
    bool copy;
};

struct usage {
    int64_t wall_ns, cpu_ns;
};

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "net_loop: %s: %s\n", what, zmq_strerror(errno));
    exit(EXIT_FAILURE);
}

static void *open_zmq(void *context, int type)
{
    void *zmq = zmq_socket(context, type);
    if (zmq == NULL) {
        fail("socket");
    }
    static const int OPTIONS[][2] = {{ZMQ_SNDHWM, QUEUE_PARTS},
                                     {ZMQ_RCVHWM, QUEUE_PARTS},
                                     {ZMQ_SNDBUF, BUFFER_BYTES},
                                     {ZMQ_RCVBUF, BUFFER_BYTES}};
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        if (zmq_setsockopt(zmq, OPTIONS[i][0], &OPTIONS[i][1], sizeof(int)) != 0) {
            fail("option");
        }
    }
    return zmq;
}

static struct usage usage_now(void)
{
    return (struct usage){.wall_ns = clock_now_ns(), .cpu_ns = clock_process_cpu_ns()};
}

static struct usage usage_since(struct usage begin)
{
    const struct usage now = usage_now();
    return (struct usage){now.wall_ns - begin.wall_ns, now.cpu_ns - begin.cpu_ns};
}

static void keep(void *body, void *context)
{
}

static struct usage send_all(const struct loop *loop, const char *endpoint)
{
    void *context = zmq_ctx_new();
    void *zmq = open_zmq(context, ZMQ_DEALER);
    uint8_t *buffers = malloc(BUFFERS * loop->part_bytes);
    if (buffers == NULL || zmq_connect(zmq, endpoint) != 0) {
        fail("sender");
    }
    for (size_t i = 0; i < BUFFERS * loop->part_bytes; i++) {
        buffers[i] = (uint8_t)(i * 31 + (i >> 12));
    }
    struct usage begin = usage_now();
    for (int i = 0; i < WARM_PARTS + loop->parts; i++) {
        if (i == WARM_PARTS) {
            begin = usage_now();
        }
        uint8_t *body = buffers + i % BUFFERS * loop->part_bytes;
        const struct hash128 sum = hash128(body, loop->part_bytes);
        uint8_t head[HEAD_BYTES] = {0};
        memcpy(head, &sum, sizeof(sum));
        zmq_msg_t frame;
        if (zmq_send(zmq, head, sizeof(head), ZMQ_SNDMORE) < 0 ||
            zmq_msg_init_data(&frame, body, loop->part_bytes, keep, NULL) != 0 ||
            zmq_msg_send(&frame, zmq, 0) < 0) {
            fail("send");
        }
    }
    zmq_close(zmq);
    zmq_ctx_term(context); /* waits until all is sent */
    free(buffers);
    return usage_since(begin);
}

static void receive_part(void *zmq, const struct loop *loop, uint8_t *slot)
{
    uint8_t id[16];
    struct hash128 wanted;
    uint8_t head[HEAD_BYTES];
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_recv(zmq, id, sizeof(id), 0) < 0 || zmq_recv(zmq, head, sizeof(head), 0) < 0 ||
        zmq_msg_recv(&frame, zmq, 0) < 0) {
        fail("receive");
    }
    memcpy(&wanted, head, sizeof(wanted));
    const struct hash128 sum = loop->copy
                                   ? hash128_copy(slot, zmq_msg_data(&frame), zmq_msg_size(&frame))
                                   : hash128(zmq_msg_data(&frame), zmq_msg_size(&frame));
    if (zmq_msg_size(&frame) != loop->part_bytes || sum.low != wanted.low ||
        sum.high != wanted.high) {
        errno = EBADMSG;
        fail("checksum");
    }
    zmq_msg_close(&frame);
}

static struct usage receive_all(const struct loop *loop, void *zmq)
{
    uint8_t *slots = calloc(BUFFERS, loop->part_bytes);
    if (slots == NULL) {
        fail("receiver");
    }
    struct usage begin = usage_now();
    for (int i = 0; i < WARM_PARTS + loop->parts; i++) {
        if (i == WARM_PARTS) {
            begin = usage_now();
        }
        receive_part(zmq, loop, slots + i % BUFFERS * loop->part_bytes);
    }
    free(slots);
    return usage_since(begin);
}

/* The child is forked before this process has a ZeroMQ context, and learns the endpoint by a pipe.
 */
static void run(const struct loop *loop, struct usage *sent, struct usage *received)
{
    int to_child[2], from_child[2];
    char endpoint[64] = "";
    if (pipe(to_child) != 0 || pipe(from_child) != 0) {
        fail("pipe");
    }
    const pid_t child = fork();
    if (child == 0) {
        if (read(to_child[0], endpoint, sizeof(endpoint)) != (ssize_t)sizeof(endpoint)) {
            fail("pipe");
        }
        *sent = send_all(loop, endpoint);
        _exit(write(from_child[1], sent, sizeof(*sent)) == (ssize_t)sizeof(*sent) ? EXIT_SUCCESS
                                                                                  : EXIT_FAILURE);
    }
    close(from_child[1]);
    void *context = zmq_ctx_new();
    void *zmq = open_zmq(context, ZMQ_ROUTER);
    size_t count = sizeof(endpoint);
    if (child < 0 || zmq_bind(zmq, "tcp://127.0.0.1:*") != 0 ||
        zmq_getsockopt(zmq, ZMQ_LAST_ENDPOINT, endpoint, &count) != 0 ||
        write(to_child[1], endpoint, sizeof(endpoint)) != (ssize_t)sizeof(endpoint)) {
        fail("listen");
    }
    *received = receive_all(loop, zmq);
    int state;
    if (read(from_child[0], sent, sizeof(*sent)) != (ssize_t)sizeof(*sent) ||
        waitpid(child, &state, 0) != child || state != 0) {
        fail("sender");
    }
    zmq_close(zmq);
    zmq_ctx_term(context);
}

int main(int argc, char **argv)
{
    static const struct option OPTIONS[] = {{"images", required_argument, NULL, 'n'},
                                            {"image-bytes", required_argument, NULL, 's'},
                                            {"part-images", required_argument, NULL, 'p'},
                                            {"copy", no_argument, NULL, 'c'},
                                            {"keep-memory", no_argument, NULL, 'k'},
                                            {0}};
    long images = 30000, image_bytes = 224L * 224 * 3, part_images = 6;
    struct loop loop = {.copy = false};
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (c) {
        case 'n':
            images = strtol(optarg, NULL, 10);
            break;
        case 's':
            image_bytes = strtol(optarg, NULL, 10);
            break;
        case 'p':
            part_images = strtol(optarg, NULL, 10);
            break;
        case 'c':
            loop.copy = true;
            break;
        case 'k':
            net_keep_memory();
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (images < 1 || image_bytes < 1 || part_images < 1 || part_images > images) {
        fprintf(stderr, "net_loop: numbers must be positive, and a part no more than all images\n");
        return EXIT_USAGE;
    }
    loop.part_bytes = (size_t)(image_bytes * part_images);
    loop.parts = (int)(images / part_images);
    struct usage sent = {0}, received = {0};
    run(&loop, &sent, &received);

    char congestion[NAME_BYTES_MAX];
    net_congestion_control(congestion);
    const double moved = (double)loop.parts * (double)part_images;
    const double wall_s = (double)received.wall_ns / 1e9;
    const double per_1000 = 1000 / moved / 1e9;
    printf("{\"images\": %.0f, \"part_bytes\": %zu, \"copy\": %s, \"seconds\": %.3f, "
           "\"images_per_s\": %.0f, \"gbytes_per_s\": %.3f, \"cpu_s_per_1000_images\": %.4f, "
           "\"send_cpu_s_per_1000_images\": %.4f, \"receive_cpu_s_per_1000_images\": %.4f, "
           "\"congestion_control\": \"%s\"}\n",
           moved, loop.part_bytes, loop.copy ? "true" : "false", wall_s, moved / wall_s,
           moved * (double)image_bytes / wall_s / 1e9,
           (double)(sent.cpu_ns + received.cpu_ns) * per_1000, (double)sent.cpu_ns * per_1000,
           (double)received.cpu_ns * per_1000, congestion);
    return EXIT_SUCCESS;
}
