/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator does for a request. Requests are repeated until answered, so each kind is
 * harmless when it comes twice: by its nature, or by the number of the last one that counted.
 */
#include <stdio.h>
#include <string.h>

#include "common/coord_job.h"

static void answer(struct coord_state *state, const struct coord_member *member, uint64_t number,
                   enum coord_answer_code code, uint64_t value)
{
    struct coord_msg *msg = job_message(state, COORD_MSG_ANSWER, member);
    msg->answer.code = code;
    msg->answer.number = number;
    msg->answer.value = value;
    job_send(state, member);
}

static void answer_bytes(struct coord_state *state, const struct coord_member *member,
                         uint64_t number, enum coord_answer_code code, const void *bytes,
                         size_t count)
{
    struct coord_msg *msg = job_message(state, COORD_MSG_ANSWER, member);
    msg->answer.code = code;
    msg->answer.number = number;
    msg->answer.bytes_count = (uint32_t)count;
    memcpy(msg->answer.bytes, bytes, count);
    job_send(state, member);
}

static void answer_error(struct coord_state *state, const struct coord_member *member,
                         uint64_t number, const struct err *err)
{
    answer_bytes(state, member, number,
                 err->status == ERR_CONFIG ? COORD_ANSWER_CONFLICT : COORD_ANSWER_FULL,
                 err->message, strlen(err->message));
}

/* ---- requests that wait ---- */

/* The place for a request that waits: its own if it came before; that of the SUM which it replaces,
 * for a member has one at a time under a name; else the oldest's when there is no room, whose
 * caller has given up or will ask again. */
static struct coord_pending *place_for(struct coord_member *member,
                                       const struct coord_msg_request *request)
{
    struct coord_pending *oldest = &member->pending[0];
    for (uint32_t i = 0; i < member->pending_count; i++) {
        struct coord_pending *pending = &member->pending[i];
        const bool replaced = request->kind == COORD_REQUEST_SUM &&
                              pending->kind == COORD_REQUEST_SUM &&
                              strcmp(pending->key, request->key) == 0;
        if (pending->number == request->number || replaced) {
            return pending;
        }
        if (pending->number < oldest->number) {
            oldest = pending;
        }
    }
    return member->pending_count < COORD_PENDING_MAX ? &member->pending[member->pending_count++]
                                                     : oldest;
}

static void wait_for_it(struct coord_member *member, const struct coord_msg_request *request)
{
    struct coord_pending *pending = place_for(member, request);
    pending->kind = request->kind;
    pending->number = request->number;
    memcpy(pending->key, request->key, sizeof(pending->key));
    pending->value = request->value;
    pending->count = request->count;
}

static void forget(struct coord_member *member, uint32_t i)
{
    member->pending[i] = member->pending[--member->pending_count];
}

/* The first one of a kind under a key (NULL: any) from `from` on; pending_count: none. */
static uint32_t find_pending(const struct coord_member *member, uint32_t from, uint32_t kind,
                             const char *key)
{
    for (uint32_t i = from; i < member->pending_count; i++) {
        if (member->pending[i].kind == kind &&
            (key == NULL || strcmp(member->pending[i].key, key) == 0)) {
            return i;
        }
    }
    return member->pending_count;
}

static void answer_gets(struct coord_state *state, const char *key)
{
    const struct fact *fact = facts_get(&state->facts, key);
    if (fact == NULL) {
        return;
    }
    for (uint32_t m = 0; m < state->member_count; m++) {
        struct coord_member *member = state->members[m];
        uint32_t i = 0;
        while ((i = find_pending(member, i, COORD_REQUEST_GET, key)) < member->pending_count) {
            answer_bytes(state, member, member->pending[i].number, COORD_ANSWER_OK, fact->value,
                         fact->count);
            forget(member, i);
        }
    }
}

static void answer_sums(struct coord_state *state, const char *key)
{
    uint32_t arrived = 0;
    uint32_t wanted = 0;
    uint64_t sum = 0;
    for (uint32_t m = 0; m < state->member_count; m++) {
        const struct coord_member *member = state->members[m];
        const uint32_t i = find_pending(member, 0, COORD_REQUEST_SUM, key);
        if (i < member->pending_count) {
            arrived++;
            wanted = member->pending[i].count > wanted ? member->pending[i].count : wanted;
            sum += member->pending[i].value;
        }
    }
    if (arrived < wanted) {
        return;
    }
    for (uint32_t m = 0; m < state->member_count; m++) {
        struct coord_member *member = state->members[m];
        const uint32_t i = find_pending(member, 0, COORD_REQUEST_SUM, key);
        if (i == member->pending_count) {
            continue;
        }
        member->sum_number = member->pending[i].number;
        member->sum_value = sum;
        forget(member, i);
        answer(state, member, member->sum_number, COORD_ANSWER_OK, sum);
    }
}

static void send_roster_page(struct coord_state *state, const struct coord_member *member,
                             uint64_t number, uint32_t first)
{
    const struct config *config = state->options.config;
    if (first >= state->rank_count) {
        return; /* no member of ours asks for that */
    }
    struct coord_msg_roster *page = &job_message(state, COORD_MSG_ROSTER, member)->roster;
    page->number = number;
    page->job = state->options.job;
    page->seed = (uint64_t)config->seed;
    page->global_batch = (uint64_t)config->global_batch;
    page->rank_count = state->rank_count;
    page->first = first;
    const uint32_t left = state->rank_count - first;
    page->count = left < COORD_PAGE_RANKS ? left : COORD_PAGE_RANKS;
    memcpy(page->ranks, state->ranks + first, page->count * sizeof(page->ranks[0]));
    page->stream_count = first == 0 ? config->stream_count : 0;
    for (uint32_t i = 0; i < page->stream_count; i++) {
        const struct stream_config *stream = &config->streams[i];
        struct roster_stream *out = &page->streams[i];
        memcpy(out->name, stream->name, sizeof(out->name));
        memcpy(out->data, stream->data, sizeof(out->data));
        memcpy(out->pipeline, stream->pipeline.text, sizeof(out->pipeline));
        out->shuffle = stream->shuffle;
        out->last = stream->last;
    }
    job_send(state, member);
}

void job_answer_rosters(struct coord_state *state)
{
    if (state->rank_count == 0 && !state->stopped_early) {
        return;
    }
    for (uint32_t m = 0; m < state->member_count; m++) {
        struct coord_member *member = state->members[m];
        uint32_t i = 0;
        while ((i = find_pending(member, i, COORD_REQUEST_ROSTER, NULL)) < member->pending_count) {
            const struct coord_pending pending = member->pending[i];
            forget(member, i);
            if (state->stopped_early) {
                answer(state, member, pending.number, COORD_ANSWER_CANCELLED, 0);
            } else {
                send_roster_page(state, member, pending.number, pending.count);
            }
        }
    }
}

/* ---- the kinds ---- */

static void on_put(struct coord_state *state, struct coord_member *member,
                   const struct coord_msg_request *request)
{
    struct err err;
    if (facts_put(&state->facts, request->key, request->bytes, request->bytes_count, &err) != OK) {
        answer_error(state, member, request->number, &err);
        return;
    }
    answer(state, member, request->number, COORD_ANSWER_OK, 0);
    answer_gets(state, request->key);
}

static void on_agree(struct coord_state *state, struct coord_member *member,
                     const struct coord_msg_request *request)
{
    struct err err;
    if (facts_agree(&state->facts, request->key, request->value, member->join.host, &err) != OK) {
        answer_error(state, member, request->number, &err);
        return;
    }
    answer(state, member, request->number, COORD_ANSWER_OK, request->value);
}

static void on_sum(struct coord_state *state, struct coord_member *member,
                   const struct coord_msg_request *request)
{
    if (request->number <= member->sum_number) {
        answer(state, member, request->number, COORD_ANSWER_OK, member->sum_value);
        return;
    }
    wait_for_it(member, request);
    answer_sums(state, request->key);
}

static void on_add(struct coord_state *state, struct coord_member *member,
                   const struct coord_msg_request *request)
{
    struct err err;
    uint64_t sum;
    if (facts_add(&state->facts, request->key, member->instance, request->number, request->value,
                  &sum, &err) != OK) {
        answer_error(state, member, request->number, &err);
        return;
    }
    answer(state, member, request->number, COORD_ANSWER_OK, sum);
}

static void count_crash(struct coord_state *state, uint32_t stream, uint64_t sample)
{
    uint32_t i = 0;
    while (i < state->crash_count &&
           (state->crashes[i].stream != stream || state->crashes[i].sample != sample)) {
        i++;
    }
    if (i == COORD_CRASHES_MAX) {
        char text[128];
        snprintf(text, sizeof(text),
                 "more than %d different samples have crashed the decoder: it is not the samples",
                 COORD_CRASHES_MAX);
        job_fail(state, EXIT_INTERNAL, text);
        return;
    }
    if (i == state->crash_count) {
        state->crashes[state->crash_count++] =
            (struct coord_crash){.stream = stream, .sample = sample};
    }
    if (++state->crashes[i].count == 2 && !coord_state_over(state)) {
        job_append(state, &(struct coord_log_entry){
                              .kind = COORD_LOG_VERDICT, .stream = stream, .value = sample});
    }
}

static void on_crash(struct coord_state *state, struct coord_member *member,
                     const struct coord_msg_request *request)
{
    if (request->number > member->crash_number) {
        member->crash_number = request->number;
        count_crash(state, request->count, request->value);
    }
    answer(state, member, request->number, COORD_ANSWER_OK, 0);
}

void job_producer_failed(struct coord_state *state, int host, int code, const char *text)
{
    state->hosts[host].producer_failed = true;
    if (state->first_failed_producer == NULL) {
        state->first_failed_producer = state->options.cluster->hosts[host].name;
        state->first_producer_code = code;
        snprintf(state->first_producer_text, sizeof(state->first_producer_text), "%s", text);
    }
    job_check_producers(state);
}

/* A request's bytes as text. */
static void request_text(const struct coord_msg_request *request, char out[TEXT_BYTES_MAX])
{
    const size_t count =
        request->bytes_count < TEXT_BYTES_MAX ? request->bytes_count : TEXT_BYTES_MAX - 1;
    memcpy(out, request->bytes, count);
    out[count] = '\0';
}

/* The notices, which are answered at once. Those about a host are an agent's. */
static void on_notice(struct coord_state *state, struct coord_member *member,
                      const struct coord_msg_request *request)
{
    const bool agent = member->join.kind == COORD_AGENT;
    char text[TEXT_BYTES_MAX];
    char full[TEXT_BYTES_MAX];
    answer(state, member, request->number, COORD_ANSWER_OK, 0);
    switch (request->kind) {
    case COORD_REQUEST_FAIL:
        request_text(request, text);
        snprintf(full, sizeof(full), "%s: %s", member->join.host, text);
        job_fail(state, EXIT_PEER, full);
        break;
    case COORD_REQUEST_SUSPECT:
        request_text(request, text);
        if (!state->suspected) {
            state->suspected = true;
            snprintf(state->suspicion, sizeof(state->suspicion), "%s: %s", member->join.host, text);
        }
        break;
    case COORD_REQUEST_STOP:
        job_stop(state);
        break;
    case COORD_REQUEST_GIVE_UP:
        if (member->join.kind == COORD_RANK) {
            job_give_up(state, request->value);
        }
        break;
    case COORD_REQUEST_DONE:
        if (agent) {
            state->hosts[member->host].done = true;
            job_check_done(state);
        }
        break;
    case COORD_REQUEST_PRODUCER_FAILED:
        if (agent) {
            request_text(request, text);
            job_producer_failed(state, member->host, (int)request->count, text);
        }
        break;
    default:
        break;
    }
}

void job_request(struct coord_state *state, struct coord_member *member,
                 const struct coord_msg_request *request)
{
    switch (request->kind) {
    case COORD_REQUEST_PUT:
        on_put(state, member, request);
        break;
    case COORD_REQUEST_GET:
        wait_for_it(member, request);
        answer_gets(state, request->key);
        break;
    case COORD_REQUEST_AGREE:
        on_agree(state, member, request);
        break;
    case COORD_REQUEST_SUM:
        on_sum(state, member, request);
        break;
    case COORD_REQUEST_ADD:
        on_add(state, member, request);
        break;
    case COORD_REQUEST_ROSTER:
        wait_for_it(member, request);
        job_answer_rosters(state);
        break;
    case COORD_REQUEST_CRASH:
        on_crash(state, member, request);
        break;
    default:
        on_notice(state, member, request);
        break;
    }
}
