/* SPDX-License-Identifier: Apache-2.0 */
/* The client's thread: its set-up, its loop, the feed's commands, its end. */
#include "consumer/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "consumer/client_internal.h"

#define LEASE_MIN_NS     (500 * NS_PER_MS)
#define PING_INTERVAL_NS (250 * NS_PER_MS)
#define FINISH_NS        (2 * NS_PER_S)
#define PROGRESS_NS      (10 * NS_PER_S) /* between lines about producers that are awaited */
#define ANSWER_NS        (60 * NS_PER_S) /* a command takes at most a device's time-out */
enum {
    COMMANDS_MAX = 4,      /* the feed waits for each answer */
    SOON_MS = 1,           /* between looks at a reader's event that has not fired */
    CONTROL_MESSAGES = 64, /* of one peer, in its queue beside DATA */
    SCHED_ALIGN_BYTES = 64,
};

/* ---- sizes ---- */

static void sched_options_of(const struct client_options *options, struct sched_options *out)
{
    *out = (struct sched_options){
        .job = options->job,
        .fingerprint = options->fingerprint,
        .stream_count = options->stream_count,
        .sessions_max = options->sessions_max,
        .session_bytes_max = options->session_bytes_max,
        .lease_min_ns = LEASE_MIN_NS,
        .ping_interval_ns = PING_INTERVAL_NS,
        .peer_timeout_ns = options->peer_timeout_ns,
        .starve_timeout_ns = options->starve_timeout_ns,
        .hedge = options->hedge,
        .local_host = options->local_host,
    };
    for (uint32_t i = 0; i < options->stream_count; i++) {
        out->streams[i] = (struct sched_stream_options){.name = options->streams[i].name,
                                                        .layout = options->streams[i].layout,
                                                        .slots = options->streams[i].slots};
    }
}

static size_t sched_room(const struct client_options *options)
{
    struct sched_options sched_options;
    sched_options_of(options, &sched_options);
    const size_t bytes = sched_bytes(&sched_options);
    return (bytes + SCHED_ALIGN_BYTES - 1) / SCHED_ALIGN_BYTES * SCHED_ALIGN_BYTES;
}

static size_t slots_of(const struct client_options *options)
{
    size_t slots = 0;
    for (uint32_t i = 0; i < options->stream_count; i++) {
        slots += options->streams[i].slots;
    }
    return slots;
}

static size_t rows_of(const struct client_options *options)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < options->stream_count; i++) {
        rows += (size_t)options->streams[i].slots * options->streams[i].layout->rows;
    }
    return rows;
}

uint64_t client_bytes(const struct client_options *options)
{
    return sizeof(struct client) + sched_room(options) +
           slots_of(options) * sizeof(struct slot_notes) + rows_of(options) * sizeof(uint32_t) +
           options->sessions_max * (sizeof(struct held_hello) + sizeof(struct census_entry));
}

/* ---- commands ---- */

static void answer(struct client *client, const struct client_result *result)
{
    const enum status status = queue_push(client->results, result);
    CHECK(status == OK || status == ERR_CANCELLED);
}

static void fix(struct client *client, const struct client_command *command, int64_t now_ns)
{
    CHECK(!client->fixed);
    for (uint32_t i = 0; i < client->options.stream_count; i++) {
        client->plans[i] = command->plans[i];
        const struct sched_data_set data = {.samples = command->facts[i].samples,
                                            .digest = command->facts[i].digest,
                                            .steps_per_epoch = command->plans[i].steps};
        sched_fix_stream(client->sched, i, &data, now_ns);
    }
    client->fixed = true;
    client_release_held(client, now_ns);
    answer(client, &(struct client_result){0});
}

static void open_stream(struct client *client, const struct client_command *command, int64_t now_ns)
{
    struct client_result result = {0};
    const struct client_stream *stream = &client->options.streams[command->stream];
    if (ring_reset(stream->ring, command->first, command->end, &result.err) == OK) {
        for (uint32_t slot = 0; slot < stream->slots; slot++) {
            client->notes[command->stream][slot].used = false;
        }
        sched_open(client->sched, command->stream, command->first, command->end, now_ns);
    }
    answer(client, &result);
}

static void on_command(struct client *client, const struct client_command *command, int64_t now_ns)
{
    switch (command->kind) {
    case CLIENT_SURVEY:
        client->surveying = true;
        client->survey_deadline_ns = command->deadline_ns;
        client->progress_ns = now_ns + PROGRESS_NS;
        break;
    case CLIENT_FIX:
        fix(client, command, now_ns);
        break;
    case CLIENT_OPEN:
        open_stream(client, command, now_ns);
        break;
    case CLIENT_FINISH:
        client->finishing = true;
        client->finish_deadline_ns = now_ns + FINISH_NS;
        sched_finish(client->sched, now_ns);
        break;
    }
    client_act(client, now_ns);
}

/* False: the feed wants the thread to end. */
static bool take_commands(struct client *client)
{
    struct client_command command;
    enum status status = OK;
    while ((status = queue_pop(client->commands, 0, &command)) == OK) {
        on_command(client, &command, clock_now_ns());
    }
    return status != ERR_CANCELLED;
}

/* ---- the survey ---- */

static void end_survey(struct client *client, const struct client_result *result)
{
    client->surveying = false;
    answer(client, result);
}

static void say_progress(enum census_state state, const char *text)
{
    if (state == CENSUS_DIFFERS) {
        log_warn("producers with different data are turned away and may try again: %s", text);
    } else {
        log_info("waiting for producers: %s", text);
    }
}

static void check_survey(struct client *client, int64_t now_ns)
{
    if (!client->surveying) {
        return;
    }
    char text[TEXT_BYTES_MAX];
    struct client_result result = {0};
    const enum census_state state = census_state(&client->census, text);
    const bool late = now_ns >= client->survey_deadline_ns;
    if (state == CENSUS_AGREED || (late && state == CENSUS_WAITING && client->census.count > 0)) {
        memcpy(result.facts, client->census.entries[0].facts, sizeof(result.facts));
        end_survey(client, &result);
    } else if (late && state == CENSUS_WAITING) {
        (void)err_set(&result.err, ERR_TIMEOUT,
                      "no producer said HELLO before the join deadline (join_timeout_s)");
        end_survey(client, &result);
    } else if (late) {
        (void)err_set(&result.err, ERR_DATA,
                      "the producers have different data and did not come to agree before the join "
                      "deadline (join_timeout_s): %s",
                      text);
        end_survey(client, &result);
    } else if (now_ns >= client->progress_ns || state != client->survey_state) {
        client->progress_ns = now_ns + PROGRESS_NS;
        client->survey_state = state;
        say_progress(state, text);
    }
}

/* ---- the loop ---- */

/* Slots whose batch the trainer has given back. True: one is given back but still in use. */
static bool reclaim(struct client *client, int64_t now_ns)
{
    bool any_soon = false;
    for (uint32_t i = 0; i < client->options.stream_count; i++) {
        bool soon = false;
        while (ring_reclaim(client->options.streams[i].ring, &soon)) {
            sched_consumed(client->sched, i, now_ns);
            client_act(client, now_ns);
        }
        any_soon = any_soon || soon;
    }
    return any_soon;
}

static int wait_ms(const struct client *client, bool soon, int64_t now_ns)
{
    int64_t until_ns = sched_deadline(client->sched);
    if (client->surveying && client->survey_deadline_ns < until_ns) {
        until_ns = client->survey_deadline_ns;
    }
    if (client->surveying && client->progress_ns < until_ns) {
        until_ns = client->progress_ns;
    }
    if (client->finishing && client->finish_deadline_ns < until_ns) {
        until_ns = client->finish_deadline_ns;
    }
    if (soon) {
        return SOON_MS;
    }
    const int64_t left_ms = until_ns <= now_ns ? 0 : (until_ns - now_ns - 1) / NS_PER_MS + 1;
    return left_ms > 1000 ? 1000 : (int)left_ms;
}

static void wait_for_work(struct client *client, int timeout_ms)
{
    struct net_poll_item items[] = {
        {.socket = client->socket},
        {.fd = queue_fd(client->commands)},
        {.fd = client->options.wake_fd},
    };
    struct err err = {0};
    if (net_poll(client->net, items, ARRAY_LEN(items), timeout_ms, &err) != OK) {
        client_fail(client, &err);
    }
    uint64_t count = 0;
    if (items[2].readable) {
        CHECK(read(client->options.wake_fd, &count, sizeof(count)) == (ssize_t)sizeof(count));
    }
}

static bool is_finished(const struct client *client, int64_t now_ns)
{
    return client->finishing &&
           (sched_finished(client->sched) || now_ns >= client->finish_deadline_ns);
}

static void *run(void *context)
{
    struct client *client = context;
    bool more = false;
    bool soon = false;
    while (take_commands(client)) {
        more = client_receive(client);
        const int64_t now_ns = clock_now_ns();
        sched_on_time(client->sched, now_ns);
        client_act(client, now_ns);
        soon = reclaim(client, now_ns);
        check_survey(client, now_ns);
        if (is_finished(client, now_ns)) {
            break;
        }
        wait_for_work(client, more ? 0 : wait_ms(client, soon, now_ns));
    }
    return NULL;
}

/* ---- set-up ---- */

static enum status take_memory(struct client *client, struct err *err)
{
    const struct client_options *options = &client->options;
    client->sched_memory = aligned_alloc(SCHED_ALIGN_BYTES, sched_room(options));
    client->held = calloc(options->sessions_max, sizeof(*client->held));
    client->census.entries = calloc(options->sessions_max, sizeof(*client->census.entries));
    if (client->sched_memory == NULL || client->held == NULL || client->census.entries == NULL) {
        return err_errno(err, ERR_RESOURCE, "%" PRIu64 " bytes for the client",
                         client_bytes(options));
    }
    for (uint32_t i = 0; i < options->stream_count; i++) {
        const struct client_stream *stream = &options->streams[i];
        const size_t rows = stream->layout->rows;
        client->notes[i] = calloc(stream->slots, sizeof(struct slot_notes));
        client->attempts[i] = calloc(stream->slots, rows * sizeof(uint32_t));
        if (client->notes[i] == NULL || client->attempts[i] == NULL) {
            return err_errno(err, ERR_RESOURCE, "notes of %u slots", stream->slots);
        }
        for (uint32_t slot = 0; slot < stream->slots; slot++) {
            client->notes[i][slot].parts.attempts = client->attempts[i] + slot * rows;
        }
    }
    return OK;
}

static void init_state(struct client *client)
{
    const struct client_options *options = &client->options;
    struct sched_options sched_options;
    sched_options_of(options, &sched_options);
    client->sched = sched_init(client->sched_memory, &sched_options, clock_now_ns());
    for (uint32_t i = 0; i < options->stream_count; i++) {
        client->names[i] = options->streams[i].name;
    }
    client->census.names = client->names;
    client->census.stream_count = options->stream_count;
    client->census.expected = options->producers;
    client->census.capacity = options->sessions_max;
}

/* DATA in flight is bounded by the session's account; no part but a batch's last is smaller than
 * half a part, so this many messages hold it. */
static int queue_messages(const struct client_options *options)
{
    uint64_t messages = CONTROL_MESSAGES;
    for (uint32_t i = 0; i < options->stream_count; i++) {
        const struct layout *layout = options->streams[i].layout;
        const uint64_t parts =
            (options->session_bytes_max / layout->bytes + 1) * layout->part_count;
        messages += parts;
    }
    return messages > INT32_MAX ? INT32_MAX : (int)messages;
}

static enum status open_links(struct client *client, struct err *err)
{
    const struct client_options *options = &client->options;
    const struct net_options net_options = {.io_threads = 1,
                                            .sockets_max = 1 + (int)(2 * options->sessions_max),
                                            .insecure = options->insecure};
    TRY(net_new(&net_options, &client->net, err));
    const struct net_socket_options socket_options = {.address = options->address,
                                                      .port = options->port,
                                                      .queue_messages = queue_messages(options)};
    return net_listen(client->net, &socket_options, &client->socket, err);
}

static void free_memory(struct client *client)
{
    net_free(&client->net);
    queue_free(&client->results);
    queue_free(&client->commands);
    for (uint32_t i = 0; i < client->options.stream_count; i++) {
        free(client->attempts[i]);
        free(client->notes[i]);
    }
    free(client->census.entries);
    free(client->held);
    free(client->sched_memory);
    free(client);
}

enum status client_new(const struct client_options *options, struct client **out, struct err *err)
{
    CHECK(options->stream_count > 0 && options->sessions_max > 0);
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return err_errno(err, ERR_RESOURCE, "client");
    }
    client->options = *options;
    enum status status = take_memory(client, err);
    if (status == OK) {
        status = queue_new(sizeof(struct client_command), COMMANDS_MAX, &client->commands, err);
    }
    if (status == OK) {
        status = queue_new(sizeof(struct client_result), COMMANDS_MAX, &client->results, err);
    }
    if (status == OK) {
        status = open_links(client, err);
    }
    if (status == OK) {
        init_state(client);
        status = thread_start("hr-feed", run, client, &client->thread, err);
    }
    if (status != OK) {
        free_memory(client);
        return status;
    }
    *out = client;
    return OK;
}

uint16_t client_port(const struct client *client)
{
    return net_port(client->socket);
}

/* ---- the feed's side ---- */

static enum status ask(struct client *client, const struct client_command *command,
                       int64_t deadline_ns, struct client_result *result, struct err *err)
{
    CHECK(queue_push(client->commands, command) == OK);
    const enum status status = queue_pop(client->results, deadline_ns, result);
    if (status == ERR_CANCELLED) {
        return err_set(err, ERR_CANCELLED, "the feed was closed");
    }
    if (status == ERR_TIMEOUT) {
        return err_set(err, ERR_INTERNAL, "the client's thread does not answer");
    }
    if (result->err.status != OK) {
        *err = result->err;
    }
    return result->err.status;
}

enum status client_survey(struct client *client, int64_t deadline_ns,
                          struct data_facts facts_out[STREAMS_MAX], struct err *err)
{
    const struct client_command command = {.kind = CLIENT_SURVEY, .deadline_ns = deadline_ns};
    struct client_result result;
    TRY(ask(client, &command, deadline_ns + ANSWER_NS, &result, err));
    memcpy(facts_out, result.facts, sizeof(result.facts));
    return OK;
}

enum status client_fix(struct client *client, const struct data_facts *facts,
                       const struct plan *plans, struct err *err)
{
    struct client_command command = {.kind = CLIENT_FIX};
    memcpy(command.facts, facts, client->options.stream_count * sizeof(*facts));
    memcpy(command.plans, plans, client->options.stream_count * sizeof(*plans));
    struct client_result result;
    return ask(client, &command, clock_now_ns() + ANSWER_NS, &result, err);
}

enum status client_open(struct client *client, uint32_t stream, uint64_t first, uint64_t end,
                        struct err *err)
{
    CHECK(stream < client->options.stream_count);
    const struct client_command command = {
        .kind = CLIENT_OPEN, .stream = stream, .first = first, .end = end};
    struct client_result result;
    return ask(client, &command, clock_now_ns() + ANSWER_NS, &result, err);
}

uint32_t client_substituted(const struct client *client, uint32_t stream, uint32_t slot)
{
    return part_notes_substituted(&client->notes[stream][slot].parts,
                                  client->options.streams[stream].layout);
}

void client_stats(const struct client *client, uint32_t stream, struct client_stats *out)
{
    const struct stream_counters *c = &client->counters[stream];
    *out = (struct client_stats){
        .bytes_received = counter_get(&c->bytes_received),
        .parts = counter_get(&c->parts),
        .duplicates = counter_get(&c->duplicates),
        .queued_ns = counter_get(&c->queued_ns),
        .read_ns = counter_get(&c->read_ns),
        .decode_ns = counter_get(&c->decode_ns),
        .augment_ns = counter_get(&c->augment_ns),
        .send_ns = counter_get(&c->send_ns),
        .copy_ns = counter_get(&c->copy_ns),
    };
}

void client_close(struct client *client)
{
    queue_close(client->results);
}

void client_free(struct client **client, bool drain)
{
    struct client *c = *client;
    if (c == NULL) {
        return;
    }
    if (drain) {
        const struct client_command command = {.kind = CLIENT_FINISH};
        CHECK(queue_push(c->commands, &command) == OK);
    } else {
        queue_close(c->commands);
    }
    CHECK(pthread_join(c->thread, NULL) == 0);
    free_memory(c);
    *client = NULL;
}
