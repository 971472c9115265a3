/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between coord_client.c (the thread) and coord_client_call.c (the calls): the mailbox they share.
 * Nobody else includes this.
 *
 * A call takes a slot, writes its request, wakes the thread and waits; the thread sends it, again
 * every second, until the answer is there. Slots, notices and all else below `lock` are read and
 * written under it; nothing is sent, received or logged under it.
 */
#ifndef HEADRACE_COMMON_COORD_CLIENT_CORE_H
#define HEADRACE_COMMON_COORD_CLIENT_CORE_H

#include <pthread.h>

#include "common/coord_msg.h"
#include "common/queue.h"

enum {
    COORD_SLOTS = 16,  /* calls of a process that wait at the same time; more wait for a slot */
    COORD_NOTICES = 6, /* FAIL, STOP, DONE, PRODUCER_FAILED, SUSPECT, GIVE_UP: one of each */
    COORD_TOTALS = 64  /* names of coord_add */
};

enum slot_state { SLOT_FREE, SLOT_WAITING, SLOT_ANSWERED };

struct coord_slot {
    enum slot_state state;
    int64_t sent_ns; /* 0: not yet */
    struct coord_msg_request request;
    struct coord_msg *answer; /* the caller's */
};

struct coord_total {
    char key[COORD_KEY_BYTES];
    uint64_t value; /* this member's own */
};

enum link_state { LINK_JOINING, LINK_JOINED, LINK_REFUSED, LINK_OVER };

struct coord_client {
    /* set at start, then constant */
    pthread_t thread;
    struct net *net; /* the thread's, like the socket */
    struct net_socket *socket;
    uint64_t instance;
    struct coord_msg_join join;
    int64_t peer_timeout_ns;
    int wake_fd;  /* eventfd: a call has something for the thread */
    int ready_fd; /* eventfd: link has left LINK_JOINING for the first time */
    struct queue *events;
    char where[ADDR_BYTES_MAX + 16]; /* address:port, for messages */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing;
    enum link_state link;
    struct err failure; /* LINK_REFUSED, LINK_OVER: why */
    uint64_t next_number;
    struct coord_slot slots[COORD_SLOTS];
    struct coord_slot notices[COORD_NOTICES];
    uint32_t total_count;
    struct coord_total totals[COORD_TOTALS];

    uint64_t begun; /* steps; coord_may_begin */
    bool promised;
    uint64_t promise; /* steps not to be exceeded until the stop is settled */
    bool stop_settled, given_up;
    uint64_t stop_at;
};

/* Wakes the thread. */
void coord_client_wake(struct coord_client *client);

#endif
