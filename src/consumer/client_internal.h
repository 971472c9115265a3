/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What client.c (the thread, its commands) and client_link.c (messages in, actions out) share.
 * Everything here belongs to the client's thread but the queues, the counters and, while their slot
 * is lent, the notes.
 */
#ifndef HEADRACE_CONSUMER_CLIENT_INTERNAL_H
#define HEADRACE_CONSUMER_CLIENT_INTERNAL_H

#include <pthread.h>

#include "common/metrics.h"
#include "common/net.h"
#include "common/queue.h"
#include "consumer/client.h"
#include "consumer/part.h"
#include "consumer/sched.h"

enum client_command_kind { CLIENT_SURVEY, CLIENT_FIX, CLIENT_OPEN, CLIENT_FINISH };

struct client_command {
    enum client_command_kind kind;
    int64_t deadline_ns;                  /* SURVEY */
    uint32_t stream;                      /* OPEN */
    uint64_t first, end;                  /* OPEN */
    struct data_facts facts[STREAMS_MAX]; /* FIX */
    struct plan plans[STREAMS_MAX];       /* FIX */
};

/* One for each command but FINISH. */
struct client_result {
    struct err err;                       /* status OK: it went well */
    struct data_facts facts[STREAMS_MAX]; /* SURVEY */
};

/* A HELLO that waits for the streams to be fixed. */
struct held_hello {
    uint64_t peer;
    char address[ADDR_BYTES_MAX];
    struct msg_hello hello;
};

struct slot_notes {
    bool used;
    uint64_t gstep;
    struct part_notes parts;
};

struct stream_counters {
    struct counter bytes_received, parts, duplicates;
    struct counter queued_ns, read_ns, decode_ns, augment_ns, send_ns, copy_ns;
};

struct client {
    struct client_options options;
    pthread_t thread;
    struct queue *commands, *results;
    struct net *net;
    struct net_socket *socket;
    void *sched_memory;
    struct sched *sched;

    bool fixed;
    struct plan plans[STREAMS_MAX];
    struct slot_notes *notes[STREAMS_MAX]; /* one per slot */
    uint32_t *attempts[STREAMS_MAX];       /* what the notes point into */
    struct stream_counters counters[STREAMS_MAX];

    bool surveying;
    int64_t survey_deadline_ns, progress_ns;
    enum census_state survey_state; /* as last told */
    const char *names[STREAMS_MAX];
    struct census census;
    struct held_hello *held;
    uint32_t held_count;

    bool finishing;
    int64_t finish_deadline_ns;
};

/* Reads what came, a bounded number of messages; true: there may be more. */
bool client_receive(struct client *client);
/* Does what the scheduler wants done now. */
void client_act(struct client *client, int64_t now_ns);
/* Hands the HELLOs that waited to the scheduler. */
void client_release_held(struct client *client, int64_t now_ns);
/* All rings fail with this. */
void client_fail(struct client *client, const struct err *err);

#endif
