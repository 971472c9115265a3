/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collective of CPU ranks: TCP links in a ring, each rank sending to the next one and receiving
 * from the one before. A sum is a reduce-scatter and an all-gather: of every block, segment k is
 * summed from rank k around the ring, so the order is fixed and every rank receives the same bits.
 * Every call begins with a header that names it, so ranks that disagree about what they are doing
 * find out instead of adding apples to pears.
 *
 * How the ring is made: coll_ring_link.c. Numbers travel in the machine's own order: little-endian,
 * IEEE.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "consumer/coll_ring.h"

enum {
    BLOCK_FLOATS = 1 << 20,       /* summed at a time: bounds the scratch memory */
    BROADCAST_BYTES = 256 * 1024, /* passed on at a time, so that the ring works as a pipeline */
};

enum ring_call { CALL_ALLREDUCE = 1, CALL_BROADCAST, CALL_BARRIER };

struct header {
    uint32_t call;
    uint32_t root;
    uint64_t number; /* of the call */
    uint64_t count;
};

/* ---- moving bytes ---- */

static uint32_t prev_rank(const struct coll *coll)
{
    return (coll->rank + coll->size - 1) % coll->size;
}

static uint32_t next_rank(const struct coll *coll)
{
    return (coll->rank + 1) % coll->size;
}

static int timeout_ms(int64_t deadline_ns)
{
    const int64_t left_ns = deadline_ns - clock_now_ns();
    if (left_ns <= 0) {
        return 0;
    }
    const int64_t left_ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
    return left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
}

/* What is still to be sent to the next rank and received from the one before. */
struct transfer {
    const uint8_t *out;
    size_t out_left;
    uint8_t *in;
    size_t in_left;
};

static enum status send_some(struct coll *coll, struct transfer *transfer, struct err *err)
{
    const ssize_t sent =
        send(coll->next_fd, transfer->out, transfer->out_left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
        transfer->out += sent;
        transfer->out_left -= (size_t)sent;
        return OK;
    }
    if (errno == EAGAIN || errno == EINTR) {
        return OK;
    }
    return err_errno(err, ERR_PEER_GONE, "ring: rank %u is lost", next_rank(coll));
}

static enum status receive_some(struct coll *coll, struct transfer *transfer, struct err *err)
{
    const ssize_t got = recv(coll->prev_fd, transfer->in, transfer->in_left, MSG_DONTWAIT);
    if (got > 0) {
        transfer->in += got;
        transfer->in_left -= (size_t)got;
        return OK;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return OK;
    }
    if (got == 0) {
        return err_set(err, ERR_PEER_GONE, "ring: rank %u has closed its link", prev_rank(coll));
    }
    return err_errno(err, ERR_PEER_GONE, "ring: rank %u is lost", prev_rank(coll));
}

/* Sends and receives at once, until both are complete. */
static enum status exchange(struct coll *coll, struct transfer transfer, int64_t deadline_ns,
                            struct err *err)
{
    while (transfer.out_left > 0 || transfer.in_left > 0) {
        /* The links are also watched for their end when nothing is to be moved over them. */
        struct pollfd fds[] = {
            {.fd = coll->abort_fd, .events = POLLIN},
            {.fd = coll->next_fd, .events = transfer.out_left > 0 ? POLLOUT : 0},
            {.fd = coll->prev_fd, .events = transfer.in_left > 0 ? POLLIN : 0},
        };
        const int ready = poll(fds, ARRAY_LEN(fds), timeout_ms(deadline_ns));
        if (ready < 0 && errno != EINTR) {
            return err_errno(err, ERR_RESOURCE, "ring: poll");
        }
        if (ready == 0) {
            return err_set(err, ERR_TIMEOUT, "ring: nothing %s rank %u within the deadline",
                           transfer.in_left > 0 ? "from" : "taken by",
                           transfer.in_left > 0 ? prev_rank(coll) : next_rank(coll));
        }
        if (ready > 0 && fds[0].revents != 0) {
            return err_set(err, ERR_CANCELLED, "ring: aborted");
        }
        if (ready > 0 && transfer.in_left > 0 && fds[2].revents != 0) {
            TRY(receive_some(coll, &transfer, err));
        }
        if (ready > 0 && fds[1].revents != 0) {
            if (transfer.out_left == 0) { /* POLLERR or POLLHUP */
                return err_set(err, ERR_PEER_GONE, "ring: rank %u is lost", next_rank(coll));
            }
            TRY(send_some(coll, &transfer, err));
        }
    }
    return OK;
}

/* ---- calls ---- */

static enum status exchange_header(struct coll *coll, const struct header *own, int64_t deadline_ns,
                                   struct err *err)
{
    static const char *const NAMES[] = {"nothing", "allreduce", "broadcast", "barrier"};
    struct header other;
    const struct transfer transfer = {.out = (const uint8_t *)own,
                                      .out_left = sizeof(*own),
                                      .in = (uint8_t *)&other,
                                      .in_left = sizeof(other)};
    TRY(exchange(coll, transfer, deadline_ns, err));
    if (memcmp(own, &other, sizeof(other)) == 0) {
        return OK;
    }
    return err_set(
        err, ERR_PEER_WRONG,
        "ring: this rank is in call %llu, %s of %llu, but rank %u is in call %llu, %s of %llu",
        (unsigned long long)own->number, NAMES[own->call], (unsigned long long)own->count,
        prev_rank(coll), (unsigned long long)other.number,
        NAMES[other.call < ARRAY_LEN(NAMES) ? other.call : 0], (unsigned long long)other.count);
}

static enum status begin_call(struct coll *coll, enum ring_call call, uint32_t root, uint64_t count,
                              int64_t deadline_ns, struct err *err)
{
    if (coll->broken) {
        return err_set(err, ERR_MISUSE, "ring: used after an error");
    }
    const struct header header = {
        .call = call, .root = root, .number = ++coll->calls, .count = count};
    return exchange_header(coll, &header, deadline_ns, err);
}

static enum status end_call(struct coll *coll, enum status status)
{
    coll->broken |= status != OK;
    return status;
}

/* Segment k of a block: [k * count / size, (k + 1) * count / size). */
static size_t segment_begin(const struct coll *coll, size_t count, uint32_t k)
{
    return (size_t)((uint64_t)count * k / coll->size);
}

static size_t segment_count(const struct coll *coll, size_t count, uint32_t k)
{
    return segment_begin(coll, count, k + 1) - segment_begin(coll, count, k);
}

static enum status sum_block(struct coll *coll, float *values, size_t count, int64_t deadline_ns,
                             struct err *err)
{
    const uint32_t size = coll->size;
    for (uint32_t step = 0; step + 1 < size; step++) {
        const uint32_t out = (coll->rank + size - step) % size;
        const uint32_t in = (out + size - 1) % size;
        const size_t in_count = segment_count(coll, count, in);
        const struct transfer transfer = {
            .out = (const uint8_t *)(values + segment_begin(coll, count, out)),
            .out_left = segment_count(coll, count, out) * sizeof(float),
            .in = (uint8_t *)coll->scratch,
            .in_left = in_count * sizeof(float)};
        TRY(exchange(coll, transfer, deadline_ns, err));
        float *mine = values + segment_begin(coll, count, in);
        for (size_t i = 0; i < in_count; i++) {
            mine[i] = coll->scratch[i] + mine[i];
        }
    }
    for (uint32_t step = 0; step + 1 < size; step++) {
        const uint32_t out = (coll->rank + 1 + size - step) % size;
        const uint32_t in = (out + size - 1) % size;
        const struct transfer transfer = {
            .out = (const uint8_t *)(values + segment_begin(coll, count, out)),
            .out_left = segment_count(coll, count, out) * sizeof(float),
            .in = (uint8_t *)(values + segment_begin(coll, count, in)),
            .in_left = segment_count(coll, count, in) * sizeof(float)};
        TRY(exchange(coll, transfer, deadline_ns, err));
    }
    return OK;
}

static enum status ring_allreduce(struct coll *coll, float *values, size_t count,
                                  int64_t deadline_ns, struct err *err)
{
    enum status status = begin_call(coll, CALL_ALLREDUCE, 0, count, deadline_ns, err);
    for (size_t done = 0; status == OK && done < count; done += BLOCK_FLOATS) {
        const size_t left = count - done;
        status = sum_block(coll, values + done, left < BLOCK_FLOATS ? left : BLOCK_FLOATS,
                           deadline_ns, err);
    }
    return end_call(coll, status);
}

/* One piece: received unless this rank is the root, passed on unless the next one is. */
static enum status pass_on(struct coll *coll, uint8_t *bytes, size_t count, uint32_t root,
                           int64_t deadline_ns, struct err *err)
{
    if (coll->rank != root) {
        const struct transfer in = {.in = bytes, .in_left = count};
        TRY(exchange(coll, in, deadline_ns, err));
    }
    if (next_rank(coll) != root) {
        const struct transfer out = {.out = bytes, .out_left = count};
        TRY(exchange(coll, out, deadline_ns, err));
    }
    return OK;
}

static enum status ring_broadcast(struct coll *coll, void *bytes, size_t count, uint32_t root,
                                  int64_t deadline_ns, struct err *err)
{
    CHECK(root < coll->size);
    enum status status = begin_call(coll, CALL_BROADCAST, root, count, deadline_ns, err);
    for (size_t done = 0; status == OK && done < count; done += BROADCAST_BYTES) {
        const size_t left = count - done;
        status = pass_on(coll, (uint8_t *)bytes + done,
                         left < BROADCAST_BYTES ? left : BROADCAST_BYTES, root, deadline_ns, err);
    }
    return end_call(coll, status);
}

/* After k exchanges a rank knows that the k ranks before it have come. */
static enum status ring_barrier(struct coll *coll, int64_t deadline_ns, struct err *err)
{
    enum status status = begin_call(coll, CALL_BARRIER, 0, 0, deadline_ns, err);
    const struct header header = {.call = CALL_BARRIER, .number = coll->calls};
    for (uint32_t round = 1; status == OK && round + 1 < coll->size; round++) {
        status = exchange_header(coll, &header, deadline_ns, err);
    }
    return end_call(coll, status);
}

/* ---- life ---- */

static void ring_abort(struct coll *coll)
{
    eventfd_write(coll->abort_fd, 1); /* stays readable: every later call sees it, too */
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static void ring_free(struct coll **coll)
{
    if (*coll == NULL) {
        return;
    }
    close_fd((*coll)->next_fd);
    close_fd((*coll)->prev_fd);
    close_fd((*coll)->abort_fd);
    free((*coll)->scratch);
    free(*coll);
    *coll = NULL;
}

static enum status ring_init(const struct coll_options *options, struct coll **out, struct err *err)
{
    if (options->size < 2 || options->rank >= options->size) {
        return err_set(err, ERR_MISUSE, "ring: rank %u of %u", options->rank, options->size);
    }
    struct coll *coll = calloc(1, sizeof(*coll));
    if (coll == NULL) {
        return err_set(err, ERR_RESOURCE, "ring: out of memory");
    }
    coll->rank = options->rank;
    coll->size = options->size;
    coll->next_fd = coll->prev_fd = -1;
    coll->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    coll->scratch = calloc(BLOCK_FLOATS / options->size + 1, sizeof(float));
    enum status status = OK;
    if (coll->abort_fd < 0 || coll->scratch == NULL) {
        status = err_errno(err, ERR_RESOURCE, "ring: eventfd and scratch memory");
    }
    if (status == OK) {
        status = ring_link(coll, options, err);
    }
    if (status != OK) {
        ring_free(&coll);
        return status;
    }
    *out = coll;
    return OK;
}

const struct coll_ops coll_ring = {
    .name = "ring",
    .init = ring_init,
    .allreduce = ring_allreduce,
    .broadcast = ring_broadcast,
    .barrier = ring_barrier,
    .abort = ring_abort,
    .free = ring_free,
};
