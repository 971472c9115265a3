/* SPDX-License-Identifier: Apache-2.0 */
/* A world: its event loop and how it has to end; and what all of the simulator uses. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_world.h"

void sim_fail(struct world *w, const char *format, ...)
{
    if (w->failed) {
        return;
    }
    w->failed = true;
    const int used = snprintf(w->text, SIM_TEXT_BYTES, "at %.3f ms: ", (double)w->now_ns / 1e6);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(w->text + used, SIM_TEXT_BYTES - (size_t)used, format, args);
    va_end(args);
}

void sim_trace(const struct world *w, const char *format, ...)
{
    if (!w->options->trace) {
        return;
    }
    printf("%12.3f ms  ", (double)w->now_ns / 1e6);
    va_list args;
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    printf("\n");
}

uint64_t sim_below(struct world *w, uint64_t n)
{
    CHECK(n > 0);
    return random_u64(&w->random) % n;
}

bool sim_chance(struct world *w, uint32_t percent)
{
    return sim_below(w, 100) < percent;
}

int64_t sim_between(struct world *w, int64_t min_ns, int64_t max_ns)
{
    return min_ns + (int64_t)sim_below(w, (uint64_t)(max_ns - min_ns) + 1);
}

bool sim_lacks(const struct world *w, enum sim_mutant rule)
{
    return w->options->sim_mutant == (uint32_t)rule;
}

int64_t sim_earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

uint64_t sim_part_value(uint64_t key, uint32_t stream, uint64_t gstep, uint32_t part)
{
    struct random_state state = {key ^ (gstep << 16 | stream << 8 | part)};
    return random_u64(&state);
}

uint64_t sim_range_bytes(const struct world *w, uint32_t stream, uint32_t first, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t part = first; part < first + count; part++) {
        bytes += layout_part_length(&w->streams[stream].layout, part);
    }
    return bytes;
}

static int64_t next_ns(const struct world *w)
{
    int64_t next = sim_earlier(link_next_ns(w), rank_next_ns(w));
    next = sim_earlier(next, w->fault_ns);
    if (!w->calmed) {
        next = sim_earlier(next, w->quiet_ns);
    }
    for (uint32_t i = 0; i < PROCS_MAX; i++) {
        next = sim_earlier(next, producer_next_ns(w, &w->procs[i]));
    }
    return next;
}

/* One thing that is due now; false: nothing is. */
static bool one_event(struct world *w)
{
    if (link_deliver(w)) {
        return true;
    }
    if (rank_next_ns(w) <= w->now_ns) {
        rank_tick(w);
        return true;
    }
    for (uint32_t i = 0; i < PROCS_MAX; i++) {
        if (producer_next_ns(w, &w->procs[i]) <= w->now_ns) {
            producer_tick(w, i);
            return true;
        }
    }
    if (w->fault_ns <= w->now_ns) {
        fault_next(w);
        return true;
    }
    if (!w->calmed && w->quiet_ns <= w->now_ns) {
        fault_calm(w);
        return true;
    }
    return false;
}

static void run(struct world *w)
{
    uint32_t at_once = 0;
    while (!w->failed && !rank_is_done(w)) {
        if (one_event(w)) {
            if (++at_once > 100000) {
                sim_fail(w, "the world stands still");
            }
            continue;
        }
        at_once = 0;
        w->now_ns = next_ns(w);
        if (w->now_ns > w->end_ns) {
            sim_fail(w,
                     w->rank.finishing ? "nobody says BYE in time"
                                       : "step %" PRIu64 " of %" PRIu64 " is not consumed in time",
                     w->rank.at.train, w->train_end);
        }
    }
}

static void check_scenario(struct world *w, const struct sched_stats *stats)
{
    const struct proc *slow = &w->procs[0];
    const int64_t batch_ns =
        (int64_t)w->streams[0].layout.part_count * slow->samples_per_part * 100 * SIM_MS;
    if (w->scenario == SPEED && w->now_ns - w->rank.fix_ns > 4 * batch_ns + 3 * SIM_S) {
        sim_fail(w, "a slow producer held up a fast one: %" PRId64 " ms",
                 (w->now_ns - w->rank.fix_ns) / SIM_MS);
    }
    if (w->scenario == REST && w->now_ns - w->rank.fix_ns > 8 * SIM_S) {
        sim_fail(w, "a producer that hangs for ever held up the others: %" PRId64 " ms",
                 (w->now_ns - w->rank.fix_ns) / SIM_MS);
    }
    if (w->scenario == SLOW && stats->expiries > 12 * (uint64_t)w->place_count) {
        sim_fail(w, "%" PRIu64 " leases of producers that are only slow expired", stats->expiries);
    }
    if (w->scenario == HEDGE && w->hung_with_work && stats->hedges == 0) {
        sim_fail(w, "a late step got no second lease early");
    }
    if (w->scenario == STARVE && !w->rank.failed_as_expected && !w->rank.finishing) {
        sim_fail(w, "the job starved and did not fail");
    }
}

bool sim_run(const struct sim_options *options, struct sim_counts *counts,
             char text[SIM_TEXT_BYTES])
{
    static struct world world; /* worlds come one after another: their memory is used again */
    static struct conn conns[CONNS_MAX];
    static struct ghost_session sessions[SESSIONS_EVER_MAX];
    struct world *w = &world;
    memset(w, 0, sizeof(*w));
    w->conns = conns;
    w->sessions = sessions;
    w->options = options;
    w->counts = counts;
    w->text = text;
    w->random.state = options->seed * UINT64_C(0x9E3779B97F4A7C15);
    draw_world(w);
    rank_start(w);
    run(w);
    if (w->rank.up) {
        struct sched_stats stats;
        sched_stats(w->rank.sched, &stats);
        rank_add_stats(w);
        if (!w->failed) {
            check_scenario(w, &stats);
        }
    }
    free(w->rank.memory);
    return !w->failed;
}
