/* SPDX-License-Identifier: Apache-2.0 */
/* What coll_nccl needs of its surroundings: a store that threads and forked processes share, the
 * fake NCCL found by its path, and a CUDA of threads. */
#ifndef HEADRACE_TESTS_SUPPORT_COLL_RIG_H
#define HEADRACE_TESTS_SUPPORT_COLL_RIG_H

#include "consumer/coll_nccl.h"

struct coll_rig {
    struct coll_store store;
    struct cuda_api cuda;
    struct nccl_api nccl;
};

/* A store for all who are forked from here on; lives as long as the process. */
struct coll_store coll_rig_store(void);
MUST_USE enum status coll_rig_open(struct coll_store store, struct coll_rig *out, struct err *err);

#endif
