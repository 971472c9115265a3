/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank: what the client does around the scheduler, the slots in memory, and a trainer that
 * consumes steps in order, evaluates after each epoch and keeps a checkpoint. The rank may die and
 * start again from the checkpoint.
 */
#include <stdlib.h>

#include "sim/sim_world.h"

static void drain(struct world *w);

static void open_eval(struct world *w)
{
    w->event.opening = true;
    w->rank.at.evaluating = true;
    w->rank.at.eval = 0;
    w->streams[1].base = 0;
    w->streams[1].end = w->eval_steps;
    sched_open(w->rank.sched, 1, 0, w->eval_steps, w->now_ns);
    check_stream_open(w, 1);
}

static void open_all(struct world *w)
{
    struct rank *r = &w->rank;
    r->opened = true;
    w->event.opening = true;
    w->streams[0].base = r->at.train;
    w->streams[0].end = w->train_end;
    sched_open(r->sched, 0, r->at.train, w->train_end, w->now_ns);
    check_stream_open(w, 0);
    if (r->at.evaluating) {
        open_eval(w);
    }
}

static void fix(struct world *w)
{
    struct rank *r = &w->rank;
    r->fixed = true;
    w->event.fixing = true;
    for (uint32_t i = 0; i < w->stream_count; i++) {
        sched_fix_stream(r->sched, i, &w->streams[i].data, w->now_ns);
    }
}

void rank_start(struct world *w)
{
    struct rank *r = &w->rank;
    const size_t bytes = (sched_bytes(&w->sched_options) + 63) / 64 * 64;
    r->memory = r->memory != NULL ? r->memory : aligned_alloc(64, bytes);
    CHECK(r->memory != NULL);
    r->sched = sched_init(r->memory, &w->sched_options, w->now_ns);
    r->up = true;
    r->fixed = r->opened = r->lent = false;
    r->at = r->checkpoint;
    w->progress_ns = w->now_ns;
    sim_trace(w, "rank: starts at step %" PRIu64, r->at.train);
}

void rank_add_stats(struct world *w)
{
    struct sched_stats stats;
    sched_stats(w->rank.sched, &stats);
    struct sim_counts *c = w->counts;
    c->expiries += stats.expiries;
    c->second_leases += stats.second_leases;
    c->hedges += stats.hedges;
    c->parts_written += stats.parts_written;
    c->parts_duplicate += stats.parts_duplicate;
    c->parts_late += stats.parts_late;
    c->parts_bad += stats.parts_bad;
}

void rank_stop(struct world *w)
{
    rank_add_stats(w);
    w->rank.up = false;
    w->rank.sched = NULL;
    check_rank_died(w);
    sim_trace(w, "rank: dies");
}

/* The position of the slot's bytes that a part takes. */
static void write_part(struct world *w, const struct sched_place *place, uint32_t part,
                       uint64_t body)
{
    struct sim_stream *s = &w->streams[place->stream];
    if (place->slot >= s->slots || place->offset != layout_part_offset(&s->layout, part) ||
        place->length != layout_part_length(&s->layout, part)) {
        sim_fail(w, "a part goes to a wrong place");
        return;
    }
    s->value[place->slot][part] = body;
}

static void receive_data(struct world *w, uint64_t peer, const struct packet *packet,
                         const struct msg *msg)
{
    struct sched_place place;
    const bool expected = check_part_wanted(w, peer, msg);
    const bool wanted = sched_on_data(w->rank.sched, peer, msg, w->now_ns, &place);
    check_part_received(w, peer, msg);
    if (wanted != expected) {
        sim_fail(w, "a part was %s that should %s", wanted ? "taken" : "dropped",
                 expected ? "be taken" : "be dropped");
    }
    if (!wanted || w->failed) {
        return;
    }
    const bool good = packet->body == msg->data.sum_low;
    write_part(w, &place, msg->data.part, packet->body);
    if (good) {
        w->progress_ns = w->now_ns;
        w->streams[place.stream].good[place.slot][msg->data.part] = true;
    } else {
        w->event.bad_part = true;
        w->event.lease = msg->data.lease;
    }
    sched_on_written(w->rank.sched, peer, msg, good, w->now_ns);
}

void rank_receive(struct world *w, const struct conn *conn, const struct packet *packet)
{
    check_gone(w, conn->proc, packet);
    if (!w->rank.up) {
        return;
    }
    struct msg msg;
    struct err err;
    check_event_begin(w);
    w->event.peer = conn->peer;
    const enum status status = msg_decode(packet->bytes, packet->count, &msg, &err);
    if ((status == OK) == packet->garbled) {
        sim_fail(w, "a %s frame was %s: %s", packet->garbled ? "garbled" : "whole",
                 status == OK ? "read" : "refused", status == OK ? "" : err.message);
        return;
    }
    if (status != OK) {
        w->event.garbage = true;
        sched_on_garbage(w->rank.sched, conn->peer, w->now_ns);
    } else if (msg.type == MSG_DATA) {
        w->event.type = MSG_DATA;
        w->event.session = msg.session;
        check_heard(w, conn->peer, &msg);
        receive_data(w, conn->peer, packet, &msg);
    } else {
        w->event.type = msg.type;
        w->event.session = msg.session;
        if (msg.type == MSG_HELLO) {
            w->event.hello_instance = msg.hello.instance;
            w->event.hello_attempt = msg.hello.attempt;
            w->event.hello_other_data = msg.hello.streams[0].digest != w->streams[0].data.digest;
        }
        check_heard(w, conn->peer, &msg);
        if (msg.type == MSG_HELLO) {
            const struct sched_hello hello = {
                .peer = conn->peer, .address = "", .msg = &msg.hello, .fresh = check_fresh(w)};
            sched_on_hello(w->rank.sched, &hello, w->now_ns);
        } else {
            sched_on_message(w->rank.sched, conn->peer, &msg, w->now_ns);
        }
    }
    drain(w);
    check_event_end(w);
}

void rank_disconnected(struct world *w, uint64_t peer)
{
    if (!w->rank.up) {
        return;
    }
    check_event_begin(w);
    sched_on_disconnect(w->rank.sched, peer, w->now_ns);
    drain(w);
    check_event_end(w);
}

static void send_failed(struct world *w, const struct sched_action *action)
{
    w->event.send_failed = true;
    w->sends_failed = true;
    if (action->msg.type == MSG_WELCOME) {
        w->event.unwelcomed_session = action->session;
    }
    sim_trace(w, "rank: no room for %s to %" PRIu64, msg_type_name(action->msg.type), action->peer);
    sched_on_send_failed(w->rank.sched, action->peer, &action->msg, w->now_ns);
}

static void send(struct world *w, const struct sched_action *action)
{
    const struct msg *msg = &action->msg;
    struct conn *conn = link_find(w, action->peer);
    if (conn == NULL || conn->noticed_ns <= w->now_ns) {
        w->event.peer_gone = w->event.peer_gone || action->peer == w->event.peer;
        sched_on_disconnect(w->rank.sched, action->peer, w->now_ns);
        return;
    }
    uint64_t weight = 0;
    if (msg->type == MSG_GRANT) {
        check_grant(w, action);
        if (w->failed) {
            return;
        }
        weight =
            sim_range_bytes(w, msg->grant.stream, msg->grant.first_part, msg->grant.part_count);
    } else if (msg->type == MSG_CANCEL) {
        check_cancel(w, action);
    }
    if (w->rank.fail_sends > 0) {
        w->rank.fail_sends--;
        w->counts->send_failures++;
        send_failed(w, action);
        return;
    }
    if (!conn->cut && !link_send_down(w, conn, msg, weight)) {
        send_failed(w, action);
        return;
    }
    if (msg->type == MSG_GRANT) {
        check_granted(w, action);
        check_real(w, msg->session, conn->cut ? 0 : (int64_t)weight);
    } else {
        check_answer(w, action);
    }
}

/* The trainer takes the next step if it is there. */
static void trainer_take(struct world *w)
{
    struct rank *r = &w->rank;
    const uint32_t stream = r->at.evaluating ? 1 : 0;
    const uint64_t next = r->at.evaluating ? r->at.eval : r->at.train;
    if (r->lent || r->filling || !r->opened || next >= w->streams[stream].announced) {
        return;
    }
    r->lent = true;
    r->lent_stream = stream;
    r->lent_gstep = next;
    r->trainer_ns = w->now_ns + sim_between(w, 0, w->trainer_step_ns);
}

static bool windows_full(const struct world *w)
{
    for (uint32_t i = 0; i < w->stream_count; i++) {
        const struct sim_stream *s = &w->streams[i];
        const uint64_t end = s->end - s->base < s->slots ? s->end : s->base + s->slots;
        if ((i == 0 || w->rank.at.evaluating) && s->announced < end) {
            return false;
        }
    }
    return true;
}

static void drain(struct world *w)
{
    struct sched_action action;
    uint32_t count = 0;
    while (!w->failed && w->rank.up && sched_next_action(w->rank.sched, w->now_ns, &action)) {
        if (++count > 5000) {
            sim_fail(w, "the scheduler has ever more to do");
        }
        switch (action.kind) {
        case SCHED_SEND:
            send(w, &action);
            break;
        case SCHED_COMPLETE:
            check_complete(w, &action);
            break;
        case SCHED_SESSION_BEGAN:
            check_began(w, &action);
            break;
        case SCHED_SESSION_ENDED:
            check_ended(w, &action);
            break;
        case SCHED_LOG:
            sim_trace(w, "rank: %s", action.text);
            break;
        case SCHED_FAIL:
            check_fail(w, &action);
            break;
        }
    }
    if (w->rank.filling && windows_full(w)) {
        w->rank.filling = false;
        w->counts->full_windows++;
    }
    trainer_take(w);
}

static void finish_if_done(struct world *w)
{
    struct rank *r = &w->rank;
    if (r->at.train < w->train_end || r->at.evaluating) {
        return;
    }
    sim_trace(w, "rank: all steps are consumed");
    r->finishing = true;
    w->quiet_ns = sim_earlier(w->quiet_ns, w->now_ns);
    w->end_ns = w->now_ns + 15 * SIM_S;
    sched_finish(r->sched, w->now_ns);
}

static void step_done(struct world *w)
{
    struct rank *r = &w->rank;
    r->lent = false;
    check_step_done(w, r->lent_stream, r->lent_gstep);
    sched_consumed(r->sched, r->lent_stream, w->now_ns);
    if (r->lent_stream == 1) {
        r->at.eval++;
        if (r->at.eval == w->eval_steps) {
            r->at.evaluating = false;
            r->at.evals++;
        }
    } else {
        r->at.train++;
        if (w->stream_count > 1 && r->at.train % w->streams[0].data.steps_per_epoch == 0) {
            open_eval(w);
        }
        if (r->at.train % w->step_checkpoint == 0) {
            r->checkpoint = r->at;
        }
    }
    finish_if_done(w);
}

void rank_reopen_eval(struct world *w)
{
    if (!w->rank.opened || !w->rank.at.evaluating || (w->rank.lent && w->rank.lent_stream == 1)) {
        return;
    }
    w->counts->reopenings++;
    check_event_begin(w);
    open_eval(w);
    drain(w);
    check_event_end(w);
}

int64_t rank_next_ns(const struct world *w)
{
    const struct rank *r = &w->rank;
    if (!r->up) {
        return r->up_ns;
    }
    int64_t next_ns = r->fixed ? NEVER : r->fix_ns;
    if (r->lent) {
        next_ns = sim_earlier(next_ns, r->trainer_ns);
    }
    const int64_t deadline_ns = sched_deadline(r->sched);
    return sim_earlier(next_ns, deadline_ns == NEVER ? NEVER : deadline_ns + r->lag_ns);
}

static void timers(struct world *w)
{
    sched_on_time(w->rank.sched, w->now_ns);
    drain(w);
    if (!w->failed && sched_deadline(w->rank.sched) <= w->now_ns) {
        sim_fail(w, "a deadline has passed and nothing was done about it");
    }
}

void rank_tick(struct world *w)
{
    struct rank *r = &w->rank;
    if (!r->up) {
        rank_start(w);
        return;
    }
    check_event_begin(w);
    if (!r->fixed && w->now_ns >= r->fix_ns) {
        fix(w);
        open_all(w);
    }
    if (r->lent && w->now_ns >= r->trainer_ns) {
        step_done(w);
    }
    drain(w);
    const int64_t deadline_ns = sched_deadline(r->sched);
    if (!w->failed && deadline_ns != NEVER && w->now_ns >= deadline_ns + r->lag_ns) {
        timers(w);
    }
    check_event_end(w);
}

bool rank_is_done(const struct world *w)
{
    return w->rank.failed_as_expected ||
           (w->rank.up && w->rank.finishing && sched_finished(w->rank.sched));
}
