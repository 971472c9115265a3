/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of one rank: batches of its streams, in plan order, exactly once. Owns the client thread
 * (sockets, scheduler), the staging rings and the device. feed_* is called from one thread, the
 * trainer's, but for feed_close.
 */
#ifndef HEADRACE_CONSUMER_FEED_H
#define HEADRACE_CONSUMER_FEED_H

#include "common/coord.h"
#include "common/index.h"
#include "common/layout.h"
#include "common/plan.h"
#include "consumer/device.h"

struct feed;

struct feed_options {
    const struct config *config; /* borrowed */
    struct coord_client *coord;  /* borrowed; joined as COORD_RANK; NULL only in tests */
    const struct roster *roster; /* borrowed */
    uint32_t rank;
    const char *address; /* numeric, own */
    uint16_t port;
    const struct device_ops *device;
    const char *device_options;
    const char *local_host; /* producers of this host are preferred; NULL: none */
};

/* Binds, sizes every buffer and prints the memory budget. Needs no producer yet. The number of
 * samples and the data-set digest of each stream are fixed from the first producers (DESIGN.md
 * section 7), so the first feed_start may wait. */
MUST_USE enum status feed_new(const struct feed_options *options, struct feed **out,
                              struct err *err);

/* What a stream is like, once known; waits for the first producer until join_timeout. */
struct feed_stream {
    struct layout layout;
    struct plan plan;
    uint32_t classes; /* 0: no labels */
};
MUST_USE enum status feed_stream_info(struct feed *feed, const char *stream,
                                      struct feed_stream *out, struct err *err);

/* Begins delivery of a stream at (epoch, step) up to the end of epoch `epochs` - 1; later calls
 * begin anew. */
MUST_USE enum status feed_start(struct feed *feed, const char *stream, uint32_t epoch,
                                uint64_t step, uint32_t epochs, struct err *err);

struct feed_batch {
    uint32_t stream, slot;
    uint32_t epoch;
    uint64_t step;     /* in the epoch */
    uint64_t position; /* of row 0 */
    uint32_t count;    /* real rows; the rest is zero */
    const void *host;  /* layout's range, host memory */
    void *device;      /* the same on the device, NULL for the host device */
};
/* Waits for the next batch: OK; ERR_CANCELLED after feed_close; ERR_PEER_GONE (starved), ERR_DATA
 * (bad budget), ... The batch is lent until feed_release; more than `slots` kept at once:
 * ERR_MISUSE. */
MUST_USE enum status feed_next(struct feed *feed, const char *stream, struct feed_batch *out,
                               struct err *err);
/* done: event of the consumer's own work on the batch, or NULL. Adds the batch to the stream
 * digest. */
MUST_USE enum status feed_release(struct feed *feed, const struct feed_batch *batch,
                                  struct device_event *done, struct err *err);

struct feed_stats {
    uint64_t batches, samples, bad_samples;
    uint64_t digest;  /* running, of this rank: sum over released batches since feed_start */
    uint64_t wait_ns; /* in feed_next */
    uint64_t wait_p50_ns, wait_p99_ns;
    uint64_t bytes_received, parts, duplicates;
    uint64_t read_ns, decode_ns, augment_ns, queued_ns, send_ns,
        copy_ns; /* sums, as producers reported */
};
void feed_stats(const struct feed *feed, const char *stream, struct feed_stats *out);

/* Any thread: feed_next returns ERR_CANCELLED from now on. */
void feed_close(struct feed *feed);
/* drain: the job ended well: tell producers DONE and wait for BYE (at most 2 s). */
void feed_free(struct feed **feed, bool drain);

#endif
