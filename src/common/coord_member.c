/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who joins and who leaves the coordinator, and the job's ranks once all are there. A producer may
 * come from outside the cluster file; agents and ranks may not, and a rank comes after its agent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/coord_job.h"

/* Where a member stands, or would: every message is looked up, of thousands of members. */
static uint32_t place_of(const struct coord_state *state, uint64_t instance)
{
    uint32_t low = 0;
    uint32_t high = state->member_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (state->members[middle]->instance < instance) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct coord_member *job_find(const struct coord_state *state, uint64_t instance)
{
    const uint32_t place = place_of(state, instance);
    const bool found = place < state->member_count && state->members[place]->instance == instance;
    return found ? state->members[place] : NULL;
}

const char *job_member_name(const struct coord_msg_join *join, char *out, size_t bytes)
{
    if (join->kind == COORD_RANK) {
        snprintf(out, bytes, "local rank %u", join->local_rank);
    } else {
        snprintf(out, bytes, "%s", join->kind == COORD_AGENT ? "agent" : "producer");
    }
    return out;
}

void job_refuse(struct coord_state *state, uint64_t peer, uint64_t instance,
                enum coord_refusal code, const char *text)
{
    const struct coord_member nobody = {.instance = instance, .peer = peer};
    struct coord_msg *msg = job_message(state, COORD_MSG_REFUSE, &nobody);
    msg->refuse.code = code;
    snprintf(msg->refuse.text, sizeof(msg->refuse.text), "%s", text);
    job_send(state, &nobody);
}

static bool trains(const struct coord_state *state, uint32_t host)
{
    return (state->options.cluster->hosts[host].role & ROLE_TRAINER) != 0;
}

static int find_host(const struct cluster *cluster, const char *name)
{
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        if (strcmp(cluster->hosts[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* What speaks against a JOIN, in words; false: nothing. */
static bool objection(const struct coord_state *state, const struct coord_msg_join *join, int host,
                      char *out, size_t bytes)
{
    char who[64];
    job_member_name(join, who, sizeof(who));
    if (join->kind != COORD_PRODUCER && host < 0) {
        snprintf(out, bytes, "host %s is not in the cluster file of %s", join->host,
                 state->own_host);
        return true;
    }
    const bool may_train = host >= 0 && trains(state, (uint32_t)host);
    if (join->kind == COORD_AGENT && (join->local_ranks > 0) != may_train) {
        snprintf(out, bytes, "%s announces %u ranks, but for %s it is a host that %s", join->host,
                 join->local_ranks, state->own_host, may_train ? "trains" : "does not train");
        return true;
    }
    if (join->kind == COORD_RANK &&
        (!state->hosts[host].agent_seen || join->local_rank >= state->hosts[host].local_ranks)) {
        snprintf(out, bytes, "%s of host %s, whose agent has announced %u ranks", who, join->host,
                 state->hosts[host].local_ranks);
        return true;
    }
    if (join->kind == COORD_PRODUCER && join->fingerprint != 0 && state->fingerprint != 0 &&
        join->fingerprint != state->fingerprint) {
        snprintf(out, bytes,
                 "the producer on %s decodes with other versions (fingerprint %016" PRIx64
                 ") than %s (%016" PRIx64 "): use the same image on all hosts",
                 join->host, join->fingerprint, state->fingerprint_host, state->fingerprint);
        return true;
    }
    for (uint32_t i = 0; i < state->member_count; i++) {
        const struct coord_msg_join *other = &state->members[i]->join;
        if (join->kind != COORD_PRODUCER && other->kind == join->kind &&
            other->local_rank == join->local_rank && strcmp(other->host, join->host) == 0) {
            snprintf(out, bytes, "another %s of host %s has joined from %s; this one is at %s", who,
                     join->host, other->address, join->address);
            return true;
        }
    }
    return false;
}

static bool all_there(const struct coord_state *state, uint32_t *world_out)
{
    uint32_t world = 0;
    for (uint32_t i = 0; i < state->options.cluster->host_count; i++) {
        const struct coord_host *host = &state->hosts[i];
        if (!trains(state, i)) {
            continue;
        }
        if (!host->agent_seen || host->ranks_present < host->local_ranks) {
            return false;
        }
        world += host->local_ranks;
    }
    *world_out = world;
    return true;
}

/* Numbers by host, then local rank. */
static void fill_ranks(struct coord_state *state, struct roster_rank *ranks)
{
    uint32_t first = 0;
    for (uint32_t h = 0; h < state->options.cluster->host_count; h++) {
        if (!trains(state, h)) {
            continue;
        }
        for (uint32_t i = 0; i < state->member_count; i++) {
            const struct coord_msg_join *join = &state->members[i]->join;
            if (join->kind != COORD_RANK || state->members[i]->host != (int)h) {
                continue;
            }
            struct roster_rank *rank = &ranks[first + join->local_rank];
            rank->rank = first + join->local_rank;
            rank->local_rank = join->local_rank;
            memcpy(rank->host, join->host, sizeof(rank->host));
            memcpy(rank->address, join->address, sizeof(rank->address));
            rank->port = join->port;
            rank->ring_port = join->ring_port;
        }
        first += state->hosts[h].local_ranks;
    }
}

static void check_complete(struct coord_state *state)
{
    uint32_t world;
    if (state->rank_count > 0 || state->stopped_early || coord_state_over(state) ||
        !all_there(state, &world)) {
        return;
    }
    char text[TEXT_BYTES_MAX];
    const int64_t global_batch = state->options.config->global_batch;
    if (world == 0 || world > RANKS_MAX || global_batch % world != 0) {
        snprintf(text, sizeof(text),
                 "global_batch %" PRId64 " cannot be divided by the world size %u (at most %d): "
                 "set --global-batch to a multiple of it",
                 global_batch, world, RANKS_MAX);
        job_fail(state, EXIT_CONFIG, text);
        return;
    }
    struct roster_rank *ranks = calloc(world, sizeof(*ranks));
    if (ranks == NULL) {
        job_fail(state, EXIT_RESOURCE, "the coordinator is out of memory for the roster");
        return;
    }
    fill_ranks(state, ranks);
    state->ranks = ranks;
    state->rank_count = world;
    snprintf(text, sizeof(text), "all %u ranks have joined", world);
    job_note(state, text);
    job_answer_rosters(state);
}

static void add_member(struct coord_state *state, int64_t now_ns, uint64_t peer, uint64_t instance,
                       const struct coord_msg_join *join, int host)
{
    struct coord_member *member = calloc(1, sizeof(*member));
    if (member == NULL) {
        job_refuse(state, peer, instance, COORD_REFUSE_FULL, "the coordinator is out of memory");
        return;
    }
    member->instance = instance;
    member->peer = peer;
    member->join = *join;
    member->host = host;
    member->heard_ns = now_ns;
    struct coord_member **place = &state->members[place_of(state, instance)];
    struct coord_member **end = &state->members[state->member_count++];
    memmove(place + 1, place, (size_t)(end - place) * sizeof(struct coord_member *));
    *place = member;
    if (join->kind == COORD_AGENT) {
        state->hosts[host].agent_seen = true;
        state->hosts[host].agent_present = true;
        state->hosts[host].local_ranks = join->local_ranks;
    }
    if (join->kind == COORD_RANK) {
        state->hosts[host].ranks_present++;
    }
    if (join->kind == COORD_PRODUCER && state->fingerprint == 0) {
        state->fingerprint = join->fingerprint;
        memcpy(state->fingerprint_host, join->host, sizeof(state->fingerprint_host));
    }
}

static void welcome(struct coord_state *state, const struct coord_member *member)
{
    struct coord_msg *msg = job_message(state, COORD_MSG_WELCOME, member);
    msg->welcome.event_count = state->log_count;
    job_send(state, member);
}

void job_join(struct coord_state *state, int64_t now_ns, uint64_t peer, uint64_t instance,
              const struct coord_msg_join *join)
{
    struct coord_member *member = job_find(state, instance);
    if (member != NULL) {
        welcome(state, member);
        return;
    }
    char text[TEXT_BYTES_MAX];
    if (join->config_digest != 0 && join->config_digest != state->config_digest) {
        snprintf(text, sizeof(text),
                 "the configuration differs between hosts: %s has digest %016" PRIx64
                 ", %s has %016" PRIx64 ": give all hosts the same job file and options",
                 state->own_host, state->config_digest, join->host, join->config_digest);
        job_refuse(state, peer, instance, COORD_REFUSE_CONFIG, text);
        job_fail(state, EXIT_CONFIG, text);
        return;
    }
    const int host = find_host(state->options.cluster, join->host);
    if (objection(state, join, host, text, sizeof(text))) {
        job_refuse(state, peer, instance, COORD_REFUSE_CONFIG, text);
        return;
    }
    if (state->member_count == COORD_MEMBERS_MAX) {
        job_refuse(state, peer, instance, COORD_REFUSE_FULL,
                   "the coordinator has too many members");
        return;
    }
    add_member(state, now_ns, peer, instance, join, host);
    member = job_find(state, instance);
    if (member == NULL) {
        return;
    }
    welcome(state, member);
    check_complete(state);
}

/* ---- leaving ---- */

static void remove_member(struct coord_state *state, struct coord_member *member)
{
    const struct coord_msg_join *join = &member->join;
    if (join->kind == COORD_AGENT) {
        state->hosts[member->host].agent_present = false;
    }
    if (join->kind == COORD_RANK) {
        state->hosts[member->host].ranks_present--;
        if (member->begun > state->begun_by_departed) {
            state->begun_by_departed = member->begun;
        }
    }
    const bool produced = join->kind == COORD_PRODUCER;
    struct coord_member **place = &state->members[place_of(state, member->instance)];
    struct coord_member **end = &state->members[state->member_count--];
    memmove(place, place + 1, (size_t)(end - place - 1) * sizeof(struct coord_member *));
    free(member);
    if (produced) {
        job_check_producers(state);
    }
    job_check_stop(state);
    job_check_done(state);
}

/* An agent that is gone takes its host with it, so the job fails. Ranks and producers are judged by
 * their agents, who see how they ended. */
void job_gone(struct coord_state *state, struct coord_member *member, const char *how)
{
    char who[64];
    char text[TEXT_BYTES_MAX];
    job_member_name(&member->join, who, sizeof(who));
    snprintf(text, sizeof(text), "%s: %s %s", member->join.host, who, how);
    if (member->join.kind == COORD_AGENT) {
        job_fail(state, EXIT_PEER, text);
    } else {
        job_note(state, text);
    }
    remove_member(state, member);
}

void job_bye(struct coord_state *state, struct coord_member *member)
{
    /* The agent of a host that only produces may leave when it likes. */
    const bool trains = member->join.kind == COORD_AGENT && member->join.local_ranks > 0;
    if (trains && !state->hosts[member->host].done && !coord_state_over(state)) {
        job_gone(state, member, "left before the job was done");
        return;
    }
    remove_member(state, member);
}
