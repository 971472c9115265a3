/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's work: orders (grants with a batch to make them in) go in, finished parts come out.
 * Reader threads fetch files ahead, decode threads make samples; the unit of work is one sample,
 * taken in order of the orders' `due`, then rank, then arrival, so that one batch is finished by
 * all cores and a slow picture delays only itself.
 *
 * One thread, the server's, calls everything here. Its wake_fd becomes readable when results wait.
 *
 *   order:  taken -> parts come out one by one -> last part, or NACK, or RETURNED: exactly one end,
 * unless the order was dropped. Its batch is held until then, and by every part given out.
 */
#ifndef HEADRACE_PRODUCER_WORK_H
#define HEADRACE_PRODUCER_WORK_H

#include "common/crash_record.h"
#include "common/hash.h"
#include "common/index.h"
#include "common/layout.h"
#include "common/msg.h"
#include "common/pipeline.h"
#include "common/plan.h"
#include "producer/bad_set.h"
#include "producer/batch.h"

struct work;

struct work_stream {
    const char *name;
    const struct index *index;
    struct plan plan;
    struct layout layout;
    struct pipeline pipeline;
};

struct work_options {
    uint32_t threads, read_threads;
    uint32_t stream_count;
    struct work_stream
        *streams; /* borrowed; an index may be exchanged only while nothing is in work */
    uint32_t orders_max;
    bool fail_on_bad;             /* on_bad=fail: NACK instead of a substitute */
    int wake_fd;                  /* eventfd; borrowed */
    struct crash_record *crashes; /* of `threads` threads; NULL: none; borrowed */
};

MUST_USE enum status work_new(const struct work_options *options, struct work **out,
                              struct err *err);
/* Ends the threads; drops what is left. */
void work_free(struct work **work);

/* Bytes the read buffers may take at most, for the printed budget. */
size_t work_read_bytes(const struct work *work);

struct work_order {
    uint32_t rank;
    uint32_t generation; /* of the session: results of an older one are the caller's to ignore */
    struct msg_grant grant;
    struct batch *batch; /* the order's reference becomes work's */
};

/* The grant must be in range (work_check_grant). ERR_AGAIN: orders_max are in work; the batch stays
 * the caller's. */
MUST_USE enum status work_submit(struct work *work, const struct work_order *order);
/* NACK_RANGE with a reason when a grant asks for what does not exist. */
bool work_check_grant(const struct work *work, const struct msg_grant *grant,
                      struct msg_nack *nack_out);

/* Stops an order at the next sample; a RETURNED result follows unless all its parts are out. */
void work_cancel(struct work *work, uint32_t rank, uint32_t generation, uint32_t lease);
/* Forgets all orders of a rank: no more results. Their batches come back when the threads have let
 * go. */
void work_drop(struct work *work, uint32_t rank);

enum work_result_kind { WORK_PART, WORK_NACK, WORK_RETURNED };
struct work_result {
    enum work_result_kind kind;
    uint32_t rank, generation;
    int64_t ready_ns; /* when it was put here */
    struct msg_data
        data; /* WORK_PART: everything but send_ns; bytes at batch->bytes + data.offset */
    struct batch *batch;  /* WORK_PART: a reference that is now the caller's */
    struct msg_nack nack; /* WORK_NACK, and the lease of WORK_RETURNED */
};
/* False when nothing waits. */
bool work_take(struct work *work, struct work_result *out);

/* A verdict: the sample is bad from now on, without being touched. */
void work_mark_bad(struct work *work, uint32_t stream, uint64_t sample, const char *reason);

/* Bad samples found since the last call, each once; false when there is none. */
bool work_take_bad(struct work *work, struct bad_sample *out);

struct work_progress {
    uint64_t samples_done;  /* for this rank since work_drop */
    uint64_t oldest_age_ns; /* of this rank's samples in work; 0: none */
    uint32_t orders;        /* of this rank in work */
};
void work_progress(struct work *work, uint32_t rank, int64_t now_ns, struct work_progress *out);

#endif
