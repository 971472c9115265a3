/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections. A process has one at a time; when it is cut the process connects again without
 * noticing, as a DEALER does, and the rank sees a new peer. Of what was on its way up when it was
 * cut, the first packets can still be read at the rank from the old peer, the last ones had not
 * left the process and go out by the new connection, and those between are lost.
 */
#include <string.h>

#include "sim/sim_world.h"

static struct packet *pipe_at(struct pipe *pipe, uint32_t i)
{
    return &pipe->ring[(pipe->first + i) % PIPE_MAX];
}

static struct packet *pipe_push(struct pipe *pipe)
{
    if (pipe->count == PIPE_MAX) {
        return NULL;
    }
    return pipe_at(pipe, pipe->count++);
}

static void packet_copy(struct packet *to, const struct packet *from)
{
    memcpy(to, from, offsetof(struct packet, bytes) + from->count);
}

static void pipe_pop(struct pipe *pipe, struct packet *out)
{
    packet_copy(out, pipe_at(pipe, 0));
    pipe->first = (pipe->first + 1) % PIPE_MAX;
    pipe->count--;
}

static int64_t head_ns(const struct pipe *pipe)
{
    if (pipe->count == 0) {
        return NEVER;
    }
    const int64_t at_ns = pipe->ring[pipe->first].at_ns;
    return at_ns > pipe->stalled_until_ns ? at_ns : pipe->stalled_until_ns;
}

struct conn *link_find(struct world *w, uint64_t peer)
{
    for (uint32_t i = 0; i < w->conn_count; i++) {
        if (w->conns[i].peer == peer) {
            return &w->conns[i];
        }
    }
    return NULL;
}

/* Old and empty, and nobody will ever ask for it again. */
static bool is_spent(const struct world *w, const struct conn *conn)
{
    return conn->cut && conn->up.count == 0 &&
           (conn->noticed_ns <= w->now_ns || conn->noticed_ns == NEVER);
}

uint32_t link_open(struct world *w, uint32_t proc, int64_t connected_ns)
{
    uint32_t i = 0;
    while (i < w->conn_count && w->conns[i].peer != 0 && !is_spent(w, &w->conns[i])) {
        i++;
    }
    CHECK(i < CONNS_MAX);
    w->conn_count = i == w->conn_count ? i + 1 : w->conn_count;
    struct conn *conn = &w->conns[i];
    conn->peer = ++w->last_peer;
    conn->proc = proc;
    conn->cut = false;
    conn->hinted = false;
    conn->noticed_ns = NEVER;
    conn->connected_ns = connected_ns;
    conn->disturbed_ns = connected_ns;
    conn->up.first = conn->up.count = conn->down.first = conn->down.count = 0;
    conn->up.last_ns = conn->down.last_ns = w->now_ns;
    conn->up.stalled_until_ns = conn->down.stalled_until_ns = connected_ns;
    sim_trace(w, "proc %u: connection %" PRIu64, proc, conn->peer);
    return i;
}

static int64_t arrival_ns(struct world *w, struct pipe *pipe)
{
    const int64_t at_ns = w->now_ns + w->latency_ns + sim_between(w, 0, w->jitter_ns);
    pipe->last_ns = at_ns > pipe->last_ns ? at_ns : pipe->last_ns;
    return pipe->last_ns;
}

static void fill(struct packet *packet, const struct msg *msg, uint64_t weight, uint64_t body)
{
    uint8_t bytes[MSG_BYTES_MAX];
    const size_t count = msg_encode(msg, bytes);
    CHECK(count <= PACKET_BYTES);
    packet->session = msg->session;
    packet->type = msg->type;
    packet->weight = weight;
    packet->body = body;
    packet->count = (uint32_t)count;
    memcpy(packet->bytes, bytes, count);
}

bool link_send_up(struct world *w, struct proc *proc, const struct msg *msg, uint64_t weight,
                  uint64_t body, bool garbage)
{
    struct pipe *pipe = &w->conns[proc->conn].up;
    struct packet *packet = pipe_push(pipe);
    if (packet == NULL) {
        return false;
    }
    fill(packet, msg, weight, body);
    packet->at_ns = arrival_ns(w, pipe);
    packet->garbled = garbage;
    if (garbage) {
        link_stall(w, &w->conns[proc->conn], false, true, w->now_ns);
        packet->bytes[sim_below(w, packet->count)] ^= (uint8_t)(1U << sim_below(w, 8));
    }
    return true;
}

bool link_send_down(struct world *w, struct conn *conn, const struct msg *msg, uint64_t weight)
{
    struct packet *packet = pipe_push(&conn->down);
    if (packet == NULL) {
        return false;
    }
    fill(packet, msg, weight, 0);
    packet->at_ns = arrival_ns(w, &conn->down);
    return true;
}

/* Loses the packets [first, end) of a pipe. */
static void lose(struct world *w, uint32_t proc, struct pipe *pipe, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        check_gone(w, proc, pipe_at(pipe, i));
    }
}

/* Moves the packets from first on to another pipe. */
static void move(struct pipe *from, uint32_t first, struct pipe *to)
{
    for (uint32_t i = first; i < from->count; i++) {
        struct packet *packet = pipe_push(to);
        CHECK(packet != NULL);
        packet_copy(packet, pipe_at(from, i));
    }
}

static void disturb(struct conn *conn, int64_t until_ns)
{
    conn->disturbed_ns = conn->disturbed_ns > until_ns ? conn->disturbed_ns : until_ns;
}

void link_hold_up(struct conn *conn, int64_t until_ns)
{
    conn->up.last_ns = conn->up.last_ns > until_ns ? conn->up.last_ns : until_ns;
    disturb(conn, until_ns);
}

void link_cut(struct world *w, struct proc *proc, bool reconnects)
{
    struct conn *old = &w->conns[proc->conn];
    CHECK(!old->cut);
    old->cut = true;
    old->noticed_ns = w->now_ns + sim_between(w, 0, 300 * SIM_MS);
    const bool connected = w->now_ns >= old->connected_ns;
    const uint32_t up_kept = connected ? (uint32_t)sim_below(w, old->up.count + 1) : 0;
    const uint32_t down_kept = (uint32_t)sim_below(w, old->down.count + 1);
    uint32_t up_back = old->up.count;
    sim_trace(w, "proc %u: connection %" PRIu64 " cut, %u of %u up, %u of %u down survive",
              old->proc, old->peer, up_kept, old->up.count, down_kept, old->down.count);
    lose(w, old->proc, &old->down, down_kept, old->down.count);
    old->down.count = down_kept;
    if (reconnects) {
        up_back = connected ? up_back - (uint32_t)sim_below(w, old->up.count - up_kept + 1) : 0;
        int64_t back_ns = w->now_ns + sim_between(w, 5 * SIM_MS, 600 * SIM_MS);
        if (!w->rank.up && back_ns < w->rank.up_ns) {
            back_ns = w->rank.up_ns;
        }
        proc->conn = link_open(w, old->proc, back_ns);
        struct conn *conn = &w->conns[proc->conn];
        move(&old->up, up_back, &conn->up);
        if (conn->up.count > 0) {
            link_hold_up(conn, pipe_at(&conn->up, conn->up.count - 1)->at_ns);
        }
        move(&old->down, 0, &conn->down);
        conn->down.stalled_until_ns = w->now_ns;
        conn->down.last_ns = back_ns;
    } else {
        lose(w, old->proc, &old->down, 0, down_kept);
    }
    lose(w, old->proc, &old->up, up_kept, up_back);
    old->up.count = up_kept;
    old->down.count = 0;
}

void link_stall(struct world *w, struct conn *conn, bool up, bool down, int64_t until_ns)
{
    if (up && conn->up.stalled_until_ns < until_ns) {
        conn->up.stalled_until_ns = until_ns;
    }
    if (down && conn->down.stalled_until_ns < until_ns) {
        conn->down.stalled_until_ns = until_ns;
        disturb(conn, until_ns);
    }
}

void link_cut_all(struct world *w, int64_t back_ns)
{
    for (uint32_t i = 0; i < w->conn_count; i++) {
        struct conn *conn = &w->conns[i];
        if (conn->peer == 0) {
            continue;
        }
        const bool present = !conn->cut && w->procs[conn->proc].alive;
        const uint32_t back = present ? (uint32_t)sim_below(w, conn->up.count + 1) : 0;
        lose(w, conn->proc, &conn->up, 0, conn->up.count - back);
        lose(w, conn->proc, &conn->down, 0, conn->down.count);
        conn->down.count = 0;
        if (present) { /* what had not left the process yet goes to the next life of the rank */
            const int64_t connected_ns = back_ns + sim_between(w, 0, 300 * SIM_MS);
            conn->peer = ++w->last_peer;
            conn->connected_ns = connected_ns;
            disturb(conn, connected_ns);
            conn->up.first = (conn->up.first + conn->up.count - back) % PIPE_MAX;
            conn->up.count = back;
            conn->up.stalled_until_ns = conn->down.stalled_until_ns = connected_ns;
        } else {
            conn->peer = 0;
            conn->up.count = 0;
        }
    }
}

bool link_old_pipe(const struct world *w, uint32_t proc)
{
    for (uint32_t i = 0; i < w->conn_count; i++) {
        const struct conn *conn = &w->conns[i];
        if (conn->peer != 0 && conn->cut && conn->proc == proc && conn->up.count > 0) {
            return true;
        }
    }
    return false;
}

static int64_t down_ns(const struct world *w, const struct conn *conn)
{
    const struct proc *proc = &w->procs[conn->proc];
    if (conn->cut || !proc->alive) {
        return NEVER;
    }
    const int64_t at_ns = head_ns(&conn->down);
    return at_ns > proc->frozen_until_ns ? at_ns : proc->frozen_until_ns;
}

static int64_t hint_ns(const struct conn *conn)
{
    return conn->cut && !conn->hinted ? conn->noticed_ns : NEVER;
}

int64_t link_next_ns(const struct world *w)
{
    int64_t next_ns = NEVER;
    for (uint32_t i = 0; i < w->conn_count; i++) {
        const struct conn *conn = &w->conns[i];
        if (conn->peer == 0) {
            continue;
        }
        next_ns = sim_earlier(next_ns, head_ns(&conn->up));
        if (conn->down.count > 0) {
            next_ns = sim_earlier(next_ns, down_ns(w, conn));
        }
        next_ns = sim_earlier(next_ns, hint_ns(conn));
    }
    return next_ns;
}

static void deliver_down(struct world *w, struct conn *conn)
{
    struct packet packet;
    pipe_pop(&conn->down, &packet);
    struct msg msg;
    struct err err;
    if (msg_decode(packet.bytes, packet.count, &msg, &err) != OK) {
        sim_fail(w, "a message to a producer cannot be read: %s", err.message);
        return;
    }
    producer_receive(w, conn->proc, &packet, &msg);
}

bool link_deliver(struct world *w)
{
    for (uint32_t i = 0; i < w->conn_count; i++) {
        struct conn *conn = &w->conns[i];
        if (conn->peer == 0) {
            continue;
        }
        if (hint_ns(conn) <= w->now_ns) {
            conn->hinted = true;
            if (sim_chance(w, 50)) {
                w->counts->hints++;
                rank_disconnected(w, conn->peer);
            }
            return true;
        }
        if (head_ns(&conn->up) <= w->now_ns) {
            struct packet packet;
            pipe_pop(&conn->up, &packet);
            w->counts->old_pipe_messages += conn->cut;
            rank_receive(w, conn, &packet);
            return true;
        }
        if (conn->down.count > 0 && down_ns(w, conn) <= w->now_ns) {
            deliver_down(w, conn);
            return true;
        }
    }
    return false;
}
