/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a job of many ranks; the file itself is consumer/checkpoint. */
#include "cli/train_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train_history.h"
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

static enum status make_room(struct train_keeper *keeper, uint32_t epochs, struct err *err)
{
    uint8_t *history = realloc(keeper->history, history_bytes(epochs));
    if (history == NULL) {
        return err_errno(err, ERR_RESOURCE, "the history of %u epochs", epochs);
    }
    keeper->history = history;
    keeper->epochs = epochs;
    return OK;
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
    return make_room(out, (uint32_t)config->epochs, err);
}

size_t train_keeper_bytes(const struct train_keeper *keeper)
{
    return keeper->model_bytes + 1 + history_bytes(keeper->epochs);
}

void train_keeper_fini(struct train_keeper *keeper)
{
    free(keeper->model);
    keeper->model = NULL;
    free(keeper->history);
    keeper->history = NULL;
}

enum status train_keeper_save(struct train_keeper *keeper, const struct train_place *place,
                              const struct report *report, struct err *err)
{
    if (keeper->team.rank != 0) {
        return OK;
    }
    CHECK(report->epoch_count == place->epoch && report->epoch_count <= keeper->epochs);
    struct checkpoint_place file = keeper->job;
    file.epoch = place->epoch;
    file.step = place->step;
    file.digest = place->before.digest;
    TRY(keeper->ops->save(keeper->trainer, keeper->model, err));
    history_encode(report, &place->before, keeper->history);
    const struct checkpoint_body body = {.model = keeper->model,
                                         .model_bytes = keeper->model_bytes,
                                         .history = keeper->history,
                                         .history_bytes = history_bytes(report->epoch_count)};
    return checkpoint_save(keeper->dir, &file, &body, err);
}

/* What rank 0 tells the others before the model's bytes. */
struct told {
    uint64_t found, unevaluated; /* 0 or 1 */
    uint64_t epoch, step, model_bytes;
};

/* What a checkpoint holds beside the model. */
static enum status take_history(struct train_keeper *keeper, const struct checkpoint *checkpoint,
                                struct report *report, struct train_total *before_out,
                                struct err *err)
{
    TRY(history_decode(checkpoint->history, checkpoint->history_bytes, keeper->epochs, report,
                       before_out, err));
    before_out->digest = checkpoint->place.digest;
    if (report->epoch_count != checkpoint->place.epoch) {
        return err_set(err, ERR_DATA, "its history has %u epochs, its place is in epoch %u",
                       report->epoch_count, checkpoint->place.epoch + 1);
    }
    return report->epoch_count > keeper->epochs ? make_room(keeper, report->epoch_count, err) : OK;
}

static enum status take_model(struct train_keeper *keeper, const struct checkpoint *checkpoint,
                              struct err *err)
{
    if (checkpoint->model_bytes != keeper->model_bytes) {
        return err_set(err, ERR_DATA,
                       "it holds a model of %zu bytes, but this trainer's has %zu: another trainer "
                       "or shape",
                       checkpoint->model_bytes, keeper->model_bytes);
    }
    memcpy(keeper->model, checkpoint->model, keeper->model_bytes);
    return OK;
}

/* Rank 0: from disk into keeper->model and the report. */
static enum status read_newest(struct train_keeper *keeper, struct report *report,
                               struct train_total *before_out, struct told *out, struct err *err)
{
    struct checkpoint checkpoint;
    const struct checkpoint_place *job = &keeper->job;
    enum status status =
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
                         .model_bytes = checkpoint.model_bytes};
    status = take_model(keeper, &checkpoint, err);
    if (status == OK) {
        status = take_history(keeper, &checkpoint, report, before_out, err);
    }
    checkpoint_fini(&checkpoint);
    if (status != OK) {
        return err_prefix(err, "the newest checkpoint in %s", keeper->dir);
    }
    out->unevaluated = out->step == 0 && report->epoch_count > 0 &&
                       !report->epochs[report->epoch_count - 1].evaluated;
    return OK;
}

enum status train_keeper_resume(struct train_keeper *keeper, struct train_place *out,
                                struct report *report, bool *found_out, bool *unevaluated_out,
                                struct err *err)
{
    struct told told = {0};
    struct train_total before = {0};
    if (keeper->team.rank == 0) {
        TRY(read_newest(keeper, report, &before, &told, err));
    }
    TRY(train_tell(&keeper->team, &told, sizeof(told), err));
    *found_out = told.found != 0;
    *unevaluated_out = told.unevaluated != 0;
    if (!*found_out) {
        return OK;
    }
    if (told.model_bytes != keeper->model_bytes) {
        return err_set(err, ERR_INTERNAL, "rank 0 resumes a model of %" PRIu64 " bytes, not %zu",
                       told.model_bytes, keeper->model_bytes);
    }
    TRY(train_tell(&keeper->team, keeper->model, keeper->model_bytes, err));
    TRY(keeper->ops->load(keeper->trainer, keeper->model, keeper->model_bytes, err));
    *out = (struct train_place){.epoch = (uint32_t)told.epoch, .step = told.step, .before = before};
    return OK;
}
