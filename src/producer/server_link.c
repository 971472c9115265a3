/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's session, seen from the producer: DESIGN.md section 9.
 *
 * What settles a lease (parts, NACK, RETURN) goes out in order or not at all. A link's queue holds
 * more than a live session can have on its way (server.c), so a message that it does not take means
 * that the connection is gone or its peer has not read for long, and the session ends. The rest
 * (HELLO, PING, PONG, LEAVE) is repeated or covered by a timer, and may be lost.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "producer/server_internal.h"

#define HELLO_INTERVAL_NS (1 * NS_PER_S)
#define PING_INTERVAL_NS  (250 * NS_PER_MS)

static bool send_message(struct link *link, const struct msg *msg)
{
    uint8_t bytes[MSG_BYTES_MAX];
    const size_t count = msg_encode(msg, bytes);
    return net_send(link->socket, 0, bytes, count, NULL) == OK;
}

static void send_if_possible(struct link *link, const struct msg *msg)
{
    if (!send_message(link, msg)) {
        log_debug("rank %u: %s not sent", link->rank->rank, msg_type_name(msg->type));
    }
}

static void say_hello(struct server *server, struct link *link, int64_t now_ns)
{
    struct msg msg = {.type = MSG_HELLO,
                      .hello = {.job = server->options->roster->job,
                                .index = server->options->index,
                                .instance = server->instance,
                                .attempt = link->attempt,
                                .fingerprint = server->fingerprint,
                                .capacity_bytes = server->capacity_bytes,
                                .stream_count = server->stream_count}};
    snprintf(msg.hello.host, sizeof(msg.hello.host), "%s", server->options->host);
    for (uint32_t s = 0; s < server->stream_count; s++) {
        const struct index *index = server->indexes[s];
        msg.hello.streams[s].samples = index_samples(index);
        msg.hello.streams[s].digest = index_digest(index);
        msg.hello.streams[s].classes = index_classes(index);
        index_buckets(index, msg.hello.streams[s].buckets);
    }
    send_if_possible(link, &msg);
    link->hello_ns = now_ns + HELLO_INTERVAL_NS;
}

static void drop_work(struct server *server, struct link *link)
{
    link->pending_count = 0;
    work_drop(server->work, link->rank->rank);
    link->generation++;
}

void link_drop(struct server *server, struct link *link, const char *why, int64_t now_ns)
{
    if (link->state == LINK_LIVE) {
        log_info("session with rank %u ended: %s", link->rank->rank, why);
        link->attempt++;
    }
    drop_work(server, link);
    link->state = LINK_HELLO;
    link->session = 0;
    link->hello_ns = now_ns;
}

void link_on_disconnect(struct server *server, struct link *link, int64_t now_ns)
{
    if (link->state == LINK_LIVE) {
        link_drop(server, link, "connection lost", now_ns);
    }
}

static void on_welcome(struct server *server, struct link *link, const struct msg *msg,
                       int64_t now_ns)
{
    if (msg->welcome.attempt != link->attempt) {
        return; /* the answer to an older HELLO, whose session was dropped */
    }
    if (link->state == LINK_LIVE && link->session == msg->session) {
        return; /* a repeat */
    }
    if (link->state == LINK_LIVE) {
        link_drop(server, link, "a new session began", now_ns);
    }
    link->state = LINK_LIVE;
    link->session = msg->session;
    link->ping_ns = now_ns + PING_INTERVAL_NS;
    log_info("serving rank %u at %s:%u", link->rank->rank, link->rank->address, link->rank->port);
}

/* Where our data differ from what the rank wants, as far as it can say. */
static void note_difference(struct server *server, const struct msg_reject *reject)
{
    const size_t size = sizeof(server->difference);
    snprintf(server->difference, size, "%s", reject->text);
    if (reject->bucket_count > 0 && reject->stream < server->stream_count) {
        char text[TEXT_BYTES_MAX];
        index_describe_difference(server->indexes[reject->stream], reject->buckets, text,
                                  sizeof(text));
        snprintf(server->difference, size, "%s; %s", reject->text, text);
    }
}

static void on_reject(struct server *server, struct link *link, const struct msg_reject *reject,
                      int64_t now_ns)
{
    if (reject->refused != 0) {
        if (link->state == LINK_LIVE && reject->refused == link->session) {
            link_drop(server, link, reject->text, now_ns);
        }
    } else if (reject->instance != server->instance || reject->attempt != link->attempt) {
        return; /* the answer to an older HELLO */
    }
    if (reject->code == REJECT_DATA) {
        note_difference(server, reject);
        log_warn("rank %u turned this producer away: %s", link->rank->rank, server->difference);
        server->reindex = true;
    } else if (reject->code != REJECT_UNKNOWN_SESSION) {
        log_warn("rank %u refused this producer: %s", link->rank->rank, reject->text);
    }
}

static void drop_unsent(struct server *server, struct link *link)
{
    link_drop(server, link, "its queue is full or its connection gone", clock_now_ns());
}

/* A message whose loss the rank would never learn of. */
static void send_or_drop(struct server *server, struct link *link, const struct msg *msg)
{
    if (!send_message(link, msg)) {
        drop_unsent(server, link);
    }
}

static void send_return(struct server *server, struct link *link, uint32_t lease)
{
    send_or_drop(
        server, link,
        &(struct msg){.type = MSG_RETURN, .session = link->session, .lease = {.lease = lease}});
}

static void send_nack(struct server *server, struct link *link, const struct msg_nack *nack)
{
    log_warn("rank %u: lease %u refused: %s", link->rank->rank, nack->lease, nack->text);
    send_or_drop(server, link,
                 &(struct msg){.type = MSG_NACK, .session = link->session, .nack = *nack});
}

static void on_grant(struct server *server, struct link *link, const struct msg_grant *grant)
{
    struct msg_nack nack;
    if (!work_check_grant(server->work, grant, &nack)) {
        send_nack(server, link, &nack);
        return;
    }
    if (server->leaving) {
        send_return(server, link, grant->lease);
        return;
    }
    if (link->pending_count == server->grants_max) {
        nack.code = NACK_RESOURCE;
        snprintf(nack.text, sizeof(nack.text), "more than %u grants at once", server->grants_max);
        send_nack(server, link, &nack);
        return;
    }
    const uint32_t at = (link->pending_first + link->pending_count) % server->grants_max;
    link->pending[at] = *grant;
    link->pending_count++;
}

/* Removes a waiting grant; false when it is not waiting. */
static bool cancel_pending(struct server *server, struct link *link, uint32_t lease)
{
    for (uint32_t i = 0; i < link->pending_count; i++) {
        const uint32_t at = (link->pending_first + i) % server->grants_max;
        if (link->pending[at].lease != lease) {
            continue;
        }
        for (uint32_t j = i + 1; j < link->pending_count; j++) {
            link->pending[(link->pending_first + j - 1) % server->grants_max] =
                link->pending[(link->pending_first + j) % server->grants_max];
        }
        link->pending_count--;
        return true;
    }
    return false;
}

static void answer_ping(struct server *server, struct link *link, const struct msg *ping,
                        int64_t now_ns)
{
    struct work_progress progress;
    work_progress(server->work, link->rank->rank, now_ns, &progress);
    const struct msg pong = {.type = MSG_PONG,
                             .session = link->session,
                             .ping = {.seq = ping->ping.seq,
                                      .samples_done = progress.samples_done,
                                      .oldest_age_ns = progress.oldest_age_ns}};
    send_if_possible(link, &pong);
}

static void on_done(struct server *server, struct link *link, const struct msg *msg)
{
    const struct msg bye = {.type = MSG_BYE, .session = msg->session};
    send_if_possible(link, &bye);
    drop_work(server, link);
    link->state = LINK_OVER;
}

static void on_session_message(struct server *server, struct link *link, const struct msg *msg,
                               int64_t now_ns)
{
    switch (msg->type) {
    case MSG_GRANT:
        on_grant(server, link, &msg->grant);
        break;
    case MSG_CANCEL:
        if (cancel_pending(server, link, msg->lease.lease)) {
            send_return(server, link, msg->lease.lease);
        } else {
            work_cancel(server->work, link->rank->rank, link->generation, msg->lease.lease);
        }
        break;
    case MSG_PING:
        answer_ping(server, link, msg, now_ns);
        break;
    case MSG_DONE:
    case MSG_BYE:
        on_done(server, link, msg);
        break;
    default: /* PONG: heard is all it says */
        break;
    }
}

void link_on_message(struct server *server, struct link *link, const struct net_message *message,
                     int64_t now_ns)
{
    struct msg msg;
    struct err err = {0};
    if (msg_decode(message->head, message->head_count, &msg, &err) != OK) {
        log_warn("rank %u sent what is no message: %s", link->rank->rank, err.message);
        link_on_disconnect(server, link, now_ns);
        return;
    }
    link->heard_ns = now_ns;
    if (link->state == LINK_OVER) {
        return;
    }
    if (msg.type == MSG_WELCOME) {
        on_welcome(server, link, &msg, now_ns);
    } else if (msg.type == MSG_REJECT) {
        on_reject(server, link, &msg.reject, now_ns);
    } else if (link->state == LINK_LIVE && msg.session == link->session) {
        on_session_message(server, link, &msg, now_ns);
    }
}

/* ---- sending ---- */

static void send_part(struct server *server, struct link *link, const struct work_result *part)
{
    struct msg msg = {.type = MSG_DATA, .session = link->session, .data = part->data};
    if (msg.data.last) {
        msg.data.send_ns = (uint64_t)(clock_now_ns() - part->ready_ns);
    }
    uint8_t head[MSG_BYTES_MAX];
    const size_t count = msg_encode(&msg, head);
    const struct net_body body = {.bytes = part->batch->bytes + part->data.offset,
                                  .count = part->data.length,
                                  .release = batch_release,
                                  .context = part->batch};
    if (net_send(link->socket, 0, head, count, &body) != OK) {
        batch_unref(part->batch);
        drop_unsent(server, link);
    }
}

void link_send_result(struct server *server, struct link *link, const struct work_result *result)
{
    if (link->state != LINK_LIVE || result->generation != link->generation) {
        if (result->batch != NULL) {
            batch_unref(result->batch);
        }
        return;
    }
    switch (result->kind) {
    case WORK_PART:
        send_part(server, link, result);
        break;
    case WORK_NACK:
        send_nack(server, link, &result->nack);
        break;
    case WORK_RETURNED:
        send_return(server, link, result->nack.lease);
        break;
    }
}

static void submit_pending(struct server *server, struct link *link, int64_t now_ns)
{
    struct work_progress progress;
    work_progress(server->work, link->rank->rank, now_ns, &progress);
    uint32_t in_work = progress.orders;
    while (link->pending_count > 0 && in_work < server->quota) {
        struct batch *batch = batch_get(server->pool);
        if (batch == NULL) {
            return;
        }
        const struct work_order order = {.rank = link->rank->rank,
                                         .generation = link->generation,
                                         .grant = link->pending[link->pending_first],
                                         .batch = batch};
        if (work_submit(server->work, &order) != OK) {
            batch_unref(batch);
            return;
        }
        link->pending_first = (link->pending_first + 1) % server->grants_max;
        link->pending_count--;
        in_work++;
    }
}

void link_on_time(struct server *server, struct link *link, int64_t now_ns)
{
    if (link->state == LINK_HELLO) {
        if (!server->leaving && now_ns >= link->hello_ns) {
            say_hello(server, link, now_ns);
        }
        return;
    }
    if (link->state != LINK_LIVE) {
        return;
    }
    const int64_t timeout_ns = (int64_t)(server->options->config->peer_timeout_s * NS_PER_S);
    if (now_ns - link->heard_ns > timeout_ns) {
        char why[64];
        snprintf(why, sizeof(why), "silent for %.1f s",
                 (double)(now_ns - link->heard_ns) / NS_PER_S);
        link_drop(server, link, why, now_ns);
        return;
    }
    if (now_ns >= link->ping_ns) {
        const struct msg ping = {
            .type = MSG_PING, .session = link->session, .ping = {.seq = ++link->ping_seq}};
        send_if_possible(link, &ping);
        link->ping_ns = now_ns + PING_INTERVAL_NS;
    }
    if (link->pending_count > 0) {
        submit_pending(server, link, now_ns);
    }
}

void link_leave(struct server *server, struct link *link)
{
    if (link->state == LINK_LIVE) {
        const struct msg leave = {.type = MSG_LEAVE, .session = link->session};
        send_if_possible(link, &leave);
    }
}
