/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator's server: a thread that owns the listener and feeds messages, broken connections
 * and time to the state machine.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/coord_state.h"
#include "common/log.h"
#include "common/thread.h"
#include "common/wire.h"

enum {
    TICK_MS = 100,
    PRESENT_MS = 1500, /* three PINGs: who was not heard for so long is not waited for at the end */
    PROGRESS_S = 15,   /* between lines that say whom the job waits for */
    QUEUE_MESSAGES = 256, /* per member; what does not fit is asked for again */
    RANKS_PER_HOST = 64,  /* for the size of tables, where the configuration does not say */
    OUTSIDE_PEERS = 256,  /* producers from outside, and connections made again */
};

struct coord_server {
    pthread_t thread;
    struct net *net; /* the thread's, like all below */
    struct net_socket *socket;
    struct coord_state *state;
    int64_t progress_ns;
    struct coord_msg in;
    uint8_t frame[COORD_MSG_BYTES_MAX];

    int wake_fd;                      /* eventfd: stop was asked for */
    _Atomic int64_t stop_deadline_ns; /* 0: not yet */
};

static void send_to(void *context, uint64_t peer, const struct coord_msg *msg)
{
    struct coord_server *server = context;
    const size_t count = coord_msg_encode(msg, server->frame);
    const enum status status = net_send(server->socket, peer, server->frame, count, NULL);
    if (status != OK) {
        log_debug("coordinator: %s not sent: %s", coord_msg_type_name(msg->type),
                  status_name(status));
    }
}

static void note(void *context, const char *text)
{
    log_info("coordinator: %s", text);
}

/* A frame that is none of ours. Another release is told so in its own words: it refuses the version
 * of whatever we send. */
static void answer_stranger(struct coord_server *server, const struct net_message *message,
                            const struct err *err)
{
    log_warn("coordinator: a message is dropped: %s", err->message);
    if (wire_version(message->head, message->head_count) != 0) {
        const struct coord_msg msg = {
            .type = COORD_MSG_REFUSE,
            .refuse = {.code = COORD_REFUSE_CONFIG, .text = "another version of the protocol"}};
        send_to(server, message->peer, &msg);
    }
}

static void receive_all(struct coord_server *server)
{
    for (;;) {
        struct net_message message;
        struct err err;
        const enum status status = net_receive(server->socket, &message, &err);
        if (status == ERR_AGAIN) {
            return;
        }
        if (status != OK) {
            log_warn("coordinator: %s", err.message);
            continue;
        }
        if (coord_msg_decode(message.head, message.head_count, &server->in, &err) == OK) {
            coord_state_receive(server->state, clock_now_ns(), message.peer, &server->in);
        } else {
            answer_stranger(server, &message, &err);
        }
        net_message_fini(&message);
    }
}

static void watch_connections(struct coord_server *server, int64_t now_ns)
{
    enum net_event_kind kind;
    while (net_event(server->socket, &kind) == OK) {
        if (kind == NET_DISCONNECTED) {
            coord_state_hint(server->state, now_ns);
        }
    }
}

static void show_progress(struct coord_server *server, int64_t now_ns)
{
    char waiting[TEXT_BYTES_MAX];
    if (now_ns < server->progress_ns || coord_state_over(server->state)) {
        return;
    }
    server->progress_ns = now_ns + PROGRESS_S * NS_PER_S;
    coord_state_waiting(server->state, waiting, sizeof(waiting));
    if (waiting[0] != '\0') {
        log_info("coordinator: waiting for %s", waiting);
    }
}

static bool may_end(const struct coord_server *server, int64_t now_ns)
{
    const int64_t deadline_ns = server->stop_deadline_ns;
    return deadline_ns != 0 &&
           (now_ns >= deadline_ns ||
            coord_state_all_told(server->state, now_ns, PRESENT_MS * NS_PER_MS));
}

static void *run(void *context)
{
    struct coord_server *server = context;
    struct net_poll_item items[2] = {{.socket = server->socket}, {.fd = server->wake_fd}};
    size_t item_count = ARRAY_LEN(items);
    for (;;) {
        struct err err;
        const enum status status = net_poll(server->net, items, item_count, TICK_MS, &err);
        const int64_t now_ns = clock_now_ns();
        if (status != OK) {
            log_error("coordinator: %s", err.message); /* its members find it lost */
            break;
        }
        if (items[1].readable) {
            item_count = 1; /* said once */
            items[1].readable = false;
        }
        receive_all(server);
        watch_connections(server, now_ns);
        coord_state_tick(server->state, clock_now_ns());
        show_progress(server, now_ns);
        if (may_end(server, now_ns)) {
            break;
        }
    }
    log_debug("coordinator: ended with %u members that did not say BYE",
              coord_state_member_count(server->state));
    net_close(&server->socket, 0);
    net_free(&server->net);
    return NULL;
}

static int peers_max(const struct coord_server_options *options)
{
    const int64_t ranks =
        options->config->ranks_per_host > 0 ? options->config->ranks_per_host : RANKS_PER_HOST;
    return (int)(options->cluster->host_count + options->cluster->producer_count +
                 options->cluster->trainer_count * ranks) +
           OUTSIDE_PEERS;
}

static enum status listen_on(struct coord_server *server,
                             const struct coord_server_options *options, struct err *err)
{
    const struct net_options net_options = {
        .io_threads = 1, .sockets_max = peers_max(options), .insecure = options->config->insecure};
    const struct net_socket_options socket_options = {.address = options->address,
                                                      .port = (uint16_t)options->config->port,
                                                      .queue_messages = QUEUE_MESSAGES,
                                                      .monitor = true};
    TRY(net_new(&net_options, &server->net, err));
    return net_listen(server->net, &socket_options, &server->socket, err);
}

static void free_server(struct coord_server *server)
{
    net_free(&server->net);
    coord_state_free(&server->state);
    if (server->wake_fd >= 0) {
        close(server->wake_fd);
    }
    free(server);
}

enum status coord_server_start(const struct coord_server_options *options,
                               struct coord_server **out, struct err *err)
{
    struct coord_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return err_set(err, ERR_RESOURCE, "coordinator: out of memory");
    }
    struct coord_state_options state_options = {.config = options->config,
                                                .cluster = options->cluster,
                                                .now_ns = clock_now_ns(),
                                                .send = send_to,
                                                .note = note,
                                                .context = server};
    enum status status;
    server->progress_ns = state_options.now_ns + PROGRESS_S * NS_PER_S;
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake_fd < 0 || getrandom(&state_options.job, sizeof(state_options.job), 0) !=
                                   (ssize_t)sizeof(state_options.job)) {
        status = err_errno(err, ERR_RESOURCE, "coordinator: eventfd or getrandom");
        goto undo;
    }
    status = coord_state_new(&state_options, &server->state, err);
    if (status != OK) {
        goto undo;
    }
    status = listen_on(server, options, err);
    if (status != OK) {
        goto undo;
    }
    status = thread_start("hr-coord-srv", run, server, &server->thread, err);
    if (status != OK) {
        goto undo;
    }
    *out = server;
    return OK;
undo:
    free_server(server);
    return status;
}

void coord_server_stop(struct coord_server **server, int64_t deadline_ns)
{
    if (*server == NULL) {
        return;
    }
    const uint64_t one = 1;
    (*server)->stop_deadline_ns = deadline_ns > 0 ? deadline_ns : 1;
    CHECK(write((*server)->wake_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    pthread_join((*server)->thread, NULL);
    free_server(*server);
    *server = NULL;
}
