/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's memory: everything whose size is known before anybody joins. */
#include "common/coord_job.h"

#include <stdlib.h>

#include "common/clock.h"

enum status coord_state_new(const struct coord_state_options *options, struct coord_state **out,
                            struct err *err)
{
    struct coord_state *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        return err_set(err, ERR_RESOURCE, "coordinator: out of memory");
    }
    state->options = *options;
    state->config_digest = config_digest(options->config);
    state->own_host = options->cluster->hosts[options->cluster->current].name;
    state->peer_timeout_ns = (int64_t)(options->config->peer_timeout_s * (double)NS_PER_S);
    state->join_deadline_ns =
        options->now_ns + (int64_t)(options->config->join_timeout_s * (double)NS_PER_S);
    state->hosts = calloc(options->cluster->host_count, sizeof(*state->hosts));
    state->members = calloc(COORD_MEMBERS_MAX, sizeof(struct coord_member *));
    /* Verdicts, one each of the others, and a second STOP_AT. */
    state->log = calloc(COORD_CRASHES_MAX + 4, sizeof(*state->log));
    if (state->hosts == NULL || state->members == NULL || state->log == NULL) {
        err_set(err, ERR_RESOURCE, "coordinator: out of memory");
        goto free_state;
    }
    if (facts_init(&state->facts, err) != OK) {
        goto free_state;
    }
    *out = state;
    return OK;
free_state:
    coord_state_free(&state);
    return ERR_RESOURCE;
}

void coord_state_free(struct coord_state **state_pointer)
{
    struct coord_state *state = *state_pointer;
    if (state == NULL) {
        return;
    }
    for (uint32_t i = 0; state->members != NULL && i < state->member_count; i++) {
        free(state->members[i]);
    }
    facts_fini(&state->facts);
    free(state->ranks);
    free(state->members);
    free(state->hosts);
    free(state->log);
    free(state);
    *state_pointer = NULL;
}
