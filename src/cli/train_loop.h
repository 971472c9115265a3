/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training loop of one rank: epochs and steps over the feed, evaluation after each epoch where
 * there is an `eval` stream, checkpoints, the report and the metric lines. All ranks run it in
 * step: every sum over ranks and every decision that all must share goes through the collective or
 * coord_may_begin.
 */
#ifndef HEADRACE_CLI_TRAIN_LOOP_H
#define HEADRACE_CLI_TRAIN_LOOP_H

#include "common/coord.h"
#include "consumer/coll.h"
#include "consumer/feed.h"
#include "consumer/trainer.h"

struct train_options {
    const struct config *config; /* borrowed, as all pointers here */
    const char *base;            /* <base>/output/headrace/report.json, <base>/checkpoints */
    struct coord_client *coord;
    struct feed *feed;
    const struct coll_ops *coll_ops;
    struct coll *coll;
    const struct trainer_ops *trainer_ops;
    struct device *device; /* the trainer computes on it; NULL: on the host */
    uint32_t rank, world;
};

/*
 * Trains from the beginning or, with config.resume, from the newest checkpoint, to the end of the
 * last epoch or to the common last step of a stop (OK in both cases; *stopped_out). On an error the
 * report holds the epochs finished before it.
 */
MUST_USE enum status train_loop(const struct train_options *options, bool *stopped_out,
                                struct err *err);

#endif
