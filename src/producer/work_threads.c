/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers and decoders. A reader claims the most urgent row that is to do, fetches its file and
 * hands the claim on; a decoder takes the most urgent claim that was read. A sample that cannot be
 * decoded sends its row back to the readers with the next sample of its chain.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "producer/sample_file.h"
#include "producer/work_internal.h"

enum {
    CHAIN_MAX = 64,       /* substitutes tried for one position before the order fails */
    READ_TRIES = 4,       /* passing I/O errors: 3 more tries after 50, 200 and 800 ms */
    READ_PAUSE_MS = 50,   /* before the first of them */
    DECODER_STACK = 65536 /* alternate stack for the fatal signals' handler */
};

/* Is a more urgent than b? By due, then rank, then arrival. */
static bool more_urgent(const struct order *a, const struct order *b)
{
    if (a->grant.due != b->grant.due) {
        return a->grant.due < b->grant.due;
    }
    return a->rank != b->rank ? a->rank < b->rank : a->serial < b->serial;
}

/* ---- reading ---- */

/* The most urgent order with a row to read, its cursor on that row; NULL: none. */
static struct order *find_to_read(struct work *work)
{
    struct order *best = NULL;
    for (uint32_t i = 0; i < work->options.orders_max; i++) {
        struct order *order = &work->orders[i];
        if (order->state != ORDER_ACTIVE) {
            continue;
        }
        while (order->cursor < order->row_count && order->rows[order->cursor].state != ROW_TODO) {
            order->cursor++;
        }
        if (order->cursor < order->row_count && (best == NULL || more_urgent(order, best))) {
            best = order;
        }
    }
    return best;
}

static struct claim *find_claim(struct work *work, enum claim_state state)
{
    struct claim *best = NULL;
    for (uint32_t i = 0; i < work->claim_count; i++) {
        struct claim *claim = &work->claims[i];
        if (claim->state == state && (best == NULL || more_urgent(claim->order, best->order))) {
            if (state == CLAIM_FREE) {
                return claim;
            }
            best = claim;
        }
    }
    return best;
}

/* Settles which sample a row takes, passing over known bad ones. False: the chain is at its end. */
static bool choose_sample(struct work *work, struct order *order, uint32_t index)
{
    struct row *row = &order->rows[index];
    const struct plan *plan = &order->stream->plan;
    const uint64_t position = order->first_position + index;
    row->planned = plan_sample(plan, order->grant.epoch, position);
    row->sample = row->attempt == 0
                      ? row->planned
                      : plan_substitute(plan, order->grant.epoch, position, row->attempt);
    while (bad_set_has(work->bad, order->grant.stream, row->sample)) {
        if (work->options.fail_on_bad || row->attempt == CHAIN_MAX) {
            return false;
        }
        row->attempt++;
        row->sample = plan_substitute(plan, order->grant.epoch, position, row->attempt);
    }
    return true;
}

static void fail_for_bad_sample(const struct work *work, struct order *order, uint32_t row)
{
    struct index_entry entry;
    index_get(order->stream->index, order->rows[row].sample, &entry);
    char text[TEXT_BYTES_MAX];
    snprintf(text, sizeof(text),
             work->options.fail_on_bad
                 ? "sample %llu (%s) of stream %s is bad and on_bad is fail"
                 : "no good sample on the chain that ends with sample %llu (%s) of stream %s",
             (unsigned long long)order->rows[row].sample, entry.path, order->stream->name);
    order_fail(order, NACK_BAD_BUDGET, text);
}

/* The last part lists the substitutes of all rows (its bytes are their labels and ids), and a
 * message holds so many. */
static bool has_too_many_substitutes(const struct order *order)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < order->row_count; row++) {
        count += order->rows[row].attempt > 0;
    }
    return count > SUBST_MAX;
}

/*
 * A reader that runs goes on until it is as far ahead as there are claims; one that sleeps is woken
 * only when decoders are near want, so that a sample does not cost a switch of threads. Then there
 * is a free claim: decoders hold one each, and there are more than twice as many.
 */
static void wake_reader_if_low(struct work *work)
{
    if (work->ahead <= work->options.threads) {
        pthread_cond_signal(&work->may_read);
    }
}

/* Waits for something to read; NULL when stopping. */
static struct claim *claim_next(struct work *work)
{
    while (!work->stopping) {
        struct claim *claim = find_claim(work, CLAIM_FREE);
        struct order *order = claim != NULL ? find_to_read(work) : NULL;
        if (order == NULL) {
            pthread_cond_wait(&work->may_read, &work->lock);
            continue;
        }
        const uint32_t row = order->cursor;
        order->pins++;
        if (!choose_sample(work, order, row)) {
            fail_for_bad_sample(work, order, row);
            order_unpin(work, order);
            continue;
        }
        if (order->rows[row].attempt > 0 && has_too_many_substitutes(order)) {
            order_fail(order, NACK_BAD_BUDGET,
                       "more bad samples in one batch than a message can name");
            order_unpin(work, order);
            continue;
        }
        order->rows[row].state = ROW_READING;
        *claim = (struct claim){
            .state = CLAIM_READING, .order = order, .row = row, .since_ns = clock_now_ns()};
        order->queued_ns += (uint64_t)(claim->since_ns - order->submitted_ns);
        work->ahead++;
        wake_reader_if_low(work);
        return claim;
    }
    return NULL;
}

/* Waits for a buffer that holds `count` bytes; NULL when stopping. There are as many small ones as
 * claims. */
static struct read_buffer *take_buffer(struct work *work, size_t count)
{
    const bool big = count > work->buffer_bytes;
    const uint32_t first = big ? work->buffer_count : 0;
    const uint32_t end = big ? work->buffer_count + BIG_BUFFERS : work->buffer_count;
    while (!work->stopping) {
        for (uint32_t i = first; i < end; i++) {
            if (!work->buffers[i].in_use) {
                work->buffers[i].in_use = true;
                return &work->buffers[i];
            }
        }
        pthread_cond_wait(&work->may_go_on, &work->lock);
    }
    return NULL;
}

/* Waits with the lock held, but no longer than until the work stops. */
static void pause_reading(struct work *work, int64_t pause_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const int64_t at = until.tv_nsec + pause_ns;
    until.tv_sec += at / NS_PER_S;
    until.tv_nsec = at % NS_PER_S;
    while (!work->stopping &&
           pthread_cond_timedwait(&work->may_go_on, &work->lock, &until) != ETIMEDOUT) {
    }
}

static enum status read_with_retries(struct work *work, const struct claim *claim,
                                     const struct index_entry *entry, struct err *err)
{
    enum status status = OK;
    int64_t pause_ns = READ_PAUSE_MS * NS_PER_MS;
    for (int tries = 0; tries < READ_TRIES; tries++) {
        if (tries > 0) {
            pthread_mutex_lock(&work->lock);
            pause_reading(work, pause_ns);
            const bool over = work->stopping || claim->order->state != ORDER_ACTIVE;
            pthread_mutex_unlock(&work->lock);
            pause_ns *= 4;
            if (over) {
                return ERR_CANCELLED;
            }
        }
        status = sample_file_read(work->folder_fds[claim->order->grant.stream], entry,
                                  claim->buffer->bytes, err);
        if (status == OK) {
            return OK;
        }
    }
    return status;
}

/* With the lock held: the claim is over; its buffer and its hold on the order go back. */
static void end_claim(struct work *work, struct claim *claim)
{
    if (claim->buffer != NULL) {
        claim->buffer->in_use = false;
        if (claim->buffer->capacity > work->buffer_bytes) {
            pthread_cond_broadcast(&work->may_go_on);
        }
    }
    struct order *order = claim->order;
    work->ahead -= claim->state != CLAIM_DECODING;
    claim->state = CLAIM_FREE;
    order_unpin(work, order);
}

/* With the lock held: a sample is bad; its row goes back to the readers for the next one on the
 * chain. */
static void reject_sample(struct work *work, struct claim *claim, const char *reason)
{
    struct order *order = claim->order;
    struct row *row = &order->rows[claim->row];
    bad_set_add(work->bad, order->grant.stream, row->sample, reason);
    if (work->options.fail_on_bad || row->attempt == CHAIN_MAX) {
        fail_for_bad_sample(work, order, claim->row);
        return;
    }
    row->attempt++;
    row->state = ROW_TODO;
    order->cursor = claim->row < order->cursor ? claim->row : order->cursor;
}

static void serve_claim(struct work *work, struct claim *claim)
{
    struct order *order = claim->order;
    struct index_entry entry;
    index_get(order->stream->index, order->rows[claim->row].sample, &entry);
    if (entry.bytes > FILE_BYTES_MAX) {
        char reason[TEXT_BYTES_MAX];
        snprintf(reason, sizeof(reason), "file of %llu bytes, the limit is %d",
                 (unsigned long long)entry.bytes, FILE_BYTES_MAX);
        reject_sample(work, claim, reason);
        end_claim(work, claim);
        return;
    }
    claim->buffer = take_buffer(work, (size_t)entry.bytes);
    if (claim->buffer == NULL) {
        end_claim(work, claim);
        return;
    }
    pthread_mutex_unlock(&work->lock);
    struct err err = {0};
    const int64_t begin_ns = clock_now_ns();
    const enum status status = read_with_retries(work, claim, &entry, &err);
    const int64_t end_ns = clock_now_ns();
    pthread_mutex_lock(&work->lock);
    if (status != OK || order->state != ORDER_ACTIVE) {
        if (status == ERR_IO) {
            order_fail(order, NACK_IO, err.message);
        }
        end_claim(work, claim);
        return;
    }
    order->read_ns += (uint64_t)(end_ns - begin_ns);
    order->rows[claim->row].state = ROW_READ;
    claim->count = (size_t)entry.bytes;
    claim->state = CLAIM_READ;
    pthread_cond_signal(&work->may_decode);
}

void *work_reader(void *given)
{
    struct work_thread_start start = *(struct work_thread_start *)given;
    free(given);
    struct work *work = start.work;
    pthread_mutex_lock(&work->lock);
    for (struct claim *claim = claim_next(work); claim != NULL; claim = claim_next(work)) {
        serve_claim(work, claim);
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

/* ---- decoding ---- */

struct decoder {
    struct work *work;
    uint32_t number;
    struct sample_maker *makers[STREAMS_MAX]; /* made on first use */
    struct sample_times times;
    uint32_t parts[PARTS_MAX];
};

static struct claim *wait_for_read(struct work *work)
{
    while (!work->stopping) {
        struct claim *claim = find_claim(work, CLAIM_READ);
        work->ahead -= claim != NULL;
        wake_reader_if_low(work);
        if (claim != NULL) {
            claim->state = CLAIM_DECODING;
            claim->order->rows[claim->row].state = ROW_DECODING;
            return claim;
        }
        pthread_cond_wait(&work->may_decode, &work->lock);
    }
    return NULL;
}

/* Pixels, label and id of one row. Without the lock: the row is this thread's. */
static enum status make_row(struct decoder *self, const struct claim *claim, struct err *err)
{
    const struct order *order = claim->order;
    const struct work_stream *stream = order->stream;
    const struct layout *layout = &stream->layout;
    const uint32_t number = order->grant.stream;
    const uint64_t sample = order->rows[claim->row].sample;
    if (self->makers[number] == NULL) {
        TRY(sample_maker_new(&stream->pipeline, &self->makers[number], err));
    }
    uint8_t *bytes = order->batch->bytes;
    const struct rng_at at = {.key = stream->plan.key,
                              .position = order->first_position + claim->row,
                              .epoch = order->grant.epoch};
    struct crash_record *crashes = self->work->options.crashes;
    if (crashes != NULL) {
        crash_record_enter(crashes, self->number, number, sample);
    }
    const enum status status =
        sample_make(self->makers[number], claim->buffer->bytes, claim->count, &at,
                    bytes + layout->image_offset + (size_t)claim->row * layout->sample_bytes,
                    &self->times, err);
    if (crashes != NULL) {
        crash_record_leave(crashes, self->number);
    }
    TRY(status);
    struct index_entry entry;
    index_get(stream->index, sample, &entry);
    hash_put64(bytes + layout->label_offset + 8 * (size_t)claim->row, (uint64_t)entry.label);
    hash_put64(bytes + layout->sample_id_offset + 8 * (size_t)claim->row, sample);
    return OK;
}

/* With the lock held, which is let go while sums are made: the parts' bytes are still in this
 * core's cache. */
static void publish_row(struct decoder *self, struct claim *claim)
{
    struct work *work = self->work;
    struct order *order = claim->order;
    const struct layout *layout = &order->stream->layout;
    const uint32_t ready = order_row_done(order, claim->row, self->parts);
    work->samples_done[order->rank]++;
    for (uint32_t i = 0; i < ready; i++) {
        const uint32_t part = self->parts[i];
        pthread_mutex_unlock(&work->lock);
        const struct hash128 sum = hash128(order->batch->bytes + layout_part_offset(layout, part),
                                           layout_part_length(layout, part));
        pthread_mutex_lock(&work->lock);
        if (order->state != ORDER_ACTIVE) {
            return;
        }
        order->part_sums[part] = sum;
        order->parts_ready++;
        work_push_result(work, WORK_PART, order, part);
    }
}

static void finish_claim(struct decoder *self, struct claim *claim, enum status status,
                         const struct err *err)
{
    struct order *order = claim->order;
    if (order->state != ORDER_ACTIVE) {
        return;
    }
    order->decode_ns += self->times.decode_ns;
    order->augment_ns += self->times.augment_ns;
    if (status == OK) {
        publish_row(self, claim);
    } else if (status == ERR_DATA) {
        reject_sample(self->work, claim, err->message);
    } else {
        order_fail(order, NACK_RESOURCE, err->message);
    }
}

/* A decoder that runs out of stack must still be able to name its sample. */
static void *set_alternate_stack(void)
{
    void *memory = malloc(DECODER_STACK);
    const stack_t stack = {.ss_sp = memory, .ss_size = DECODER_STACK};
    if (memory != NULL) {
        sigaltstack(&stack, NULL);
    }
    return memory;
}

void *work_decoder(void *given)
{
    struct work_thread_start start = *(struct work_thread_start *)given;
    free(given);
    struct work *work = start.work;
    struct decoder *self = calloc(1, sizeof(*self));
    CHECK(self != NULL); /* at start, before anything is served */
    self->work = work;
    self->number = start.number;
    void *alternate = set_alternate_stack();
    pthread_mutex_lock(&work->lock);
    for (struct claim *claim = wait_for_read(work); claim != NULL; claim = wait_for_read(work)) {
        struct err err = {0};
        self->times = (struct sample_times){0};
        pthread_mutex_unlock(&work->lock);
        const enum status status = make_row(self, claim, &err);
        pthread_mutex_lock(&work->lock);
        finish_claim(self, claim, status, &err);
        end_claim(work, claim);
    }
    pthread_mutex_unlock(&work->lock);
    const stack_t off = {.ss_flags = SS_DISABLE};
    sigaltstack(&off, NULL);
    free(alternate);
    for (uint32_t s = 0; s < STREAMS_MAX; s++) {
        sample_maker_free(&self->makers[s]);
    }
    free(self);
    return NULL;
}
