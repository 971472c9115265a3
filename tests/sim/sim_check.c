/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold, seen from outside:
 *
 *   delivery   every step once, in order, complete, its own good bytes in its own slot, and those
 *              bytes unchanged until the trainer is done with them
 *   books      what the scheduler thinks is under way for a session is never less than what exists,
 *              is just that while the session is sound, and never more than its cap; what a
 *              producer holds and has in pipes is never more than two accounts
 *   leases     at most two live ones a step; a grant asks for a range from a missing part to a
 *              missing part; none is cancelled without cause; a bad part cancels its own at once
 *   parts      taken if and only if session and lease are open and the part is missing
 *   sessions   none of a sound producer is ended, none that is silent is kept; an attempt gets one;
 *              HELLO and PING get the answer that section 9 says
 *   the end    everything is consumed within a bounded time, and then everybody says BYE
 */
#include <string.h>

#include "sim/sim_world.h"

struct ghost_session *check_session(struct world *w, uint64_t id)
{
    const uint64_t index = (id & UINT32_MAX) - 1;
    CHECK(index < w->session_count && w->sessions[index].id == id);
    return &w->sessions[index];
}

void check_rank_died(struct world *w)
{
    for (uint32_t i = w->life_session_count; i < w->session_count; i++) {
        w->sessions[i].ended_ns = w->sessions[i].live ? w->now_ns : w->sessions[i].ended_ns;
        w->sessions[i].live = false;
    }
    w->ghost_lease_count = 0;
    w->life_session_count = w->session_count;
}

uint64_t check_fresh(struct world *w)
{
    return (random_u64(&w->random) << 32) | (w->session_count + 1);
}

void check_real(struct world *w, uint64_t session, int64_t bytes)
{
    check_session(w, session)->real_bytes += (uint64_t)bytes;
}

void check_gone(struct world *w, uint32_t proc, const struct packet *packet)
{
    if (packet->weight > 0) {
        check_real(w, packet->session, -(int64_t)packet->weight);
    }
    if (packet->type == MSG_DATA) {
        w->procs[proc].mem_bytes -= packet->weight;
    }
}

void check_event_begin(struct world *w)
{
    w->event.peer = 0;
    w->event.peer_gone = false;
    w->event.type = 0;
    w->event.session = 0;
    w->event.unwelcomed_session = 0;
    w->event.garbage = w->event.bad_part = w->event.fixing = w->event.opening = false;
    w->event.welcomed = w->event.rejected = w->event.began = false;
    w->event.send_failed = false;
}

/* The live session that a message from this peer belongs to, or NULL. */
static struct ghost_session *live_session(struct world *w, uint64_t peer, uint64_t id)
{
    const uint64_t index = (id & UINT32_MAX) - 1;
    if (index >= w->session_count || w->sessions[index].id != id) {
        return NULL;
    }
    struct ghost_session *s = &w->sessions[index];
    return s->live && s->peer == peer ? s : NULL;
}

static struct ghost_lease *lease_find(struct world *w, uint64_t session, uint32_t number)
{
    for (uint32_t i = 0; i < w->ghost_lease_count; i++) {
        struct ghost_lease *l = &w->ghost_leases[i];
        if (l->session == session && l->number == number) {
            return l;
        }
    }
    return NULL;
}

static void lease_remove(struct world *w, struct ghost_lease *lease)
{
    *lease = w->ghost_leases[--w->ghost_lease_count];
}

static bool in_window(const struct world *w, uint32_t stream, uint64_t gstep)
{
    const struct sim_stream *s = &w->streams[stream];
    return w->rank.opened && (stream == 0 || w->rank.at.evaluating) && gstep >= s->base &&
           gstep < s->end && gstep < s->base + s->slots;
}

static bool is_good(const struct world *w, uint32_t stream, uint64_t gstep, uint32_t part)
{
    const struct sim_stream *s = &w->streams[stream];
    return s->good[gstep % s->slots][part];
}

static bool is_complete(const struct world *w, uint32_t stream, uint64_t gstep)
{
    bool complete = in_window(w, stream, gstep);
    for (uint32_t part = 0; complete && part < w->streams[stream].layout.part_count; part++) {
        complete = is_good(w, stream, gstep, part);
    }
    return complete;
}

void check_lease_back(struct world *w, uint64_t peer, uint64_t session, uint32_t lease)
{
    struct ghost_lease *l = lease_find(w, session, lease);
    if (live_session(w, peer, session) != NULL && l != NULL) {
        lease_remove(w, l);
    }
}

static bool has_live_lease(const struct world *w, uint64_t session)
{
    for (uint32_t i = 0; i < w->ghost_lease_count; i++) {
        if (w->ghost_leases[i].session == session && w->ghost_leases[i].live) {
            return true;
        }
    }
    return false;
}

/* The live session that this HELLO has begun already, or NULL. */
static struct ghost_session *session_of_hello(struct world *w, uint64_t peer,
                                              const struct msg_hello *hello)
{
    for (uint32_t i = w->session_count; i-- > 0;) {
        struct ghost_session *s = &w->sessions[i];
        if (s->live && s->peer == peer && s->instance == hello->instance &&
            s->attempt == hello->attempt) {
            return s;
        }
    }
    return NULL;
}

/* Is another instance heard for the host and index of this HELLO? */
static bool place_taken(const struct world *w, uint64_t peer, uint64_t instance)
{
    for (uint32_t i = 0; i < w->conn_count; i++) {
        if (w->conns[i].peer != peer) {
            continue;
        }
        const uint32_t place = w->procs[w->conns[i].proc].place;
        for (uint32_t n = w->life_session_count; n < w->session_count; n++) {
            const struct ghost_session *s = &w->sessions[n];
            if (s->live && w->procs[s->proc].place == place && s->instance != instance) {
                return true;
            }
        }
    }
    return false;
}

void check_heard(struct world *w, uint64_t peer, const struct msg *msg)
{
    struct ghost_session *s = msg->type == MSG_HELLO ? session_of_hello(w, peer, &msg->hello)
                                                     : live_session(w, peer, msg->session);
    w->event.place_taken = msg->type == MSG_HELLO && place_taken(w, peer, msg->hello.instance);
    w->event.known = s != NULL;
    if (s == NULL) {
        return;
    }
    s->heard_ns = w->now_ns;
    if (msg->type == MSG_PONG && msg->ping.samples_done > s->samples_done) {
        s->samples_done = msg->ping.samples_done;
        s->progress_ns = w->now_ns;
        if (has_live_lease(w, s->id)) {
            w->progress_ns = w->now_ns;
        }
    } else if (msg->type == MSG_LEAVE) {
        s->leaving = true;
    } else if (msg->type == MSG_NACK) {
        check_lease_back(w, peer, msg->session, msg->nack.lease);
    } else if (msg->type == MSG_RETURN) {
        check_lease_back(w, peer, msg->session, msg->lease.lease);
    }
}

bool check_part_wanted(struct world *w, uint64_t peer, const struct msg *msg)
{
    const struct msg_data *d = &msg->data;
    const struct sim_stream *s = &w->streams[d->stream];
    const uint64_t gstep = d->epoch * s->data.steps_per_epoch + d->step;
    if (live_session(w, peer, msg->session) == NULL ||
        lease_find(w, msg->session, d->lease) == NULL) {
        return false;
    }
    return in_window(w, d->stream, gstep) && !is_good(w, d->stream, gstep, d->part);
}

void check_part_received(struct world *w, uint64_t peer, const struct msg *msg)
{
    struct ghost_session *s = live_session(w, peer, msg->session);
    struct ghost_lease *l = lease_find(w, msg->session, msg->data.lease);
    if (s == NULL || l == NULL) {
        return;
    }
    s->progress_ns = w->now_ns;
    l->bytes_left -= msg->data.length;
    if (l->bytes_left == 0) {
        lease_remove(w, l);
    }
}

static bool proc_is_sound(const struct world *w, const struct ghost_session *s)
{
    const struct proc *p = &w->procs[s->proc];
    return p->alive && p->instance == s->instance && p->session == s->id && !s->tainted &&
           p->exit_ns == NEVER && w->conns[p->conn].peer == s->peer && !w->conns[p->conn].cut;
}

void check_began(struct world *w, const struct sched_action *action)
{
    sim_trace(w, "rank: %s (session %" PRIx64 ")", action->text, action->session);
    w->counts->sessions++;
    CHECK(w->event.type == MSG_HELLO && w->session_count < SESSIONS_EVER_MAX);
    const struct conn *conn = link_find(w, action->peer);
    struct ghost_session *s = &w->sessions[w->session_count++];
    *s = (struct ghost_session){
        .live = true,
        .id = action->session,
        .peer = action->peer,
        .proc = conn->proc,
        .attempt = w->event.hello_attempt,
        .instance = w->event.hello_instance,
        .other_data = w->event.hello_other_data,
        .heard_ns = w->now_ns,
        .progress_ns = w->now_ns,
    };
    if (check_session(w, action->session) != s) {
        sim_fail(w, "a session began with a number that is not fresh");
    }
    w->event.began = true;
}

/* Why the rank may end this session now, or NULL. */
static const char *end_cause(const struct world *w, const struct ghost_session *s)
{
    if (!proc_is_sound(w, s) || s->forgotten) {
        return "its producer does not have it any more";
    }
    if (w->now_ns - s->heard_ns >= w->sched_options.peer_timeout_ns) {
        return "silence";
    }
    if (w->event.garbage && w->event.peer == s->peer) {
        return "garbage";
    }
    if (w->event.type == MSG_HELLO && w->event.hello_instance == s->instance &&
        w->event.hello_attempt > s->attempt) {
        return "a newer attempt";
    }
    if (w->event.type == MSG_BYE && w->event.session == s->id) {
        return "BYE";
    }
    if (w->event.fixing && s->other_data) {
        return "data set";
    }
    return NULL;
}

void check_ended(struct world *w, const struct sched_action *action)
{
    sim_trace(w, "rank: %s (session %" PRIx64 ")", action->text, action->session);
    struct ghost_session *s = check_session(w, action->session);
    s->live = false;
    s->ended_ns = w->now_ns;
    s->forgotten = w->event.unwelcomed_session == s->id;
    for (uint32_t i = w->ghost_lease_count; i-- > 0;) {
        if (w->ghost_leases[i].session == s->id) {
            lease_remove(w, &w->ghost_leases[i]);
        }
    }
    if (end_cause(w, s) == NULL) {
        sim_fail(w, "the session of a sound producer was ended: %s", action->text);
    }
}

static uint32_t live_leases(const struct world *w, uint32_t stream, uint64_t gstep)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->ghost_lease_count; i++) {
        const struct ghost_lease *l = &w->ghost_leases[i];
        count += l->live && l->stream == stream && l->gstep == gstep;
    }
    return count;
}

/* The very first grant: nobody is measured, nobody has work; then the local producer gets it. */
static void check_first_grant(struct world *w, const struct sched_action *action)
{
    if (w->first_grants++ > 0 || w->sched_options.local_host == NULL ||
        w->rank.checkpoint.train > 0 || w->sends_failed) {
        return;
    }
    const struct proc *got = &w->procs[check_session(w, action->session)->proc];
    bool local = false;
    for (uint32_t i = 0; i < w->session_count; i++) {
        const struct ghost_session *s = &w->sessions[i];
        const struct proc *p = &w->procs[s->proc];
        local = local || (s->live && !s->leaving &&
                          strcmp(w->hosts[p->place], w->sched_options.local_host) == 0);
    }
    if (local && strcmp(w->hosts[got->place], w->sched_options.local_host) != 0) {
        sim_fail(w, "the first grant did not go to the local producer");
    }
}

void check_grant(struct world *w, const struct sched_action *action)
{
    const struct msg_grant *g = &action->msg.grant;
    const struct sim_stream *s = &w->streams[g->stream];
    const uint64_t gstep = g->epoch * s->data.steps_per_epoch + g->step;
    const struct ghost_session *session = live_session(w, action->peer, action->session);
    sim_trace(w, "rank: GRANT %u of step %u:%" PRIu64 " parts %u+%u to %" PRIx64, g->lease,
              g->stream, gstep, g->first_part, g->part_count, action->session);
    w->counts->grants++;
    if (session == NULL || session->leaving) {
        sim_fail(w, "a grant to a session that is %s", session == NULL ? "over" : "leaving");
        return;
    }
    if (!in_window(w, g->stream, gstep)) {
        sim_fail(w, "a grant of a step that is not open");
        return;
    }
    if (is_good(w, g->stream, gstep, g->first_part) ||
        is_good(w, g->stream, gstep, g->first_part + g->part_count - 1)) {
        sim_fail(w, "a grant asks for a part that is there");
    }
    for (uint32_t part = 0; part < s->layout.part_count; part++) {
        if (part - g->first_part >= g->part_count && !is_good(w, g->stream, gstep, part)) {
            sim_fail(w, "a grant leaves out a missing part");
        }
    }
    if (live_leases(w, g->stream, gstep) >= 2) {
        sim_fail(w, "a third live lease of step %u:%" PRIu64, g->stream, gstep);
    }
    check_first_grant(w, action);
}

void check_granted(struct world *w, const struct sched_action *action)
{
    const struct msg_grant *g = &action->msg.grant;
    CHECK(w->ghost_lease_count < GHOST_LEASES_MAX);
    w->ghost_leases[w->ghost_lease_count++] = (struct ghost_lease){
        .live = true,
        .session = action->session,
        .number = g->lease,
        .stream = g->stream,
        .first_part = g->first_part,
        .part_count = g->part_count,
        .gstep = g->epoch * w->streams[g->stream].data.steps_per_epoch + g->step,
        .bytes_left = sim_range_bytes(w, g->stream, g->first_part, g->part_count),
        .granted_ns = w->now_ns,
    };
}

/* The latest time at which something may have kept messages of a process from coming through. */
static int64_t disturbed_ns(const struct world *w, const struct proc *p)
{
    const struct conn *conn = &w->conns[p->conn];
    int64_t last_ns = conn->disturbed_ns;
    last_ns = last_ns > conn->up.stalled_until_ns ? last_ns : conn->up.stalled_until_ns;
    last_ns = last_ns > p->frozen_until_ns ? last_ns : p->frozen_until_ns;
    return last_ns > w->rank.up_ns ? last_ns : w->rank.up_ns;
}

void check_cancel(struct world *w, const struct sched_action *action)
{
    w->counts->cancels++;
    struct ghost_lease *l = lease_find(w, action->session, action->msg.lease.lease);
    if (l == NULL) {
        sim_fail(w, "CANCEL of a lease that is not open");
        return;
    }
    sim_trace(w, "rank: CANCEL %u of step %u:%" PRIu64, l->number, l->stream, l->gstep);
    l->live = false;
    if (w->event.bad_part && w->event.session == action->session && w->event.lease == l->number) {
        return;
    }
    if (w->event.opening || is_complete(w, l->stream, l->gstep)) {
        return;
    }
    const struct ghost_session *s = check_session(w, action->session);
    const int64_t since_ns = s->progress_ns > l->granted_ns ? s->progress_ns : l->granted_ns;
    if (w->now_ns - since_ns < w->sched_options.lease_min_ns) {
        sim_fail(w, "a lease expired %" PRId64 " ms after its producer's last progress",
                 (w->now_ns - since_ns) / SIM_MS);
    }
    const struct proc *p = &w->procs[s->proc];
    if (proc_is_sound(w, s) && !w->sends_failed && p->work.active && p->sample_ns <= 80 * SIM_MS &&
        w->now_ns - p->busy_ns > 600 * SIM_MS && w->now_ns - disturbed_ns(w, p) > SIM_S) {
        sim_fail(w, "a lease expired while its producer finishes samples");
    }
}

void check_answer(struct world *w, const struct sched_action *action)
{
    if (action->peer != w->event.peer) {
        return;
    }
    if (action->msg.type == MSG_REJECT) {
        sim_trace(w, "rank: REJECT of session %" PRIx64 " to %" PRIu64, action->msg.reject.refused,
                  action->peer);
    }
    if (action->msg.type == MSG_WELCOME) {
        w->event.welcomed = true;
        w->event.answer_session = action->msg.session;
    } else if (action->msg.type == MSG_REJECT) {
        w->event.rejected = true;
        w->event.answer_session = action->msg.reject.refused;
    }
}

void check_complete(struct world *w, const struct sched_action *action)
{
    struct sim_stream *s = &w->streams[action->stream];
    sim_trace(w, "rank: step %u:%" PRIu64 " is complete", action->stream, action->gstep);
    if (action->gstep != s->announced || action->slot != action->gstep % s->slots) {
        sim_fail(w, "step %" PRIu64 " in slot %u is announced, not step %" PRIu64, action->gstep,
                 action->slot, s->announced);
        return;
    }
    if (!is_complete(w, action->stream, action->gstep)) {
        sim_fail(w, "step %" PRIu64 " is announced and not complete", action->gstep);
        return;
    }
    s->announced++;
    for (uint32_t i = 0; i < w->ghost_lease_count; i++) {
        struct ghost_lease *l = &w->ghost_leases[i];
        l->live = l->live && !(l->stream == action->stream && l->gstep == action->gstep);
    }
}

void check_fail(struct world *w, const struct sched_action *action)
{
    sim_trace(w, "rank: the job fails: %s", action->text);
    if (w->scenario != STARVE || action->status != ERR_PEER_GONE) {
        sim_fail(w, "the job failed: %s", action->text);
        return;
    }
    if (w->now_ns - w->progress_ns < w->sched_options.starve_timeout_ns) {
        sim_fail(w, "the job starved too early: %s", action->text);
        return;
    }
    w->rank.failed_as_expected = true;
}

void check_stream_open(struct world *w, uint32_t stream)
{
    struct sim_stream *s = &w->streams[stream];
    s->announced = s->base;
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        for (uint32_t part = 0; part < SIM_PARTS_MAX; part++) {
            s->good[slot][part] = false;
        }
    }
    for (uint32_t i = 0; i < w->ghost_lease_count; i++) {
        w->ghost_leases[i].live = w->ghost_leases[i].live && w->ghost_leases[i].stream != stream;
    }
}

void check_step_done(struct world *w, uint32_t stream, uint64_t gstep)
{
    struct sim_stream *s = &w->streams[stream];
    const uint64_t slot = gstep % s->slots;
    if (gstep != s->base) {
        sim_fail(w, "step %" PRIu64 " is consumed out of order", gstep);
    }
    for (uint32_t part = 0; part < s->layout.part_count; part++) {
        if (s->value[slot][part] != sim_part_value(w->key, stream, gstep, part)) {
            sim_fail(w, "step %u:%" PRIu64 " part %u: wrong bytes in the slot", stream, gstep,
                     part);
        }
        s->good[slot][part] = false;
    }
    s->base++;
    w->counts->steps_delivered++;
}

void check_silence_drop(struct world *w, const struct proc *p)
{
    const struct ghost_session *s = check_session(w, p->session);
    const int64_t quiet_ns = w->now_ns - w->sched_options.peer_timeout_ns;
    if (s->live && proc_is_sound(w, s) && w->conns[p->conn].disturbed_ns < quiet_ns - SIM_S &&
        w->rank.up && !w->sends_failed) {
        sim_fail(w, "a producer heard nothing from a rank that is well");
    }
}

void check_dead_session(struct world *w, const struct proc *p)
{
    const struct ghost_session *s = check_session(w, p->session);
    const int64_t told_ns = sim_earlier(w->now_ns - s->ended_ns, w->now_ns - p->welcome_ns);
    const int64_t since_ns = sim_earlier(told_ns, w->now_ns - disturbed_ns(w, p));
    if (!s->live && w->rank.up && !w->conns[p->conn].cut && !w->sends_failed &&
        since_ns > 1200 * SIM_MS) {
        sim_fail(w, "a producer was not told for %" PRId64 " ms that its session is over",
                 since_ns / SIM_MS);
    }
}

void check_reject_drop(struct world *w, const struct proc *p)
{
    const struct ghost_session *s = check_session(w, p->session);
    if (s->live && proc_is_sound(w, s)) {
        sim_fail(w, "a producer dropped a session that is well");
    }
}

/* The last session that began at this place before this event, or NULL. */
static const struct ghost_session *last_of_place(const struct world *w, const struct proc *p)
{
    for (uint32_t i = w->session_count - w->event.began; i-- > w->life_session_count;) {
        if (w->procs[w->sessions[i].proc].place == p->place) {
            return &w->sessions[i];
        }
    }
    return NULL;
}

static void check_hello_answer(struct world *w)
{
    const struct proc *p = &w->procs[link_find(w, w->event.peer)->proc];
    const bool other_data = w->event.hello_other_data && w->rank.fixed;
    if (p->kind == OTHER_JOB || p->kind == OTHER_PRINT || other_data) {
        if (!w->event.rejected || w->event.began) {
            sim_fail(w, "a HELLO that does not fit was not turned away");
        }
        return;
    }
    const struct ghost_session *last = last_of_place(w, p);
    const bool same = last != NULL && last->instance == w->event.hello_instance;
    if (same && w->event.hello_attempt < last->attempt) {
        if (w->event.began) {
            sim_fail(w, "an old HELLO began a session");
        }
        return;
    }
    if (same && w->event.hello_attempt == last->attempt && !last->forgotten) {
        if (!w->event.welcomed || w->event.answer_session != last->id || w->event.began) {
            sim_fail(w, "a repeated HELLO did not get the same answer");
        }
        return;
    }
    if (w->event.place_taken) {
        if (!w->event.rejected || w->event.began) {
            sim_fail(w, "a second instance was not turned away");
        }
        return;
    }
    if (!w->event.began || !w->event.welcomed) {
        sim_fail(w, "a new attempt did not get a session at once");
    }
}

static void check_answers(struct world *w)
{
    if (w->event.send_failed || w->event.peer_gone || w->event.peer == 0) {
        return;
    }
    if (w->event.type == MSG_HELLO) {
        check_hello_answer(w);
        return;
    }
    if (w->event.type == MSG_PING && !w->event.known &&
        (!w->event.rejected || w->event.answer_session != w->event.session)) {
        sim_fail(w, "a PING of an unknown session was not answered by its REJECT");
    }
    const struct ghost_lease *bad =
        w->event.bad_part ? lease_find(w, w->event.session, w->event.lease) : NULL;
    if (bad != NULL && bad->live) {
        sim_fail(w, "a bad part did not cancel its lease");
    }
}

void check_event_end(struct world *w)
{
    if (w->failed || !w->rank.up) {
        return;
    }
    check_answers(w);
    check_books(w);
}

static void check_session_books(struct world *w, const struct sched_session *s)
{
    const struct ghost_session *ghost = check_session(w, s->id);
    if (!ghost->live) {
        sim_fail(w, "the scheduler keeps a session that it has ended");
        return;
    }
    if (s->in_flight_bytes > s->bytes_max) {
        sim_fail(w, "%" PRIu64 " bytes are in flight, more than the session's %" PRIu64,
                 s->in_flight_bytes, s->bytes_max);
    }
    if (ghost->real_bytes > s->in_flight_bytes) {
        sim_fail(w, "the books say %" PRIu64 " bytes, but %" PRIu64 " exist", s->in_flight_bytes,
                 ghost->real_bytes);
    }
    if (ghost->real_bytes < s->in_flight_bytes && proc_is_sound(w, ghost)) {
        sim_fail(w, "the books say %" PRIu64 " bytes, but only %" PRIu64 " exist",
                 s->in_flight_bytes, ghost->real_bytes);
    }
    if (w->now_ns - ghost->heard_ns >
        w->sched_options.peer_timeout_ns + w->rank.lag_ns + 50 * SIM_MS) {
        sim_fail(w, "a silent session is kept");
    }
}

void check_books(struct world *w)
{
    const struct sched *sched = w->rank.sched;
    for (uint32_t i = 0; i < w->sched_options.sessions_max; i++) {
        if (sched->ids[i] != 0) {
            check_session_books(w, &sched->sessions[i]);
        }
    }
    const uint64_t accounts = sim_lacks(w, SIM_MUTANT_ONE_ACCOUNT) ? 1 : 2;
    for (uint32_t i = 0; i < PROCS_MAX; i++) {
        if (w->procs[i].mem_bytes > accounts * w->sched_options.session_bytes_max) {
            sim_fail(w,
                     "proc %u has %" PRIu64 " bytes in memory and pipes, more than %" PRIu64
                     " accounts",
                     i, w->procs[i].mem_bytes, accounts);
        }
    }
}
