/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's links: messages from producers to the scheduler and the slots, the scheduler's
 * actions to the net and the rings. The one copy of a batch's bytes is made here, with the checksum
 * in the same pass; the scheduler hears that a part is good only after its checksum held and its
 * samples are those of the plan.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/wire.h"
#include "consumer/client_internal.h"

enum { MESSAGES_A_TURN = 64 }; /* then timers and commands have theirs */

static uint64_t random_session(void)
{
    uint64_t value = 0;
    while (value == 0) {
        CHECK(getrandom(&value, sizeof(value), 0) == (ssize_t)sizeof(value));
    }
    return value;
}

void client_fail(struct client *client, const struct err *err)
{
    for (uint32_t i = 0; i < client->options.stream_count; i++) {
        ring_fail(client->options.streams[i].ring, err);
    }
}

/* ---- actions ---- */

static void send_message(struct client *client, uint64_t peer, const struct msg *msg,
                         int64_t now_ns)
{
    uint8_t bytes[MSG_BYTES_MAX];
    const size_t count = msg_encode(msg, bytes);
    const enum status status = net_send(client->socket, peer, bytes, count, NULL);
    if (status == ERR_AGAIN) {
        sched_on_send_failed(client->sched, peer, msg, now_ns);
    } else if (status != OK) {
        sched_on_disconnect(client->sched, peer, now_ns);
    }
}

/* An answer outside any session. What cannot be sent now is lost: its HELLO comes again. */
static void send_reject(struct client *client, uint64_t peer, const struct msg_reject *reject)
{
    const struct msg msg = {.type = MSG_REJECT, .reject = *reject};
    uint8_t bytes[MSG_BYTES_MAX];
    const size_t count = msg_encode(&msg, bytes);
    if (net_send(client->socket, peer, bytes, count, NULL) != OK) {
        log_debug("a REJECT could not be sent");
    }
}

static void act(struct client *client, const struct sched_action *action, int64_t now_ns)
{
    struct err err = {0};
    switch (action->kind) {
    case SCHED_SEND:
        send_message(client, action->peer, &action->msg, now_ns);
        return;
    case SCHED_COMPLETE:
        if (ring_ready(client->options.streams[action->stream].ring, action->gstep, &err) != OK) {
            client_fail(client, &err);
        }
        return;
    case SCHED_SESSION_BEGAN:
    case SCHED_SESSION_ENDED:
    case SCHED_LOG:
        log_info("%s", action->text);
        return;
    case SCHED_FAIL:
        (void)err_set(&err, action->status, "%s", action->text);
        client_fail(client, &err);
        return;
    }
}

void client_act(struct client *client, int64_t now_ns)
{
    struct sched_action action;
    while (sched_next_action(client->sched, now_ns, &action)) {
        act(client, &action, now_ns);
    }
}

/* ---- DATA ---- */

static struct part_notes *notes_of(struct client *client, const struct sched_place *place)
{
    struct slot_notes *notes = &client->notes[place->stream][place->slot];
    if (!notes->used || notes->gstep != place->gstep) {
        part_notes_clear(&notes->parts, client->options.streams[place->stream].layout);
        notes->used = true;
        notes->gstep = place->gstep;
    }
    return &notes->parts;
}

/* Copies, verifies; true: the part is good. */
static bool write_part(struct client *client, const struct msg_data *data,
                       const struct sched_place *place, const uint8_t *body)
{
    const struct client_stream *stream = &client->options.streams[place->stream];
    struct stream_counters *counters = &client->counters[place->stream];
    uint8_t *target = (uint8_t *)ring_claim(stream->ring, place->gstep) + place->offset;
    const int64_t begin_ns = clock_now_ns();
    const struct hash128 sum = hash128_copy(target, body, place->length);
    counter_add(&counters->copy_ns, (uint64_t)(clock_now_ns() - begin_ns));
    counter_add(&counters->bytes_received, place->length);
    counter_add(&counters->parts, 1);
    if (sum.low != data->sum_low || sum.high != data->sum_high) {
        log_warn("part %u of step %" PRIu64 " of stream %s: the checksum does not hold", data->part,
                 place->gstep, stream->name);
        return false;
    }
    const struct part_context context = {.plan = &client->plans[place->stream],
                                         .layout = stream->layout,
                                         .rank = client->options.rank};
    struct err err = {0};
    if (part_check(&context, data, target, notes_of(client, place), &err) != OK) {
        log_warn("part %u of step %" PRIu64 " of stream %s: %s", data->part, place->gstep,
                 stream->name, err.message);
        return false;
    }
    if (ring_part(stream->ring, place->gstep, place->offset, place->length, &err) != OK) {
        client_fail(client, &err);
    }
    return true;
}

static void count_times(struct client *client, const struct msg_data *data)
{
    struct stream_counters *counters = &client->counters[data->stream];
    counter_add(&counters->queued_ns, data->queued_ns);
    counter_add(&counters->read_ns, data->read_ns);
    counter_add(&counters->decode_ns, data->decode_ns);
    counter_add(&counters->augment_ns, data->augment_ns);
    counter_add(&counters->send_ns, data->send_ns);
}

static void on_data(struct client *client, const struct net_message *message, const struct msg *msg,
                    int64_t now_ns)
{
    const struct msg_data *data = &msg->data;
    if (message->body_count != data->length) {
        sched_on_garbage(client->sched, message->peer, now_ns);
        return;
    }
    struct sched_place place;
    if (!sched_on_data(client->sched, message->peer, msg, now_ns, &place)) {
        if (data->stream < client->options.stream_count) {
            counter_add(&client->counters[data->stream].duplicates, 1);
        }
        return;
    }
    const bool good = write_part(client, data, &place, message->body);
    sched_on_written(client->sched, message->peer, msg, good, now_ns);
    if (good && data->last) {
        count_times(client, data);
    }
}

/* ---- HELLO: kept before the streams are fixed ---- */

static void give_hello(struct client *client, uint64_t peer, const char *address,
                       const struct msg_hello *hello, int64_t now_ns)
{
    const struct sched_hello given = {
        .peer = peer, .address = address, .msg = hello, .fresh = random_session()};
    sched_on_hello(client->sched, &given, now_ns);
}

/* Keeps it, in the place of what the same producer said before. */
static void hold(struct client *client, uint64_t peer, const char *address,
                 const struct msg_hello *hello)
{
    uint32_t at = 0;
    while (at < client->held_count && (client->held[at].hello.index != hello->index ||
                                       strcmp(client->held[at].hello.host, hello->host) != 0)) {
        at++;
    }
    if (at == client->options.sessions_max) {
        return; /* it will be told that there is no room when it says HELLO later */
    }
    struct held_hello *held = &client->held[at];
    *held = (struct held_hello){.peer = peer, .hello = *hello};
    snprintf(held->address, sizeof(held->address), "%s", address);
    client->held_count = at == client->held_count ? at + 1 : client->held_count;
}

static void on_early_hello(struct client *client, uint64_t peer, const char *address,
                           const struct msg_hello *hello)
{
    const struct client_options *options = &client->options;
    hold(client, peer, address, hello);
    if (!client->surveying || hello->job != options->job ||
        hello->fingerprint != options->fingerprint ||
        hello->stream_count != options->stream_count) {
        return; /* not asked, or the scheduler will refuse it with the reason */
    }
    struct msg_reject reject;
    if (census_add(&client->census, hello) && census_turns_away(&client->census, hello, &reject)) {
        send_reject(client, peer, &reject);
    }
}

void client_release_held(struct client *client, int64_t now_ns)
{
    for (uint32_t i = 0; i < client->held_count; i++) {
        give_hello(client, client->held[i].peer, client->held[i].address, &client->held[i].hello,
                   now_ns);
        client_act(client, now_ns);
    }
    client->held_count = 0;
}

static void on_hello(struct client *client, const struct net_message *message,
                     const struct msg_hello *hello, int64_t now_ns)
{
    char address[ADDR_BYTES_MAX];
    net_message_address(message, address);
    if (client->fixed) {
        give_hello(client, message->peer, address, hello, now_ns);
    } else {
        on_early_hello(client, message->peer, address, hello);
    }
}

/* ---- all messages ---- */

static void on_unreadable(struct client *client, const struct net_message *message,
                          const struct err *err, int64_t now_ns)
{
    const uint16_t version = wire_version(message->head, message->head_count);
    if (version != 0 && version != WIRE_VERSION) {
        struct msg_reject reject = {.code = REJECT_VERSION};
        snprintf(reject.text, sizeof(reject.text),
                 "protocol version %u, but this rank speaks version %d: use the same release of "
                 "headrace on all hosts",
                 version, WIRE_VERSION);
        send_reject(client, message->peer, &reject);
        return;
    }
    log_warn("a message cannot be read: %s", err->message);
    sched_on_garbage(client->sched, message->peer, now_ns);
}

static void on_message(struct client *client, const struct net_message *message, int64_t now_ns)
{
    struct msg msg;
    struct err err = {0};
    if (msg_decode(message->head, message->head_count, &msg, &err) != OK) {
        on_unreadable(client, message, &err, now_ns);
    } else if (msg.type == MSG_DATA) {
        on_data(client, message, &msg, now_ns);
    } else if (msg.type == MSG_HELLO) {
        on_hello(client, message, &msg.hello, now_ns);
    } else {
        sched_on_message(client->sched, message->peer, &msg, now_ns);
    }
}

bool client_receive(struct client *client)
{
    for (int i = 0; i < MESSAGES_A_TURN; i++) {
        struct net_message message;
        struct err err = {0};
        const enum status status = net_receive(client->socket, &message, &err);
        const int64_t now_ns = clock_now_ns();
        if (status == ERR_AGAIN) {
            return false;
        }
        if (status == OK) {
            on_message(client, &message, now_ns);
            net_message_fini(&message);
        } else {
            log_warn("a message cannot be read: %s", err.message);
            sched_on_garbage(client->sched, message.peer, now_ns);
        }
        client_act(client, now_ns);
    }
    return true;
}
