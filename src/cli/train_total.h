/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over all ranks, exact and in rank order: every rank gets the same bits. */
#ifndef HEADRACE_CLI_TRAIN_TOTAL_H
#define HEADRACE_CLI_TRAIN_TOTAL_H

#include "common/coord.h"
#include "consumer/coll.h"

struct train_total {
    double loss;
    uint64_t correct, samples, bad_samples;
    uint64_t wait_ns;
    uint64_t digest; /* modulo 2^64 */
};

struct train_team {
    const struct coll_ops *ops;
    struct coll *coll;
    uint32_t rank, world;
};

/* Every rank gives its own and gets the sum. */
MUST_USE enum status train_total_sum(const struct train_team *team, struct train_total *total,
                                     struct err *err);

/* The same through the coordinator, for ranks whose collective is given up; the loss is rounded to
 * 2^-20. No rank returns before all have called it. */
MUST_USE enum status train_total_sum_apart(struct coord_client *coord, uint32_t world,
                                           struct train_total *total, struct err *err);

/* Rank 0's bytes reach all. */
MUST_USE enum status train_tell(const struct train_team *team, void *bytes, size_t count,
                                struct err *err);

#endif
