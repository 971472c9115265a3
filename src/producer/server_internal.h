/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server.c (set-up, the loop, the end) and server_link.c (one rank's session) share.
 * Everything here belongs to the server thread.
 *
 *   link:  HELLO (says it every second) -> LIVE (session, grants, parts) -> OVER (the rank is done)
 *             ^------- refused, silent, disconnected: all its work is dropped -------'
 */
#ifndef HEADRACE_PRODUCER_SERVER_INTERNAL_H
#define HEADRACE_PRODUCER_SERVER_INTERNAL_H

#include "common/net.h"
#include "producer/server.h"
#include "producer/work.h"

enum link_state { LINK_HELLO, LINK_LIVE, LINK_OVER };

struct link {
    const struct roster_rank *rank;
    struct net_socket *socket;
    enum link_state state;
    uint64_t session;
    uint32_t attempt;
    uint32_t generation; /* of the session, for work's results */
    int64_t hello_ns, ping_ns, heard_ns;
    uint64_t ping_seq;
    struct msg_grant *pending; /* grants that wait for a batch; ring of grants_max */
    uint32_t pending_first, pending_count;
};

/* Samples that kill decoders, as the coordinator said. */
struct verdicts {
    uint32_t count;
    struct {
        uint32_t stream;
        uint64_t sample;
    } list[256];
};

struct server {
    const struct server_options *options;
    const volatile bool *stop;
    struct verdicts *verdicts;
    uint32_t stream_count;
    struct work_stream streams[STREAMS_MAX];
    struct index *indexes[STREAMS_MAX];
    uint64_t fingerprint, instance;
    uint32_t quota;          /* batches a rank may have in work */
    uint64_t capacity_bytes; /* the same in bytes: what HELLO says */
    uint32_t grants_max;     /* of each link */
    int queue_messages;      /* of each link */
    int wake_fd;
    struct crash_record *crashes;
    struct batch_pool *pool;
    struct work *work;
    struct net *net;
    uint32_t link_count;
    struct link *links;
    int64_t begin_ns, contact_ns; /* contact: the last moment with a live session; 0: never */
    uint32_t bad_named;           /* samples found bad here */
    bool leaving;                 /* asked to stop: finishes what it has */
    bool reindex;                 /* refused for its data set: begins anew */
    char difference[2 * TEXT_BYTES_MAX]; /* and why, for people */
};

/* One message for this link. */
void link_on_message(struct server *server, struct link *link, const struct net_message *message,
                     int64_t now_ns);
/* HELLO, PING, silence; grants that waited for a batch. */
void link_on_time(struct server *server, struct link *link, int64_t now_ns);
void link_on_disconnect(struct server *server, struct link *link, int64_t now_ns);
/* A part, NACK or RETURN that work has finished. */
void link_send_result(struct server *server, struct link *link, const struct work_result *result);
/* Ends the session here: all its work is dropped and HELLO said anew. */
void link_drop(struct server *server, struct link *link, const char *why, int64_t now_ns);
void link_leave(struct server *server, struct link *link);

#endif
