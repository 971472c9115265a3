/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer process, as DESIGN.md section 9 wants it: HELLO until answered, with a new attempt
 * number each time it drops its session; PING every 250 ms and PONG with what it has finished; work
 * by `due`, one sample at a time; parts go out as they are done; a CANCEL is answered by RETURN.
 * It may hang (no work, but the control thread answers) or freeze (nothing at all).
 */
#include <string.h>

#include "sim/sim_world.h"

static const int64_t HELLO_EVERY_NS = SIM_S;
static const int64_t PING_EVERY_NS = 250 * SIM_MS;

static uint32_t index_of(const struct world *w, const struct proc *p)
{
    return (uint32_t)(p - w->procs);
}

static bool is_hung(const struct world *w, const struct proc *p)
{
    return p->hung_until_ns > w->now_ns;
}

static uint64_t mask_bytes(const struct world *w, uint32_t stream, uint32_t mask)
{
    uint64_t bytes = 0;
    for (uint32_t part = 0; part < SIM_PARTS_MAX; part++) {
        if (mask >> part & 1) {
            bytes += layout_part_length(&w->streams[stream].layout, part);
        }
    }
    return bytes;
}

uint64_t producer_held_bytes(const struct world *w, const struct proc *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->task_count; i++) {
        bytes += mask_bytes(w, p->tasks[i].stream, p->tasks[i].mask);
    }
    return bytes;
}

static bool send(struct world *w, struct proc *p, const struct msg *msg, uint64_t weight)
{
    const bool garbage = p->garbage_next && msg->type != MSG_HELLO;
    if (!link_send_up(w, p, msg, weight, 0, garbage)) {
        return false;
    }
    if (garbage) {
        p->garbage_next = false;
        w->counts->garbage++;
        sim_trace(w, "proc %u: %s is garbled", index_of(w, p), msg_type_name(msg->type));
    }
    return true;
}

static void work_next(struct world *w, struct proc *p)
{
    const bool busy = p->work.active;
    p->work.active = false;
    if (is_hung(w, p)) {
        return;
    }
    const struct task *best = NULL;
    for (uint32_t i = 0; i < p->task_count; i++) {
        const struct task *t = &p->tasks[i];
        if (!t->cancelled && (best == NULL || t->due < best->due)) {
            best = t;
        }
    }
    if (best == NULL) {
        return;
    }
    uint32_t part = 0;
    while (!(best->mask >> part & 1)) {
        part++;
    }
    if (p->any_order) {
        const uint32_t other = (uint32_t)sim_below(w, SIM_PARTS_MAX);
        part = best->mask >> other & 1 ? other : part;
    }
    p->work.active = true;
    p->busy_ns = busy ? p->busy_ns : w->now_ns;
    p->work.lease = best->lease;
    p->work.part = part;
    p->work.samples_left = p->samples_per_part;
    p->work.begun_ns = w->now_ns;
    p->work.done_ns = w->now_ns + p->sample_ns;
}

static void task_remove(struct world *w, struct proc *p, struct task *task)
{
    *task = p->tasks[--p->task_count];
    if (p->work.active) {
        bool there = false;
        for (uint32_t i = 0; i < p->task_count; i++) {
            there = there || p->tasks[i].lease == p->work.lease;
        }
        if (!there) {
            work_next(w, p);
        }
    }
}

static struct task *task_find(struct proc *p, uint32_t lease)
{
    for (uint32_t i = 0; i < p->task_count; i++) {
        if (p->tasks[i].lease == lease) {
            return &p->tasks[i];
        }
    }
    return NULL;
}

void producer_drop(struct world *w, struct proc *p)
{
    if (p->session != 0) {
        const uint64_t held = producer_held_bytes(w, p);
        check_real(w, p->session, -(int64_t)held);
        p->mem_bytes -= held;
        struct ghost_session *s = check_session(w, p->session);
        s->tainted = true;
    }
    p->session = 0;
    p->task_count = 0;
    p->work.active = false;
    p->samples_done = 0;
}

void producer_begin_anew(struct world *w, struct proc *p)
{
    producer_drop(w, p);
    p->leaving = false;
    if (!sim_lacks(w, SIM_MUTANT_SAME_ATTEMPT)) {
        p->attempt++;
    }
    p->hello_sent = false;
    p->hello_ns = w->now_ns;
    sim_trace(w, "proc %u: begins anew, attempt %u", index_of(w, p), p->attempt);
}

void producer_start(struct world *w, uint32_t proc)
{
    struct proc *p = &w->procs[proc];
    p->alive = true;
    p->leaving = false;
    p->instance = random_u64(&w->random);
    p->attempt = 1;
    p->session = 0;
    p->task_count = 0;
    p->work.active = false;
    p->samples_done = 0;
    p->hello_sent = false;
    p->hello_ns = w->now_ns;
    p->exit_ns = NEVER;
    p->start_ns = NEVER;
    p->frozen_until_ns = 0;
    p->corrupt_next = p->garbage_next = p->nack_next = false;
    if (p->hung_until_ns != NEVER) {
        p->hung_until_ns = 0;
    }
    const int64_t up_ns = w->rank.up ? w->now_ns : w->rank.up_ns;
    p->conn = link_open(w, proc, up_ns + sim_between(w, SIM_MS, 50 * SIM_MS));
    sim_trace(w, "proc %u: starts at %s/%u", proc, w->hosts[p->place], w->indices[p->place]);
}

void producer_stop(struct world *w, uint32_t proc)
{
    struct proc *p = &w->procs[proc];
    producer_drop(w, p);
    p->alive = false;
    link_cut(w, p, false);
    sim_trace(w, "proc %u: is gone", proc);
}

void producer_hello(struct world *w, struct proc *p)
{
    struct msg msg = {.type = MSG_HELLO};
    struct msg_hello *h = &msg.hello;
    h->job = p->kind == OTHER_JOB ? w->job + 1 : w->job;
    h->fingerprint = p->kind == OTHER_PRINT ? w->print + 1 : w->print;
    memcpy(h->host, w->hosts[p->place], sizeof(w->hosts[p->place]));
    h->index = w->indices[p->place];
    h->instance = p->instance;
    h->attempt = p->attempt;
    h->capacity_bytes = p->capacity_bytes;
    h->stream_count = w->stream_count;
    for (uint32_t i = 0; i < w->stream_count; i++) {
        h->streams[i].samples = w->streams[i].data.samples;
        h->streams[i].digest = w->streams[i].data.digest;
    }
    if (p->kind == OTHER_DATA) {
        h->streams[0].digest++;
    }
    for (uint32_t i = 0; i < w->stream_count; i++) {
        h->streams[i].buckets[0] = (uint32_t)h->streams[i].digest;
    }
    (void)send(w, p, &msg, 0);
    p->hello_sent = true;
}

static void give_back(struct world *w, struct proc *p, struct task *task)
{
    const uint64_t bytes = mask_bytes(w, task->stream, task->mask);
    const struct msg msg = {.type = MSG_RETURN, .session = p->session, .lease.lease = task->lease};
    if (send(w, p, &msg, bytes)) {
        p->mem_bytes -= bytes;
        w->counts->returns++;
        task_remove(w, p, task);
    }
}

static void refuse(struct world *w, struct proc *p, struct task *task)
{
    const uint64_t bytes = mask_bytes(w, task->stream, task->mask);
    struct msg msg = {.type = MSG_NACK, .session = p->session};
    msg.nack.lease = task->lease;
    msg.nack.code = sim_chance(w, 50) ? NACK_IO : NACK_RESOURCE;
    memcpy(msg.nack.text, "disk", sizeof("disk"));
    if (send(w, p, &msg, bytes)) {
        p->mem_bytes -= bytes;
        p->nack_next = false;
        w->counts->nacks++;
        task_remove(w, p, task);
    }
}

static void loop(struct world *w, struct proc *p)
{
    const uint32_t proc = index_of(w, p);
    if (p->loop == LOOP_CRASH) {
        producer_stop(w, proc);
        w->conns[p->conn].noticed_ns = w->now_ns;
        p->start_ns = w->now_ns + 10 * SIM_MS;
        return;
    }
    struct conn *old = &w->conns[p->conn];
    link_cut(w, p, true);
    old->noticed_ns = w->now_ns + SIM_S; /* its HELLO is there before */
    w->conns[p->conn].connected_ns = w->now_ns + 10 * SIM_MS;
    w->conns[p->conn].up.stalled_until_ns = w->now_ns + 10 * SIM_MS;
    producer_begin_anew(w, p);
}

static void on_grant(struct world *w, struct proc *p, const struct packet *packet,
                     const struct msg *msg)
{
    const struct msg_grant *g = &msg->grant;
    if (msg->session != p->session) {
        check_real(w, msg->session, -(int64_t)packet->weight);
        return;
    }
    CHECK(p->task_count < TASKS_MAX);
    const uint64_t steps = w->streams[g->stream].data.steps_per_epoch;
    p->tasks[p->task_count++] = (struct task){
        .lease = g->lease,
        .stream = g->stream,
        .due = g->due,
        .gstep = g->epoch * steps + g->step,
        .mask = ((1U << g->part_count) - 1) << g->first_part,
    };
    p->mem_bytes += packet->weight;
    if (producer_held_bytes(w, p) > p->credit_bytes) {
        sim_fail(w, "proc %u holds %" PRIu64 " bytes, more than its %" PRIu64, index_of(w, p),
                 producer_held_bytes(w, p), p->credit_bytes);
        return;
    }
    struct task *task = &p->tasks[p->task_count - 1];
    if (p->leaving) {
        give_back(w, p, task);
    } else if (p->nack_next) {
        refuse(w, p, task);
    } else if (p->loop != LOOP_NONE) {
        loop(w, p);
    } else if (!p->work.active) {
        work_next(w, p);
    }
}

static void on_cancel(struct world *w, struct proc *p, uint32_t lease)
{
    struct task *task = task_find(p, lease);
    if (task == NULL) {
        return;
    }
    if (p->work.active && p->work.lease == lease) {
        p->work.active = false;
    }
    task->cancelled = true;
    if (!is_hung(w, p) || p->returns_while_hung) {
        give_back(w, p, task);
    }
    if (!p->work.active) {
        work_next(w, p);
    }
}

static void on_welcome(struct world *w, struct proc *p, const struct msg *msg)
{
    const uint64_t session = msg->session;
    const bool present = msg->welcome.attempt == p->attempt;
    if (session == p->session || (!present && !sim_lacks(w, SIM_MUTANT_WELCOME_OF_ANY))) {
        return;
    }
    if (p->session != 0 && sim_lacks(w, SIM_MUTANT_WELCOME_KEEPS_WORK)) {
        p->session = session;
        return;
    }
    if (check_session(w, session)->tainted) {
        sim_fail(w, "a producer goes back to a session that it has dropped");
        return;
    }
    producer_drop(w, p);
    p->session = session;
    p->welcome_ns = w->now_ns;
    p->credit_bytes = msg->welcome.credit_bytes;
    p->ping_ns = w->now_ns;
    sim_trace(w, "proc %u: session %" PRIx64, index_of(w, p), session);
}

static void on_reject(struct world *w, struct proc *p, const struct msg *msg)
{
    w->counts->rejects++;
    const struct msg_reject *r = &msg->reject;
    w->counts->duplicates_refused += r->code == REJECT_DUPLICATE;
    if (r->bucket_count > 0 && r->buckets[0] != (uint32_t)w->streams[r->stream].data.digest) {
        sim_fail(w, "a REJECT has the buckets of another data set than the rank wants");
    }
    const bool mine = r->refused != 0 && r->refused == p->session;
    const bool any = r->refused != 0 && p->session != 0 && sim_lacks(w, SIM_MUTANT_REJECT_OF_ANY);
    if ((mine && !sim_lacks(w, SIM_MUTANT_REJECT_IGNORED)) || any) {
        check_reject_drop(w, p);
        producer_begin_anew(w, p);
    }
}

static void on_ping(struct world *w, struct proc *p, const struct msg *msg)
{
    struct msg pong = {.type = MSG_PONG, .session = p->session};
    pong.ping.seq = msg->ping.seq;
    if (!sim_lacks(w, SIM_MUTANT_PRODUCER_NO_PONG)) {
        pong.ping.samples_done = p->samples_done;
        pong.ping.oldest_age_ns = p->work.active ? (uint64_t)(w->now_ns - p->work.begun_ns) : 0;
    }
    (void)send(w, p, &pong, 0);
}

static void exit_with_bye(struct world *w, struct proc *p)
{
    const struct msg bye = {.type = MSG_BYE, .session = p->session};
    (void)send(w, p, &bye, 0);
    producer_drop(w, p);
    p->exit_ns = w->now_ns + 100 * SIM_MS; /* linger */
    p->hello_ns = NEVER;
}

void producer_receive(struct world *w, uint32_t proc, const struct packet *packet,
                      const struct msg *msg)
{
    struct proc *p = &w->procs[proc];
    p->heard_ns = w->now_ns;
    if (p->exit_ns != NEVER) {
        if (msg->type == MSG_GRANT) {
            check_real(w, msg->session, -(int64_t)packet->weight);
        }
        return;
    }
    switch (msg->type) {
    case MSG_WELCOME:
        on_welcome(w, p, msg);
        return;
    case MSG_REJECT:
        on_reject(w, p, msg);
        return;
    case MSG_GRANT:
        on_grant(w, p, packet, msg);
        return;
    default:
        break;
    }
    if (msg->session != p->session) {
        return;
    }
    if (msg->type == MSG_CANCEL) {
        on_cancel(w, p, msg->lease.lease);
    } else if (msg->type == MSG_PING) {
        on_ping(w, p, msg);
    } else if (msg->type == MSG_DONE) {
        exit_with_bye(w, p);
    }
}

void producer_leave(struct world *w, struct proc *p)
{
    const struct msg msg = {.type = MSG_LEAVE, .session = p->session};
    if (send(w, p, &msg, 0)) {
        p->leaving = true;
        w->counts->leaves++;
    }
}

static void send_part(struct world *w, struct proc *p, struct task *task, uint32_t part)
{
    const struct sim_stream *s = &w->streams[task->stream];
    const uint64_t key = p->kind == NORMAL ? w->key : w->key + 1;
    const uint64_t value = sim_part_value(key, task->stream, task->gstep, part);
    struct msg msg = {.type = MSG_DATA, .session = p->session};
    msg.data = (struct msg_data){
        .lease = task->lease,
        .stream = task->stream,
        .epoch = (uint32_t)(task->gstep / s->data.steps_per_epoch),
        .step = task->gstep % s->data.steps_per_epoch,
        .part = part,
        .part_count = s->layout.part_count,
        .offset = layout_part_offset(&s->layout, part),
        .length = layout_part_length(&s->layout, part),
        .sum_low = value,
        .last = task->mask == 1U << part,
    };
    const bool corrupt = p->corrupt_next;
    const bool garbage = p->garbage_next && !corrupt;
    if (!link_send_up(w, p, &msg, msg.data.length, corrupt ? ~value : value, garbage)) {
        p->work.done_ns = w->now_ns + 20 * SIM_MS; /* no room: again soon */
        p->work.samples_left = 1;
        return;
    }
    w->counts->corruptions += corrupt;
    w->counts->garbage += garbage;
    p->corrupt_next = false;
    p->garbage_next = garbage ? false : p->garbage_next;
    sim_trace(w, "proc %u: part %u of step %u:%" PRIu64 " for lease %u%s%s", index_of(w, p), part,
              task->stream, task->gstep, task->lease, corrupt ? ", corrupted" : "",
              garbage ? ", garbled" : "");
    task->mask &= ~(1U << part);
    if (task->mask == 0) {
        *task = p->tasks[--p->task_count];
    }
    work_next(w, p);
}

static void work_tick(struct world *w, struct proc *p)
{
    p->work.samples_left--;
    p->work.begun_ns = w->now_ns;
    p->work.done_ns = w->now_ns + p->sample_ns;
    if (p->work.samples_left > 0) {
        p->samples_done++;
        return;
    }
    struct task *task = task_find(p, p->work.lease);
    CHECK(task != NULL);
    p->samples_done++;
    send_part(w, p, task, p->work.part);
}

/* Back from a hang: what was cancelled meanwhile is given back. */
static void resume(struct world *w, struct proc *p)
{
    p->hung_until_ns = 0;
    for (uint32_t i = p->task_count; i-- > 0;) {
        if (p->tasks[i].cancelled) {
            give_back(w, p, &p->tasks[i]);
        }
    }
    work_next(w, p);
}

int64_t producer_next_ns(const struct world *w, const struct proc *p)
{
    if (!p->used) {
        return NEVER;
    }
    if (!p->alive) {
        return p->start_ns;
    }
    int64_t next_ns = p->exit_ns;
    if (p->exit_ns == NEVER) {
        next_ns = sim_earlier(next_ns, p->session == 0 ? p->hello_ns : p->ping_ns);
        if (p->session != 0) {
            next_ns = sim_earlier(next_ns, p->heard_ns + w->sched_options.peer_timeout_ns);
        }
        if (p->work.active && !is_hung(w, p)) {
            next_ns = sim_earlier(next_ns, p->work.done_ns);
        }
        if (p->hung_until_ns != 0 && p->hung_until_ns != NEVER) {
            next_ns = sim_earlier(next_ns, p->hung_until_ns);
        }
        if (p->kind == OTHER_DATA) {
            next_ns = sim_earlier(next_ns, p->reindex_ns);
        }
    }
    return next_ns > p->frozen_until_ns ? next_ns : p->frozen_until_ns;
}

static void session_tick(struct world *w, struct proc *p)
{
    if (w->now_ns - p->heard_ns >= w->sched_options.peer_timeout_ns) {
        check_silence_drop(w, p);
        producer_begin_anew(w, p);
        return;
    }
    if (w->now_ns >= p->ping_ns) {
        p->ping_ns = w->now_ns + PING_EVERY_NS;
        const struct msg ping = {.type = MSG_PING, .session = p->session};
        if (!sim_lacks(w, SIM_MUTANT_PRODUCER_NO_PING)) {
            (void)send(w, p, &ping, 0);
        }
    }
    if (p->leaving && p->task_count == 0) {
        exit_with_bye(w, p);
    }
}

static void hello_tick(struct world *w, struct proc *p)
{
    if (w->now_ns < p->hello_ns) {
        return;
    }
    if (!p->hello_sent || !sim_lacks(w, SIM_MUTANT_HELLO_ONCE)) {
        w->counts->hello_repeats += p->hello_sent;
        producer_hello(w, p);
        if (w->twice_hello && sim_chance(w, 30)) {
            if (sim_chance(w, 30) && w->now_ns < w->quiet_ns) { /* the second one is held up */
                link_hold_up(&w->conns[p->conn], w->now_ns + sim_between(w, 0, 2 * SIM_S));
            }
            w->counts->hello_repeats++;
            producer_hello(w, p);
        }
    }
    p->hello_ns = w->now_ns + HELLO_EVERY_NS;
}

void producer_tick(struct world *w, uint32_t proc)
{
    struct proc *p = &w->procs[proc];
    if (!p->alive) {
        producer_start(w, proc);
        return;
    }
    if (w->now_ns >= p->exit_ns) {
        producer_stop(w, proc);
        p->start_ns = w->rank.finishing ? NEVER : w->now_ns + sim_between(w, SIM_MS, 3 * SIM_S);
        return;
    }
    if (p->exit_ns != NEVER) {
        return;
    }
    if (p->kind == OTHER_DATA && w->now_ns >= p->reindex_ns) {
        p->kind = NORMAL;
        p->reindex_ns = NEVER;
        if (p->session != 0) {
            producer_begin_anew(w, p);
        }
    }
    if (p->hung_until_ns != 0 && !is_hung(w, p)) {
        resume(w, p);
    }
    if (p->work.active && !is_hung(w, p) && w->now_ns >= p->work.done_ns) {
        work_tick(w, p);
    }
    if (p->session != 0) {
        check_dead_session(w, p);
        session_tick(w, p);
    } else {
        hello_tick(w, p);
    }
}
