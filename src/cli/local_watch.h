/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the agents of a local cluster: starts them, shows what they print with the host's name in
 * front, a line at a time, hands signals on, and waits until all are gone. Agents die with this
 * process, and theirs with them.
 */
#ifndef HEADRACE_CLI_LOCAL_WATCH_H
#define HEADRACE_CLI_LOCAL_WATCH_H

#include "cli/local_plan.h"

/* argv[1..argc): the options of run. Returns the exit code: of the first host that failed by
 * itself, 0 if none did. codes: one per host, as they ended. */
int local_watch(const struct local_plan *plan, int argc, char **argv, int *codes);

#endif
