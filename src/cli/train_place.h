/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a training run stands, on disk and back: rank 0 writes and reads the checkpoints, the other
 * ranks get place and model from it through the collective.
 */
#ifndef HEADRACE_CLI_TRAIN_PLACE_H
#define HEADRACE_CLI_TRAIN_PLACE_H

#include "cli/report.h"
#include "cli/train_total.h"
#include "consumer/checkpoint.h"
#include "consumer/feed.h"
#include "consumer/trainer.h"

struct train_keeper {
    char dir[PATH_BYTES_MAX];
    struct train_team team;
    const struct trainer_ops *ops;
    struct trainer *trainer;     /* borrowed */
    struct checkpoint_place job; /* stream, plan digest, seed; the rest is filled in */
    void *model;                 /* room for the trainer's state; owned */
    size_t model_bytes;
    uint8_t *history; /* room for `epochs` of them; owned */
    uint32_t epochs;
};

/* Takes all memory that saving needs. dir: NULL or "": <base>/checkpoints. */
MUST_USE enum status train_keeper_init(struct train_keeper *out, const struct config *config,
                                       const char *base, const struct feed_stream *train,
                                       const struct train_team *team, const struct trainer_ops *ops,
                                       struct trainer *trainer, struct err *err);
size_t train_keeper_bytes(const struct train_keeper *keeper);
void train_keeper_fini(struct train_keeper *keeper);

struct train_place {
    uint32_t epoch;
    uint64_t step;             /* the next one to take */
    struct train_total before; /* the epoch's steps before it, all ranks: digest, loss, samples and
                                  bad samples */
};

/* report: all epochs before place->epoch. Only rank 0 writes, only its place and report count. */
MUST_USE enum status train_keeper_save(struct train_keeper *keeper, const struct train_place *place,
                                       const struct report *report, struct err *err);

/*
 * All ranks together: the newest checkpoint of this job, its model loaded. *found_out false: there
 * is none, and nothing is changed. On rank 0 *report gets the epochs before, with room for all of
 * the job's; on the others `before` is 0. *unevaluated_out: the model is that of the end of an
 * epoch that was not evaluated.
 */
MUST_USE enum status train_keeper_resume(struct train_keeper *keeper, struct train_place *out,
                                         struct report *report, bool *found_out,
                                         bool *unevaluated_out, struct err *err);

#endif
