/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank joins the others for sums: chooses the collective, sees that all chose the same, and
 * connects. */
#ifndef HEADRACE_CLI_TRAIN_COLL_H
#define HEADRACE_CLI_TRAIN_COLL_H

#include "common/coord.h"
#include "consumer/coll_nccl.h"
#include "consumer/feed.h"

struct train_coll {
    const struct coll_ops *ops;
    struct coll *coll;
    struct cuda_api *cuda; /* nccl's tables; owned, NULL with the others */
    struct nccl_api *nccl;
};

struct train_coll_options {
    const struct config *config; /* borrowed, as all pointers here */
    struct coord_client *coord;
    const struct roster *roster;
    const struct roster_rank *self;
    struct feed *feed;
    bool on_gpu; /* batches are staged on a GPU, the local rank's */
    int64_t deadline_ns;
};

/* ERR_CONFIG: ranks differ; ERR_DEVICE: NCCL is missing, and what to install; else as init's. With
 * nccl it waits until the data are known (feed_stream_info). */
MUST_USE enum status train_coll_join(const struct train_coll_options *options,
                                     struct train_coll *out, struct err *err);
/* good: all ranks leave together, which nccl waits for. A zeroed one is safe. */
void train_coll_leave(struct train_coll *coll, bool good);

#endif
