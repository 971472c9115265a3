/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the ring. Both links are made at once by one loop: the connection to the next rank is
 * tried again until it answers, and whoever connects here has to say a valid greeting before
 * anything else is done with it. The greeting, 32 bytes, little-endian: magic, job, rank and size
 * (32 bits each), XXH3-64 of the 24 bytes before. The answer is the greeting of the rank that was
 * connected to.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/net.h"
#include "consumer/coll_ring.h"

enum {
    GREETING_BYTES = 32,
    GUESTS_MAX = 16,   /* connections that have not greeted yet */
    GUEST_MS = 5000,   /* and how long they may take */
    TRY_AGAIN_MS = 50, /* between two tries to connect */
    BACKLOG = 64,
};

static const uint8_t MAGIC[8] = {'H', 'R', 'R', 'I', 'N', 'G', '0', '1'};

struct guest {
    int fd; /* -1: none */
    size_t got;
    int64_t deadline_ns;
    uint8_t greeting[GREETING_BYTES];
};

enum dial_state { DIAL_IDLE, DIAL_CONNECTING, DIAL_GREETED, DIAL_DONE };

struct maker {
    struct coll *coll;
    const struct coll_options *options;
    int listen_fd;
    struct guest guests[GUESTS_MAX];
    enum dial_state dial;
    int64_t dial_again_ns;
    size_t answer_got;
    uint8_t answer[GREETING_BYTES];
};

/* ---- greetings ---- */

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static void write_greeting(const struct coll_options *options, uint32_t rank,
                           uint8_t out[GREETING_BYTES])
{
    memcpy(out, MAGIC, sizeof(MAGIC));
    hash_put64(out + 8, options->job);
    put32(out + 16, rank);
    put32(out + 20, options->size);
    hash_put64(out + 24, hash64(out, 24));
}

static bool is_greeting_of(const struct coll_options *options, uint32_t rank,
                           const uint8_t got[GREETING_BYTES])
{
    uint8_t wanted[GREETING_BYTES];
    write_greeting(options, rank, wanted);
    return memcmp(got, wanted, GREETING_BYTES) == 0;
}

/* ---- sockets ---- */

static enum status make_address(const struct coll_peer *peer, struct sockaddr_storage *out,
                                socklen_t *length_out, struct err *err)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, peer->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(peer->port);
        *length_out = sizeof(*v4);
        return OK;
    }
    if (inet_pton(AF_INET6, peer->address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(peer->port);
        *length_out = sizeof(*v6);
        return OK;
    }
    return err_set(err, ERR_CONFIG, "ring: '%s' is no numeric address", peer->address);
}

static int open_socket(int family)
{
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    }
    return fd;
}

static enum status start_listening(struct maker *maker, struct err *err)
{
    const struct coll_peer *own = &maker->options->peers[maker->options->rank];
    if (!maker->options->insecure && !net_address_is_loopback(own->address)) {
        return err_set(
            err, ERR_CONFIG,
            "ring: %s is not a loopback address and links are not secured yet; --insecure "
            "allows it",
            own->address);
    }
    struct sockaddr_storage address;
    socklen_t length = 0;
    TRY(make_address(own, &address, &length, err));
    maker->listen_fd = open_socket(address.ss_family);
    const int on = 1;
    if (maker->listen_fd < 0 ||
        setsockopt(maker->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(maker->listen_fd, (const struct sockaddr *)&address, length) != 0 ||
        listen(maker->listen_fd, BACKLOG) != 0) {
        return err_errno(err, ERR_RESOURCE, "ring: listening on %s port %u", own->address,
                         own->port);
    }
    return OK;
}

/* ---- the link to the next rank ---- */

static void dial_fail(struct maker *maker, int64_t now_ns)
{
    if (maker->coll->next_fd >= 0) {
        close(maker->coll->next_fd);
        maker->coll->next_fd = -1;
    }
    maker->dial = DIAL_IDLE;
    maker->dial_again_ns = now_ns + TRY_AGAIN_MS * NS_PER_MS;
}

static enum status dial_start(struct maker *maker, int64_t now_ns, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t length = 0;
    const uint32_t next = (maker->options->rank + 1) % maker->options->size;
    TRY(make_address(&maker->options->peers[next], &address, &length, err));
    maker->coll->next_fd = open_socket(address.ss_family);
    if (maker->coll->next_fd < 0) {
        return err_errno(err, ERR_RESOURCE, "ring: socket");
    }
    maker->dial = DIAL_CONNECTING;
    if (connect(maker->coll->next_fd, (const struct sockaddr *)&address, length) != 0 &&
        errno != EINPROGRESS) {
        dial_fail(maker, now_ns);
    }
    return OK;
}

/* The socket is writable: connected, or refused. */
static void dial_greet(struct maker *maker, int64_t now_ns)
{
    uint8_t greeting[GREETING_BYTES];
    write_greeting(maker->options, maker->options->rank, greeting);
    if (send(maker->coll->next_fd, greeting, sizeof(greeting), MSG_NOSIGNAL) !=
        (ssize_t)sizeof(greeting)) {
        dial_fail(maker, now_ns);
        return;
    }
    maker->dial = DIAL_GREETED;
    maker->answer_got = 0;
}

static void dial_read(struct maker *maker, int64_t now_ns)
{
    const ssize_t got = recv(maker->coll->next_fd, maker->answer + maker->answer_got,
                             GREETING_BYTES - maker->answer_got, 0);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            dial_fail(maker, now_ns);
        }
        return;
    }
    maker->answer_got += (size_t)got;
    if (maker->answer_got < GREETING_BYTES) {
        return;
    }
    const uint32_t next = (maker->options->rank + 1) % maker->options->size;
    if (is_greeting_of(maker->options, next, maker->answer)) {
        maker->dial = DIAL_DONE;
    } else {
        dial_fail(maker, now_ns);
    }
}

/* ---- the link from the rank before ---- */

static void drop_guest(struct guest *guest)
{
    close(guest->fd);
    guest->fd = -1;
}

static void accept_guest(struct maker *maker, int64_t now_ns)
{
    const int fd = accept4(maker->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    struct guest *place = &maker->guests[0]; /* the one nearest to its end makes way */
    for (size_t i = 0; i < GUESTS_MAX; i++) {
        struct guest *guest = &maker->guests[i];
        if (guest->fd < 0) {
            place = guest;
            break;
        }
        place = guest->deadline_ns < place->deadline_ns ? guest : place;
    }
    if (place->fd >= 0) {
        drop_guest(place);
    }
    *place = (struct guest){.fd = fd, .deadline_ns = now_ns + GUEST_MS * NS_PER_MS};
}

static void read_guest(struct maker *maker, struct guest *guest)
{
    const ssize_t got =
        recv(guest->fd, guest->greeting + guest->got, GREETING_BYTES - guest->got, 0);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            drop_guest(guest);
        }
        return;
    }
    guest->got += (size_t)got;
    if (guest->got < GREETING_BYTES) {
        return;
    }
    const uint32_t prev = (maker->options->rank + maker->options->size - 1) % maker->options->size;
    uint8_t answer[GREETING_BYTES];
    write_greeting(maker->options, maker->options->rank, answer);
    if (!is_greeting_of(maker->options, prev, guest->greeting) ||
        send(guest->fd, answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer)) {
        drop_guest(guest);
        return;
    }
    if (maker->coll->prev_fd >= 0) {
        close(maker->coll->prev_fd); /* it connected anew: only the last link counts */
    }
    maker->coll->prev_fd = guest->fd;
    guest->fd = -1;
}

/* ---- the loop ---- */

static bool is_made(const struct maker *maker)
{
    return maker->dial == DIAL_DONE && maker->coll->prev_fd >= 0;
}

static enum status make_progress(struct maker *maker, struct err *err)
{
    struct pollfd fds[3 + GUESTS_MAX] = {
        {.fd = maker->coll->abort_fd, .events = POLLIN},
        {.fd = maker->listen_fd, .events = POLLIN},
        {.fd = maker->dial == DIAL_DONE ? -1 : maker->coll->next_fd,
         .events = maker->dial == DIAL_CONNECTING ? POLLOUT : POLLIN},
    };
    for (size_t i = 0; i < GUESTS_MAX; i++) {
        fds[3 + i] = (struct pollfd){.fd = maker->guests[i].fd, .events = POLLIN};
    }
    if (poll(fds, ARRAY_LEN(fds), TRY_AGAIN_MS) < 0 && errno != EINTR) {
        return err_errno(err, ERR_RESOURCE, "ring: poll");
    }
    const int64_t now_ns = clock_now_ns();
    if (fds[0].revents != 0) {
        return err_set(err, ERR_CANCELLED, "ring: aborted");
    }
    for (size_t i = 0; i < GUESTS_MAX; i++) {
        struct guest *guest = &maker->guests[i];
        if (guest->fd >= 0 && fds[3 + i].revents != 0) {
            read_guest(maker, guest);
        } else if (guest->fd >= 0 && now_ns > guest->deadline_ns) {
            drop_guest(guest);
        }
    }
    if (fds[1].revents != 0) {
        accept_guest(maker, now_ns);
    }
    if (fds[2].revents != 0) {
        if (maker->dial == DIAL_CONNECTING) {
            dial_greet(maker, now_ns);
        } else {
            dial_read(maker, now_ns);
        }
    }
    if (maker->dial == DIAL_IDLE && now_ns >= maker->dial_again_ns) {
        return dial_start(maker, now_ns, err);
    }
    return OK;
}

static enum status say_who_is_missing(const struct maker *maker, struct err *err)
{
    const uint32_t size = maker->options->size;
    const uint32_t next = (maker->options->rank + 1) % size;
    const uint32_t prev = (maker->options->rank + size - 1) % size;
    const bool no_next = maker->dial != DIAL_DONE;
    const struct coll_peer *peer = &maker->options->peers[no_next ? next : prev];
    return err_set(err, ERR_TIMEOUT, "ring: rank %u at %s port %u did not %s within the deadline",
                   no_next ? next : prev, peer->address, peer->port,
                   no_next ? "answer" : "connect");
}

enum status ring_link(struct coll *coll, const struct coll_options *options, struct err *err)
{
    struct maker maker = {.coll = coll, .options = options, .listen_fd = -1};
    for (size_t i = 0; i < GUESTS_MAX; i++) {
        maker.guests[i].fd = -1;
    }
    enum status status = start_listening(&maker, err);
    while (status == OK && !is_made(&maker)) {
        status = clock_now_ns() < options->deadline_ns ? make_progress(&maker, err)
                                                       : say_who_is_missing(&maker, err);
    }
    for (size_t i = 0; i < GUESTS_MAX; i++) {
        if (maker.guests[i].fd >= 0) {
            drop_guest(&maker.guests[i]);
        }
    }
    if (maker.listen_fd >= 0) {
        close(maker.listen_fd);
    }
    return status;
}
