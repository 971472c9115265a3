/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every process of a job does first: read configuration and cluster, find its own and the
 * coordinator's address, join. Used by run, serve and train.
 */
#ifndef HEADRACE_CLI_JOIN_H
#define HEADRACE_CLI_JOIN_H

#include "common/coord.h"

struct member {
    struct config config;
    struct cluster cluster;
    const struct cluster_host *host;  /* this one, in cluster */
    char address[ADDR_BYTES_MAX];     /* own, numeric */
    char coordinator[ADDR_BYTES_MAX]; /* numeric */
};

/*
 * Reads the options (argv[0] is the command's name; words that are no options come back in
 * argv[0..*rest_count_out)), the environment, the hyperparameters and the cluster under
 * cluster_base(), and sets up the log under "HOST" or "HOST/suffix".
 */
MUST_USE enum status member_load(int argc, char **argv, const char *suffix, struct member *out,
                                 int *rest_count_out, struct err *err);
void member_fini(struct member *member);

/* Fills the two addresses: from the hosts map, else by net_resolve. The own one has to lie inside
 * the cluster file's interface (ERR_CONFIG). cancel_fd as in coord_join. */
MUST_USE enum status member_resolve(struct member *member, const int *cancel_fd,
                                    int64_t deadline_ns, struct err *err);

/* Joins the coordinator at config.port, filling from the member what every kind of join says;
 * `join` brings kind, local rank, ranks, ports and fingerprint. */
MUST_USE enum status member_join(const struct member *member, const struct coord_join *join,
                                 int64_t deadline_ns, struct coord_client **out, struct err *err);

#endif
