/* SPDX-License-Identifier: Apache-2.0 */
/* The producer's work: the book of orders and results, on the server's thread. The threads are in
 * work_threads.c. */
#include "producer/work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/thread.h"
#include "producer/work_internal.h"

/* ---- results ---- */

void work_push_result(struct work *work, enum work_result_kind kind, struct order *order,
                      uint32_t part)
{
    CHECK(work->results_count < work->results_max);
    const uint32_t at = (work->results_first + work->results_count) % work->results_max;
    work->results[at] = (struct result){.kind = kind,
                                        .order = order,
                                        .serial = order->serial,
                                        .part = part,
                                        .ready_ns = clock_now_ns()};
    work->results_count++;
    if (work->results_count == 1) { /* else the server is awake and takes it with the others */
        eventfd_write(work->options.wake_fd, 1);
    }
}

/* ---- orders ---- */

static void order_free(struct order *order)
{
    batch_unref(order->batch);
    order->batch = NULL;
    order->state = ORDER_FREE;
}

/* No thread holds the order any more: what it was waiting for happens now. */
static void order_settle(struct work *work, struct order *order)
{
    if (order->pins > 0) {
        return;
    }
    switch (order->state) {
    case ORDER_DROPPED:
        order_free(order);
        break;
    case ORDER_CANCELLED:
        if (order->parts_ready < order->grant.part_count) {
            work_push_result(work, WORK_RETURNED, order, 0);
        }
        break;
    case ORDER_FAILED:
        work_push_result(work, WORK_NACK, order, 0);
        break;
    case ORDER_FREE:
    case ORDER_ACTIVE:
        break;
    }
}

void order_unpin(struct work *work, struct order *order)
{
    CHECK(order->pins > 0);
    order->pins--;
    order_settle(work, order);
}

void order_fail(struct order *order, enum nack_code code, const char *text)
{
    if (order->state != ORDER_ACTIVE) {
        return;
    }
    order->state = ORDER_FAILED;
    order->nack.lease = order->grant.lease;
    order->nack.code = code;
    snprintf(order->nack.text, sizeof(order->nack.text), "%s", text);
}

uint32_t order_row_done(struct order *order, uint32_t row, uint32_t *parts_out)
{
    const struct layout *layout = &order->stream->layout;
    uint32_t ready = 0;
    order->rows[row].state = ROW_DONE;
    const uint32_t end = order->grant.first_part + order->grant.part_count;
    for (uint32_t part = order->grant.first_part; part < end; part++) {
        uint32_t first = 0;
        uint32_t count = 0;
        layout_part_rows(layout, part, &first, &count);
        if (row >= first && row - first < count && --order->part_left[part] == 0) {
            parts_out[ready++] = part;
        }
    }
    return ready;
}

/* Marks the rows that the wanted parts need and counts what each part waits for. */
static void order_plan_rows(struct order *order)
{
    const struct work_stream *stream = order->stream;
    for (uint32_t row = 0; row < stream->layout.rows; row++) {
        order->rows[row] = (struct row){.state = ROW_SKIP};
    }
    const uint32_t end = order->grant.first_part + order->grant.part_count;
    for (uint32_t part = order->grant.first_part; part < end; part++) {
        uint32_t first = 0;
        uint32_t count = 0;
        layout_part_rows(&stream->layout, part, &first, &count);
        order->part_left[part] = count;
        for (uint32_t row = first; row < first + count; row++) {
            order->rows[row].state = ROW_TODO;
        }
    }
}

static void put_le64(uint8_t *at, int64_t value)
{
    hash_put64(at, (uint64_t)value);
}

/* A row past the batch's count: zero pixels, label and id -1. */
static void write_padding(const struct order *order, uint32_t row)
{
    const struct layout *layout = &order->stream->layout;
    uint8_t *bytes = order->batch->bytes;
    memset(bytes + layout->image_offset + (size_t)row * layout->sample_bytes, 0,
           layout->sample_bytes);
    put_le64(bytes + layout->label_offset + 8 * (size_t)row, -1);
    put_le64(bytes + layout->sample_id_offset + 8 * (size_t)row, -1);
}

/* The gaps between the tensors are zero in every batch: parts are compared by their checksums. */
static void write_gaps(const struct layout *layout, uint8_t *bytes)
{
    const uint64_t image_end = layout->image_offset + (uint64_t)layout->rows * layout->sample_bytes;
    const uint64_t label_end = layout->label_offset + 8 * (uint64_t)layout->rows;
    const uint64_t id_end = layout->sample_id_offset + 8 * (uint64_t)layout->rows;
    memset(bytes + image_end, 0, layout->label_offset - image_end);
    memset(bytes + label_end, 0, layout->sample_id_offset - label_end);
    memset(bytes + id_end, 0, layout->bytes - id_end);
}

bool work_check_grant(const struct work *work, const struct msg_grant *grant,
                      struct msg_nack *nack_out)
{
    *nack_out = (struct msg_nack){.lease = grant->lease, .code = NACK_RANGE};
    if (grant->stream >= work->options.stream_count) {
        snprintf(nack_out->text, sizeof(nack_out->text), "grant for stream %u of %u", grant->stream,
                 work->options.stream_count);
        return false;
    }
    const struct work_stream *stream = &work->options.streams[grant->stream];
    if (grant->step >= stream->plan.steps) {
        snprintf(nack_out->text, sizeof(nack_out->text),
                 "grant for step %llu of stream %s, which has %llu steps",
                 (unsigned long long)grant->step, stream->name,
                 (unsigned long long)stream->plan.steps);
        return false;
    }
    const uint32_t parts = stream->layout.part_count;
    if (grant->part_count == 0 || grant->first_part >= parts ||
        grant->part_count > parts - grant->first_part) {
        snprintf(nack_out->text, sizeof(nack_out->text),
                 "grant for parts %u to %u of stream %s, whose batches have %u parts",
                 grant->first_part, grant->first_part + grant->part_count, stream->name, parts);
        return false;
    }
    return true;
}

static struct order *find_free_order(struct work *work)
{
    for (uint32_t i = 0; i < work->options.orders_max; i++) {
        if (work->orders[i].state == ORDER_FREE) {
            return &work->orders[i];
        }
    }
    return NULL;
}

/* Rows without a sample are complete at once; with them, perhaps, whole parts. */
static void order_finish_padding(struct work *work, struct order *order)
{
    uint32_t parts[PARTS_MAX];
    for (uint32_t row = order->row_count; row < order->stream->layout.rows; row++) {
        if (order->rows[row].state == ROW_SKIP) {
            continue;
        }
        write_padding(order, row);
        const uint32_t ready = order_row_done(order, row, parts);
        for (uint32_t i = 0; i < ready; i++) {
            order->part_sums[parts[i]] =
                hash128(order->batch->bytes + layout_part_offset(&order->stream->layout, parts[i]),
                        layout_part_length(&order->stream->layout, parts[i]));
            order->parts_ready++;
            work_push_result(work, WORK_PART, order, parts[i]);
        }
    }
}

enum status work_submit(struct work *work, const struct work_order *given)
{
    pthread_mutex_lock(&work->lock);
    struct order *order = find_free_order(work);
    if (order == NULL) {
        pthread_mutex_unlock(&work->lock);
        return ERR_AGAIN;
    }
    const struct work_stream *stream = &work->options.streams[given->grant.stream];
    order->state = ORDER_ACTIVE;
    order->serial = ++work->serial;
    order->rank = given->rank;
    order->generation = given->generation;
    order->grant = given->grant;
    order->batch = given->batch;
    order->stream = stream;
    order->row_count =
        plan_batch(&stream->plan, given->grant.step, given->rank, &order->first_position);
    order->cursor = 0;
    order->pins = 0;
    order->parts_ready = 0;
    order->parts_taken = 0;
    order->submitted_ns = clock_now_ns();
    order->queued_ns = order->read_ns = order->decode_ns = order->augment_ns = 0;
    order_plan_rows(order);
    write_gaps(&stream->layout, order->batch->bytes);
    order_finish_padding(work, order);
    pthread_cond_signal(&work->may_read);
    pthread_mutex_unlock(&work->lock);
    return OK;
}

void work_cancel(struct work *work, uint32_t rank, uint32_t generation, uint32_t lease)
{
    pthread_mutex_lock(&work->lock);
    for (uint32_t i = 0; i < work->options.orders_max; i++) {
        struct order *order = &work->orders[i];
        if (order->state == ORDER_ACTIVE && order->rank == rank &&
            order->generation == generation && order->grant.lease == lease &&
            order->parts_ready < order->grant.part_count) {
            order->state = ORDER_CANCELLED;
            order_settle(work, order);
        }
    }
    pthread_mutex_unlock(&work->lock);
}

void work_drop(struct work *work, uint32_t rank)
{
    pthread_mutex_lock(&work->lock);
    for (uint32_t i = 0; i < work->options.orders_max; i++) {
        struct order *order = &work->orders[i];
        if (order->state != ORDER_FREE && order->rank == rank) {
            order->state = ORDER_DROPPED;
            order_settle(work, order);
        }
    }
    work->samples_done[rank] = 0;
    pthread_mutex_unlock(&work->lock);
}

/* ---- taking results ---- */

static void list_substitutions(const struct order *order, struct msg_data *data)
{
    uint32_t first = 0;
    uint32_t count = 0;
    layout_part_rows(&order->stream->layout, data->part, &first, &count);
    for (uint32_t row = first; row < first + count && row < order->row_count; row++) {
        const struct row *r = &order->rows[row];
        if (r->attempt > 0 && data->substitution_count < SUBST_MAX) {
            data->substitutions[data->substitution_count++] = (struct substitution){
                .row = row, .attempt = r->attempt, .bad = r->planned, .taken = r->sample};
        }
    }
}

static void fill_part(struct order *order, uint32_t part, struct work_result *out)
{
    const struct layout *layout = &order->stream->layout;
    const struct msg_grant *grant = &order->grant;
    out->data = (struct msg_data){.lease = grant->lease,
                                  .stream = grant->stream,
                                  .epoch = grant->epoch,
                                  .step = grant->step,
                                  .part = part,
                                  .part_count = layout->part_count,
                                  .offset = layout_part_offset(layout, part),
                                  .length = layout_part_length(layout, part),
                                  .sum_low = order->part_sums[part].low,
                                  .sum_high = order->part_sums[part].high};
    list_substitutions(order, &out->data);
    order->parts_taken++;
    out->batch = order->batch;
    batch_ref(out->batch);
    if (order->parts_taken == grant->part_count) {
        out->data.last = true;
        out->data.queued_ns = order->queued_ns;
        out->data.read_ns = order->read_ns;
        out->data.decode_ns = order->decode_ns;
        out->data.augment_ns = order->augment_ns;
        order_free(order);
    }
}

bool work_take(struct work *work, struct work_result *out)
{
    bool found = false;
    pthread_mutex_lock(&work->lock);
    while (!found && work->results_count > 0) {
        const struct result result = work->results[work->results_first];
        work->results_first = (work->results_first + 1) % work->results_max;
        work->results_count--;
        struct order *order = result.order;
        if (order->serial != result.serial || order->state == ORDER_FREE ||
            order->state == ORDER_DROPPED) {
            continue; /* of a session that is over */
        }
        found = true;
        out->kind = result.kind;
        out->ready_ns = result.ready_ns;
        out->rank = order->rank;
        out->generation = order->generation;
        out->batch = NULL;
        if (result.kind == WORK_PART) {
            fill_part(order, result.part, out);
            continue;
        }
        out->nack = order->nack;
        out->nack.lease = order->grant.lease;
        order_free(order);
    }
    pthread_mutex_unlock(&work->lock);
    return found;
}

void work_mark_bad(struct work *work, uint32_t stream, uint64_t sample, const char *reason)
{
    pthread_mutex_lock(&work->lock);
    bad_set_add(work->bad, stream, sample, reason);
    pthread_mutex_unlock(&work->lock);
}

bool work_take_bad(struct work *work, struct bad_sample *out)
{
    pthread_mutex_lock(&work->lock);
    const bool found = bad_set_pop(work->bad, out);
    pthread_mutex_unlock(&work->lock);
    return found;
}

void work_progress(struct work *work, uint32_t rank, int64_t now_ns, struct work_progress *out)
{
    *out = (struct work_progress){0};
    pthread_mutex_lock(&work->lock);
    out->samples_done = work->samples_done[rank];
    for (uint32_t i = 0; i < work->claim_count; i++) {
        const struct claim *claim = &work->claims[i];
        if (claim->state != CLAIM_FREE && claim->order->rank == rank &&
            claim->order->state == ORDER_ACTIVE && now_ns > claim->since_ns) {
            const uint64_t age_ns = (uint64_t)(now_ns - claim->since_ns);
            out->oldest_age_ns = age_ns > out->oldest_age_ns ? age_ns : out->oldest_age_ns;
        }
    }
    for (uint32_t i = 0; i < work->options.orders_max; i++) {
        const struct order *order = &work->orders[i];
        out->orders += order->rank == rank &&
                       (order->state == ORDER_ACTIVE || order->state == ORDER_CANCELLED ||
                        order->state == ORDER_FAILED);
    }
    pthread_mutex_unlock(&work->lock);
}

/* ---- life ---- */

static uint64_t largest_file(const struct work_options *options)
{
    uint64_t largest = 1;
    for (uint32_t s = 0; s < options->stream_count; s++) {
        const struct index *index = options->streams[s].index;
        for (uint64_t i = 0; i < index_samples(index); i++) {
            struct index_entry entry;
            index_get(index, i, &entry);
            largest = entry.bytes > largest ? entry.bytes : largest;
        }
    }
    return largest < FILE_BYTES_MAX ? largest : FILE_BYTES_MAX;
}

static enum status map_memory(size_t bytes, uint8_t **out, struct err *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return err_errno(err, ERR_RESOURCE, "read buffers of %zu bytes", bytes);
    }
    *out = memory;
    return OK;
}

/* Every claim has a small buffer; files larger than that share two buffers of the largest file's
 * size. */
static enum status make_buffers(struct work *work, struct err *err)
{
    const size_t largest = (size_t)largest_file(&work->options);
    work->buffer_bytes = largest < READ_BUFFER_BYTES_MAX ? largest : READ_BUFFER_BYTES_MAX;
    work->big_bytes = largest > READ_BUFFER_BYTES_MAX ? largest : 0;
    work->buffer_count = work->claim_count;
    const uint32_t all = work->buffer_count + (work->big_bytes > 0 ? BIG_BUFFERS : 0);
    work->buffers = calloc(all, sizeof(*work->buffers));
    if (work->buffers == NULL) {
        return err_set(err, ERR_RESOURCE, "read buffers: out of memory");
    }
    TRY(map_memory(work->buffer_bytes * work->buffer_count, &work->buffer_memory, err));
    for (uint32_t i = 0; i < work->buffer_count; i++) {
        work->buffers[i] = (struct read_buffer){
            .bytes = work->buffer_memory + i * work->buffer_bytes, .capacity = work->buffer_bytes};
    }
    if (work->big_bytes > 0) {
        TRY(map_memory(work->big_bytes * BIG_BUFFERS, &work->big_memory, err));
        for (uint32_t i = 0; i < BIG_BUFFERS; i++) {
            work->buffers[work->buffer_count + i] = (struct read_buffer){
                .bytes = work->big_memory + i * work->big_bytes, .capacity = work->big_bytes};
        }
    }
    return OK;
}

static enum status make_orders(struct work *work, struct err *err)
{
    const uint32_t count = work->options.orders_max;
    work->results_max = count * (work->parts_max + 1);
    work->orders = calloc(count, sizeof(*work->orders));
    work->claims = calloc(work->claim_count, sizeof(*work->claims));
    work->results = calloc(work->results_max, sizeof(*work->results));
    work->samples_done = calloc(RANKS_MAX, sizeof(*work->samples_done));
    if (work->orders == NULL || work->claims == NULL || work->results == NULL ||
        work->samples_done == NULL) {
        return err_set(err, ERR_RESOURCE, "order book: out of memory");
    }
    for (uint32_t i = 0; i < count; i++) {
        struct order *order = &work->orders[i];
        order->rows = calloc(work->rows_max, sizeof(*order->rows));
        order->part_left = calloc(work->parts_max, sizeof(*order->part_left));
        order->part_sums = calloc(work->parts_max, sizeof(*order->part_sums));
        if (order->rows == NULL || order->part_left == NULL || order->part_sums == NULL) {
            return err_set(err, ERR_RESOURCE, "order book: out of memory");
        }
    }
    return bad_set_new(&work->bad, err);
}

static enum status open_folders(struct work *work, struct err *err)
{
    for (uint32_t s = 0; s < work->options.stream_count; s++) {
        const char *folder = index_folder(work->options.streams[s].index);
        work->folder_fds[s] = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (work->folder_fds[s] < 0) {
            return err_errno(err, errno == ENOENT ? ERR_MISSING : ERR_IO, "data folder %s", folder);
        }
    }
    return OK;
}

static enum status start_threads(struct work *work, struct err *err)
{
    const uint32_t readers = work->options.read_threads;
    const uint32_t count = readers + work->options.threads;
    work->threads = calloc(count, sizeof(*work->threads));
    if (work->threads == NULL) {
        return err_set(err, ERR_RESOURCE, "threads: out of memory");
    }
    for (uint32_t i = 0; i < count; i++) {
        struct work_thread_start *start = malloc(sizeof(*start));
        if (start == NULL) {
            return err_set(err, ERR_RESOURCE, "threads: out of memory");
        }
        *start = (struct work_thread_start){work, i < readers ? i : i - readers};
        const bool reads = i < readers;
        const enum status status =
            thread_start(reads ? "hr-read" : "hr-decode", reads ? work_reader : work_decoder, start,
                         &work->threads[i], err);
        if (status != OK) {
            free(start);
            return status;
        }
        work->threads_started++;
    }
    return OK;
}

enum status work_new(const struct work_options *options, struct work **out, struct err *err)
{
    CHECK(options->threads > 0 && options->read_threads > 0 && options->orders_max > 0);
    CHECK(options->stream_count > 0 && options->stream_count <= STREAMS_MAX);
    struct work *work = calloc(1, sizeof(*work));
    if (work == NULL) {
        return err_set(err, ERR_RESOURCE, "producer: out of memory");
    }
    work->options = *options;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->may_read, NULL);
    pthread_cond_init(&work->may_go_on, NULL);
    pthread_cond_init(&work->may_decode, NULL);
    /* Each decoder has a sample in hand and one waiting, each reader one under way; the rest lets
     * few decoders have their readers sleep for a while. */
    work->claim_count = 2 * options->threads + options->read_threads + CLAIMS_MORE;
    for (uint32_t s = 0; s < STREAMS_MAX; s++) {
        work->folder_fds[s] = -1;
    }
    for (uint32_t s = 0; s < options->stream_count; s++) {
        const struct layout *layout = &options->streams[s].layout;
        work->rows_max = layout->rows > work->rows_max ? layout->rows : work->rows_max;
        work->parts_max =
            layout->part_count > work->parts_max ? layout->part_count : work->parts_max;
    }
    enum status status = open_folders(work, err);
    if (status == OK) {
        status = make_orders(work, err);
    }
    if (status == OK) {
        status = make_buffers(work, err);
    }
    if (status == OK) {
        status = start_threads(work, err);
    }
    if (status != OK) {
        work_free(&work);
        return status;
    }
    *out = work;
    return OK;
}

static void stop_threads(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->stopping = true;
    pthread_cond_broadcast(&work->may_read);
    pthread_cond_broadcast(&work->may_go_on);
    pthread_cond_broadcast(&work->may_decode);
    pthread_mutex_unlock(&work->lock);
    for (uint32_t i = 0; i < work->threads_started; i++) {
        pthread_join(work->threads[i], NULL);
    }
    free(work->threads);
}

static void free_orders(struct work *work)
{
    for (uint32_t i = 0; work->orders != NULL && i < work->options.orders_max; i++) {
        struct order *order = &work->orders[i];
        if (order->state != ORDER_FREE) {
            batch_unref(order->batch);
        }
        free(order->rows);
        free(order->part_left);
        free(order->part_sums);
    }
    free(work->orders);
}

void work_free(struct work **given)
{
    struct work *work = *given;
    if (work == NULL) {
        return;
    }
    stop_threads(work);
    free_orders(work);
    for (uint32_t s = 0; s < work->options.stream_count; s++) {
        if (work->folder_fds[s] >= 0) {
            close(work->folder_fds[s]);
        }
    }
    if (work->buffer_memory != NULL) {
        munmap(work->buffer_memory, work->buffer_bytes * work->buffer_count);
    }
    if (work->big_memory != NULL) {
        munmap(work->big_memory, work->big_bytes * BIG_BUFFERS);
    }
    free(work->buffers);
    free(work->claims);
    free(work->results);
    free(work->samples_done);
    bad_set_free(&work->bad);
    pthread_cond_destroy(&work->may_read);
    pthread_cond_destroy(&work->may_go_on);
    pthread_cond_destroy(&work->may_decode);
    pthread_mutex_destroy(&work->lock);
    free(work);
    *given = NULL;
}

size_t work_read_bytes(const struct work *work)
{
    return work->buffer_bytes * work->buffer_count + work->big_bytes * BIG_BUFFERS;
}
