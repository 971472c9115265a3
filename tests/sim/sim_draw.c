/* SPDX-License-Identifier: Apache-2.0 */
/* How a world is drawn from its seed: who is there, what goes wrong, and how long it may take. */
#include <stdio.h>

#include "sim/sim_world.h"

/* From the end of the faults to the end of the run, at most: this, and twice the time that the
 * slowest producer would need alone. */
static const int64_t LIMIT_NS = 60 * SIM_S;

static void draw_stream(struct world *w, uint32_t stream, uint32_t parts, uint32_t slots,
                        uint64_t steps)
{
    struct sim_stream *s = &w->streams[stream];
    s->layout.part_count = parts;
    s->layout.part_bytes = SIM_PART_BYTES;
    s->layout.bytes = (uint64_t)parts * SIM_PART_BYTES - SIM_PART_BYTES / 2;
    s->slots = slots;
    s->data.samples = 1 + sim_below(w, 1000);
    s->data.digest = random_u64(&w->random);
    s->data.steps_per_epoch = steps;
    w->sched_options.streams[stream] = (struct sched_stream_options){
        .name = stream == 0 ? "train" : "eval", .layout = &s->layout, .slots = slots};
}

bool draw_is_calm(enum scenario scenario)
{
    return scenario == SLOW || scenario == SPEED || scenario == HEDGE || scenario == STARVE ||
           scenario == REST;
}

/* Worlds in which the time counts that it takes to make all steps. */
static bool is_timed(enum scenario scenario)
{
    return scenario == SPEED || scenario == REST;
}

static enum scenario draw_scenario(struct world *w)
{
    const uint64_t lot = sim_below(w, 100);
    return lot < 60   ? FAULTS
           : lot < 72 ? HUNG
           : lot < 84 ? LOOP
           : lot < 88 ? SLOW
           : lot < 91 ? SPEED
           : lot < 94 ? HEDGE
           : lot < 97 ? REST
                      : STARVE;
}

static void draw_options(struct world *w)
{
    struct sched_options *o = &w->sched_options;
    w->job = o->job = random_u64(&w->random);
    w->print = o->fingerprint = random_u64(&w->random);
    w->key = random_u64(&w->random);
    o->stream_count = w->stream_count;
    o->sessions_max = PROCS_MAX + 1;
    o->session_bytes_max = w->streams[0].layout.bytes * (1 + sim_below(w, 3)) + SIM_PART_BYTES;
    if (w->scenario == REST) {
        o->session_bytes_max = w->streams[0].layout.bytes;
    } else if (w->scenario == SPEED || w->scenario == HEDGE) {
        o->session_bytes_max = w->streams[0].layout.bytes * SLOTS_MAX;
    }
    const uint64_t eval_bytes = w->stream_count > 1 ? w->streams[1].layout.bytes : 0;
    o->session_bytes_max = eval_bytes > o->session_bytes_max ? eval_bytes : o->session_bytes_max;
    o->lease_min_ns = 500 * SIM_MS;
    o->ping_interval_ns = 250 * SIM_MS;
    o->peer_timeout_ns = 2 * SIM_S;
    o->starve_timeout_ns = w->scenario == STARVE ? 6 * SIM_S : 1000 * SIM_S;
    o->hedge = w->scenario == HEDGE || (!draw_is_calm(w->scenario) && sim_chance(w, 30));
    o->mutant = w->options->sched_mutant;
}

static void draw_places(struct world *w)
{
    w->place_count = 1 + (uint32_t)sim_below(w, 4);
    if (is_timed(w->scenario)) {
        w->place_count = 2;
    } else if (w->scenario != FAULTS && w->scenario != SLOW && w->place_count < 2) {
        w->place_count = 2;
    }
    for (uint32_t i = 0; i < PLACES_MAX; i++) {
        (void)snprintf(w->hosts[i], sizeof(w->hosts[i]), "algo-%u", 1 + i / 2);
        w->indices[i] = i % 2;
    }
    if (sim_chance(w, 50)) {
        w->sched_options.local_host = w->hosts[sim_below(w, w->place_count)];
    }
}

void draw_proc(struct world *w, uint32_t proc, uint32_t place)
{
    struct proc *p = &w->procs[proc];
    p->used = true;
    p->place = place;
    p->capacity_bytes = w->sched_options.session_bytes_max * (1 + sim_below(w, 2));
    p->sample_ns = sim_between(w, SIM_MS / 10, sim_chance(w, 40) ? 120 * SIM_MS : 10 * SIM_MS);
    p->samples_per_part = 1 + (uint32_t)sim_below(w, 4);
    if (sim_chance(w, 15)) { /* parts that take longer than a lease, but of many samples */
        p->sample_ns = sim_between(w, 40 * SIM_MS, 80 * SIM_MS);
        p->samples_per_part = 10 + (uint32_t)sim_below(w, 10);
    }
    p->any_order = sim_chance(w, 30);
    p->returns_while_hung = sim_chance(w, 50);
    p->exit_ns = NEVER;
    p->reindex_ns = NEVER;
    const bool late = !draw_is_calm(w->scenario) && proc > 0 && sim_chance(w, 20);
    p->start_ns = late ? sim_between(w, 0, 4 * SIM_S) : sim_between(w, 0, 20 * SIM_MS);
    w->counts->joins += late;
    if (w->scenario == SLOW) {
        p->sample_ns = sim_between(w, 550 * SIM_MS, 900 * SIM_MS);
        p->samples_per_part = 1 + (uint32_t)sim_below(w, 2);
    } else if (w->scenario == SPEED) {
        p->sample_ns = (proc == 0) == (w->options->seed % 2 == 0) ? 2 * SIM_MS : 100 * SIM_MS;
        p->samples_per_part = 2;
    } else if (w->scenario == HEDGE || w->scenario == REST) {
        p->sample_ns = 4 * SIM_MS;
        p->samples_per_part = 2;
    }
}

static void draw_special_procs(struct world *w)
{
    const uint32_t odd = (uint32_t)sim_below(w, w->place_count);
    if (w->scenario == HUNG) {
        w->procs[odd].hung_until_ns = NEVER;
    } else if (w->scenario == REST) {
        w->procs[odd].hung_until_ns = NEVER;
        w->procs[odd].returns_while_hung = true;
    } else if (w->scenario == LOOP) {
        w->procs[odd].loop = sim_chance(w, 70) ? LOOP_RESET : LOOP_CRASH;
    }
    if (w->sched_options.local_host != NULL && w->scenario == LOOP && sim_chance(w, 50)) {
        w->sched_options.local_host = w->hosts[w->procs[odd].place];
    }
}

static void draw_rank(struct world *w)
{
    struct rank *r = &w->rank;
    r->lag_ns = sim_chance(w, 50) ? 0 : sim_between(w, 0, 30 * SIM_MS);
    const bool late = sim_chance(w, 40) || draw_is_calm(w->scenario);
    w->counts->late_fixes += late;
    r->fix_ns = late ? sim_between(w, 100 * SIM_MS, 400 * SIM_MS) : 0;
    w->step_checkpoint = 1 + (uint32_t)sim_below(w, 4);
    w->trainer_step_ns = sim_chance(w, 50) ? SIM_S : 100 * SIM_MS;
    if (is_timed(w->scenario)) {
        w->trainer_step_ns = 0;
    }
}

void draw_limit(struct world *w)
{
    int64_t part_ns = 0;
    for (uint32_t i = 0; i < PROCS_MAX; i++) {
        const int64_t ns = w->procs[i].sample_ns * w->procs[i].samples_per_part;
        part_ns = ns > part_ns ? ns : part_ns;
    }
    const uint64_t parts = w->train_end * w->streams[0].layout.part_count;
    w->end_ns = w->quiet_ns + LIMIT_NS + 2 * (int64_t)parts * part_ns;
}

void draw_world(struct world *w)
{
    w->scenario = draw_scenario(w);
    w->stream_count = !is_timed(w->scenario) && sim_chance(w, 40) ? 2 : 1;
    const uint64_t steps = is_timed(w->scenario) ? 30 : 3 + sim_below(w, 4);
    const uint32_t slots =
        is_timed(w->scenario) || w->scenario == HEDGE ? 3 : 2 + (uint32_t)sim_below(w, 3);
    draw_stream(w, 0, 1 + (uint32_t)sim_below(w, SIM_PARTS_MAX), slots, steps);
    draw_stream(w, 1, 1 + (uint32_t)sim_below(w, 2), 1 + (uint32_t)sim_below(w, 3), 4);
    w->train_end = steps * (1 + sim_below(w, draw_is_calm(w->scenario) ? 2 : 4));
    w->eval_steps = 1 + sim_below(w, 4);
    draw_options(w);
    draw_places(w);
    for (uint32_t i = 0; i < w->place_count; i++) {
        draw_proc(w, i, i);
    }
    draw_special_procs(w);
    draw_rank(w);
    w->latency_ns = sim_between(w, SIM_MS / 20, 3 * SIM_MS);
    w->jitter_ns = sim_chance(w, 30) ? 50 * SIM_MS : SIM_MS;
    w->twice_hello = sim_chance(w, 50);
    w->quiet_ns = draw_is_calm(w->scenario) ? 0 : sim_between(w, SIM_S, 10 * SIM_S);
    draw_limit(w);
    w->fault_every_ns = sim_between(w, 5 * SIM_MS, 300 * SIM_MS);
    w->fault_ns = w->quiet_ns == 0 ? NEVER : sim_between(w, 0, SIM_S);
    w->fault_kinds = (uint32_t)random_u64(&w->random);
    if (sim_chance(w, 50)) {
        w->fault_kinds &= (uint32_t)random_u64(&w->random);
    }
    if (w->scenario == HEDGE || w->scenario == STARVE) {
        w->fault_ns = sim_between(w, 450 * SIM_MS, 600 * SIM_MS);
    }
    static const size_t WORLDS[] = {
        [FAULTS] = SIZE_MAX,
        [HUNG] = offsetof(struct sim_counts, worlds_hung),
        [LOOP] = offsetof(struct sim_counts, worlds_loop),
        [SLOW] = offsetof(struct sim_counts, worlds_slow),
        [SPEED] = offsetof(struct sim_counts, worlds_speed),
        [HEDGE] = offsetof(struct sim_counts, worlds_hedge),
        [STARVE] = offsetof(struct sim_counts, worlds_starve),
        [REST] = offsetof(struct sim_counts, worlds_rest),
    };
    w->counts->worlds++;
    if (WORLDS[w->scenario] != SIZE_MAX) {
        (*(uint64_t *)((uint8_t *)w->counts + WORLDS[w->scenario]))++;
    }
}
