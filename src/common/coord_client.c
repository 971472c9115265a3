/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's link to the coordinator: the thread that owns the connection, says JOIN until it is
 * let in and PING from then on, follows the server's log of events in order and without gaps,
 * carries the requests of the calls in coord_client_call.c, and notices when the server is gone.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/coord_client_core.h"
#include "common/coord_state.h"
#include "common/log.h"
#include "common/thread.h"
#include "common/wire.h"

enum {
    TICK_MS = 100,
    JOIN_MS = 300,
    PING_MS = 500,
    REPEAT_MS = 1000,                   /* of a request without an answer */
    CLOSE_MS = 1000,                    /* for notices that wait */
    PROGRESS_S = 15,                    /* between lines that say what is waited for */
    LINGER_MS = 500,                    /* for BYE */
    EVENTS_MAX = COORD_CRASHES_MAX + 8, /* the whole log fits: joining waits for no reader */
    QUEUE_MESSAGES = 64,
    SILENCE_FACTOR = 5, /* peer_timeouts without a word: lost */
};

/* What only the thread knows. */
struct link {
    struct coord_client *client;
    int64_t now_ns;
    int64_t heard_ns;         /* the server, at all */
    int64_t disconnected_ns;  /* 0: connected, as far as the monitor knows */
    int64_t join_ns, ping_ns; /* next */
    bool done;                /* the job has ended well: the server may go */
    uint32_t pinged;          /* `seen` of the last PING */
    uint32_t seen;            /* entries of the log that are done with */
    uint32_t known;           /* entries that exist, as last heard */
    bool welcome;             /* the server has let us in */
    struct coord_msg msg;     /* scratch, in and out */
    uint8_t frame[COORD_MSG_BYTES_MAX];
};

void coord_client_wake(struct coord_client *client)
{
    const uint64_t one = 1;
    CHECK(write(client->wake_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

/* ---- out ---- */

/* link->msg. What cannot be sent now is repeated later. */
static bool send_message(struct link *link)
{
    link->msg.member = link->client->instance;
    const size_t count = coord_msg_encode(&link->msg, link->frame);
    return net_send(link->client->socket, 0, link->frame, count, NULL) == OK;
}

static void send_join(struct link *link)
{
    link->msg = (struct coord_msg){.type = COORD_MSG_JOIN, .join = link->client->join};
    send_message(link);
    link->join_ns = link->now_ns + JOIN_MS * NS_PER_MS;
}

static void send_ping(struct link *link)
{
    struct coord_client *client = link->client;
    link->msg = (struct coord_msg){.type = COORD_MSG_PING};
    pthread_mutex_lock(&client->lock);
    link->msg.ping.begun = client->begun;
    link->msg.ping.promised = client->promised;
    pthread_mutex_unlock(&client->lock);
    link->msg.ping.seen = link->seen;
    link->pinged = link->seen;
    send_message(link);
    link->ping_ns = link->now_ns + PING_MS * NS_PER_MS;
}

/* The next request to send, copied out; false: none. */
static bool take_request(struct link *link, struct coord_slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct coord_slot *slot = &slots[i];
        const bool due = slot->sent_ns == 0 || link->now_ns - slot->sent_ns > REPEAT_MS * NS_PER_MS;
        if (slot->state == SLOT_WAITING && due) {
            slot->sent_ns = link->now_ns;
            link->msg.type = COORD_MSG_REQUEST;
            link->msg.request = slot->request;
            return true;
        }
    }
    return false;
}

static void send_requests(struct link *link)
{
    struct coord_client *client = link->client;
    for (;;) {
        pthread_mutex_lock(&client->lock);
        const bool any = take_request(link, client->notices, COORD_NOTICES) ||
                         take_request(link, client->slots, COORD_SLOTS);
        pthread_mutex_unlock(&client->lock);
        if (!any || !send_message(link)) {
            return;
        }
    }
}

/* ---- the link's state ---- */

/* Leaves `link` for good (REFUSED, OVER) or for JOINED, and lets everybody know. event (or NULL) is
 * queued under the same lock: whoever has seen one of the two finds the other. False: there is no
 * room for it. */
static bool set_link(struct coord_client *client, enum link_state state, const struct err *failure,
                     const struct coord_event *event)
{
    pthread_mutex_lock(&client->lock);
    const bool first = client->link == LINK_JOINING;
    const bool queued = event == NULL || queue_push(client->events, event) == OK;
    client->link = state;
    if (failure != NULL) {
        client->failure = *failure;
    }
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    const uint64_t one = 1;
    if (first) {
        CHECK(write(client->ready_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    }
    return queued;
}

static enum link_state get_link(struct coord_client *client)
{
    pthread_mutex_lock(&client->lock);
    const enum link_state state = client->link;
    pthread_mutex_unlock(&client->lock);
    return state;
}

/* An event that finds no room is only logged: all calls say the same. */
static void job_failed(struct link *link, const struct coord_event *event)
{
    struct err failure;
    err_set(&failure, ERR_PEER_GONE, "%s", event->text);
    if (!set_link(link->client, LINK_OVER, &failure, event)) {
        log_warn("%s", event->text);
    }
}

static void lost(struct link *link, const char *how)
{
    struct coord_event event = {.kind = COORD_EVENT_LOST, .code = EXIT_PEER};
    snprintf(event.text, sizeof(event.text), "the coordinator at %s was lost: %s",
             link->client->where, how);
    job_failed(link, &event);
}

/* ---- events ---- */

static void stop_asked(struct coord_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (!client->promised && client->join.kind == COORD_RANK) {
        client->promised = true;
        /* Who has not begun loses nothing by waiting; if nobody has, the job need not begin. */
        client->promise = client->begun == 0 ? 0 : client->begun + 2;
    }
    pthread_mutex_unlock(&client->lock);
}

static void stop_settled(struct coord_client *client, uint64_t step)
{
    pthread_mutex_lock(&client->lock);
    client->given_up |= client->stop_settled && step < client->stop_at;
    client->stop_settled = true;
    client->stop_at = step;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

/* An entry for the process; false: there is no room for it now. */
static bool hand_out(struct link *link, const struct coord_log_entry *entry)
{
    static const enum coord_event_kind KINDS[] = {
        [COORD_LOG_FAIL] = COORD_EVENT_FAIL,
        [COORD_LOG_STOP_AT] = COORD_EVENT_STOP_AT,
        [COORD_LOG_DONE] = COORD_EVENT_DONE,
        [COORD_LOG_VERDICT] = COORD_EVENT_VERDICT,
    };
    struct coord_event event = {.kind = KINDS[entry->kind], .code = (int32_t)entry->code};
    event.stream = entry->stream;
    if (entry->kind == COORD_LOG_VERDICT) {
        event.sample = entry->value;
    } else {
        event.step = entry->value;
    }
    memcpy(event.text, entry->text, sizeof(event.text));
    if (entry->kind == COORD_LOG_FAIL) {
        job_failed(link, &event);
        return true;
    }
    return queue_push(link->client->events, &event) == OK;
}

static void on_event(struct link *link)
{
    const struct coord_msg_event *event = &link->msg.event;
    if (event->index >= link->known) {
        link->known = event->index + 1;
    }
    if (event->index != link->seen) {
        return; /* seen before, or one is missing, for which the next PING asks */
    }
    if (event->entry.kind == COORD_LOG_STOP_AT) {
        /* First: who hears the event and sees that a step was not begun may rely on it. */
        stop_settled(link->client, event->entry.value);
    }
    if (event->entry.kind == COORD_LOG_STOP_ASKED) {
        stop_asked(link->client);
        link->ping_ns = 0; /* answers at once */
    } else if (!hand_out(link, &event->entry)) {
        return;
    }
    link->done = event->entry.kind == COORD_LOG_DONE;
    link->seen++;
}

/* ---- in ---- */

/* To the call, which has the number in its slot; nobody waits for it any more: dropped. */
static void deliver(struct link *link, uint64_t number)
{
    struct coord_client *client = link->client;
    pthread_mutex_lock(&client->lock);
    for (size_t i = 0; i < COORD_NOTICES; i++) {
        struct coord_slot *slot = &client->notices[i];
        if (slot->state == SLOT_WAITING && slot->request.number == number) {
            slot->state = SLOT_ANSWERED;
        }
    }
    for (size_t i = 0; i < COORD_SLOTS; i++) {
        struct coord_slot *slot = &client->slots[i];
        if (slot->state == SLOT_WAITING && slot->request.number == number) {
            *slot->answer = link->msg;
            slot->state = SLOT_ANSWERED;
        }
    }
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

static void on_refuse(struct link *link)
{
    const struct coord_msg_refuse *refuse = &link->msg.refuse;
    if (refuse->code == COORD_REFUSE_UNKNOWN) {
        link->welcome = false; /* forgotten after a long silence: joins again */
        link->join_ns = 0;
        return;
    }
    if (link->welcome) {
        return; /* a late answer to a JOIN that was repeated */
    }
    if (get_link(link->client) == LINK_JOINED) {
        lost(link, refuse->text);
        return;
    }
    struct err failure;
    err_set(&failure, refuse->code == COORD_REFUSE_CONFIG ? ERR_CONFIG : ERR_RESOURCE,
            "refused by the coordinator at %s: %s", link->client->where, refuse->text);
    (void)set_link(link->client, LINK_REFUSED, &failure, NULL);
}

static void on_event_count(struct link *link)
{
    const uint32_t count = link->msg.welcome.event_count;
    link->known = count > link->known ? count : link->known;
}

static void on_message(struct link *link)
{
    link->heard_ns = link->now_ns;
    switch (link->msg.type) {
    case COORD_MSG_WELCOME:
        link->welcome = true;
        link->ping_ns = 0;
        on_event_count(link);
        break;
    case COORD_MSG_PONG:
        on_event_count(link);
        break;
    case COORD_MSG_REFUSE:
        on_refuse(link);
        break;
    case COORD_MSG_ANSWER:
        deliver(link, link->msg.answer.number);
        break;
    case COORD_MSG_ROSTER:
        deliver(link, link->msg.roster.number);
        break;
    case COORD_MSG_EVENT:
        on_event(link);
        break;
    default:
        break; /* what only members say */
    }
}

static void on_frame(struct link *link, const struct net_message *message)
{
    struct err err;
    if (coord_msg_decode(message->head, message->head_count, &link->msg, &err) == OK) {
        if (link->msg.member == link->client->instance) {
            on_message(link);
        }
        return;
    }
    const uint16_t version = wire_version(message->head, message->head_count);
    if (version != 0 && version != WIRE_VERSION && get_link(link->client) == LINK_JOINING) {
        err_prefix(&err, "the coordinator at %s", link->client->where);
        (void)set_link(link->client, LINK_REFUSED, &err, NULL);
        return;
    }
    log_warn("from the coordinator: %s", err.message);
}

static void receive_all(struct link *link)
{
    for (;;) {
        struct net_message message;
        struct err err;
        const enum status status = net_receive(link->client->socket, &message, &err);
        if (status == ERR_AGAIN) {
            return;
        }
        if (status == OK) {
            on_frame(link, &message);
            net_message_fini(&message);
        }
    }
}

static void watch_connection(struct link *link)
{
    enum net_event_kind kind;
    while (net_event(link->client->socket, &kind) == OK) {
        if (kind == NET_CONNECTED) {
            link->disconnected_ns = 0;
        } else if (kind == NET_DISCONNECTED && link->disconnected_ns == 0) {
            link->disconnected_ns = link->now_ns;
        }
    }
}

/* ---- the thread ---- */

static void check_lost(struct link *link)
{
    const int64_t timeout_ns = link->client->peer_timeout_ns;
    char how[64];
    if (link->disconnected_ns != 0 && link->now_ns - link->disconnected_ns > timeout_ns) {
        snprintf(how, sizeof(how), "its connection broke %.1f s ago",
                 (double)(link->now_ns - link->disconnected_ns) / (double)NS_PER_S);
        lost(link, how);
    } else if (link->now_ns - link->heard_ns > SILENCE_FACTOR * timeout_ns) {
        snprintf(how, sizeof(how), "not heard for %.1f s",
                 (double)(link->now_ns - link->heard_ns) / (double)NS_PER_S);
        lost(link, how);
    }
}

/* One round of what is due. False: the link has ended. */
static bool step(struct link *link)
{
    const enum link_state state = get_link(link->client);
    if (state == LINK_REFUSED || state == LINK_OVER) {
        return state != LINK_REFUSED;
    }
    if (state == LINK_JOINED && !link->done) {
        check_lost(link);
    }
    if (!link->welcome) {
        if (link->now_ns >= link->join_ns) {
            send_join(link);
        }
        return true;
    }
    /* A member has joined when it has seen what happened before. */
    if (state == LINK_JOINING && link->seen >= link->known) {
        (void)set_link(link->client, LINK_JOINED, NULL, NULL);
    }
    const bool more_events = link->seen < link->known && link->seen != link->pinged;
    if (more_events || link->now_ns >= link->ping_ns) {
        send_ping(link);
    }
    return true;
}

static bool notices_wait(const struct coord_client *client)
{
    for (size_t i = 0; i < COORD_NOTICES; i++) {
        if (client->notices[i].state == SLOT_WAITING) {
            return true;
        }
    }
    return false;
}

/* Is it time to leave? Waits for notices, for CLOSE_MS at most. */
static bool may_close(struct link *link, int64_t *closing_ns)
{
    struct coord_client *client = link->client;
    pthread_mutex_lock(&client->lock);
    const bool closing = client->closing;
    const bool wait = client->link == LINK_JOINED && notices_wait(client);
    pthread_mutex_unlock(&client->lock);
    if (!closing) {
        return false;
    }
    if (*closing_ns == 0) {
        *closing_ns = link->now_ns;
    }
    return !wait || link->now_ns - *closing_ns > CLOSE_MS * NS_PER_MS;
}

static void drain_wake(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0) {
        CHECK(errno == EAGAIN || errno == EINTR);
    }
}

static void *run(void *context)
{
    struct link *link = context;
    struct coord_client *client = link->client;
    int64_t closing_ns = 0;
    struct net_poll_item items[2] = {{.socket = client->socket}, {.fd = client->wake_fd}};
    link->heard_ns = clock_now_ns();
    for (;;) {
        struct err err;
        if (net_poll(client->net, items, ARRAY_LEN(items), TICK_MS, &err) != OK) {
            lost(link, err.message);
            break;
        }
        link->now_ns = clock_now_ns();
        if (items[1].readable) {
            drain_wake(client->wake_fd);
        }
        receive_all(link);
        watch_connection(link);
        if (!step(link)) {
            break;
        }
        if (link->welcome) {
            send_requests(link);
        }
        if (may_close(link, &closing_ns)) {
            break;
        }
    }
    if (link->welcome) {
        send_ping(link); /* the steps begun, which outlive a rank */
        link->msg = (struct coord_msg){.type = COORD_MSG_BYE};
        send_message(link);
    }
    net_close(&client->socket, LINGER_MS);
    net_free(&client->net);
    free(link);
    return NULL;
}

/* ---- start and end ---- */

static void fill_join(struct coord_client *client, const struct coord_join *join)
{
    struct coord_msg_join *out = &client->join;
    out->kind = join->kind;
    snprintf(out->host, sizeof(out->host), "%s", join->host);
    snprintf(out->address, sizeof(out->address), "%s", join->address == NULL ? "" : join->address);
    snprintf(out->instance_type, sizeof(out->instance_type), "%s",
             join->instance_type == NULL ? "" : join->instance_type);
    out->local_ranks = join->local_ranks;
    out->local_rank = join->local_rank;
    out->port = join->port;
    out->ring_port = join->ring_port;
    out->config_digest = join->config_digest;
    out->fingerprint = join->fingerprint;
    client->peer_timeout_ns = (int64_t)(join->peer_timeout_s * (double)NS_PER_S);
}

static void init_lock(struct coord_client *client)
{
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&client->changed, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
    CHECK(pthread_mutex_init(&client->lock, NULL) == 0);
}

static void free_client(struct coord_client *client)
{
    if (client->wake_fd >= 0) {
        close(client->wake_fd);
    }
    if (client->ready_fd >= 0) {
        close(client->ready_fd);
    }
    queue_free(&client->events);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* NULL: *err says why (ERR_RESOURCE). */
static struct coord_client *new_client(const struct coord_join *join, struct err *err)
{
    struct coord_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        err_set(err, ERR_RESOURCE, "coordinator client: out of memory");
        return NULL;
    }
    init_lock(client);
    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fill_join(client, join);
    if (client->wake_fd < 0 || client->ready_fd < 0) {
        err_errno(err, ERR_RESOURCE, "coordinator client: eventfd");
        goto undo;
    }
    if (getrandom(&client->instance, sizeof(client->instance), 0) !=
        (ssize_t)sizeof(client->instance)) {
        err_errno(err, ERR_RESOURCE, "coordinator client: getrandom");
        goto undo;
    }
    if (queue_new(sizeof(struct coord_event), EVENTS_MAX, &client->events, err) != OK) {
        goto undo;
    }
    return client;
undo:
    free_client(client);
    return NULL;
}

static enum status open_link(struct coord_client *client, const char *address, uint16_t port,
                             bool insecure, struct err *err)
{
    const struct net_options net_options = {
        .io_threads = 1, .sockets_max = 4, .insecure = insecure};
    const struct net_socket_options options = {
        .address = address, .port = port, .queue_messages = QUEUE_MESSAGES, .monitor = true};
    snprintf(client->where, sizeof(client->where), "%s:%u", address, port);
    TRY(net_new(&net_options, &client->net, err));
    struct link *link = NULL;
    enum status status = net_connect(client->net, &options, &client->socket, err);
    if (status != OK) {
        goto free_net;
    }
    link = calloc(1, sizeof(*link));
    if (link == NULL) {
        status = err_set(err, ERR_RESOURCE, "coordinator client: out of memory");
        goto free_net;
    }
    link->client = client;
    status = thread_start("hr-coord", run, link, &client->thread, err);
    if (status != OK) {
        goto free_link;
    }
    return OK;
free_link:
    free(link);
free_net:
    net_free(&client->net);
    return status;
}

/* Waits until the thread has joined or been refused. */
static enum status wait_joined(struct coord_client *client, const int *cancel_fd,
                               int64_t deadline_ns, struct err *err)
{
    struct pollfd fds[2] = {{.fd = client->ready_fd, .events = POLLIN},
                            {.fd = cancel_fd == NULL ? -1 : *cancel_fd, .events = POLLIN}};
    int64_t progress_ns = clock_now_ns() + PROGRESS_S * NS_PER_S;
    for (;;) {
        const int64_t now_ns = clock_now_ns();
        const int64_t left_ns = deadline_ns - now_ns;
        if (left_ns > 0 && now_ns >= progress_ns) {
            progress_ns = now_ns + PROGRESS_S * NS_PER_S;
            log_info("waiting for the coordinator at %s, %" PRId64 " s left", client->where,
                     left_ns / NS_PER_S);
        }
        if (left_ns <= 0) {
            return err_set(err, ERR_TIMEOUT,
                           "no answer from the coordinator at %s in time (join_timeout_s)",
                           client->where);
        }
        const int64_t left_ms = left_ns / NS_PER_MS + 1;
        poll(fds, 2, left_ms > 1000 ? 1000 : (int)left_ms);
        if ((fds[0].revents & POLLIN) != 0) {
            break;
        }
        if ((fds[1].revents & POLLIN) != 0) {
            return err_set(err, ERR_CANCELLED, "stopped before the coordinator was reached");
        }
    }
    pthread_mutex_lock(&client->lock);
    const enum link_state state = client->link;
    if (state == LINK_REFUSED && err != NULL) {
        *err = client->failure;
    }
    const enum status failure = client->failure.status;
    pthread_mutex_unlock(&client->lock);
    return state == LINK_REFUSED ? failure : OK;
}

enum status coord_connect(const char *address, uint16_t port, bool insecure,
                          const struct coord_join *join, int64_t deadline_ns,
                          struct coord_client **out, struct err *err)
{
    struct coord_client *client = new_client(join, err);
    if (client == NULL) {
        return ERR_RESOURCE;
    }
    enum status status = open_link(client, address, port, insecure, err);
    if (status != OK) {
        free_client(client);
        return status;
    }
    status = wait_joined(client, join->cancel_fd, deadline_ns, err);
    if (status != OK) {
        coord_close(&client);
        return status;
    }
    *out = client;
    return OK;
}

void coord_close(struct coord_client **client)
{
    if (*client == NULL) {
        return;
    }
    pthread_mutex_lock(&(*client)->lock);
    (*client)->closing = true;
    pthread_mutex_unlock(&(*client)->lock);
    coord_client_wake(*client);
    pthread_join((*client)->thread, NULL);
    free_client(*client);
    *client = NULL;
}
