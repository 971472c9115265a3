/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed: sizes everything, joins rings, client and device, and counts what goes through. It
 * moves no bytes itself.
 */
#include "consumer/feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/metrics.h"
#include "consumer/client.h"
#include "consumer/ring.h"

#define COORD_CALL_NS (60 * NS_PER_S) /* a call that the coordinator answers at once */
enum {
    SPARE_SESSIONS = 2,      /* producers beyond the cluster's that may join */
    BUDGET_ACCOUNTS = 2,     /* a session's: after a cut the old pipe and the new may be full */
    BAD_BUDGET_MIN = 10,     /* with bad_budget -1 */
    BAD_BUDGET_SHARE = 1000, /* and one in so many */
    FACT_BYTES = 24,         /* three 64-bit fields, as ranks tell each other */
};
#define MIB (1024.0 * 1024.0)

struct lent {
    bool is; /* lent to the trainer */
    uint64_t gstep;
    const void *host;
};

struct stream {
    const char *name;
    uint64_t name_hash;
    struct layout layout;
    struct plan plan; /* valid once the feed is fixed */
    struct data_facts facts;
    struct ring *ring;
    struct lent *lent; /* one per slot */
    uint64_t batches, samples, bad_samples, digest, wait_ns;
    struct histogram waits;
    /* Bad samples over all ranks: every sample comes once an epoch, so those of one epoch are
     * those of the data set. */
    uint64_t bad_budget;
    uint32_t bad_epoch;  /* the epoch that bad_before belongs to; UINT32_MAX: none yet */
    uint64_t bad_before; /* what the coordinator had summed up when that epoch began here */
    uint64_t bad_alone;  /* without a coordinator: the sum itself */
};

struct feed {
    struct feed_options options;
    uint32_t slots;
    int wake_fd;
    struct device *device;
    struct client *client;
    struct client_options client_options;
    bool fixed;
    uint32_t stream_count;
    struct stream streams[STREAMS_MAX];
};

/* ---- sizes ---- */

static enum status plan_layouts(struct feed *feed, struct err *err)
{
    const struct config *config = feed->options.config;
    const uint32_t world = feed->options.roster->rank_count;
    const uint64_t global_batch = (uint64_t)config->global_batch;
    if (world == 0 || global_batch % world != 0) {
        return err_set(err, ERR_CONFIG,
                       "global_batch %" PRIu64 " cannot be shared by %u ranks: choose a multiple",
                       global_batch, world);
    }
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        const struct stream_config *stream = &config->streams[i];
        feed->streams[i].name = stream->name;
        feed->streams[i].name_hash = digest_name(stream->name);
        if (layout_init((uint32_t)(global_batch / world), stream->pipeline.height,
                        stream->pipeline.width, stream->pipeline.channels, &feed->streams[i].layout,
                        err) != OK) {
            return err_prefix(err, "stream %s", stream->name);
        }
    }
    return OK;
}

/* Each producer may have its share of the window in flight and one batch more; never less than the
 * largest batch, never more than the window. */
static uint64_t session_bytes(const struct feed *feed)
{
    const uint32_t producers = feed->options.producers > 0 ? feed->options.producers : 1;
    const uint32_t share = (feed->slots + producers - 1) / producers + 1;
    uint64_t batch_bytes = 0;
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        const uint64_t bytes = feed->streams[i].layout.bytes;
        batch_bytes = bytes > batch_bytes ? bytes : batch_bytes;
    }
    return batch_bytes * (share < feed->slots ? share : feed->slots);
}

static void size_client(struct feed *feed)
{
    const struct feed_options *options = &feed->options;
    const struct config *config = options->config;
    feed->client_options = (struct client_options){
        .job = options->roster->job,
        .fingerprint = options->fingerprint,
        .rank = options->rank,
        .address = options->address,
        .port = options->port,
        .insecure = config->insecure,
        .stream_count = feed->stream_count,
        .producers = options->producers,
        .sessions_max = options->producers + SPARE_SESSIONS,
        .session_bytes_max = session_bytes(feed),
        .peer_timeout_ns = (int64_t)(config->peer_timeout_s * NS_PER_S),
        .starve_timeout_ns = (int64_t)(config->starve_timeout_s * NS_PER_S),
        .hedge = config->hedge,
        .local_host = options->local_host,
        .wake_fd = feed->wake_fd,
    };
}

static uint64_t in_flight_bytes(const struct feed *feed)
{
    return BUDGET_ACCOUNTS * feed->client_options.sessions_max *
           feed->client_options.session_bytes_max;
}

uint64_t feed_budget_bytes(const struct feed *feed)
{
    uint64_t bytes = in_flight_bytes(feed) + client_bytes(&feed->client_options) + sizeof(*feed);
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        bytes += ring_pinned_bytes(feed->slots, feed->streams[i].layout.bytes);
    }
    return bytes;
}

static void print_budget(const struct feed *feed)
{
    const struct client_options *client = &feed->client_options;
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        const struct stream *stream = &feed->streams[i];
        log_info("memory budget: stream %s: %u slots of %.1f MiB, pinned: %.1f MiB", stream->name,
                 feed->slots, (double)stream->layout.bytes / MIB,
                 (double)ring_pinned_bytes(feed->slots, stream->layout.bytes) / MIB);
    }
    log_info("memory budget: messages in flight: %u producers x %d accounts of %.1f MiB: %.1f MiB",
             client->sessions_max, BUDGET_ACCOUNTS, (double)client->session_bytes_max / MIB,
             (double)in_flight_bytes(feed) / MIB);
    log_info("memory budget: feed in all: %.1f MiB", (double)feed_budget_bytes(feed) / MIB);
}

/* ---- set-up ---- */

static enum status open_rings(struct feed *feed, struct err *err)
{
    const bool copy_parts = strcmp(feed->options.config->stage_copy, "part") == 0;
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        struct stream *stream = &feed->streams[i];
        const struct ring_options options = {.name = stream->name,
                                             .ops = feed->options.device,
                                             .device = feed->device,
                                             .slots = feed->slots,
                                             .slot_bytes = stream->layout.bytes,
                                             .copy_parts = copy_parts,
                                             .lend_early = feed->options.lend_early,
                                             .wake_fd = feed->wake_fd,
                                             .on_broken = feed->options.on_broken,
                                             .broken_context = feed->options.broken_context};
        TRY(ring_new(&options, &stream->ring, err));
        stream->lent = calloc(feed->slots, sizeof(*stream->lent));
        if (stream->lent == NULL) {
            return err_errno(err, ERR_RESOURCE, "notes of %u lent batches", feed->slots);
        }
        feed->client_options.streams[i] = (struct client_stream){.name = stream->name,
                                                                 .layout = &stream->layout,
                                                                 .ring = stream->ring,
                                                                 .slots = feed->slots};
    }
    return OK;
}

static enum status open_all(struct feed *feed, struct err *err)
{
    TRY(plan_layouts(feed, err));
    feed->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (feed->wake_fd < 0) {
        return err_errno(err, ERR_RESOURCE, "eventfd of the feed");
    }
    size_client(feed);
    const struct device_options device_options = {.config = feed->options.config,
                                                  .ordinal = feed->options.device_ordinal,
                                                  .text = feed->options.device_text};
    TRY(feed->options.device->open(&device_options, &feed->device, err));
    TRY(open_rings(feed, err));
    print_budget(feed);
    return client_new(&feed->client_options, &feed->client, err);
}

enum status feed_new(const struct feed_options *options, struct feed **out, struct err *err)
{
    struct feed *feed = calloc(1, sizeof(*feed));
    if (feed == NULL) {
        return err_errno(err, ERR_RESOURCE, "feed");
    }
    feed->options = *options;
    feed->wake_fd = -1;
    feed->slots = (uint32_t)options->config->slots;
    feed->stream_count = options->config->stream_count;
    const enum status status = open_all(feed, err);
    if (status != OK) {
        feed_free(&feed, false);
        return status;
    }
    *out = feed;
    return OK;
}

void feed_free(struct feed **feed, bool drain)
{
    struct feed *f = *feed;
    if (f == NULL) {
        return;
    }
    client_free(&f->client, drain);
    for (uint32_t i = 0; i < f->stream_count; i++) {
        ring_free(&f->streams[i].ring);
        free(f->streams[i].lent);
    }
    f->options.device->close(&f->device);
    if (f->wake_fd >= 0) {
        CHECK(close(f->wake_fd) == 0);
    }
    free(f);
    *feed = NULL;
}

void feed_close(struct feed *feed)
{
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        ring_close(feed->streams[i].ring);
    }
    client_close(feed->client);
}

struct device *feed_device(const struct feed *feed)
{
    return feed->device;
}

uint16_t feed_port(const struct feed *feed)
{
    return client_port(feed->client);
}

/* ---- what the streams are ---- */

static void put_facts(uint8_t *bytes, const struct data_facts *facts)
{
    hash_put64(bytes, facts->samples);
    hash_put64(bytes + 8, facts->digest);
    hash_put64(bytes + 16, facts->classes);
}

static void get_facts(const uint8_t *bytes, struct data_facts *facts)
{
    facts->samples = hash_get64(bytes);
    facts->digest = hash_get64(bytes + 8);
    facts->classes = (uint32_t)hash_get64(bytes + 16);
}

/* The first rank asks the producers and tells the others. */
static enum status learn_facts(struct feed *feed, struct data_facts facts[STREAMS_MAX],
                               struct err *err)
{
    struct coord_client *coord = feed->options.coord;
    const int64_t deadline_ns =
        clock_now_ns() + (int64_t)(feed->options.config->join_timeout_s * NS_PER_S);
    uint8_t bytes[COORD_VALUE_BYTES];
    size_t count = FACT_BYTES * (size_t)feed->stream_count;
    if (feed->options.rank == 0) {
        TRY(client_survey(feed->client, deadline_ns, facts, err));
        for (uint32_t i = 0; i < feed->stream_count; i++) {
            put_facts(bytes + FACT_BYTES * (size_t)i, &facts[i]);
        }
        return coord == NULL
                   ? OK
                   : coord_put(coord, "data", bytes, count, clock_now_ns() + COORD_CALL_NS, err);
    }
    TRY(coord_get(coord, "data", deadline_ns + COORD_CALL_NS, bytes, &count, err));
    if (count != FACT_BYTES * (size_t)feed->stream_count) {
        return err_set(err, ERR_PEER_WRONG, "rank 0 knows of other streams");
    }
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        get_facts(bytes + FACT_BYTES * (size_t)i, &facts[i]);
    }
    return OK;
}

static uint64_t bad_budget(const struct config *config, uint64_t samples)
{
    const uint64_t share = samples / BAD_BUDGET_SHARE;
    if (config->bad_budget >= 0) {
        return (uint64_t)config->bad_budget;
    }
    return share > BAD_BUDGET_MIN ? share : BAD_BUDGET_MIN;
}

static uint64_t left_out(const struct plan *plan)
{
    const uint64_t taken = plan->steps * plan->global_batch;
    return taken < plan->samples ? plan->samples - taken : 0;
}

static enum status plan_stream(struct feed *feed, uint32_t number, const struct data_facts *facts,
                               struct err *err)
{
    const struct config *config = feed->options.config;
    struct stream *stream = &feed->streams[number];
    const struct plan_options options = {.stream = stream->name,
                                         .seed = (uint64_t)config->seed,
                                         .samples = facts->samples,
                                         .global_batch = (uint64_t)config->global_batch,
                                         .world = feed->options.roster->rank_count,
                                         .shuffle = config->streams[number].shuffle,
                                         .last = config->streams[number].last};
    if (plan_init(&options, &stream->plan, err) != OK) {
        return err_prefix(err, "stream %s", stream->name);
    }
    if (stream->plan.steps == 0) {
        return err_set(err, ERR_DATA,
                       "stream %s: %" PRIu64 " samples do not fill one global batch of %" PRId64
                       ": make it smaller, or set \"last\": \"partial\"",
                       stream->name, facts->samples, config->global_batch);
    }
    stream->facts = *facts;
    stream->bad_budget = bad_budget(config, facts->samples);
    log_info("stream %s: %" PRIu64 " samples in %u classes, %" PRIu64 " steps an epoch (%" PRIu64
             " samples left out of each)",
             stream->name, facts->samples, facts->classes, stream->plan.steps,
             left_out(&stream->plan));
    return OK;
}

static enum status fix_streams(struct feed *feed, struct err *err)
{
    struct data_facts facts[STREAMS_MAX] = {0};
    struct plan plans[STREAMS_MAX];
    if (feed->fixed) {
        return OK;
    }
    TRY(learn_facts(feed, facts, err));
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        TRY(plan_stream(feed, i, &facts[i], err));
        plans[i] = feed->streams[i].plan;
    }
    TRY(client_fix(feed->client, facts, plans, err));
    feed->fixed = true;
    return OK;
}

static enum status find_stream(struct feed *feed, const char *name, struct stream **out,
                               struct err *err)
{
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        if (strcmp(feed->streams[i].name, name) == 0) {
            *out = &feed->streams[i];
            return OK;
        }
    }
    return err_set(err, ERR_USAGE, "no stream is named '%s' in the job's configuration", name);
}

enum status feed_stream_info(struct feed *feed, const char *name, struct feed_stream *out,
                             struct err *err)
{
    struct stream *stream = NULL;
    TRY(find_stream(feed, name, &stream, err));
    TRY(fix_streams(feed, err));
    *out = (struct feed_stream){.layout = stream->layout,
                                .plan = stream->plan,
                                .classes = stream->facts.classes,
                                .data_digest = stream->facts.digest};
    return OK;
}

/* ---- batches ---- */

static void clear_statistics(struct stream *stream)
{
    stream->batches = stream->samples = stream->bad_samples = stream->digest = stream->wait_ns = 0;
    memset(&stream->waits, 0, sizeof(stream->waits));
    stream->bad_epoch = UINT32_MAX;
}

enum status feed_start(struct feed *feed, const char *name, uint32_t epoch, uint64_t step,
                       uint32_t epochs, struct err *err)
{
    struct stream *stream = NULL;
    TRY(find_stream(feed, name, &stream, err));
    TRY(fix_streams(feed, err));
    const uint64_t steps = stream->plan.steps;
    if (epoch >= epochs || step >= steps) {
        return err_set(err, ERR_MISUSE,
                       "stream %s cannot begin at epoch %u, step %" PRIu64
                       ": it has %u epochs of %" PRIu64 " steps",
                       name, epoch, step, epochs, steps);
    }
    TRY(client_open(feed->client, (uint32_t)(stream - feed->streams), epoch * steps + step,
                    epochs * steps, err));
    memset(stream->lent, 0, feed->slots * sizeof(*stream->lent));
    clear_statistics(stream);
    return OK;
}

static void describe(const struct feed *feed, const struct stream *stream,
                     const struct ring_batch *lent, struct feed_batch *out)
{
    const uint64_t steps = stream->plan.steps;
    *out = (struct feed_batch){.stream = (uint32_t)(stream - feed->streams),
                               .slot = lent->slot,
                               .epoch = (uint32_t)(lent->gstep / steps),
                               .step = lent->gstep % steps,
                               .host = lent->host,
                               .device = lent->device,
                               .copied = lent->copied,
                               .done = lent->done};
    out->count = plan_batch(&stream->plan, out->step, feed->options.rank, &out->position);
}

enum status feed_next(struct feed *feed, const char *name, struct feed_batch *out, struct err *err)
{
    struct stream *stream = NULL;
    TRY(find_stream(feed, name, &stream, err));
    const int64_t begin_ns = clock_now_ns();
    struct ring_batch lent;
    TRY(ring_take(stream->ring, &lent, err));
    const uint64_t waited_ns = (uint64_t)(clock_now_ns() - begin_ns);
    stream->wait_ns += waited_ns;
    histogram_add(&stream->waits, waited_ns);
    stream->lent[lent.slot] = (struct lent){.is = true, .gstep = lent.gstep, .host = lent.host};
    describe(feed, stream, &lent, out);
    return OK;
}

enum status feed_wait(struct feed *feed, const char *name, int64_t deadline_ns, struct err *err)
{
    struct stream *stream = NULL;
    TRY(find_stream(feed, name, &stream, err));
    const int64_t begin_ns = clock_now_ns();
    const enum status status = ring_wait(stream->ring, deadline_ns, err);
    stream->wait_ns += (uint64_t)(clock_now_ns() - begin_ns);
    return status;
}

/* Adds to the sum over all ranks, which is kept for odd and even epochs apart: what it was when an
 * epoch began here is no business of that epoch's budget. */
static enum status sum_bad(struct feed *feed, struct stream *stream, uint32_t epoch, uint64_t delta,
                           uint64_t *sum_out, struct err *err)
{
    if (feed->options.coord == NULL) {
        stream->bad_alone += delta;
        *sum_out = stream->bad_alone;
        return OK;
    }
    char key[COORD_KEY_BYTES];
    snprintf(key, sizeof(key), "bad/%s/%u", stream->name, epoch % 2);
    return coord_add(feed->options.coord, key, delta, clock_now_ns() + COORD_CALL_NS, sum_out, err);
}

static enum status count_bad(struct feed *feed, struct stream *stream,
                             const struct feed_batch *batch, struct err *err)
{
    if (stream->bad_epoch != batch->epoch) {
        TRY(sum_bad(feed, stream, batch->epoch, 0, &stream->bad_before, err));
        stream->bad_epoch = batch->epoch;
    }
    const uint32_t bad = client_substituted(feed->client, batch->stream, batch->slot);
    if (bad == 0) {
        return OK;
    }
    uint64_t sum = 0;
    TRY(sum_bad(feed, stream, batch->epoch, bad, &sum, err));
    stream->bad_samples += bad;
    if (sum - stream->bad_before > stream->bad_budget) {
        return err_set(err, ERR_DATA,
                       "stream %s: %" PRIu64 " bad samples in epoch %u, more than the budget of "
                       "%" PRIu64 " (bad_budget); the producers' logs name them",
                       stream->name, sum - stream->bad_before, batch->epoch, stream->bad_budget);
    }
    return OK;
}

enum status feed_release(struct feed *feed, const struct feed_batch *batch,
                         struct device_event *done, struct err *err)
{
    CHECK(batch->stream < feed->stream_count && batch->slot < feed->slots);
    struct stream *stream = &feed->streams[batch->stream];
    struct lent *lent = &stream->lent[batch->slot];
    const uint64_t gstep = batch->epoch * stream->plan.steps + batch->step;
    if (!lent->is || lent->gstep != gstep) {
        return err_set(err, ERR_MISUSE,
                       "stream %s: the batch of epoch %u, step %" PRIu64 " is not lent",
                       stream->name, batch->epoch, batch->step);
    }
    stream->batches++;
    stream->samples += batch->count;
    stream->digest += digest_batch(stream->name_hash, batch->epoch, batch->position, batch->count,
                                   &stream->layout, lent->host);
    const enum status counted = count_bad(feed, stream, batch, err);
    lent->is = false;
    const enum status released =
        ring_release(stream->ring, gstep, done, counted == OK ? err : NULL);
    return counted != OK ? counted : released;
}

void feed_stats(const struct feed *feed, const char *name, struct feed_stats *out)
{
    *out = (struct feed_stats){0};
    for (uint32_t i = 0; i < feed->stream_count; i++) {
        const struct stream *stream = &feed->streams[i];
        if (strcmp(stream->name, name) != 0) {
            continue;
        }
        struct client_stats client;
        client_stats(feed->client, i, &client);
        *out = (struct feed_stats){
            .batches = stream->batches,
            .samples = stream->samples,
            .bad_samples = stream->bad_samples,
            .digest = stream->digest,
            .wait_ns = stream->wait_ns,
            .wait_p50_ns = histogram_quantile(&stream->waits, 0.5),
            .wait_p99_ns = histogram_quantile(&stream->waits, 0.99),
            .bytes_received = client.bytes_received,
            .parts = client.parts,
            .duplicates = client.duplicates,
            .read_ns = client.read_ns,
            .decode_ns = client.decode_ns,
            .augment_ns = client.augment_ns,
            .queued_ns = client.queued_ns,
            .send_ns = client.send_ns,
            .copy_ns = client.copy_ns,
        };
        return;
    }
}
