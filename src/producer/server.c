/* SPDX-License-Identifier: Apache-2.0 */
/* The producer's set-up, loop and end. The sessions are in server_link.c, the work in work.c. */
#include "producer/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "producer/sample.h"
#include "producer/server_internal.h"

enum {
    TICK_MS = 50,          /* the loop's longest sleep: a fifth of the PING interval */
    CONTROL_MESSAGES = 64, /* room in a link's queue beside the parts */
    REINDEX_PAUSE_MS = 1000,
    BAD_AGREED_MAX = 256, /* bad samples about which the coordinator is asked who names them */
    AGREE_MS = 500,       /* well below peer_timeout */
};

/* ---- set-up ---- */

/* The affinity's cores, less two for each rank of this host, at least one. */
static uint32_t decode_threads(const struct server_options *options)
{
    if (options->config->threads > 0) {
        return (uint32_t)options->config->threads;
    }
    uint32_t reserved = 0;
    for (uint32_t r = 0; r < options->roster->rank_count; r++) {
        reserved += strcmp(options->roster->ranks[r].host, options->host) == 0 ? 2 : 0;
    }
    const uint32_t cores = thread_cores();
    return cores > reserved + 1 ? cores - reserved : 1;
}

/* The index whose class list a stream takes: train's, for every other stream. */
static const struct index *class_list(const struct server *server, const struct roster *roster,
                                      uint32_t stream)
{
    for (uint32_t s = 0; s < stream; s++) {
        if (strcmp(roster->streams[s].name, "train") == 0) {
            return server->indexes[s];
        }
    }
    return NULL;
}

static enum status set_up_stream(struct server *server, uint32_t number, bool rebuild,
                                 struct err *err)
{
    const struct roster *roster = server->options->roster;
    const struct roster_stream *given = &roster->streams[number];
    struct work_stream *stream = &server->streams[number];
    const struct index_options index_options = {.data_root = server->options->data_root,
                                                .data = given->data,
                                                .classes_of = class_list(server, roster, number)};
    TRY(rebuild ? index_build(&index_options, &server->indexes[number], err)
                : index_open(&index_options, &server->indexes[number], err));
    const struct index *index = server->indexes[number];
    stream->name = given->name;
    stream->index = index;
    TRY(pipeline_parse(given->pipeline, &stream->pipeline, err));
    const struct plan_options plan_options = {.stream = given->name,
                                              .seed = roster->seed,
                                              .samples = index_samples(index),
                                              .global_batch = roster->global_batch,
                                              .world = roster->rank_count,
                                              .shuffle = given->shuffle,
                                              .last = given->last};
    TRY(plan_init(&plan_options, &stream->plan, err));
    return layout_init((uint32_t)stream->plan.rank_batch, stream->pipeline.height,
                       stream->pipeline.width, stream->pipeline.channels, &stream->layout, err);
}

static enum status set_up_streams(struct server *server, bool rebuild, struct err *err)
{
    server->stream_count = server->options->roster->stream_count;
    for (uint32_t s = 0; s < server->stream_count; s++) {
        if (set_up_stream(server, s, rebuild, err) != OK) {
            return err_prefix(err, "stream %s", server->options->roster->streams[s].name);
        }
        char note[TEXT_BYTES_MAX];
        for (uint32_t i = 0; index_note(server->indexes[s], i, note, sizeof(note)); i++) {
            log_warn("stream %s: %s", server->streams[s].name, note);
        }
        log_info("stream %s: %llu samples in %u classes under %s, data set %016llx",
                 server->streams[s].name, (unsigned long long)index_samples(server->indexes[s]),
                 index_classes(server->indexes[s]), index_folder(server->indexes[s]),
                 (unsigned long long)index_digest(server->indexes[s]));
    }
    return OK;
}

static enum status set_up_work(struct server *server, struct err *err)
{
    const struct server_options *options = server->options;
    const uint32_t ranks = options->roster->rank_count;
    const uint32_t share = (uint32_t)options->config->producer_batches / ranks;
    server->quota = share > 0 ? share : 1;
    uint64_t batch_bytes = 0;
    uint32_t parts = 0;
    for (uint32_t s = 0; s < server->stream_count; s++) {
        const struct layout *layout = &server->streams[s].layout;
        batch_bytes = layout->bytes > batch_bytes ? layout->bytes : batch_bytes;
        parts = layout->part_count > parts ? layout->part_count : parts;
    }
    server->capacity_bytes = server->quota * batch_bytes;
    server->grants_max = server->quota * parts;
    /* All batches may be on their way to one rank, and each grant ends in a NACK or RETURN at most.
     * Twice that, for ZeroMQ hears only every half a queue what was taken from it. */
    server->queue_messages =
        (int)(2 * (server->quota * ranks * parts + server->grants_max + CONTROL_MESSAGES));
    const uint32_t threads = decode_threads(options);
    const uint32_t readers = options->config->read_threads > 0
                                 ? (uint32_t)options->config->read_threads
                                 : 2 + threads / 4;
    if (options->crash_record != NULL) {
        TRY(crash_record_new(options->crash_record, threads, &server->crashes, err));
        TRY(crash_record_arm(server->crashes, err));
    }
    TRY(batch_pool_new(server->quota * ranks, (size_t)batch_bytes, server->wake_fd, &server->pool,
                       err));
    const struct work_options work_options = {.threads = threads,
                                              .read_threads = readers,
                                              .stream_count = server->stream_count,
                                              .streams = server->streams,
                                              .orders_max = server->quota * ranks,
                                              .fail_on_bad =
                                                  strcmp(options->config->on_bad, "fail") == 0,
                                              .wake_fd = server->wake_fd,
                                              .crashes = server->crashes};
    TRY(work_new(&work_options, &server->work, err));
    log_info(
        "producing with %u decode and %u reader threads; memory budget: %u batches of %.1f MiB, "
        "read buffers %.1f MiB",
        threads, readers, server->quota * ranks, (double)batch_bytes / (1 << 20),
        (double)work_read_bytes(server->work) / (1 << 20));
    return OK;
}

static enum status set_up_links(struct server *server, struct err *err)
{
    const struct roster *roster = server->options->roster;
    const struct net_options net_options = {.io_threads = 1,
                                            .sockets_max = (int)roster->rank_count,
                                            .insecure = server->options->config->insecure};
    TRY(net_new(&net_options, &server->net, err));
    server->links = calloc(roster->rank_count, sizeof(*server->links));
    if (server->links == NULL) {
        return err_set(err, ERR_RESOURCE, "links: out of memory");
    }
    for (uint32_t r = 0; r < roster->rank_count; r++) {
        struct link *link = &server->links[r];
        link->rank = &roster->ranks[r];
        link->pending = calloc(server->grants_max, sizeof(*link->pending));
        server->link_count = r + 1;
        if (link->pending == NULL) {
            return err_set(err, ERR_RESOURCE, "links: out of memory");
        }
        const struct net_socket_options socket_options = {.address = link->rank->address,
                                                          .port = link->rank->port,
                                                          .queue_messages = server->queue_messages,
                                                          .monitor = true};
        TRY(net_connect(server->net, &socket_options, &link->socket, err));
    }
    return OK;
}

/* ---- the end ---- */

static void tear_down(struct server *server)
{
    work_free(&server->work);
    net_free(&server->net); /* gives back every batch that was on its way */
    for (uint32_t r = 0; r < server->link_count; r++) {
        free(server->links[r].pending);
    }
    free(server->links);
    batch_pool_free(&server->pool);
    crash_record_free(&server->crashes);
    for (uint32_t s = STREAMS_MAX; s-- > 0;) {
        index_free(&server->indexes[s]);
    }
    close(server->wake_fd);
}

/* ---- the loop ---- */

static void apply_verdict(struct server *server, uint32_t stream, uint64_t sample)
{
    if (stream < server->stream_count && sample < index_samples(server->indexes[stream])) {
        work_mark_bad(server->work, stream, sample, "crashes the decoder");
    }
}

/* Events come once, but a life that begins anew must know them too. Past the limit the sample is
 * found out again. */
static void remember_verdict(struct verdicts *verdicts, uint32_t stream, uint64_t sample)
{
    if (verdicts->count < ARRAY_LEN(verdicts->list)) {
        verdicts->list[verdicts->count].stream = stream;
        verdicts->list[verdicts->count].sample = sample;
        verdicts->count++;
    }
}

/* OK: go on. ERR_CANCELLED: the job is done. */
static enum status handle_events(struct server *server, struct err *err)
{
    struct coord_event event;
    while (coord_next_event(server->options->coord, &event) == OK) {
        switch (event.kind) {
        case COORD_EVENT_FAIL:
        case COORD_EVENT_LOST:
            return err_set(err, ERR_PEER_GONE, "%s", event.text);
        case COORD_EVENT_DONE:
            return ERR_CANCELLED;
        case COORD_EVENT_VERDICT:
            remember_verdict(server->verdicts, event.stream, event.sample);
            apply_verdict(server, event.stream, event.sample);
            break;
        case COORD_EVENT_STOP_AT: /* the ranks' business */
            break;
        }
    }
    return OK;
}

static void receive_all(struct server *server, struct link *link, int64_t now_ns)
{
    enum net_event_kind kind;
    struct net_message message;
    struct err err;
    while (net_event(link->socket, &kind) == OK) {
        if (kind == NET_DISCONNECTED) {
            link_on_disconnect(server, link, now_ns);
        }
    }
    for (;;) {
        const enum status status = net_receive(link->socket, &message, &err);
        if (status == ERR_PEER_WRONG) {
            link_on_disconnect(server, link, now_ns);
            continue;
        }
        if (status != OK) {
            return;
        }
        link_on_message(server, link, &message, now_ns);
        net_message_fini(&message);
    }
}

/* Every bad sample is named once in the whole job, by whoever tells the coordinator first. */
static bool is_ours_to_name(struct server *server, const struct bad_sample *bad)
{
    char key[COORD_KEY_BYTES];
    if (server->bad_named++ >= BAD_AGREED_MAX) {
        return true; /* the coordinator keeps few facts */
    }
    snprintf(key, sizeof(key), "bad sample %u/%llu", bad->stream, (unsigned long long)bad->sample);
    return coord_agree(server->options->coord, key, server->instance,
                       clock_now_ns() + AGREE_MS * NS_PER_MS, NULL) != ERR_CONFIG;
}

static void name_bad_samples(struct server *server)
{
    struct bad_sample bad;
    while (work_take_bad(server->work, &bad)) {
        if (!is_ours_to_name(server, &bad)) {
            continue;
        }
        struct index_entry entry;
        index_get(server->indexes[bad.stream], bad.sample, &entry);
        log_warn("bad sample %llu of stream %s, %s: %s", (unsigned long long)bad.sample,
                 server->streams[bad.stream].name, entry.path, bad.reason);
    }
}

static void send_results(struct server *server)
{
    eventfd_t ignored;
    eventfd_read(server->wake_fd, &ignored);
    struct work_result result;
    while (work_take(server->work, &result)) {
        link_send_result(server, &server->links[result.rank], &result);
    }
    name_bad_samples(server);
}

static bool nothing_in_work(const struct server *server, int64_t now_ns)
{
    for (uint32_t r = 0; r < server->link_count; r++) {
        struct work_progress progress;
        work_progress(server->work, r, now_ns, &progress);
        if (progress.orders > 0) {
            return false;
        }
    }
    return true;
}

/* What the links' states and the clock say about going on: OK, or how it ends. */
static enum status check_life(struct server *server, int64_t now_ns, struct err *err)
{
    uint32_t live = 0;
    uint32_t over = 0;
    for (uint32_t r = 0; r < server->link_count; r++) {
        live += server->links[r].state == LINK_LIVE;
        over += server->links[r].state == LINK_OVER;
    }
    if (over == server->link_count || (server->leaving && nothing_in_work(server, now_ns))) {
        return ERR_CANCELLED;
    }
    const struct config *config = server->options->config;
    if (live > 0) {
        server->contact_ns = now_ns;
    } else if (server->contact_ns == 0) {
        if (now_ns - server->begin_ns > (int64_t)(config->join_timeout_s * NS_PER_S)) {
            return err_set(err, ERR_PEER_GONE, "no rank answered within join_timeout_s (%g s)",
                           config->join_timeout_s);
        }
    } else if (now_ns - server->contact_ns > (int64_t)(config->orphan_timeout_s * NS_PER_S)) {
        return err_set(err, ERR_PEER_GONE, "no rank has answered for orphan_timeout_s (%g s)",
                       config->orphan_timeout_s);
    }
    return OK;
}

static void begin_to_leave(struct server *server)
{
    log_info("asked to stop: finishing what is in work");
    server->leaving = true;
    for (uint32_t r = 0; r < server->link_count; r++) {
        link_leave(server, &server->links[r]);
    }
}

static enum status serve(struct server *server, struct err *err)
{
    struct net_poll_item *items = calloc(server->link_count + 2, sizeof(*items));
    if (items == NULL) {
        return err_set(err, ERR_RESOURCE, "poll set: out of memory");
    }
    for (uint32_t r = 0; r < server->link_count; r++) {
        items[r].socket = server->links[r].socket;
    }
    items[server->link_count].fd = server->wake_fd;
    items[server->link_count + 1].fd = coord_event_fd(server->options->coord);
    enum status status = OK;
    while (status == OK && !server->reindex) {
        status = net_poll(server->net, items, server->link_count + 2, TICK_MS, err);
        if (status != OK) {
            break;
        }
        status = handle_events(server, err);
        if (*server->stop && !server->leaving) {
            begin_to_leave(server);
        }
        send_results(server);
        const int64_t now_ns = clock_now_ns();
        for (uint32_t r = 0; r < server->link_count; r++) {
            if (items[r].readable) {
                receive_all(server, &server->links[r], now_ns);
            }
            link_on_time(server, &server->links[r], now_ns);
        }
        if (status == OK) {
            status = check_life(server, now_ns, err);
        }
    }
    free(items);
    return status;
}

/* One life: from the index to the end of serving, or to the wish to begin anew with another index;
 * *err is then why. */
static enum status live_once(const struct server_options *options, const volatile bool *stop,
                             struct verdicts *verdicts, bool rebuild, bool *again_out,
                             struct err *err)
{
    struct server server = {
        .options = options, .stop = stop, .verdicts = verdicts, .begin_ns = clock_now_ns()};
    char text[256];
    server.fingerprint = sample_fingerprint(text);
    if (getrandom(&server.instance, sizeof(server.instance), 0) != sizeof(server.instance)) {
        return err_errno(err, ERR_RESOURCE, "getrandom");
    }
    server.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server.wake_fd < 0) {
        return err_errno(err, ERR_RESOURCE, "eventfd");
    }
    enum status status = set_up_streams(&server, rebuild, err);
    if (status == OK) {
        status = set_up_work(&server, err);
    }
    if (status == OK) {
        status = set_up_links(&server, err);
    }
    for (uint32_t i = 0; status == OK && i < verdicts->count; i++) {
        apply_verdict(&server, verdicts->list[i].stream, verdicts->list[i].sample);
    }
    if (status == OK) {
        status = serve(&server, err);
    }
    *again_out = status == OK && server.reindex;
    if (*again_out) {
        (void)err_set(err, ERR_CONFIG, "%s", server.difference);
    }
    tear_down(&server);
    return status;
}

enum status server_run(const struct server_options *options, const volatile bool *stop,
                       struct err *err)
{
    const int64_t deadline_ns =
        clock_now_ns() + (int64_t)(options->config->join_timeout_s * NS_PER_S);
    struct verdicts verdicts = {0};
    bool again = false;
    for (bool rebuild = false;; rebuild = true) {
        const enum status status = live_once(options, stop, &verdicts, rebuild, &again, err);
        if (status == ERR_CANCELLED) {
            return OK;
        }
        TRY(status);
        if (!again) {
            return OK;
        }
        if (clock_now_ns() > deadline_ns) {
            return err_prefix(
                err, "%s: still another data set than the job's after join_timeout_s (%g s)",
                options->host, options->config->join_timeout_s);
        }
        log_info("indexing again in %d ms: the data may still be being copied", REINDEX_PAUSE_MS);
        usleep(REINDEX_PAUSE_MS * 1000);
    }
}
