/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a job of many ranks; the file itself is consumer/checkpoint. */
#include "cli/train_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/log.h"

/* What may resume here: the same order of the same data through the same pipeline. */
static uint64_t job_digest(const struct config *config, const struct feed_stream *train)
{
    const struct pipeline *pipeline = &config->streams[0].pipeline;
    uint8_t fields[24];
    hash_put64(fields, plan_digest(&train->plan));
    hash_put64(fields + 8, train->data_digest);
    hash_put64(fields + 16, hash64(pipeline->text, strlen(pipeline->text)));
    return hash64(fields, sizeof(fields));
}

enum status train_keeper_init(struct train_keeper *out, const struct config *config,
                              const char *base, const struct feed_stream *train,
                              const struct train_team *team, const struct trainer_ops *ops,
                              struct trainer *trainer, struct err *err)
{
    *out = (struct train_keeper){
        .team = *team,
        .ops = ops,
        .trainer = trainer,
        .job = {.plan_digest = job_digest(config, train), .seed = (uint64_t)config->seed}};
    snprintf(out->job.stream, sizeof(out->job.stream), "%s", config->streams[0].name);
    if (config->checkpoint_dir[0] != '\0') {
        snprintf(out->dir, sizeof(out->dir), "%s", config->checkpoint_dir);
    } else {
        snprintf(out->dir, sizeof(out->dir), "%s/checkpoints", base);
    }
    out->model_bytes = ops->state_bytes(trainer);
    out->model = calloc(1, out->model_bytes + 1); /* a state may be empty */
    if (out->model == NULL) {
        return err_errno(err, ERR_RESOURCE, "%zu bytes for the model's checkpoint",
                         out->model_bytes);
    }
    return OK;
}

void train_keeper_fini(struct train_keeper *keeper)
{
    free(keeper->model);
    keeper->model = NULL;
}

enum status train_keeper_save(struct train_keeper *keeper, uint32_t epoch, uint64_t step,
                              uint64_t digest, struct err *err)
{
    if (keeper->team.rank != 0) {
        return OK;
    }
    struct checkpoint_place place = keeper->job;
    place.epoch = epoch;
    place.step = step;
    place.digest = digest;
    keeper->ops->save(keeper->trainer, keeper->model);
    return checkpoint_save(keeper->dir, &place, keeper->model, keeper->model_bytes, err);
}

/* What rank 0 tells the others before the model's bytes. */
struct told {
    uint64_t found; /* 0 or 1 */
    uint64_t epoch, step, digest, model_bytes;
};

/* Rank 0: from disk into keeper->model. */
static enum status read_newest(struct train_keeper *keeper, struct told *out, struct err *err)
{
    struct checkpoint checkpoint;
    const struct checkpoint_place *job = &keeper->job;
    const enum status status =
        checkpoint_load(keeper->dir, job->stream, job->plan_digest, job->seed, &checkpoint, err);
    *out = (struct told){0};
    if (status == ERR_MISSING) {
        log_info("no checkpoint in %s: training from the beginning", keeper->dir);
        return OK;
    }
    TRY(status);
    *out = (struct told){.found = 1,
                         .epoch = checkpoint.place.epoch,
                         .step = checkpoint.place.step,
                         .digest = checkpoint.place.digest,
                         .model_bytes = checkpoint.model_bytes};
    const bool fits = checkpoint.model_bytes == keeper->model_bytes;
    if (fits) {
        memcpy(keeper->model, checkpoint.model, keeper->model_bytes);
    }
    checkpoint_fini(&checkpoint);
    if (!fits) {
        return err_set(err, ERR_DATA,
                       "the newest checkpoint in %s holds a model of %" PRIu64
                       " bytes, but this trainer's has %zu: another trainer or shape",
                       keeper->dir, out->model_bytes, keeper->model_bytes);
    }
    return OK;
}

enum status train_keeper_resume(struct train_keeper *keeper, uint32_t *epoch_out,
                                uint64_t *step_out, uint64_t *digest_out, bool *found_out,
                                struct err *err)
{
    struct told told = {0};
    if (keeper->team.rank == 0) {
        TRY(read_newest(keeper, &told, err));
    }
    TRY(train_tell(&keeper->team, &told, sizeof(told), err));
    *found_out = told.found != 0;
    if (!*found_out) {
        return OK;
    }
    if (told.model_bytes != keeper->model_bytes) {
        return err_set(err, ERR_INTERNAL, "rank 0 resumes a model of %" PRIu64 " bytes, not %zu",
                       told.model_bytes, keeper->model_bytes);
    }
    TRY(train_tell(&keeper->team, keeper->model, keeper->model_bytes, err));
    TRY(keeper->ops->load(keeper->trainer, keeper->model, keeper->model_bytes, err));
    *epoch_out = (uint32_t)told.epoch;
    *step_out = told.step;
    *digest_out = told.digest;
    return OK;
}
