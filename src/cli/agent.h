/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's agent: runs the coordinator's server if this is the first trainer host, starts this
 * host's processes, watches them, restarts a crashed producer, and ends with the exit code of the
 * job as this host saw it. One thread (besides the coordinator's), fit for PID 1.
 *
 *              every rank of ours exited 0: DONE said          DONE heard
 *   RUNNING ----------------------------------------------------------------> DONE: exit 0
 *      | SIGTERM: STOP asked     within 60 s, else FAILED         ^
 *      +--> STOPPING ---------------------------------------------+
 *      | FAIL heard, coordinator lost, a rank failed, a second signal
 *      +--> FAILED: 1 s for the children to end, then SIGTERM, then SIGKILL
 *
 * Nothing that it started outlives it: children die with its main thread.
 */
#ifndef HEADRACE_CLI_AGENT_H
#define HEADRACE_CLI_AGENT_H

#include "cli/join.h"

struct agent_options {
    struct member *member; /* loaded, not resolved; borrowed */
    int argc;              /* options that are handed on to the children; argv[0] is not */
    char **argv;
};

/* Returns the process's exit code; a failure was logged and its file written. */
int agent_run(const struct agent_options *options);

#endif
