/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What work.c (orders and results, the server's side) and work_threads.c (readers and decoders)
 * share. Everything below `lock` is guarded by it; the bytes of a row belong to the thread that has
 * the row.
 *
 *   row:    SKIP (not wanted)   TODO -> READING -> READ -> DECODING -> DONE
 *                                 ^------ bad sample: the next one on the chain ------'
 *   order:  FREE -> ACTIVE -> (last part taken) FREE
 *                     '-> CANCELLED, FAILED, DROPPED -> (no thread holds it) -> FREE
 */
#ifndef HEADRACE_PRODUCER_WORK_INTERNAL_H
#define HEADRACE_PRODUCER_WORK_INTERNAL_H

#include <pthread.h>

#include "producer/sample.h"
#include "producer/work.h"

enum row_state { ROW_SKIP, ROW_TODO, ROW_READING, ROW_READ, ROW_DECODING, ROW_DONE };

struct row {
    uint64_t planned; /* sample id by the plan */
    uint64_t sample;  /* sample id taken */
    uint32_t attempt; /* on the keyed chain; 0: planned */
    enum row_state state;
};

enum order_state { ORDER_FREE, ORDER_ACTIVE, ORDER_CANCELLED, ORDER_FAILED, ORDER_DROPPED };

struct order {
    enum order_state state;
    uint64_t serial; /* by arrival; tells an order from a later one in the same place */
    uint32_t rank, generation;
    struct msg_grant grant;
    struct batch *batch;
    const struct work_stream *stream;
    uint64_t first_position;
    uint32_t row_count; /* real rows of the batch */
    uint32_t cursor;    /* no row before it is TODO */
    uint32_t pins;      /* threads that hold a row of it, or a sum to make */
    uint32_t parts_ready, parts_taken;
    int64_t submitted_ns;
    uint64_t queued_ns, read_ns, decode_ns, augment_ns;
    struct msg_nack nack;      /* FAILED */
    struct row *rows;          /* rows_max */
    uint32_t *part_left;       /* parts_max: rows each part waits for */
    struct hash128 *part_sums; /* parts_max */
};

struct read_buffer {
    uint8_t *bytes;
    size_t capacity;
    bool in_use;
};

/* One sample between the threads: claimed by a reader, handed to a decoder. */
enum claim_state { CLAIM_FREE, CLAIM_READING, CLAIM_READ, CLAIM_DECODING };
struct claim {
    enum claim_state state;
    struct order *order;
    uint32_t row;
    struct read_buffer *buffer;
    size_t count;
    int64_t since_ns;
};

struct result {
    enum work_result_kind kind;
    struct order *order;
    uint64_t serial;
    uint32_t part;
    int64_t ready_ns;
};

struct work {
    struct work_options options;
    int folder_fds[STREAMS_MAX];
    uint32_t rows_max, parts_max;
    uint32_t claim_count, buffer_count;
    size_t buffer_bytes, big_bytes;
    uint8_t *buffer_memory, *big_memory;
    pthread_t *threads;
    uint32_t threads_started;

    pthread_mutex_t lock;
    pthread_cond_t may_read;  /* for readers: a row to read, a free claim, and decoders near want */
    pthread_cond_t may_go_on; /* for a reader in the middle of a claim: a big buffer is free */
    pthread_cond_t may_decode; /* a claim that was read */
    uint32_t ahead;            /* claims that are being or have been read, not yet decoded */
    bool stopping;
    uint64_t serial;
    struct order *orders;
    struct claim *claims;
    struct read_buffer *buffers; /* buffer_count of them, then BIG_BUFFERS of big_bytes when there
                                    are larger files */
    struct result *results;      /* ring */
    uint32_t results_max, results_first, results_count;
    struct bad_set *bad;
    uint64_t *samples_done; /* per rank */
};

enum { BIG_BUFFERS = 2, READ_BUFFER_BYTES_MAX = 1 << 20, CLAIMS_MORE = 8 };

/* Runs one reader or decoder until stopping. */
struct work_thread_start {
    struct work *work;
    uint32_t number; /* of its kind */
};
void *work_reader(void *start);
void *work_decoder(void *start);

/* With the lock held: a thread lets go of an order; what was waiting for that happens. */
void order_unpin(struct work *work, struct order *order);
/* With the lock held: the order ends with a NACK once no thread holds it. */
void order_fail(struct order *order, enum nack_code code, const char *text);
/* With the lock held: a result for the server thread. */
void work_push_result(struct work *work, enum work_result_kind kind, struct order *order,
                      uint32_t part);
/* With the lock held: a row is complete; writes the numbers of the parts that are now complete to
 * parts_out (room for parts_max) and returns how many. */
uint32_t order_row_done(struct order *order, uint32_t row, uint32_t *parts_out);

#endif
