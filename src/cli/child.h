/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of the agent or of `local`: a process group of its own that dies with its parent. The
 * agent starts
 *
 *   headrace serve --crash-record FILE [the options that run was given]     one, if it produces
 *   headrace train --local-rank L [the options that run was given]          one per rank
 *
 * in an environment with HR_REASON_FD=N: a descriptor into which cmd_fail() writes the
 * child's last words for the failure file. Children find base, cluster and coordinator as run did.
 */
#ifndef HEADRACE_CLI_CHILD_H
#define HEADRACE_CLI_CHILD_H

#include <sys/types.h>

#include "common/err.h"

struct child_options {
    const char *path;          /* of the program; found in PATH when it has no slash */
    char *const *argv;         /* NULL at the end */
    char *const *environ_list; /* NULL at the end */
    int nice;                  /* added to the priority */
    int output_fd;             /* stdout and stderr; -1: the parent's */
    int reason_fd;             /* kept open over exec, the same number; -1: none */
};

/*
 * Starts it with default signal actions, nothing blocked, in a process group whose number is its
 * pid, with SIGKILL on the death of the calling thread, which has to be one that lives to the end.
 * ERR_MISSING: no such program; ERR_RESOURCE.
 */
MUST_USE enum status child_start(const struct child_options *options, pid_t *pid_out,
                                 struct err *err);
/* To a child that was not waited for yet, and to all it started in its group. */
void child_signal(pid_t pid, int number);
/* Ends what is left of the group of a child that was waited for, whose number may be somebody
 * else's by now. */
void child_end_group(pid_t pid);

/* "exited with code 65", "was killed by signal 9 (Killed)". */
void child_describe(int wait_status, char *out, size_t bytes);

#endif
