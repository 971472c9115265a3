/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets what: the step that is needed first goes to the producer that would finish it first.
 * Producers that failed and have not written a part since come last, the oldest failure first: were
 * the newest first, or forgotten with the session, one that crashes for ever could be chosen for
 * ever.
 */
#include <inttypes.h>

#include "consumer/sched_internal.h"

/* A producer of this very host counts as so much faster. */
static const double LOCAL_ADVANTAGE = 7.0 / 8.0;

static bool holds(const struct sched *sched, const struct sched_step *step, uint32_t session)
{
    for (uint32_t i = 0; i < step->live_count; i++) {
        if (step->live[i].session == session) {
            return true;
        }
    }
    return false;
}

bool sched_choose_someone_does_well(const struct sched *sched)
{
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        const struct sched_session *s = &sched->sessions[i];
        if (sched->ids[i] != 0 && !s->leaving && sched->producers[s->producer].failure == 0) {
            return true;
        }
    }
    return false;
}

/* A producer that fails again and again is asked ever more rarely, while others do well: each try
 * holds up a step for a lease time. */
static bool is_resting(const struct sched *sched, const struct sched_session *session)
{
    return sched->now_ns < sched->producers[session->producer].rest_ns &&
           sched_choose_someone_does_well(sched) && !sched_lacks(sched, SCHED_MUTANT_NO_REST);
}

static bool can_take(const struct sched *sched, const struct sched_step *step, uint32_t index,
                     uint64_t bytes)
{
    const struct sched_session *session = &sched->sessions[index];
    if (sched->ids[index] == 0 || sched->now_ns < session->paused_ns ||
        is_resting(sched, session)) {
        return false;
    }
    if (session->leaving && !sched_lacks(sched, SCHED_MUTANT_LEAVE_IGNORED)) {
        return false;
    }
    if (session->in_flight_bytes + bytes > session->bytes_max &&
        !sched_lacks(sched, SCHED_MUTANT_NO_CAP)) {
        return false;
    }
    return session->leases_open < sched->leases_max && !holds(sched, step, index);
}

/* How long until a session had made these bytes too, as far as was measured. */
static double finish_ns(const struct sched *sched, const struct sched_session *session,
                        uint64_t bytes)
{
    const struct sched_producer *producer = &sched->producers[session->producer];
    double ns_per_byte = producer->ns_per_byte;
    if (ns_per_byte <= 0) {
        ns_per_byte = sched->ns_per_byte > 0 ? sched->ns_per_byte : 1;
    }
    if (sched_lacks(sched, SCHED_MUTANT_SPEED_IGNORED)) {
        ns_per_byte = 1;
    }
    const double ns = (double)(session->in_flight_bytes + bytes) * ns_per_byte;
    const bool local = producer->local && !sched_lacks(sched, SCHED_MUTANT_LOCAL_IGNORED);
    return local ? ns * LOCAL_ADVANTAGE : ns;
}

/* Is a to be preferred to b? */
static bool better(const struct sched *sched, const struct sched_session *a,
                   const struct sched_session *b, uint64_t bytes)
{
    const uint64_t failure_a = sched->producers[a->producer].failure;
    const uint64_t failure_b = sched->producers[b->producer].failure;
    if (failure_a == failure_b || sched_lacks(sched, SCHED_MUTANT_FAILURES_IGNORED)) {
        return finish_ns(sched, a, bytes) < finish_ns(sched, b, bytes);
    }
    if (failure_a != 0 && failure_b != 0 && sched_lacks(sched, SCHED_MUTANT_NEWEST_FAILURE_FIRST)) {
        return failure_a > failure_b;
    }
    return failure_a < failure_b;
}

static struct sched_session *choose(struct sched *sched, const struct sched_step *step,
                                    uint64_t bytes)
{
    struct sched_session *best = NULL;
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (!can_take(sched, step, i, bytes)) {
            continue;
        }
        struct sched_session *session = &sched->sessions[i];
        if (best == NULL || better(sched, session, best, bytes)) {
            best = session;
        }
    }
    return best;
}

/* When the only live lease of a step that is needed next is late; INT64_MAX: never. */
static int64_t hedge_ns(const struct sched *sched, const struct sched_step *step)
{
    if (!sched->options.hedge || sched_lacks(sched, SCHED_MUTANT_HEDGE_LATE) ||
        step->live_count != 1 || sched->lease_ns <= 0) {
        return INT64_MAX;
    }
    const uint32_t session = step->live[0].session;
    const uint32_t number = step->live[0].lease;
    const struct sched_lease *lease =
        &sched->leases[(size_t)session * sched->leases_max + number % sched->leases_max];
    return lease->granted_ns + (int64_t)(HEDGE_FACTOR * sched->lease_ns);
}

/* The step of a stream that is needed next, if it is not complete, else NULL. */
static const struct sched_step *needed_next(const struct sched *sched, uint32_t stream)
{
    const struct sched_stream *s = &sched->streams[stream];
    if (s->announced >= sched_window_end(sched, stream)) {
        return NULL;
    }
    const struct sched_step *step = &s->steps[s->announced % sched->options.streams[stream].slots];
    return step->missing > 0 ? step : NULL;
}

int64_t sched_choose_hedge_ns(const struct sched *sched)
{
    int64_t first_ns = INT64_MAX;
    for (uint32_t i = 0; i < sched->options.stream_count; i++) {
        const struct sched_step *step = needed_next(sched, i);
        const int64_t at_ns = step != NULL ? hedge_ns(sched, step) : INT64_MAX;
        first_ns = at_ns < first_ns ? at_ns : first_ns;
    }
    return first_ns;
}

static bool wants_lease(const struct sched *sched, uint32_t stream, const struct sched_step *step)
{
    if (step->missing == 0) {
        return false;
    }
    if (step->live_count == 0) {
        return true;
    }
    if (sched_lacks(sched, SCHED_MUTANT_THIRD_LEASE) && step->live_count == LIVE_MAX) {
        return true;
    }
    return step == needed_next(sched, stream) && sched->now_ns >= hedge_ns(sched, step);
}

static void fill(struct sched *sched, struct sched_session *session,
                 const struct sched_lease *lease, struct sched_action *out)
{
    const struct sched_stream *stream = &sched->streams[lease->stream];
    const uint64_t steps = stream->data.steps_per_epoch;
    out->kind = SCHED_SEND;
    out->peer = session->peer;
    out->session = session->id;
    out->msg.type = MSG_GRANT;
    out->msg.session = session->id;
    out->msg.grant = (struct msg_grant){
        .lease = lease->number,
        .stream = lease->stream,
        .epoch = (uint32_t)(lease->gstep / steps),
        .step = lease->gstep % steps,
        .due = (uint32_t)(sched->consumed + (lease->gstep - stream->base)),
        .first_part = lease->first_part,
        .part_count = lease->part_count,
    };
}

static bool grant_step(struct sched *sched, uint32_t stream, uint64_t gstep,
                       struct sched_action *out)
{
    struct sched_step *step = sched_window_step(sched, stream, gstep);
    if (step == NULL || !wants_lease(sched, stream, step)) {
        return false;
    }
    if (sched_lacks(sched, SCHED_MUTANT_ATTEMPTS_LIMITED) && step->grants == 3) {
        sched_say_fail(sched, ERR_DATA, "step %" PRIu64 " failed 3 times", gstep);
        return false;
    }
    if (sched_lacks(sched, SCHED_MUTANT_REGRANT_CLEARS) && step->live_count == 0) {
        sched_window_clear(sched, stream, step);
    }
    uint32_t first = 0;
    uint32_t count = 0;
    sched_window_missing(sched, stream, step, &first, &count);
    const uint64_t bytes = sched_window_range_bytes(sched, stream, first, count);
    struct sched_session *session = choose(sched, step, bytes);
    if (session == NULL) {
        return false;
    }
    sched->stats.grants++;
    sched->stats.second_leases += step->grants > 0;
    sched->stats.hedges += step->live_count > 0;
    fill(sched, session, sched_lease_new(sched, session, stream, gstep), out);
    return true;
}

bool sched_choose_grant(struct sched *sched, struct sched_action *out)
{
    if (sched->finishing || sched->failed != OK) {
        return false;
    }
    bool any = true;
    for (uint64_t due = 0; any; due++) {
        any = false;
        for (uint32_t i = 0; i < sched->options.stream_count; i++) {
            const uint64_t gstep = sched->streams[i].base + due;
            if (gstep >= sched_window_end(sched, i)) {
                continue;
            }
            if (grant_step(sched, i, gstep, out)) {
                return true;
            }
            any = true;
        }
    }
    return false;
}
