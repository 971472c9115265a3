/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of one host: which there are, how each is started. When and whether is the agent's
 * business. The program is this one (/proc/self/exe), or HR_CHILD in tests.
 */
#ifndef HEADRACE_CLI_AGENT_PROCESS_H
#define HEADRACE_CLI_AGENT_PROCESS_H

#include "cli/child.h"
#include "cli/join.h"

struct process {
    bool is_producer;
    uint32_t local_rank;
    pid_t pid;          /* 0: not running */
    int64_t start_ns;   /* when to start it; 0: not planned */
    int64_t started_ns; /* its last start */
    uint32_t restarts;
    int64_t backoff_ms;    /* before the next restart */
    bool ended_well;       /* its last end was exit code 0 */
    int reason_fd;         /* its last words (failure.h) */
    int crash_fd;          /* a producer's crash record, a file without a name; else -1 */
    char crash_record[64]; /* its path */
    int nice;
    char **argv;         /* owned, as is */
    char **environ_list; /* only the last entry is its own */
};

struct processes {
    uint32_t count;
    uint32_t rank_count; /* of them */
    struct process *list;
};

/* All that this host's role asks for, to be started at once. */
MUST_USE enum status processes_init(struct processes *out, const struct member *member, int argc,
                                    char **argv, struct err *err);
/* None may be running. */
void processes_fini(struct processes *processes);

MUST_USE enum status process_start(struct process *process, struct err *err);

struct process *processes_find(const struct processes *processes, pid_t pid); /* NULL: none */
uint32_t processes_running(const struct processes *processes);
bool processes_ranks_ended_well(const struct processes *processes); /* all of them */
void processes_signal(const struct processes *processes, int number);

#endif
