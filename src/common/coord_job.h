/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between coord_state.c, coord_job.c, coord_member.c and coord_request.c: the state they share and
 * the steps in the job's life that messages bring about. Nobody else includes this.
 */
#ifndef HEADRACE_COMMON_COORD_JOB_H
#define HEADRACE_COMMON_COORD_JOB_H

#include "common/coord_facts.h"
#include "common/coord_state.h"

struct coord_pending {
    uint32_t kind; /* GET, SUM or ROSTER */
    uint64_t number;
    char key[COORD_KEY_BYTES];
    uint64_t value;
    uint32_t count;
};

struct coord_member {
    uint64_t instance;
    uint64_t peer;
    struct coord_msg_join join;
    int host; /* in the cluster; -1: a producer from outside */
    int64_t heard_ns;
    uint64_t begun; /* steps, as last heard */
    bool promised;
    uint64_t sum_number,
        sum_value;         /* the last SUM that was answered, in case the answer was lost */
    uint64_t crash_number; /* the last CRASH that was counted */
    uint32_t pending_count;
    struct coord_pending pending[COORD_PENDING_MAX];
};

struct coord_host { /* beside cluster->hosts[i] */
    bool agent_seen, agent_present;
    bool done;
    bool producer_failed;
    uint32_t local_ranks; /* announced */
    uint32_t ranks_present;
};

struct coord_crash {
    uint32_t stream;
    uint32_t count;
    uint64_t sample;
};

struct coord_state {
    struct coord_state_options options;
    uint64_t config_digest;
    const char *own_host;
    int64_t peer_timeout_ns, join_deadline_ns;
    int64_t hint_ns; /* 0: no connection has broken */
    bool join_checked;

    struct coord_host *hosts;
    struct coord_member **members; /* COORD_MEMBERS_MAX places, by instance */
    uint32_t member_count;
    uint64_t fingerprint; /* of the first producer; 0: none yet */
    char fingerprint_host[HOST_BYTES_MAX];

    struct coord_log_entry *log;
    uint32_t log_count;
    uint32_t rank_count; /* 0: WAITING */
    struct roster_rank *ranks;

    bool stop_asked, stop_settled, given_up;
    uint64_t stop_at;   /* once settled */
    bool stopped_early; /* before all ranks were there */
    uint64_t begun_by_departed;

    bool suspected;     /* a loss was reported whose cause may still come */
    int64_t suspect_ns; /* when it becomes the reason, set at the next tick; 0: not yet */
    char suspicion[TEXT_BYTES_MAX];

    const char *first_failed_producer; /* host */
    int first_producer_code;
    char first_producer_text[TEXT_BYTES_MAX];

    struct facts facts;
    uint32_t crash_count;
    struct coord_crash crashes[COORD_CRASHES_MAX];
    struct coord_msg out;
};

/* coord_state.c */
struct coord_msg *job_message(struct coord_state *state, enum coord_msg_type type,
                              const struct coord_member *member);
void job_send(struct coord_state *state, const struct coord_member *member); /* state->out */
void job_append(struct coord_state *state, const struct coord_log_entry *entry);
void job_note(struct coord_state *state, const char *text);
void job_fail(struct coord_state *state, int code, const char *text);
void job_stop(struct coord_state *state);
void job_give_up(struct coord_state *state, uint64_t step);
void job_check_done(struct coord_state *state);
void job_check_stop(struct coord_state *state);
void job_check_producers(struct coord_state *state);

/* coord_member.c */
struct coord_member *job_find(const struct coord_state *state, uint64_t instance);
/* "agent", "local rank 3" */
const char *job_member_name(const struct coord_msg_join *join, char *out, size_t bytes);
void job_join(struct coord_state *state, int64_t now_ns, uint64_t peer, uint64_t instance,
              const struct coord_msg_join *join);
void job_refuse(struct coord_state *state, uint64_t peer, uint64_t instance,
                enum coord_refusal code, const char *text);
/* It said so, or it is not heard any more; member is freed. */
void job_bye(struct coord_state *state, struct coord_member *member);
void job_gone(struct coord_state *state, struct coord_member *member, const char *how);

/* coord_request.c */
void job_request(struct coord_state *state, struct coord_member *member,
                 const struct coord_msg_request *request);
void job_answer_rosters(struct coord_state *state);
void job_producer_failed(struct coord_state *state, int host, int code, const char *text);

#endif
