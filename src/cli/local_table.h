/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `headrace local` says at the end: the reasons of hosts that failed, each host with its
 * group, role and ranks, and each epoch's figures from rank 0's report.
 */
#ifndef HEADRACE_CLI_LOCAL_TABLE_H
#define HEADRACE_CLI_LOCAL_TABLE_H

#include "cli/local_plan.h"
#include "common/cluster.h"

struct local_table {
    const struct local_plan *plan; /* borrowed */
    struct config config;
    struct cluster cluster; /* as its first host sees it */
};

/* Reads configuration and cluster as the hosts will, so their faults are found before anything is
 * started. argv[1..argc): the options of run; its order is changed. */
MUST_USE enum status local_table_init(struct local_table *out, const struct local_plan *plan,
                                      int argc, char **argv, struct err *err);
void local_table_fini(struct local_table *table);

/* On stdout. codes: the hosts' exit codes. */
void local_table_print(const struct local_table *table, const int *codes);

#endif
