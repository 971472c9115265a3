/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong, and when it stops. */
#include "sim/sim_world.h"

enum fault {
    FAULT_CUT,
    FAULT_CRASH,
    FAULT_POWER,
    FAULT_FREEZE,
    FAULT_HANG,
    FAULT_STALL,
    FAULT_CORRUPT,
    FAULT_GARBAGE,
    FAULT_NACK,
    FAULT_RESET,
    FAULT_TWIN,
    FAULT_LEAVE,
    FAULT_STRANGER,
    FAULT_SEND,
    FAULT_RANK,
    FAULT_TRAINER,
    FAULT_REOPEN,
    FAULTS_END,
};

static struct proc *living(struct world *w)
{
    for (uint32_t tries = 0; tries < 8; tries++) {
        struct proc *p = &w->procs[sim_below(w, PROCS_MAX)];
        if (p->used && p->alive && p->exit_ns == NEVER) {
            return p;
        }
    }
    return NULL;
}

static struct proc *unused(struct world *w)
{
    for (uint32_t i = w->place_count; i < PROCS_MAX; i++) {
        if (!w->procs[i].used) {
            return &w->procs[i];
        }
    }
    return NULL;
}

static void add_twin(struct world *w)
{
    struct proc *first = living(w);
    struct proc *twin = unused(w);
    if (first == NULL || twin == NULL) {
        return;
    }
    draw_proc(w, (uint32_t)(twin - w->procs), first->place);
    twin->twin = true;
    twin->start_ns = w->now_ns;
    w->counts->twins++;
}

static void add_stranger(struct world *w)
{
    struct proc *p = unused(w);
    if (p == NULL || w->place_count == PLACES_MAX) {
        return;
    }
    draw_proc(w, (uint32_t)(p - w->procs), PLACES_MAX - 1);
    p->start_ns = w->now_ns;
    p->kind = (enum proc_kind)(1 + sim_below(w, 3));
    p->reindex_ns = w->now_ns + sim_between(w, 0, 5 * SIM_S);
    w->counts->strangers++;
}

static void stop(struct world *w, struct proc *p, bool power)
{
    const bool old = link_old_pipe(w, (uint32_t)(p - w->procs));
    if (old) {
        return;
    }
    const uint32_t conn = p->conn;
    producer_stop(w, (uint32_t)(p - w->procs));
    p->start_ns = w->now_ns + sim_between(w, 10 * SIM_MS, 3 * SIM_S);
    w->counts->crashes++;
    if (power) {
        w->conns[conn].noticed_ns = NEVER;
        w->counts->power_losses++;
    }
}

static void stall(struct world *w, struct proc *p)
{
    const uint64_t side = sim_below(w, 3);
    const int64_t longest_ns = sim_chance(w, 30) ? 5 * SIM_S : SIM_S;
    const int64_t until_ns = w->now_ns + sim_between(w, 0, longest_ns);
    link_stall(w, &w->conns[p->conn], side != 1, side != 2, until_ns);
    sim_trace(w, "%s%sstalled until %.3f ms", side != 1 ? "up " : "", side != 2 ? "down " : "",
              (double)until_ns / 1e6);
    w->counts->stalls++;
}

/* The producer drops its session by itself; perhaps the connection breaks just when it says so. */
static void reset(struct world *w, struct proc *p)
{
    if (p->session == 0) {
        return;
    }
    producer_begin_anew(w, p);
    w->counts->resets++;
    if (sim_chance(w, 60) || link_old_pipe(w, (uint32_t)(p - w->procs))) {
        return;
    }
    producer_hello(w, p);
    link_stall(w, &w->conns[p->conn], true, false, w->now_ns + sim_between(w, 0, SIM_S));
    link_cut(w, p, true);
    w->counts->cuts++;
    if (sim_chance(w, 50)) {
        producer_begin_anew(w, p);
    }
}

static void rank_fault(struct world *w)
{
    if (!w->rank.up || w->rank.finishing) {
        return;
    }
    rank_stop(w);
    w->rank.up_ns = w->now_ns + sim_between(w, 10 * SIM_MS, 3 * SIM_S);
    w->rank.fix_ns = w->rank.up_ns + sim_between(w, 0, 300 * SIM_MS);
    link_cut_all(w, w->rank.up_ns);
    w->counts->rank_restarts++;
}

static void proc_fault(struct world *w, enum fault kind, struct proc *p)
{
    sim_trace(w, "fault %d at proc %u", kind, (uint32_t)(p - w->procs));
    switch (kind) {
    case FAULT_CUT:
        if (!link_old_pipe(w, (uint32_t)(p - w->procs))) {
            link_cut(w, p, true);
            w->counts->cuts++;
        }
        return;
    case FAULT_CRASH:
    case FAULT_POWER:
        stop(w, p, kind == FAULT_POWER);
        return;
    case FAULT_FREEZE:
        p->frozen_until_ns = w->now_ns + sim_between(w, 0, 4 * SIM_S);
        link_stall(w, &w->conns[p->conn], false, true, p->frozen_until_ns);
        w->counts->freezes++;
        return;
    case FAULT_HANG:
        if (p->hung_until_ns == 0) {
            p->hung_until_ns = w->now_ns + sim_between(w, SIM_MS, 4 * SIM_S);
            p->work.active = false;
            w->counts->hangs++;
        }
        return;
    case FAULT_STALL:
        stall(w, p);
        return;
    case FAULT_CORRUPT:
        p->corrupt_next = true;
        return;
    case FAULT_GARBAGE:
        p->garbage_next = true;
        return;
    case FAULT_NACK:
        p->nack_next = true;
        return;
    case FAULT_RESET:
        reset(w, p);
        return;
    case FAULT_LEAVE:
        if (p->session != 0 && !p->leaving) {
            producer_leave(w, p);
        }
        return;
    default:
        CHECK(false);
    }
}

static void world_fault(struct world *w, enum fault kind)
{
    sim_trace(w, "fault %d", kind);
    switch (kind) {
    case FAULT_TWIN:
        add_twin(w);
        return;
    case FAULT_STRANGER:
        add_stranger(w);
        return;
    case FAULT_SEND:
        w->rank.fail_sends = 1 + (uint32_t)sim_below(w, 3);
        return;
    case FAULT_RANK:
        rank_fault(w);
        return;
    case FAULT_TRAINER:
        if (w->rank.lent) {
            w->rank.trainer_ns = w->now_ns + sim_between(w, 0, 3 * SIM_S);
            w->counts->trainer_stalls++;
        }
        return;
    case FAULT_REOPEN:
        if (w->rank.up) {
            rank_reopen_eval(w);
        }
        return;
    default: {
        struct proc *p = living(w);
        if (p != NULL) {
            proc_fault(w, kind, p);
        }
    }
    }
}

/* All producers die or hang, and for ever. */
static void starve(struct world *w)
{
    for (uint32_t i = 0; i < PROCS_MAX; i++) {
        struct proc *p = &w->procs[i];
        if (p->used && p->alive && sim_chance(w, 50)) {
            producer_stop(w, i);
        }
        p->start_ns = p->alive ? p->start_ns : NEVER;
        p->hung_until_ns = NEVER;
        p->work.active = false;
    }
}

/* One producer that has work hangs for ever. */
static void hang_one(struct world *w)
{
    for (uint32_t i = 0; i < w->place_count; i++) {
        struct proc *p = &w->procs[i];
        if (p->task_count > 0 && w->rank.at.train >= 2 && w->rank.at.train + 4 < w->train_end) {
            p->hung_until_ns = NEVER;
            p->work.active = false;
            w->hung_with_work = true;
            w->fault_ns = NEVER;
            return;
        }
    }
}

void fault_next(struct world *w)
{
    w->fault_ns = w->now_ns + sim_between(w, 0, 2 * w->fault_every_ns);
    if (w->scenario == STARVE) {
        starve(w);
        w->fault_ns = NEVER;
        return;
    }
    if (w->scenario == HEDGE) {
        w->fault_ns = w->now_ns + SIM_MS;
        hang_one(w);
        return;
    }
    if (w->now_ns >= w->quiet_ns) {
        w->fault_ns = NEVER;
        return;
    }
    const enum fault kind = (enum fault)sim_below(w, FAULTS_END);
    if (w->fault_kinds >> kind & 1) {
        world_fault(w, kind);
    }
}

void fault_calm(struct world *w)
{
    w->calmed = true;
    if (!w->rank.finishing) {
        draw_limit(w); /* others may have joined */
    }
    w->fault_ns = draw_is_calm(w->scenario) ? w->fault_ns : NEVER;
    w->rank.fail_sends = 0;
    w->rank.filling = !w->rank.finishing && sim_chance(w, 50);
    for (uint32_t i = 0; i < PROCS_MAX; i++) {
        struct proc *p = &w->procs[i];
        p->corrupt_next = p->garbage_next = false;
        /* One may fail for ever, and then everybody else has failed once. */
        p->nack_next = w->scenario == LOOP && p->loop == LOOP_NONE;
        if (p->used && !p->alive && !w->rank.finishing) {
            p->start_ns = sim_earlier(p->start_ns, w->now_ns + SIM_S);
        }
    }
}
