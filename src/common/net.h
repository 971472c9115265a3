/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between processes: a listener to which many peers connect, and a connection to one
 * listener. Messages are one frame, or a header frame and a body frame that is sent without a copy.
 * Nothing here knows what a message means, and nothing here blocks but net_poll and net_resolve.
 *
 * One thread owns a net and its sockets for life. Every queue is bounded by message counts times
 * NET_MESSAGE_BYTES_MAX. The options set on ZeroMQ and their reasons: net_zmq.c.
 */
#ifndef HEADRACE_COMMON_NET_H
#define HEADRACE_COMMON_NET_H

#include "common/err.h"
#include "common/limits.h"

enum { NET_MESSAGE_BYTES_MAX = PART_BYTES_MAX + 4096 };

struct net;        /* a context: I/O threads and its sockets */
struct net_socket; /* a listener or a connection */

struct net_options {
    int io_threads;
    int sockets_max; /* checked against descriptors at start: ERR_RESOURCE says which limit to raise
                      */
    bool insecure;   /* links may leave the loopback interface unsecured; without it ERR_CONFIG */
};

MUST_USE enum status net_new(const struct net_options *options, struct net **out, struct err *err);
/* Closes what is still open, with a linger of at most 2 s. */
void net_free(struct net **net);

struct net_socket_options {
    const char *address; /* numeric; a listener binds exactly this one */
    uint16_t port;
    int queue_messages; /* per peer and direction */
    bool monitor;       /* report NET_CONNECTED, NET_DISCONNECTED */
};

/* Port in use: ERR_RESOURCE with the address and port. */
MUST_USE enum status net_listen(struct net *net, const struct net_socket_options *options,
                                struct net_socket **out, struct err *err);
/* Returns at once; the connection is made, and made again after a loss, in the background. */
MUST_USE enum status net_connect(struct net *net, const struct net_socket_options *options,
                                 struct net_socket **out, struct err *err);
void net_close(struct net_socket **socket, int linger_ms);

/* A peer of a listener: opaque and never reused within a process's life; 0 on a connection. */
typedef uint64_t net_peer;

typedef void (*net_release_fn)(
    void *body, void *context); /* may run on any thread: an atomic or a push, no more */

struct net_body {
    const void *bytes; /* stays unchanged until release has run */
    size_t count;      /* 0: no body frame */
    net_release_fn release;
    void *context;
};

/* Sends, never blocking: OK (release will run once, whatever happens), ERR_AGAIN (queue full),
 * ERR_PEER_GONE. On failure release has not run and will not. */
MUST_USE enum status net_send(struct net_socket *socket, net_peer peer, const void *head,
                              size_t head_count, const struct net_body *body);

struct net_message {
    net_peer peer;
    const uint8_t *head;
    size_t head_count;
    const uint8_t *body; /* NULL: one frame */
    size_t body_count;
    uint64_t storage[16]; /* private */
};

/* The next message: OK, ERR_AGAIN (none), or ERR_PEER_WRONG (more than two frames, already drained;
 * peer is set). The bytes are the caller's until net_message_fini. */
MUST_USE enum status net_receive(struct net_socket *socket, struct net_message *out,
                                 struct err *err);
void net_message_fini(struct net_message *message);

enum net_event_kind { NET_CONNECTED, NET_DISCONNECTED, NET_HANDSHAKE_FAILED };
/* Monitor events: hints, never truths. ERR_AGAIN when there is none. On a listener the peer is not
 * known. */
MUST_USE enum status net_event(struct net_socket *socket, enum net_event_kind *out);

struct net_poll_item {
    struct net_socket *socket; /* or NULL, then */
    int fd;
    bool readable; /* result; for a socket also when events wait */
};
/* Waits until something is readable or timeout_ms passed (-1: for ever). EINTR counts as nothing
 * readable. */
MUST_USE enum status net_poll(struct net_poll_item *items, size_t count, int timeout_ms,
                              struct err *err);

/* Name -> numeric address, in a thread of its own with a deadline, retried with back-off until it
 * passes; one log line of progress now and then. A numeric address is returned as it is.
 * ERR_TIMEOUT names host and last error. */
MUST_USE enum status net_resolve(const char *name, int64_t deadline_ns, char out[ADDR_BYTES_MAX],
                                 struct err *err);
/* Is address inside a prefix of that interface, or loopback? */
bool net_address_on_interface(const char *address, const char *interface_name);

/* For the start banner: "cubic", "bbr" (measured 2.6 times slower on fast links: reference in
 * net_zmq.c), ... */
void net_congestion_control(char out[NAME_BYTES_MAX]);

#endif
