/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator's state machine: the log of events, the life of the job, who falls silent. Who
 * joins and leaves is in coord_member.c, what a request asks for in coord_request.c, the memory in
 * coord_job.c. Pure.
 */
#include "common/coord_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/coord_job.h"

/* A member is lost after this many peer_timeouts of silence, or after fewer when a connection
 * broke: more than one, because a lost agent ends the job, and a busy machine may be slow for a
 * second. */
enum { SILENCE_FACTOR = 5, SILENCE_FACTOR_BROKEN = 2 };

enum { EVENTS_PER_PING = 8 };

static const int64_t SUSPECT_NS = INT64_C(2000000000);

/* ---- sending ---- */

struct coord_msg *job_message(struct coord_state *state, enum coord_msg_type type,
                              const struct coord_member *member)
{
    memset(&state->out, 0, sizeof(state->out));
    state->out.type = type;
    state->out.member = member->instance;
    return &state->out;
}

void job_send(struct coord_state *state, const struct coord_member *member)
{
    state->options.send(state->options.context, member->peer, &state->out);
}

static void send_event(struct coord_state *state, const struct coord_member *member, uint32_t index)
{
    struct coord_msg *msg = job_message(state, COORD_MSG_EVENT, member);
    msg->event.index = index;
    msg->event.entry = state->log[index];
    job_send(state, member);
}

void job_append(struct coord_state *state, const struct coord_log_entry *entry)
{
    CHECK(state->log_count < COORD_CRASHES_MAX + 4);
    const uint32_t index = state->log_count++;
    state->log[index] = *entry;
    for (uint32_t i = 0; i < state->member_count; i++) {
        send_event(state, state->members[i], index);
    }
}

void job_note(struct coord_state *state, const char *text)
{
    state->options.note(state->options.context, text);
}

/* ---- the life of the job ---- */

bool coord_state_over(const struct coord_state *state)
{
    if (state->log_count == 0) {
        return false;
    }
    const uint32_t kind = state->log[state->log_count - 1].kind;
    return kind == COORD_LOG_FAIL || kind == COORD_LOG_DONE;
}

uint32_t coord_state_member_count(const struct coord_state *state)
{
    return state->member_count;
}

bool coord_state_all_told(const struct coord_state *state, int64_t now_ns, int64_t quiet_ns)
{
    for (uint32_t i = 0; i < state->options.cluster->host_count; i++) {
        if (!state->hosts[i].agent_seen) {
            return false;
        }
    }
    for (uint32_t i = 0; i < state->member_count; i++) {
        if (now_ns - state->members[i]->heard_ns <= quiet_ns) {
            return false;
        }
    }
    return true;
}

void job_fail(struct coord_state *state, int code, const char *text)
{
    if (coord_state_over(state)) {
        return;
    }
    struct coord_log_entry entry = {.kind = COORD_LOG_FAIL, .code = (uint32_t)code};
    snprintf(entry.text, sizeof(entry.text), "%s", text);
    job_append(state, &entry);
}

void job_check_done(struct coord_state *state)
{
    const struct cluster *cluster = state->options.cluster;
    if (coord_state_over(state) || !(state->rank_count > 0 || state->stopped_early)) {
        return;
    }
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const struct coord_host *host = &state->hosts[i];
        const bool awaited = (cluster->hosts[i].role & ROLE_TRAINER) != 0 &&
                             (state->rank_count > 0 || host->agent_present);
        if (awaited && !host->done) {
            return;
        }
    }
    job_append(state, &(struct coord_log_entry){.kind = COORD_LOG_DONE});
}

/* When every rank has promised: the common last step. */
void job_check_stop(struct coord_state *state)
{
    if (!state->stop_asked || state->stop_settled || coord_state_over(state)) {
        return;
    }
    uint64_t begun = state->begun_by_departed;
    bool any = false;
    for (uint32_t i = 0; i < state->member_count; i++) {
        const struct coord_member *member = state->members[i];
        if (member->join.kind != COORD_RANK) {
            continue;
        }
        if (!member->promised) {
            return;
        }
        any = true;
        begun = member->begun > begun ? member->begun : begun;
    }
    if (!any) {
        return; /* all ranks have ended by themselves; their agents say DONE */
    }
    state->stop_settled = true;
    state->stop_at = begun == 0 ? 0 : begun + 2;
    job_append(state,
               &(struct coord_log_entry){.kind = COORD_LOG_STOP_AT, .value = state->stop_at});
}

/* A rank that has begun this step will not take it, so nobody can finish it. */
void job_give_up(struct coord_state *state, uint64_t step)
{
    if (!state->stop_settled || state->given_up || coord_state_over(state) ||
        step >= state->stop_at) {
        return;
    }
    state->given_up = true;
    state->stop_at = step;
    job_append(state, &(struct coord_log_entry){.kind = COORD_LOG_STOP_AT, .value = step});
}

void job_stop(struct coord_state *state)
{
    if (state->stop_asked || coord_state_over(state)) {
        return;
    }
    state->stop_asked = true;
    if (state->rank_count > 0) {
        job_append(state, &(struct coord_log_entry){.kind = COORD_LOG_STOP_ASKED});
        job_check_stop(state);
        return;
    }
    state->stopped_early = true;
    state->stop_settled = true;
    job_append(state, &(struct coord_log_entry){.kind = COORD_LOG_STOP_AT});
    job_answer_rosters(state);
    job_check_done(state);
}

/* Every producer host has failed for good, and nobody else produces. */
void job_check_producers(struct coord_state *state)
{
    const struct cluster *cluster = state->options.cluster;
    if (state->first_failed_producer == NULL) {
        return;
    }
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        if ((cluster->hosts[i].role & ROLE_PRODUCER) != 0 && !state->hosts[i].producer_failed) {
            return;
        }
    }
    for (uint32_t i = 0; i < state->member_count; i++) {
        const struct coord_member *member = state->members[i];
        /* Those of the cluster's hosts have ended, also where their silence is not yet noticed. */
        if (member->join.kind == COORD_PRODUCER && member->host < 0) {
            return;
        }
    }
    char text[TEXT_BYTES_MAX];
    snprintf(text, sizeof(text), "no producer is left: %s: %s", state->first_failed_producer,
             state->first_producer_text);
    job_fail(state, state->first_producer_code, text);
}

/* ---- messages ---- */

static void on_ping(struct coord_state *state, struct coord_member *member,
                    const struct coord_msg_ping *ping)
{
    struct coord_msg *msg = job_message(state, COORD_MSG_PONG, member);
    msg->welcome.event_count = state->log_count;
    job_send(state, member);
    for (uint32_t i = ping->seen; i < state->log_count && i < ping->seen + EVENTS_PER_PING; i++) {
        send_event(state, member, i);
    }
    if (ping->begun > member->begun) {
        member->begun = ping->begun;
    }
    if (ping->promised && !member->promised) {
        member->promised = true;
        job_check_stop(state);
    }
}

void coord_state_receive(struct coord_state *state, int64_t now_ns, uint64_t peer,
                         const struct coord_msg *msg)
{
    if (msg->type == COORD_MSG_JOIN) {
        job_join(state, now_ns, peer, msg->member, &msg->join);
    }
    struct coord_member *member = job_find(state, msg->member);
    if (member == NULL) {
        if (msg->type == COORD_MSG_PING) {
            job_refuse(state, peer, msg->member, COORD_REFUSE_UNKNOWN, "not a member: say JOIN");
        }
        return;
    }
    /* A connection that was made again has another peer. */
    member->peer = peer;
    member->heard_ns = now_ns;
    switch (msg->type) {
    case COORD_MSG_PING:
        on_ping(state, member, &msg->ping);
        break;
    case COORD_MSG_REQUEST:
        job_request(state, member, &msg->request);
        break;
    case COORD_MSG_BYE:
        job_bye(state, member);
        break;
    default:
        break; /* a JOIN, handled above, or what only a server says */
    }
}

/* ---- time ---- */

void coord_state_hint(struct coord_state *state, int64_t now_ns)
{
    state->hint_ns = now_ns;
}

static bool silent(const struct coord_state *state, const struct coord_member *member,
                   int64_t now_ns)
{
    if (now_ns - member->heard_ns > SILENCE_FACTOR * state->peer_timeout_ns) {
        return true;
    }
    return state->hint_ns != 0 && member->heard_ns < state->hint_ns &&
           now_ns - state->hint_ns > SILENCE_FACTOR_BROKEN * state->peer_timeout_ns;
}

static void check_silence(struct coord_state *state, int64_t now_ns)
{
    for (uint32_t i = 0; i < state->member_count;) {
        struct coord_member *member = state->members[i];
        if (!silent(state, member, now_ns)) {
            i++;
            continue;
        }
        char how[64];
        snprintf(how, sizeof(how), "was lost: not heard for %.1f s",
                 (double)(now_ns - member->heard_ns) / 1e9);
        job_gone(state, member, how); /* the next one is now in this place */
    }
}

void coord_state_waiting(const struct coord_state *state, char *out, size_t bytes)
{
    const struct cluster *cluster = state->options.cluster;
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < cluster->host_count && used < bytes; i++) {
        const struct coord_host *host = &state->hosts[i];
        const bool trains = (cluster->hosts[i].role & ROLE_TRAINER) != 0;
        const char *what = "";
        if (host->agent_seen) {
            if (!trains || host->ranks_present >= host->local_ranks) {
                continue;
            }
            what = "ranks of ";
        }
        used += (size_t)snprintf(out + used, bytes - used, "%s%s%s", used == 0 ? "" : ", ", what,
                                 cluster->hosts[i].name);
    }
}

/* At the join deadline. A producing host that never came is a host whose producer failed. */
static void check_joined(struct coord_state *state, int64_t now_ns)
{
    const struct cluster *cluster = state->options.cluster;
    if (state->join_checked || now_ns < state->join_deadline_ns) {
        return;
    }
    state->join_checked = true;
    char waiting[TEXT_BYTES_MAX / 2];
    char text[TEXT_BYTES_MAX];
    coord_state_waiting(state, waiting, sizeof(waiting));
    if (waiting[0] == '\0') {
        return;
    }
    snprintf(text, sizeof(text), "did not join within %.0f s (join_timeout_s): %s",
             state->options.config->join_timeout_s, waiting);
    if (state->rank_count == 0 || strcmp(state->options.config->producer_failure, "fail") == 0) {
        job_fail(state, EXIT_TEMPORARY, text);
        return;
    }
    job_note(state, text);
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        if (!state->hosts[i].agent_seen) {
            job_producer_failed(state, (int)i, EXIT_TEMPORARY, "did not join");
        }
    }
}

/* Of a failure's consequences the first one heard is told, when the failure itself is not. */
static void check_suspicion(struct coord_state *state, int64_t now_ns)
{
    if (state->suspected && state->suspect_ns == 0) {
        state->suspect_ns = now_ns + SUSPECT_NS;
    }
    if (state->suspected && now_ns >= state->suspect_ns) {
        job_fail(state, EXIT_PEER, state->suspicion);
    }
}

void coord_state_tick(struct coord_state *state, int64_t now_ns)
{
    if (!coord_state_over(state)) {
        check_joined(state, now_ns);
        check_suspicion(state, now_ns);
    }
    check_silence(state, now_ns);
}
