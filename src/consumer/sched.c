/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's front: the one block of memory and what lies where in it, the calls of its owner,
 * timers, and the order in which actions are given out. The rules live in the other sched_*.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "consumer/sched_internal.h"

/* Leases of one session: every open step, twice over for those that expired and still weigh. */
static uint32_t leases_max(const struct sched_options *options)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < options->stream_count; i++) {
        slots += options->streams[i].slots;
    }
    return 2 * slots + 1;
}

static size_t written_words(const struct sched_stream_options *options)
{
    return (options->layout->part_count + 63) / 64;
}

/* Takes bytes from the block, aligned. */
static size_t take(size_t *used, size_t bytes)
{
    const size_t at = *used;
    *used += (bytes + 63) / 64 * 64;
    return at;
}

/* Where the tables lie; returns the block's size. memory NULL: only the size is wanted. */
static size_t place(struct sched *sched, const struct sched_options *options, uint8_t *memory)
{
    size_t used = 0;
    (void)take(&used, sizeof(struct sched));
    const size_t ids = take(&used, options->sessions_max * sizeof(uint64_t));
    const size_t sessions = take(&used, options->sessions_max * sizeof(struct sched_session));
    const size_t leases = take(&used, (size_t)options->sessions_max * leases_max(options) *
                                          sizeof(struct sched_lease));
    const size_t producers =
        take(&used, 2 * (size_t)options->sessions_max * sizeof(struct sched_producer));
    if (memory != NULL) {
        sched->ids = (uint64_t *)(memory + ids);
        sched->sessions = (struct sched_session *)(memory + sessions);
        sched->leases = (struct sched_lease *)(memory + leases);
        sched->producers = (struct sched_producer *)(memory + producers);
    }
    for (uint32_t i = 0; i < options->stream_count; i++) {
        const struct sched_stream_options *stream = &options->streams[i];
        const size_t words = written_words(stream);
        const size_t steps = take(&used, stream->slots * sizeof(struct sched_step));
        const size_t written = take(&used, stream->slots * words * sizeof(uint64_t));
        if (memory == NULL) {
            continue;
        }
        sched->streams[i].steps = (struct sched_step *)(memory + steps);
        for (uint32_t slot = 0; slot < stream->slots; slot++) {
            sched->streams[i].steps[slot].written = (uint64_t *)(memory + written) + slot * words;
        }
    }
    return used;
}

size_t sched_bytes(const struct sched_options *options)
{
    return place(NULL, options, NULL);
}

static void check_options(const struct sched_options *options)
{
    CHECK(options->stream_count >= 1 && options->stream_count <= STREAMS_MAX);
    CHECK(options->sessions_max >= 1 && options->mutant < SCHED_MUTANT_END);
    CHECK(options->lease_min_ns > 0 && options->ping_interval_ns > 0);
    CHECK(options->peer_timeout_ns > options->ping_interval_ns);
    CHECK(options->starve_timeout_ns >= options->lease_min_ns);
    for (uint32_t i = 0; i < options->stream_count; i++) {
        CHECK(options->streams[i].slots >= 1);
        CHECK(options->streams[i].layout->bytes <= options->session_bytes_max);
    }
}

struct sched *sched_init(void *memory, const struct sched_options *options, int64_t now_ns)
{
    check_options(options);
    CHECK((uintptr_t)memory % 64 == 0);
    memset(memory, 0, sched_bytes(options));
    struct sched *sched = memory;
    sched->options = *options;
    if (sched_lacks(sched, SCHED_MUTANT_NO_SILENCE)) {
        sched->options.peer_timeout_ns = INT64_MAX / 4;
    }
    if (sched_lacks(sched, SCHED_MUTANT_NO_STARVE)) {
        sched->options.starve_timeout_ns = INT64_MAX / 4;
    }
    sched->now_ns = now_ns;
    sched->progress_ns = now_ns;
    sched->leases_max = leases_max(options);
    sched->producers_max = 2 * options->sessions_max;
    (void)place(sched, options, memory);
    for (uint32_t i = 0; i < sched->producers_max; i++) {
        sched->producers[i].session = NONE;
        sched->producers[i].seen_ns = INT64_MIN;
    }
    return sched;
}

void sched_fix_stream(struct sched *sched, uint32_t stream, const struct sched_data_set *data,
                      int64_t now_ns)
{
    sched->now_ns = now_ns;
    CHECK(stream < sched->options.stream_count && !sched->streams[stream].fixed);
    sched->streams[stream].fixed = true;
    sched->streams[stream].data = *data;
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] != 0) {
            sched_session_check_data(sched, &sched->sessions[i], stream);
        }
    }
}

void sched_open(struct sched *sched, uint32_t stream, uint64_t first, uint64_t end, int64_t now_ns)
{
    sched->now_ns = now_ns;
    CHECK(stream < sched->options.stream_count && sched->streams[stream].fixed && first <= end);
    sched_lease_cancel_stream(sched, stream);
    sched_window_open(sched, stream, first, end);
}

void sched_consumed(struct sched *sched, uint32_t stream, int64_t now_ns)
{
    sched->now_ns = now_ns;
    CHECK(stream < sched->options.stream_count);
    sched_window_advance(sched, stream);
}

void sched_finish(struct sched *sched, int64_t now_ns)
{
    sched->now_ns = now_ns;
    sched->finishing = true;
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] != 0 && sched_session_is_done(sched)) {
            sched->sessions[i].say |= SAY_DONE;
        }
    }
}

void sched_on_garbage(struct sched *sched, uint64_t peer, int64_t now_ns)
{
    sched->now_ns = now_ns;
    if (!sched_lacks(sched, SCHED_MUTANT_GARBAGE_IGNORED)) {
        sched_session_end_peer(sched, peer, "it sent what cannot be read");
    }
}

void sched_on_disconnect(struct sched *sched, uint64_t peer, int64_t now_ns)
{
    sched->now_ns = now_ns;
    sched_session_end_peer(sched, peer, "the connection broke");
}

void sched_on_send_failed(struct sched *sched, uint64_t peer, const struct msg *msg, int64_t now_ns)
{
    sched->now_ns = now_ns;
    struct sched_session *session = sched_session_find(sched, peer, msg->session);
    if (session == NULL) {
        return;
    }
    if (msg->type == MSG_WELCOME) {
        sched_session_unwelcome(sched, session);
        return;
    }
    sched_session_pause(sched, session);
    if (msg->type != MSG_GRANT) {
        return;
    }
    struct sched_lease *lease = sched_lease_find(sched, session, msg->grant.lease);
    if (lease != NULL) {
        sched_lease_settle(sched, session, lease);
    }
}

/* Who was last seen when, as far as there is room. */
static void last_seen(const struct sched *sched, char *out, size_t room)
{
    size_t used = 0;
    for (uint32_t i = 0; i < sched->producers_max && used + 1 < room; i++) {
        const struct sched_producer *p = &sched->producers[i];
        if (p->host[0] == '\0') {
            continue;
        }
        const int64_t seen_ns =
            p->session != NONE ? sched->sessions[p->session].heard_ns : p->seen_ns;
        const int n =
            snprintf(out + used, room - used, "%s%s/%u %" PRId64 " s ago", used > 0 ? ", " : "",
                     p->host, p->index, (sched->now_ns - seen_ns) / 1000000000);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used == 0) {
        (void)snprintf(out, room, "nobody ever");
    }
}

static void check_starved(struct sched *sched)
{
    if (sched->failed != OK || sched->finishing || !sched_window_is_waiting(sched) ||
        sched->now_ns - sched->progress_ns < sched->options.starve_timeout_ns) {
        return;
    }
    char seen[TEXT_BYTES_MAX / 2];
    last_seen(sched, seen, sizeof(seen));
    sched_say_fail(sched, ERR_PEER_GONE,
                   "starved: nothing came from any producer for %" PRId64
                   " s (starve_timeout); last seen: %s",
                   (sched->now_ns - sched->progress_ns) / 1000000000, seen);
}

void sched_on_time(struct sched *sched, int64_t now_ns)
{
    sched->now_ns = now_ns;
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] != 0 && sched_session_tick(sched, &sched->sessions[i])) {
            sched_lease_expire(sched, &sched->sessions[i]);
        }
    }
    check_starved(sched);
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

int64_t sched_deadline(const struct sched *sched)
{
    const bool waiting = sched_window_is_waiting(sched) && !sched->finishing && sched->failed == OK;
    int64_t at_ns = waiting ? sched->progress_ns + sched->options.starve_timeout_ns : INT64_MAX;
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        const struct sched_session *s = &sched->sessions[i];
        if (sched->ids[i] == 0) {
            continue;
        }
        at_ns = earlier(at_ns, s->ping_ns);
        at_ns = earlier(at_ns, s->heard_ns + sched->options.peer_timeout_ns);
        if (s->leases_live > 0) {
            at_ns = earlier(at_ns, s->expiry_ns);
        }
        const int64_t rest_ns = sched->producers[s->producer].rest_ns;
        const int64_t again_ns = s->paused_ns > rest_ns ? s->paused_ns : rest_ns;
        if (waiting && again_ns > sched->now_ns) {
            at_ns = earlier(at_ns, again_ns);
        }
    }
    const int64_t hedge_ns = waiting ? sched_choose_hedge_ns(sched) : INT64_MAX;
    return hedge_ns > sched->now_ns ? earlier(at_ns, hedge_ns) : at_ns;
}

/* The next complete step, in order. */
static bool announce(struct sched *sched, struct sched_action *out)
{
    for (uint32_t i = 0; i < sched->options.stream_count; i++) {
        struct sched_stream *s = &sched->streams[i];
        uint64_t gstep = s->announced;
        const struct sched_step *step = sched_window_step(sched, i, gstep);
        if (sched_lacks(sched, SCHED_MUTANT_OUT_OF_ORDER) && step != NULL && step->missing > 0) {
            step = sched_window_step(sched, i, ++gstep);
        }
        const uint32_t enough = sched_lacks(sched, SCHED_MUTANT_INCOMPLETE) ? 1 : 0;
        if (step == NULL || step->missing > enough) {
            continue;
        }
        out->kind = SCHED_COMPLETE;
        out->stream = i;
        out->gstep = gstep;
        out->slot = (uint32_t)(gstep % sched->options.streams[i].slots);
        s->announced++;
        return true;
    }
    return false;
}

bool sched_next_action(struct sched *sched, int64_t now_ns, struct sched_action *out)
{
    sched->now_ns = now_ns;
    if (sched_say_next(sched, out) || announce(sched, out)) {
        return true;
    }
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        struct sched_session *session = &sched->sessions[i];
        if (sched->ids[i] != 0 && session->say != 0 &&
            sched_session_say(sched, session, &out->msg)) {
            out->kind = SCHED_SEND;
            out->peer = session->peer;
            out->session = session->id;
            return true;
        }
    }
    return sched_choose_grant(sched, out);
}

void sched_stats(const struct sched *sched, struct sched_stats *out)
{
    *out = sched->stats;
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] != 0) {
            out->sessions_live++;
            out->leases_live += sched->sessions[i].leases_live;
            out->in_flight_bytes += sched->sessions[i].in_flight_bytes;
        }
    }
}

bool sched_finished(const struct sched *sched)
{
    for (uint32_t i = 0; i < sched->options.sessions_max; i++) {
        if (sched->ids[i] != 0) {
            return false;
        }
    }
    return sched->finishing;
}
