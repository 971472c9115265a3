/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases and the session's account. A lease has two lives that end apart: it counts for its step
 * while it is live (until all its parts came, it expired, or the step is complete), and it weighs
 * on its session's account until the last of its bytes is accounted for: received, given back, or
 * gone with the session. Expiry ends the first, never the second: a producer that hangs still
 * holds what it was granted.
 */
#include <inttypes.h>

#include "consumer/sched_internal.h"

/* Weight of a new value in the running means. */
static const double MEAN_WEIGHT = 0.25;

static void mean_add(double *mean, double value)
{
    *mean = *mean > 0 ? *mean + (value - *mean) * MEAN_WEIGHT : value;
}

static struct sched_lease *leases_of(struct sched *sched, const struct sched_session *session)
{
    return &sched->leases[(size_t)(session - sched->sessions) * sched->leases_max];
}

struct sched_lease *sched_lease_find(struct sched *sched, const struct sched_session *session,
                                     uint32_t number)
{
    struct sched_lease *lease = &leases_of(sched, session)[number % sched->leases_max];
    return number != 0 && lease->number == number ? lease : NULL;
}

static void credit(struct sched_session *session, struct sched_lease *lease, uint64_t bytes)
{
    const uint64_t part = bytes < lease->bytes_left ? bytes : lease->bytes_left;
    lease->bytes_left -= part;
    session->in_flight_bytes -= part;
}

/* A step that expired before may hold a sample that takes longer than any measured one, and a
 * CANCEL would stop each try halfway: so the time doubles. It is the step's, not the producer's:
 * one that hangs for ever is not to be waited for longer and longer. */
static int64_t lease_time_ns(const struct sched *sched, const struct sched_producer *producer,
                             const struct sched_lease *lease)
{
    if (sched_lacks(sched, SCHED_MUTANT_NO_EXPIRY)) {
        return INT64_MAX / 4;
    }
    double ns = 0;
    if (!sched_lacks(sched, SCHED_MUTANT_NO_SERVICE_TIME)) {
        ns = LEASE_FACTOR * producer->ns_per_byte * (double)lease->bytes;
    }
    const double min = (double)sched->options.lease_min_ns;
    if (ns < min && !sched_lacks(sched, SCHED_MUTANT_NO_LEASE_MIN)) {
        ns = min;
    }
    const uint32_t patience = lease->patience < PATIENCE_MAX ? lease->patience : PATIENCE_MAX;
    if (!sched_lacks(sched, SCHED_MUTANT_NO_PATIENCE)) {
        ns *= (double)(1U << patience);
    }
    const double max = (double)sched->options.starve_timeout_ns;
    return (int64_t)(ns < max ? ns : max);
}

/* When a live lease expires if its producer shows no more progress. */
static int64_t lease_expiry_ns(const struct sched *sched, const struct sched_session *session,
                               const struct sched_lease *lease)
{
    const int64_t since =
        session->progress_ns > lease->granted_ns ? session->progress_ns : lease->granted_ns;
    return since + lease_time_ns(sched, &sched->producers[session->producer], lease);
}

/* The step no longer counts on this lease. */
static void detach(struct sched *sched, struct sched_session *session, struct sched_lease *lease)
{
    if (!lease->live) {
        return;
    }
    lease->live = false;
    session->leases_live--;
    struct sched_step *step = sched_window_step(sched, lease->stream, lease->gstep);
    CHECK(step != NULL);
    const uint32_t own = (uint32_t)(session - sched->sessions);
    uint32_t i = 0;
    while (step->live[i].session != own || step->live[i].lease != lease->number) {
        i++;
        CHECK(i < step->live_count);
    }
    step->live[i] = step->live[--step->live_count];
}

struct sched_lease *sched_lease_new(struct sched *sched, struct sched_session *session,
                                    uint32_t stream, uint64_t gstep)
{
    struct sched_step *step = sched_window_step(sched, stream, gstep);
    uint32_t number = session->last_lease;
    struct sched_lease *lease = NULL;
    do {
        number++;
        lease = &leases_of(sched, session)[number % sched->leases_max];
    } while (number == 0 || lease->number != 0);
    session->last_lease = number;
    *lease = (struct sched_lease){
        .number = number,
        .stream = stream,
        .gstep = gstep,
        .granted_ns = sched->now_ns,
        .patience = step->expiries,
        .live = true,
    };
    sched_window_missing(sched, stream, step, &lease->first_part, &lease->part_count);
    lease->bytes = sched_window_range_bytes(sched, stream, lease->first_part, lease->part_count);
    if (!sched_lacks(sched, SCHED_MUTANT_NO_CHARGE)) {
        lease->bytes_left = lease->bytes;
    }
    session->in_flight_bytes += lease->bytes_left;
    session->leases_open++;
    session->leases_live++;
    step->live[step->live_count].session = (uint32_t)(session - sched->sessions);
    step->live[step->live_count].lease = number;
    step->live_count++;
    step->grants++;
    const int64_t expiry_ns = lease_expiry_ns(sched, session, lease);
    if (session->leases_live == 1 || expiry_ns < session->expiry_ns) {
        session->expiry_ns = expiry_ns;
    }
    return lease;
}

void sched_lease_settle(struct sched *sched, struct sched_session *session,
                        struct sched_lease *lease)
{
    detach(sched, session, lease);
    credit(session, lease, lease->bytes_left);
    lease->number = 0;
    session->leases_open--;
}

void sched_lease_cancel(struct sched *sched, struct sched_session *session,
                        struct sched_lease *lease)
{
    detach(sched, session, lease);
    if (sched_lacks(sched, SCHED_MUTANT_NO_CANCEL)) {
        return;
    }
    lease->cancel_due = true;
    session->say |= SAY_CANCEL;
}

void sched_lease_cancel_step(struct sched *sched, struct sched_step *step)
{
    while (step->live_count > 0) {
        struct sched_session *session = &sched->sessions[step->live[0].session];
        sched_lease_cancel(sched, session, sched_lease_find(sched, session, step->live[0].lease));
    }
}

void sched_lease_cancel_stream(struct sched *sched, uint32_t stream)
{
    for (uint32_t i = 0; i < sched->options.streams[stream].slots; i++) {
        sched_lease_cancel_step(sched, &sched->streams[stream].steps[i]);
    }
}

void sched_lease_drop_all(struct sched *sched, struct sched_session *session)
{
    struct sched_lease *leases = leases_of(sched, session);
    for (uint32_t i = 0; i < sched->leases_max; i++) {
        if (leases[i].number != 0) {
            sched_lease_settle(sched, session, &leases[i]);
        }
    }
}

void sched_lease_fail(struct sched *sched, struct sched_producer *producer)
{
    const uint32_t doublings = producer->row < REST_MAX ? producer->row : REST_MAX;
    producer->failure = ++sched->failures;
    producer->row++;
    producer->rest_ns = sched->now_ns + (sched->options.lease_min_ns << doublings);
}

void sched_lease_forgive(struct sched_producer *producer)
{
    producer->failure = 0;
    producer->row = 0;
    producer->rest_ns = 0;
}

/* The last part of a lease came: the producer's speed is known a little better. */
static void measure(struct sched *sched, struct sched_session *session,
                    const struct sched_lease *lease)
{
    const int64_t since =
        session->settled_ns > lease->granted_ns ? session->settled_ns : lease->granted_ns;
    const double ns_per_byte = (double)(sched->now_ns - since) / (double)lease->bytes;
    mean_add(&sched->producers[session->producer].ns_per_byte, ns_per_byte);
    mean_add(&sched->ns_per_byte, ns_per_byte);
    mean_add(&sched->lease_ns, (double)(sched->now_ns - lease->granted_ns));
}

void sched_lease_receive(struct sched *sched, struct sched_session *session,
                         struct sched_lease *lease, uint32_t length)
{
    if (!sched_lacks(sched, SCHED_MUTANT_PARTS_NO_PROGRESS)) {
        session->progress_ns = sched->now_ns;
    }
    credit(session, lease, length);
    if (lease->bytes_left > 0) {
        return;
    }
    if (lease->live) {
        measure(sched, session, lease);
    }
    session->settled_ns = sched->now_ns;
    sched_lease_settle(sched, session, lease);
}

static void expire(struct sched *sched, struct sched_session *session, struct sched_lease *lease)
{
    const struct sched_producer *producer = &sched->producers[session->producer];
    sched->stats.expiries++;
    sched_window_step(sched, lease->stream, lease->gstep)->expiries++;
    sched_say_text(
        sched, SCHED_LOG, session,
        "%s/%u: step %" PRIu64 " of stream %s: no progress for %" PRId64
        " ms (oldest sample in work for %" PRIu64 " ms); it goes elsewhere",
        producer->host, producer->index, lease->gstep, sched->options.streams[lease->stream].name,
        (sched->now_ns - session->progress_ns) / 1000000, session->oldest_age_ns / 1000000);
    if (sched_lacks(sched, SCHED_MUTANT_EXPIRY_CREDITS)) {
        credit(session, lease, lease->bytes_left);
    }
    if (sched_lacks(sched, SCHED_MUTANT_SLOT_OF_SESSION)) {
        lease->cancel_due = true;
        session->say |= SAY_CANCEL;
        return;
    }
    sched_lease_cancel(sched, session, lease);
}

void sched_lease_expire(struct sched *sched, struct sched_session *session)
{
    if (session->leases_live == 0 || sched->now_ns < session->expiry_ns) {
        return;
    }
    bool any = false;
    int64_t next_ns = INT64_MAX;
    struct sched_lease *leases = leases_of(sched, session);
    for (uint32_t i = 0; i < sched->leases_max; i++) {
        if (leases[i].number == 0 || !leases[i].live) {
            continue;
        }
        const int64_t expiry_ns = lease_expiry_ns(sched, session, &leases[i]);
        if (sched->now_ns >= expiry_ns) {
            expire(sched, session, &leases[i]);
            any = true;
        } else if (expiry_ns < next_ns) {
            next_ns = expiry_ns;
        }
    }
    session->expiry_ns = next_ns;
    if (any) {
        sched_lease_fail(sched, &sched->producers[session->producer]);
        if (sched_lacks(sched, SCHED_MUTANT_STALLED_ENDED)) {
            sched_session_end(sched, session, true, "no progress");
        }
    }
}

void sched_lease_nack(struct sched *sched, struct sched_session *session,
                      const struct msg_nack *nack)
{
    struct sched_lease *lease = sched_lease_find(sched, session, nack->lease);
    if (lease == NULL) {
        return;
    }
    struct sched_producer *producer = &sched->producers[session->producer];
    const char *stream = sched->options.streams[lease->stream].name;
    const uint64_t gstep = lease->gstep;
    struct sched_step *step =
        lease->live ? sched_window_step(sched, lease->stream, lease->gstep) : NULL;
    sched->stats.nacks++;
    sched_lease_fail(sched, producer);
    sched_session_pause(sched, session);
    const uint64_t in_flight_bytes = session->in_flight_bytes;
    sched_lease_settle(sched, session, lease);
    if (sched_lacks(sched, SCHED_MUTANT_NACK_NO_CREDIT)) {
        session->in_flight_bytes = in_flight_bytes;
    }
    sched_say_text(sched, SCHED_LOG, session, "%s/%u: step %" PRIu64 " of stream %s refused: %s",
                   producer->host, producer->index, gstep, stream, nack->text);
    switch (nack->code) {
    case NACK_BAD_BUDGET:
        sched_say_fail(sched, ERR_DATA, "%s", nack->text);
        return;
    case NACK_RANGE:
        sched_say_fail(sched, ERR_INTERNAL, "%s/%u: step %" PRIu64 " of stream %s: %s",
                       producer->host, producer->index, gstep, stream, nack->text);
        return;
    case NACK_IO:
        if (step != NULL && ++step->io_nacks >= NACKS_MAX &&
            !sched_choose_someone_does_well(sched)) {
            sched_say_fail(sched, ERR_IO, "step %" PRIu64 " of stream %s: %s", gstep, stream,
                           nack->text);
        }
        return;
    default:
        return;
    }
}
