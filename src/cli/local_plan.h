/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster on one machine, as `headrace local` makes it: its hosts with their groups, loopback
 * addresses and base folders, laid out as SageMaker lays them. Starts nothing.
 */
#ifndef HEADRACE_CLI_LOCAL_PLAN_H
#define HEADRACE_CLI_LOCAL_PLAN_H

#include "common/err.h"
#include "common/limits.h"

enum { LOCAL_HOSTS_MAX = 250 };

struct local_options {
    uint32_t cpu_hosts, gpu_hosts;
    uint32_t ranks_per_host;
    bool homogeneous; /* all hosts, cpu and gpu, in one group */
    bool keep;        /* the folders stay */
    const char *data; /* folder of channels; NULL: the options of run say where the data is */
    const char *dir;  /* where the hosts' folders go, and stay; NULL: a temporary folder */
};

struct local_host {
    char name[HOST_BYTES_MAX]; /* algo-1, algo-2, ... in this order */
    const char *group;
    const char *instance_type;
    char address[ADDR_BYTES_MAX];
    char base[PATH_BYTES_MAX];
};

struct local_plan {
    const struct local_options *options; /* borrowed */
    char dir[PATH_BYTES_MAX];            /* absolute */
    char data[PATH_BYTES_MAX];           /* absolute; "": none */
    uint16_t port;
    uint32_t count;
    struct local_host *hosts; /* owned */
};

/*
 * Chooses names, addresses and a free base port, and writes every host's folder. A host's group
 * depends on nothing but the options, so a folder that was kept can be resumed. ERR_MISSING: no
 * such data folder; ERR_RESOURCE, ERR_IO.
 */
MUST_USE enum status local_plan_new(const struct local_options *options, struct local_plan *out,
                                    struct err *err);
/* Removes a temporary folder, unless it is to be kept. */
void local_plan_fini(struct local_plan *plan);

#endif
