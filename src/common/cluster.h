/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster: what resourceconfig.json, hyperparameters.json and inputdataconfig.json under
 * <base>/input/config say, and each host's role, worked out the same way on every host (DESIGN.md
 * section 6). The base is /opt/ml unless SAGEMAKER_BASE_DIR moves it. Nothing here opens a socket.
 */
#ifndef HEADRACE_COMMON_CLUSTER_H
#define HEADRACE_COMMON_CLUSTER_H

#include "common/config.h"

enum role { ROLE_PRODUCER = 1, ROLE_TRAINER = 2, ROLE_BOTH = 3 }; /* bits */

struct cluster_host {
    char name[HOST_BYTES_MAX];
    char group[CONFIG_TEXT_BYTES];
    char instance_type[NAME_BYTES_MAX];
    enum role role;
    int32_t trainer_index; /* natural order among trainer hosts; -1: does not train */
};

struct cluster {
    char base[CONFIG_TEXT_BYTES];
    char current_host[HOST_BYTES_MAX];
    char network_interface[NAME_BYTES_MAX];
    uint32_t host_count;
    struct cluster_host *hosts;  /* natural order of name: algo-2 before algo-10; owned */
    uint32_t current;            /* index of current_host in hosts */
    uint32_t trainer_count;      /* hosts that train */
    uint32_t producer_count;     /* hosts that produce */
    char why[CONFIG_TEXT_BYTES]; /* one sentence: by which rule this host has its role */
};

/* ERR_CONFIG with one clear line: file, key, what was found, what was expected; or no trainer, no
 * producer, a group that cannot be placed: which, and what to set. ERR_MISSING: no cluster file
 * (exit code 78 all the same at the commands). */
MUST_USE enum status cluster_load(const char *base, const struct config *config,
                                  struct cluster *out, struct err *err);
void cluster_fini(struct cluster *cluster);

const char *role_name(enum role role); /* "producer", "trainer", "both" */
/* The first trainer host: where the coordinator runs. */
const struct cluster_host *cluster_coordinator(const struct cluster *cluster);
/* <base> from the environment. */
const char *cluster_base(void);

#endif
