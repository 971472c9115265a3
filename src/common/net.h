/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between processes: a listener to which many peers connect, and a connection to one
 * listener. Messages are one frame, or a header frame and a body frame that is sent without a copy.
 * Nothing here knows what a message means, and nothing here blocks but net_poll, net_free and
 * net_resolve.
 *
 * One thread owns a net and its sockets for life. Every queue is bounded by message counts times
 * NET_MESSAGE_BYTES_MAX. The options set on ZeroMQ and their reasons: net_zmq.c.
 *
 * A peer of a listener is a number, opaque and never used again in a process's life; on a
 * connection it is 0. A peer that connects again is another peer.
 *
 * What a link promises: messages of one peer arrive in order, whole or not at all, and at most
 * once. A message that net_send took may still be lost with its connection.
 */
#ifndef HEADRACE_COMMON_NET_H
#define HEADRACE_COMMON_NET_H

#include "common/err.h"
#include "common/limits.h"

enum {
    NET_MESSAGE_BYTES_MAX = PART_BYTES_MAX + 4096
}; /* of one frame; a larger one ends its link */

struct net;        /* a context: I/O threads and its sockets */
struct net_socket; /* a listener or a connection */

struct net_options {
    int io_threads;
    int sockets_max; /* sockets of this net plus peers of its listeners, at most; sizes ZeroMQ's
                      * tables and is checked against the process's descriptor limit, which is
                      * raised where that is allowed. Else ERR_RESOURCE says which limit to raise */
    bool insecure;   /* links may leave the loopback interface unsecured, said in the log at every
                      * start; without it an address outside loopback is ERR_CONFIG */
};

MUST_USE enum status net_new(const struct net_options *options, struct net **out, struct err *err);
/* Closes what is still open, with a linger of at most 2 s. When it returns, every release has run.
 */
void net_free(struct net **net);

/*
 * ZeroMQ allocates every part that it receives, and glibc gives the memory back to the system with
 * nearly every free, so each part costs a page fault per 4 KiB. This tells malloc to keep it:
 * process-wide, so only for processes that are ours, at their start. Measured: receiving took
 * 0.056 instead of 0.082 CPU seconds per 1,000 images of 150,528 bytes (tests/bench/net_loop).
 */
void net_keep_memory(void);

struct net_socket_options {
    const char *address; /* numeric; a listener binds exactly this one */
    uint16_t port;       /* 0, listeners only: any free one */
    int queue_messages;  /* per peer and direction */
    bool monitor;        /* report NET_CONNECTED, NET_DISCONNECTED */
};

/* Port in use: ERR_RESOURCE with the address and port. */
MUST_USE enum status net_listen(struct net *net, const struct net_socket_options *options,
                                struct net_socket **out, struct err *err);
/* Returns at once; the connection is made, and made again after a loss, in the background. */
MUST_USE enum status net_connect(struct net *net, const struct net_socket_options *options,
                                 struct net_socket **out, struct err *err);
/* Messages already taken are sent for up to linger_ms in the background; releases may still run
 * until net_free returns. */
void net_close(struct net_socket **socket, int linger_ms);

/* The port a listener is bound to, or a connection goes to. */
uint16_t net_port(const struct net_socket *socket);

typedef void (*net_release_fn)(
    void *body, void *context); /* may run on any thread: an atomic or a push, no more */

struct net_body {
    const void *bytes; /* stays unchanged until release has run */
    size_t count;      /* 0: no body frame, and release is not called */
    net_release_fn release;
    void *context;
};

/* Sends, never blocking: OK (release will run once, whatever happens), ERR_AGAIN (queue full, or a
 * connection not there at present), ERR_PEER_GONE (listeners only). On failure release has not run
 * and will not. body may be NULL. head_count is 1 to NET_MESSAGE_BYTES_MAX. */
MUST_USE enum status net_send(struct net_socket *socket, uint64_t peer, const void *head,
                              size_t head_count, const struct net_body *body);

struct net_message {
    uint64_t peer;
    const uint8_t *head;
    size_t head_count;
    const uint8_t *body; /* NULL: one frame */
    size_t body_count;
    /* Private; head and body may point into it, so a message is never copied. */
    struct net *net;
    uint64_t storage[16];
};

/* The next message: OK, ERR_AGAIN (none), or ERR_PEER_WRONG (more than two frames, or a peer that
 * names itself: peer is then 0; what is left of it is drained by the next calls; nothing to fini).
 * The bytes are the caller's until net_message_fini, on any thread; before net_free. */
MUST_USE enum status net_receive(struct net_socket *socket, struct net_message *out,
                                 struct err *err);
void net_message_fini(struct net_message *message);
/* Where it came from, for people: the peer's numeric address without port; "" when not known. */
void net_message_address(const struct net_message *message, char out[ADDR_BYTES_MAX]);

enum net_event_kind { NET_CONNECTED, NET_DISCONNECTED, NET_HANDSHAKE_FAILED };
/* Monitor events: hints, never truths; the oldest are dropped when many wait. ERR_AGAIN when there
 * is none. On a listener the peer is not known. */
MUST_USE enum status net_event(struct net_socket *socket, enum net_event_kind *out);

struct net_poll_item {
    struct net_socket *socket; /* or NULL, then */
    int fd;
    bool readable; /* result; for a socket also when events wait */
};
/* Waits until something is readable or timeout_ms passed (-1: for ever). EINTR counts as nothing
 * readable. The sockets are net's. */
MUST_USE enum status net_poll(struct net *net, struct net_poll_item *items, size_t count,
                              int timeout_ms, struct err *err);

/* Name -> numeric address, in a thread of its own with a deadline, retried with back-off until it
 * passes; one log line of progress now and then. A numeric address is returned as it is.
 * ERR_TIMEOUT names host and last error. */
MUST_USE enum status net_resolve(const char *name, int64_t deadline_ns, char out[ADDR_BYTES_MAX],
                                 struct err *err);
bool net_address_is_numeric(const char *address);
/* Is it a numeric address of the loopback interface (127.0.0.0/8, ::1)? */
bool net_address_is_loopback(const char *address);
/* Is address inside a prefix of that interface, or loopback? */
bool net_address_on_interface(const char *address, const char *interface_name);

/* For the start banner: "cubic", "bbr" (measured 2.6 times slower on fast links: reference in
 * net_zmq.c), ... */
void net_congestion_control(char out[NAME_BYTES_MAX]);

#endif
