/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links over ZeroMQ: a listener is a ROUTER, a connection a DEALER. Not thread-safe but for the
 * release of bodies, which ZeroMQ's I/O threads do. Invariant: between two calls no socket stands
 * in the middle of a multipart message, neither sending nor (but while draining) receiving.
 *
 * ZeroMQ's own liveness and memory bounds have holes (heartbeats abort the process, a multipart
 * message without end is buffered whole, an undrained monitor stops the I/O thread), so liveness is
 * the protocol's business, and monitors are drained at every poll. A socket that is closed while a
 * message is half received loses that message's first frames (4.3.4 drops the pipe without rolling
 * it back): a few kilobytes a connection, at the end only, but leak checkers are told to look away.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <zmq.h>

#include "common/log.h"
#include "common/net.h"

enum {
    LINGER_MAX_MS = 2000,
    HANDSHAKE_MS = 5000, /* bounds memory and descriptors of a peer that never speaks */
    CONNECT_MS = 5000,   /* the system's own is minutes */
    RECONNECT_MS = 100,  /* doubles up to */
    RECONNECT_MAX_MS = 5000,
    MAXRT_MS = 180000,     /* unacknowledged data this old ends a connection: the one timer that
                            * finds a dead host while data is in flight. Longer than any stall
                            * of a receiver's I/O thread, since a closed window counts too */
    KEEPALIVE_IDLE_S = 15, /* finds dead hosts on idle links */
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_COUNT = 3,
    BACKLOG = 256,          /* all producers of a large job connect at once */
    BUFFER_BYTES = 1 << 20, /* of the kernel, per direction: measured optimum for 1 MiB parts */
    EVENTS_MAX = 16,        /* monitor events kept per socket */
    DRAIN_FRAMES_MAX = 64,  /* of a message with too many frames, per call */
    DESCRIPTORS_OTHER = 64, /* of the process, besides links */
    MALLOC_KEPT_BYTES = 1 << 28, /* free memory at the end of a heap; a bound, not a demand: no
                                    more than was in use at once */
    ROUTING_ID_BYTES = 5,        /* 0, then a counter: what a ROUTER gives a peer without a name */
};

struct net {
    void *context;
    bool insecure;
    uint32_t monitors; /* opened so far; numbers their names */
    struct net_socket *sockets;
    zmq_pollitem_t *polled; /* scratch of net_poll: two per item */
    size_t polled_capacity;
    atomic_uint messages; /* received and not given back */
};

struct net_socket {
    struct net *net;
    struct net_socket *next;
    void *zmq;
    void *monitor; /* PAIR, or NULL */
    bool listener;
    bool draining; /* the rest of a message with too many frames is still to be read */
    uint16_t port;
    uint32_t event_count;
    enum net_event_kind events[EVENTS_MAX]; /* oldest first */
};

_Static_assert(sizeof(((struct net_message *)0)->storage) >= 2 * sizeof(zmq_msg_t),
               "a message holds two frames");

static zmq_msg_t *frame_of(struct net_message *message, int frame)
{
    return (zmq_msg_t *)message->storage + frame;
}

/* ---- the context ---- */

/* Descriptors: an event each for a socket, its monitor and the monitor's reader, and a connection.
 */
static enum status raise_descriptors(int sockets_max, struct err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return err_errno(err, ERR_RESOURCE, "getrlimit(RLIMIT_NOFILE)");
    }
    const rlim_t wanted = (rlim_t)sockets_max * 4 + DESCRIPTORS_OTHER;
    if (limit.rlim_cur >= wanted) {
        return OK;
    }
    if (limit.rlim_max < wanted) {
        return err_set(err, ERR_RESOURCE,
                       "%d links need %ju file descriptors, the hard limit of this process is %ju: "
                       "raise it (ulimit -Hn, or LimitNOFILE of the service)",
                       sockets_max, (uintmax_t)wanted, (uintmax_t)limit.rlim_max);
    }
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return err_errno(err, ERR_RESOURCE, "raising the limit of open files to %ju",
                         (uintmax_t)wanted);
    }
    return OK;
}

static enum status size_context(void *context, const struct net_options *options, struct err *err)
{
    const int allowed = zmq_ctx_get(context, ZMQ_SOCKET_LIMIT);
    /* A monitored socket is three of ZeroMQ's. */
    const int64_t wanted = (int64_t)options->sockets_max * 3 + 1;
    if (wanted > allowed) {
        return err_set(err, ERR_RESOURCE,
                       "%d links need %" PRId64 " ZeroMQ sockets, its limit is %d",
                       options->sockets_max, wanted, allowed);
    }
    CHECK(zmq_ctx_set(context, ZMQ_MAX_SOCKETS, (int)wanted) == 0);
    CHECK(zmq_ctx_set(context, ZMQ_IO_THREADS, options->io_threads) == 0);
    CHECK(zmq_ctx_set(context, ZMQ_BLOCKY, 0) == 0);
    return OK;
}

void net_keep_memory(void)
{
    /* Refused under sanitizers, whose malloc is another; it is only a matter of speed. */
    (void)mallopt(M_MMAP_THRESHOLD, 4 * NET_MESSAGE_BYTES_MAX);
    (void)mallopt(M_TRIM_THRESHOLD, MALLOC_KEPT_BYTES);
}

enum status net_new(const struct net_options *options, struct net **out, struct err *err)
{
    CHECK(options->io_threads >= 1 && options->sockets_max >= 1);
    TRY(raise_descriptors(options->sockets_max, err));
    struct net *net = calloc(1, sizeof(*net));
    if (net == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a ZeroMQ context");
    }
    enum status status;
    net->context = zmq_ctx_new();
    if (net->context == NULL) {
        status = err_set(err, ERR_RESOURCE, "ZeroMQ context: %s", zmq_strerror(errno));
        goto free_net;
    }
    status = size_context(net->context, options, err);
    if (status != OK) {
        goto end_context;
    }
    net->insecure = options->insecure;
    if (net->insecure) {
        log_warn("links are not secured (insecure): whoever reaches this host's ports can read "
                 "and forge batches");
    }
    *out = net;
    return OK;

end_context:
    zmq_ctx_term(net->context);
free_net:
    free(net);
    return status;
}

/* ---- sockets ---- */

static void set_int(void *zmq, int option, int value)
{
    CHECK(zmq_setsockopt(zmq, option, &value, sizeof(value)) == 0);
}

/* Everything is set before bind or connect: later changes are ignored or dangerous. */
static void set_options(struct net_socket *socket, const struct net_socket_options *options)
{
    void *zmq = socket->zmq;
    const int64_t frame_max = NET_MESSAGE_BYTES_MAX;
    CHECK(zmq_setsockopt(zmq, ZMQ_MAXMSGSIZE, &frame_max, sizeof(frame_max)) == 0);
    set_int(zmq, ZMQ_SNDHWM, options->queue_messages);
    set_int(zmq, ZMQ_RCVHWM, options->queue_messages);
    set_int(zmq, ZMQ_LINGER, 0);
    set_int(zmq, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    set_int(zmq, ZMQ_HEARTBEAT_IVL, 0);
    set_int(zmq, ZMQ_TCP_MAXRT, MAXRT_MS);
    set_int(zmq, ZMQ_TCP_KEEPALIVE, 1);
    set_int(zmq, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S);
    set_int(zmq, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S);
    set_int(zmq, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT);
    set_int(zmq, ZMQ_SNDBUF, BUFFER_BYTES);
    set_int(zmq, ZMQ_RCVBUF, BUFFER_BYTES);
    set_int(zmq, ZMQ_IPV6, strchr(options->address, ':') != NULL);
    if (socket->listener) {
        set_int(zmq, ZMQ_ROUTER_MANDATORY, 1); /* else what cannot be sent is dropped in silence */
        set_int(zmq, ZMQ_BACKLOG, BACKLOG);
    } else {
        set_int(zmq, ZMQ_IMMEDIATE, 1); /* else messages wait for whoever connects next */
        set_int(zmq, ZMQ_CONNECT_TIMEOUT, CONNECT_MS);
        set_int(zmq, ZMQ_RECONNECT_IVL, RECONNECT_MS);
        set_int(zmq, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    }
}

static enum status open_monitor(struct net_socket *socket, struct err *err)
{
    char name[64];
    snprintf(name, sizeof(name), "inproc://monitor-%" PRIu32, socket->net->monitors++);
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (zmq_socket_monitor(socket->zmq, name, events) != 0) {
        return err_set(err, ERR_RESOURCE, "ZeroMQ monitor: %s", zmq_strerror(errno));
    }
    socket->monitor = zmq_socket(socket->net->context, ZMQ_PAIR);
    if (socket->monitor == NULL) {
        return err_set(err, ERR_RESOURCE, "ZeroMQ monitor: %s", zmq_strerror(errno));
    }
    set_int(socket->monitor, ZMQ_LINGER, 0);
    CHECK(zmq_connect(socket->monitor, name) == 0);
    return OK;
}

static void format_endpoint(const char *address, uint16_t port, char *out, size_t capacity)
{
    const bool six = strchr(address, ':') != NULL;
    char number[8] = "*";
    if (port != 0) {
        snprintf(number, sizeof(number), "%u", port);
    }
    snprintf(out, capacity, "tcp://%s%s%s:%s", six ? "[" : "", address, six ? "]" : "", number);
}

static enum status attach(struct net_socket *socket, const struct net_socket_options *options,
                          struct err *err)
{
    char endpoint[ADDR_BYTES_MAX + 32];
    format_endpoint(options->address, options->port, endpoint, sizeof(endpoint));
    if (!socket->listener) {
        if (zmq_connect(socket->zmq, endpoint) != 0) {
            return err_set(err, ERR_CONFIG, "connect to %s: %s", endpoint, zmq_strerror(errno));
        }
        socket->port = options->port;
        return OK;
    }
    if (zmq_bind(socket->zmq, endpoint) != 0) {
        const int cause = errno;
        return err_set(err, ERR_RESOURCE, "listen on %s port %u: %s%s", options->address,
                       options->port, zmq_strerror(cause),
                       cause == EADDRINUSE ? "; choose another base port (option port)" : "");
    }
    char bound[ADDR_BYTES_MAX + 32];
    size_t bound_bytes = sizeof(bound);
    CHECK(zmq_getsockopt(socket->zmq, ZMQ_LAST_ENDPOINT, bound, &bound_bytes) == 0);
    const char *number = strrchr(bound, ':');
    CHECK(number != NULL);
    socket->port = (uint16_t)strtoul(number + 1, NULL, 10);
    return OK;
}

static enum status check_address(const struct net *net, const char *address, struct err *err)
{
    if (!net_address_is_numeric(address)) {
        return err_set(err, ERR_CONFIG, "address \"%s\" of a link: not a numeric address", address);
    }
    if (!net->insecure && !net_address_is_loopback(address)) {
        return err_set(err, ERR_CONFIG,
                       "%s is outside loopback and links are not secured: refused; the option "
                       "insecure allows it, for networks where every host is trusted",
                       address);
    }
    return OK;
}

/* Of a socket that is in no list. */
static void free_socket(struct net_socket *socket, int linger_ms)
{
    if (socket->monitor != NULL) {
        /* The writing end first: a monitor without a reader would stop the I/O thread. */
        zmq_socket_monitor(socket->zmq, NULL, 0);
        zmq_close(socket->monitor);
    }
    if (socket->zmq != NULL) {
        set_int(socket->zmq, ZMQ_LINGER, linger_ms < LINGER_MAX_MS ? linger_ms : LINGER_MAX_MS);
        zmq_close(socket->zmq);
    }
    free(socket);
}

static enum status open_socket(struct net *net, const struct net_socket_options *options,
                               bool listener, struct net_socket **out, struct err *err)
{
    CHECK(options->queue_messages >= 1 && (listener || options->port != 0));
    TRY(check_address(net, options->address, err));
    struct net_socket *socket = calloc(1, sizeof(*socket));
    if (socket == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a link to %s", options->address);
    }
    socket->net = net;
    socket->listener = listener;
    enum status status = OK;
    socket->zmq = zmq_socket(net->context, listener ? ZMQ_ROUTER : ZMQ_DEALER);
    if (socket->zmq == NULL) {
        status = err_set(err, ERR_RESOURCE, "ZeroMQ socket: %s", zmq_strerror(errno));
        goto free_socket;
    }
    set_options(socket, options);
    if (options->monitor) {
        status = open_monitor(socket, err);
        if (status != OK) {
            goto free_socket;
        }
    }
    status = attach(socket, options, err);
    if (status != OK) {
        goto free_socket;
    }
    socket->next = net->sockets;
    net->sockets = socket;
    *out = socket;
    return OK;

free_socket:
    free_socket(socket, 0);
    return status;
}

enum status net_listen(struct net *net, const struct net_socket_options *options,
                       struct net_socket **out, struct err *err)
{
    return open_socket(net, options, true, out, err);
}

enum status net_connect(struct net *net, const struct net_socket_options *options,
                        struct net_socket **out, struct err *err)
{
    return open_socket(net, options, false, out, err);
}

void net_close(struct net_socket **socket, int linger_ms)
{
    if (*socket == NULL) {
        return;
    }
    struct net_socket **at = &(*socket)->net->sockets;
    while (*at != *socket) {
        at = &(*at)->next;
    }
    *at = (*socket)->next;
    free_socket(*socket, linger_ms);
    *socket = NULL;
}

void net_free(struct net **net)
{
    struct net *freed = *net;
    if (freed == NULL) {
        return;
    }
    CHECK(atomic_load(&freed->messages) == 0); /* what a leak checker would not tell, see above */
    while (freed->sockets != NULL) {
        struct net_socket *socket = freed->sockets;
        freed->sockets = socket->next;
        free_socket(socket, LINGER_MAX_MS);
    }
    while (zmq_ctx_term(freed->context) != 0) {
        CHECK(errno == EINTR);
    }
    free(freed->polled);
    free(freed);
    *net = NULL;
}

uint16_t net_port(const struct net_socket *socket)
{
    return socket->port;
}

/* ---- sending ---- */

/* OK, ERR_AGAIN or ERR_PEER_GONE; any other errno is a mistake of ours. */
static enum status send_frame(void *zmq, const void *bytes, size_t count, int flags)
{
    while (zmq_send(zmq, bytes, count, flags | ZMQ_DONTWAIT) < 0) {
        if (errno == EAGAIN) {
            return ERR_AGAIN;
        }
        if (errno == EHOSTUNREACH) {
            return ERR_PEER_GONE;
        }
        CHECK(errno == EINTR);
    }
    return OK;
}

/*
 * The last frame of a message whose first was taken. Queues are counted in whole messages, so it
 * cannot be refused for want of room; it is lost when the connection breaks between the two, as
 * any message taken may be, and closing the frame then runs its release.
 */
static void send_body(void *zmq, const struct net_body *body)
{
    zmq_msg_t frame;
    /* Out of memory here is fatal, as it is everywhere inside ZeroMQ. */
    CHECK(zmq_msg_init_data(&frame, (void *)body->bytes, body->count, body->release,
                            body->context) == 0);
    while (zmq_msg_send(&frame, zmq, ZMQ_DONTWAIT) < 0) {
        if (errno != EINTR) {
            CHECK(errno == EAGAIN || errno == EHOSTUNREACH);
            CHECK(zmq_msg_close(&frame) == 0);
            return;
        }
    }
}

enum status net_send(struct net_socket *socket, uint64_t peer, const void *head, size_t head_count,
                     const struct net_body *body)
{
    CHECK(head_count >= 1 && head_count <= NET_MESSAGE_BYTES_MAX);
    const bool has_body = body != NULL && body->count > 0;
    CHECK(!has_body || (body->count <= NET_MESSAGE_BYTES_MAX && body->release != NULL));
    const int more = has_body ? ZMQ_SNDMORE : 0;
    if (socket->listener) {
        uint8_t id[ROUTING_ID_BYTES];
        for (int i = 0; i < ROUTING_ID_BYTES; i++) {
            id[i] = (uint8_t)(peer >> (8 * i));
        }
        TRY(send_frame(socket->zmq, id, sizeof(id), ZMQ_SNDMORE));
        /* From here on the ROUTER drops what it cannot send, and says OK. */
        CHECK(send_frame(socket->zmq, head, head_count, more) == OK);
    } else {
        TRY(send_frame(socket->zmq, head, head_count, more));
    }
    if (has_body) {
        send_body(socket->zmq, body);
    }
    return OK;
}

/* ---- receiving ---- */

/* Into an initialised frame. False: none there. */
static bool receive_frame(void *zmq, zmq_msg_t *frame)
{
    while (zmq_msg_recv(frame, zmq, ZMQ_DONTWAIT) < 0) {
        if (errno == EAGAIN) {
            return false;
        }
        CHECK(errno == EINTR);
    }
    return true;
}

/* Reads on to the end of a message, a bounded number of frames at a time. True: the end. */
static bool drain(struct net_socket *socket)
{
    for (int i = 0; socket->draining && i < DRAIN_FRAMES_MAX; i++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        /* A message comes whole, so there is always a next frame. */
        CHECK(receive_frame(socket->zmq, &frame));
        socket->draining = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
    return !socket->draining;
}

/* 0: a name that the peer chose itself. */
static uint64_t peer_of(zmq_msg_t *id)
{
    const uint8_t *bytes = zmq_msg_data(id);
    if (zmq_msg_size(id) != ROUTING_ID_BYTES || bytes[0] != 0) {
        return 0;
    }
    /* A bit above the five bytes keeps the number from being 0. */
    uint64_t peer = UINT64_C(1) << 40;
    for (int i = 0; i < ROUTING_ID_BYTES; i++) {
        peer |= (uint64_t)bytes[i] << (8 * i);
    }
    return peer;
}

/* Two frames are in the message's storage, the second perhaps empty. */
static void describe(struct net_message *message, bool has_body)
{
    message->head = zmq_msg_data(frame_of(message, 0));
    message->head_count = zmq_msg_size(frame_of(message, 0));
    message->body = has_body ? zmq_msg_data(frame_of(message, 1)) : NULL;
    message->body_count = has_body ? zmq_msg_size(frame_of(message, 1)) : 0;
}

enum status net_receive(struct net_socket *socket, struct net_message *out, struct err *err)
{
    if (!drain(socket)) {
        return ERR_AGAIN;
    }
    zmq_msg_t *head = frame_of(out, 0);
    zmq_msg_t *body = frame_of(out, 1);
    zmq_msg_init(head);
    zmq_msg_init(body);
    if (!receive_frame(socket->zmq, head)) {
        return ERR_AGAIN;
    }
    out->peer = 0;
    bool more = zmq_msg_more(head);
    bool named = false;
    if (socket->listener) {
        out->peer = peer_of(head);
        named = out->peer == 0;
        if (more) {
            CHECK(receive_frame(socket->zmq, head));
            more = zmq_msg_more(head);
        }
    }
    const bool has_body = more;
    if (has_body) {
        CHECK(receive_frame(socket->zmq, body));
        more = zmq_msg_more(body);
    }
    describe(out, has_body);
    out->net = socket->net;
    atomic_fetch_add_explicit(&out->net->messages, 1, memory_order_relaxed);
    if (!more && !named) {
        return OK;
    }
    socket->draining = more;
    net_message_fini(out);
    return more ? err_set(err, ERR_PEER_WRONG, "a message has more than two frames: dropped")
                : err_set(err, ERR_PEER_WRONG,
                          "a peer names itself by a ZeroMQ routing id: its messages are dropped");
}

void net_message_fini(struct net_message *message)
{
    zmq_msg_close(frame_of(message, 0));
    zmq_msg_close(frame_of(message, 1));
    atomic_fetch_sub_explicit(&message->net->messages, 1, memory_order_relaxed);
    message->head = message->body = NULL;
    message->head_count = message->body_count = 0;
}

void net_message_address(const struct net_message *message, char out[ADDR_BYTES_MAX])
{
    const zmq_msg_t *head = (const zmq_msg_t *)message->storage;
    /* Documented in zmq_msg_gets(3); the name's macro is among the drafts. */
    const char *address = zmq_msg_gets(head, "Peer-Address");
    snprintf(out, ADDR_BYTES_MAX, "%s", address != NULL ? address : "");
}

/* ---- events ---- */

static void keep_event(struct net_socket *socket, uint16_t event)
{
    const enum net_event_kind kind = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? NET_CONNECTED
                                     : event == ZMQ_EVENT_DISCONNECTED      ? NET_DISCONNECTED
                                                                            : NET_HANDSHAKE_FAILED;
    if (socket->event_count == EVENTS_MAX) {
        memmove(socket->events, socket->events + 1, (EVENTS_MAX - 1) * sizeof(socket->events[0]));
        socket->event_count--;
    }
    socket->events[socket->event_count++] = kind;
}

/* Reads the monitor empty: two frames an event, number and value, then the endpoint. */
static void drain_monitor(struct net_socket *socket)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    while (socket->monitor != NULL && receive_frame(socket->monitor, &frame)) {
        uint16_t event;
        CHECK(zmq_msg_size(&frame) >= sizeof(event));
        memcpy(&event, zmq_msg_data(&frame), sizeof(event));
        CHECK(receive_frame(socket->monitor, &frame));
        keep_event(socket, event);
    }
    zmq_msg_close(&frame);
}

enum status net_event(struct net_socket *socket, enum net_event_kind *out)
{
    drain_monitor(socket);
    if (socket->event_count == 0) {
        return ERR_AGAIN;
    }
    *out = socket->events[0];
    socket->event_count--;
    memmove(socket->events, socket->events + 1, socket->event_count * sizeof(socket->events[0]));
    return OK;
}

/* ---- polling ---- */

static enum status reserve_polled(struct net *net, size_t count, struct err *err)
{
    if (count <= net->polled_capacity) {
        return OK;
    }
    zmq_pollitem_t *polled = calloc(count, sizeof(*polled));
    if (polled == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory to poll %zu links", count);
    }
    free(net->polled);
    net->polled = polled;
    net->polled_capacity = count;
    return OK;
}

/* Item i polls at polled[i]; monitors follow behind all items. Returns how many there are. */
static int fill_polled(struct net *net, struct net_poll_item *items, size_t count)
{
    size_t filled = count;
    for (size_t i = 0; i < count; i++) {
        items[i].readable = false;
        struct net_socket *socket = items[i].socket;
        net->polled[i] = (zmq_pollitem_t){.events = ZMQ_POLLIN};
        if (socket == NULL) {
            net->polled[i].fd = items[i].fd;
            continue;
        }
        net->polled[i].socket = socket->zmq;
        if (socket->monitor != NULL) {
            net->polled[filled++] =
                (zmq_pollitem_t){.socket = socket->monitor, .events = ZMQ_POLLIN};
        }
    }
    return (int)filled;
}

static bool events_wait(const struct net_poll_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].socket != NULL && items[i].socket->event_count > 0) {
            return true;
        }
    }
    return false;
}

enum status net_poll(struct net *net, struct net_poll_item *items, size_t count, int timeout_ms,
                     struct err *err)
{
    CHECK(count <= INT_MAX / 2);
    TRY(reserve_polled(net, 2 * count, err));
    const int filled = fill_polled(net, items, count);
    const int ready = zmq_poll(net->polled, filled, events_wait(items, count) ? 0 : timeout_ms);
    if (ready < 0 && errno != EINTR) {
        return err_set(err, ERR_INTERNAL, "zmq_poll of %d items: %s", filled, zmq_strerror(errno));
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i].socket != NULL) {
            drain_monitor(items[i].socket);
        }
        const bool ready_now = ready > 0 && net->polled[i].revents != 0;
        items[i].readable =
            ready_now || (items[i].socket != NULL && items[i].socket->event_count > 0);
    }
    return OK;
}

void net_congestion_control(char out[NAME_BYTES_MAX])
{
    snprintf(out, NAME_BYTES_MAX, "unknown");
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "re");
    if (file == NULL) {
        return;
    }
    char line[NAME_BYTES_MAX];
    if (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, NAME_BYTES_MAX, "%s", line);
    }
    fclose(file);
}
