/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of one rank: batches of its streams, in plan order, exactly once. Owns the client
 * (thread, sockets, scheduler), the staging rings and the device. feed_* is called from one thread,
 * the trainer's, but for feed_close.
 */
#ifndef HEADRACE_CONSUMER_FEED_H
#define HEADRACE_CONSUMER_FEED_H

#include "common/coord.h"
#include "common/layout.h"
#include "common/plan.h"
#include "consumer/device.h"

struct feed;

struct feed_options {
    const struct config *config; /* borrowed, as all pointers here */
    struct coord_client *coord;  /* joined as COORD_RANK; NULL: one rank, alone (tests) */
    const struct roster *roster;
    uint32_t rank;
    const char *address; /* numeric, own */
    uint16_t port;
    uint32_t producers;   /* of the cluster file: whose agreement fixes the data, and what the
                             budget is sized for; two more may join */
    uint64_t fingerprint; /* of the decoder; a producer with another one is turned away */
    const struct device_ops *device;
    uint32_t device_ordinal;    /* see device_options */
    const char *device_text;    /* likewise */
    device_broken_fn on_broken; /* NULL: nobody is told but who asks for a batch */
    void *broken_context;
    bool lend_early;        /* batches are lent before their copy to the device is done */
    const char *local_host; /* producers of this host are preferred; NULL: none */
};

/* Binds, takes all memory and prints its budget. Needs no producer yet. ERR_CONFIG: the ranks do
 * not divide the global batch. */
MUST_USE enum status feed_new(const struct feed_options *options, struct feed **out,
                              struct err *err);

/* Opened by the feed, and its for life: for a trainer that computes on it. */
struct device *feed_device(const struct feed *feed);

/* The port it listens on. */
uint16_t feed_port(const struct feed *feed);

/* What the printed budget sums up to. */
uint64_t feed_budget_bytes(const struct feed *feed);

/* What a stream is like. The first call waits for the producers of the cluster, until
 * join_timeout, to say the same of their data (DESIGN.md section 7). ERR_USAGE: no such stream;
 * ERR_DATA: producers differ, or an epoch has no step; ERR_TIMEOUT: no producer came. */
struct feed_stream {
    struct layout layout;
    struct plan plan;
    uint32_t classes;     /* 0: no labels */
    uint64_t data_digest; /* of the data set */
};
MUST_USE enum status feed_stream_info(struct feed *feed, const char *stream,
                                      struct feed_stream *out, struct err *err);

/* Begins delivery of a stream at (epoch, step) up to the end of epoch `epochs` - 1; what was begun
 * before is given up, and the stream's statistics begin anew. ERR_MISUSE while a batch of it is
 * lent. */
MUST_USE enum status feed_start(struct feed *feed, const char *stream, uint32_t epoch,
                                uint64_t step, uint32_t epochs, struct err *err);

struct feed_batch {
    uint32_t stream, slot;
    uint32_t epoch;
    uint64_t step;               /* in the epoch */
    uint64_t position;           /* of row 0 */
    uint32_t count;              /* real rows; the rest is zero */
    const void *host;            /* layout's range, host memory */
    void *device;                /* the same on the device, NULL for the host device */
    struct device_event *copied; /* behind the copy; has fired, unless lend_early */
    struct device_event *done;   /* with lend_early: for feed_release, the batch's own; else NULL */
};
/* Waits for the next batch: OK; ERR_CANCELLED after feed_close; ERR_PEER_GONE (starved), ERR_DATA
 * (bad budget), ... The batch is lent until feed_release. ERR_MISUSE: past the end of what
 * feed_start began, or so many batches are kept that the next one could never come. */
MUST_USE enum status feed_next(struct feed *feed, const char *stream, struct feed_batch *out,
                               struct err *err);
/* Waits until feed_next need not wait for a producer: OK, ERR_TIMEOUT, or what feed_next would
 * return. */
MUST_USE enum status feed_wait(struct feed *feed, const char *stream, int64_t deadline_ns,
                               struct err *err);
/* done: event of the consumer's own work on the batch, or NULL (see ring_release). Adds the batch
 * to the stream digest. ERR_MISUSE: not lent; ERR_DATA: more bad samples than bad_budget, counted
 * over all ranks. */
MUST_USE enum status feed_release(struct feed *feed, const struct feed_batch *batch,
                                  struct device_event *done, struct err *err);

struct feed_stats {            /* of one stream since feed_start; this rank's */
    uint64_t batches, samples; /* released; real rows */
    uint64_t bad_samples;      /* rows with a substitute */
    uint64_t digest;           /* sum over released batches */
    uint64_t wait_ns;          /* in feed_next and feed_wait */
    uint64_t wait_p50_ns;      /* of feed_next, like the next */
    uint64_t wait_p99_ns;
    /* since feed_new */
    uint64_t bytes_received, parts, duplicates;
    uint64_t read_ns, decode_ns, augment_ns, queued_ns, send_ns; /* as producers reported */
    uint64_t copy_ns; /* from message to slot, with the checksum */
};
void feed_stats(const struct feed *feed, const char *stream, struct feed_stats *out);

/* Any thread: feed_next returns ERR_CANCELLED from now on. */
void feed_close(struct feed *feed);
/* drain: the job ended well: tell producers DONE and wait for BYE (at most 2 s). */
void feed_free(struct feed **feed, bool drain);

#endif
