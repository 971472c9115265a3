/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small real network trained by SGD with momentum. The update is by the mean gradient over the
 * global batch: every rank sums over its rows in order, the ranks' sums are summed by the
 * collective, and one division by the number of rows follows. So losses are the same bits between
 * runs, whatever fed the ranks. All ranks begin with the same weights, drawn from the seed, and
 * stay equal because the collective gives all of them the same bits. The learning rate falls in a
 * straight line to 0 over the job's steps: the last epochs' accuracy then stops swinging.
 *
 * Where it computes is the model's business (model.h): labels, the sum over ranks and the state's
 * header are the same for all, so a state moves between host and GPU.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "consumer/model.h"

/* What the ranks sum: the gradient, then these. */
enum { TAIL_COUNT, TAIL_LOSS, TAIL_FLOATS };
_Static_assert(TAIL_FLOATS <= (int)MODEL_TAIL_FLOATS, "the model has room for them");

struct trainer {
    const struct coll_ops *coll_ops;
    struct coll *coll;
    const struct model_ops *ops;
    struct model *model;
    uint32_t world;
    uint64_t classes;
    size_t parameter_count;
    float momentum, learning_rate;
    uint64_t steps, steps_done; /* of the job (0: unknown); so far, over restarts */
    int64_t timeout_ns;
};

/* Ahead of the parameters and the velocity in a saved state. */
struct state_header {
    char magic[8];
    uint64_t classes;
    uint64_t parameters;
    uint64_t steps_done;
};
static const char MAGIC[8] = "HRREFER1";

/* A rank may lawfully wait so long for data while the others wait for it. */
static int64_t coll_timeout_ns(const struct config *config)
{
    return (int64_t)(config->starve_timeout_s * (double)NS_PER_S) + 60 * NS_PER_S;
}

static void reference_close(struct trainer **trainer)
{
    struct trainer *t = *trainer;
    if (t == NULL) {
        return;
    }
    if (t->model != NULL) {
        t->ops->close(&t->model);
    }
    free(t);
    *trainer = NULL;
}

static enum status reference_open(const struct trainer_options *options, struct trainer **out,
                                  struct err *err)
{
    const struct layout *layout = options->layout;
    if (options->classes == 0) {
        return err_set(err, ERR_DATA,
                       "reference trainer: the data set has no labels; put its pictures into one "
                       "folder per class, or use the synthetic trainer");
    }
    if (layout->channels != 3) {
        return err_set(err, ERR_CONFIG, "reference trainer: pictures of %u channels, wanted 3",
                       layout->channels);
    }
    struct trainer *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return err_set(err, ERR_RESOURCE, "reference trainer: out of memory");
    }
    t->ops = options->device != NULL ? &model_cuda : &model_host;
    const enum status status = t->ops->open(options, &t->model, err);
    if (status != OK) {
        reference_close(&t);
        return status;
    }
    t->coll_ops = options->coll_ops;
    t->coll = options->coll;
    t->world = options->world;
    t->classes = options->classes;
    t->parameter_count = t->ops->parameters(t->model);
    t->momentum = (float)options->config->momentum;
    t->learning_rate = (float)options->config->learning_rate;
    t->steps = options->steps;
    t->timeout_ns = coll_timeout_ns(options->config);
    *out = t;
    return OK;
}

static enum status check_labels(const struct trainer *t, const struct trainer_batch *batch,
                                struct err *err)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const int64_t label = batch->labels[i];
        if (label < 0 || (uint64_t)label >= t->classes) {
            return err_set(err, ERR_DATA,
                           "reference trainer: row %u of the batch has label %lld, allowed are 0 "
                           "to %llu%s",
                           i, (long long)label, (unsigned long long)t->classes - 1,
                           label == -1 ? " (the data set has no labels)" : "");
        }
    }
    return OK;
}

/* Of the step to take now. */
static float learning_rate(const struct trainer *t)
{
    if (t->steps == 0) {
        return t->learning_rate;
    }
    const uint64_t left = t->steps_done < t->steps ? t->steps - t->steps_done : 0;
    return t->learning_rate * ((float)left / (float)t->steps);
}

/* Over all ranks, in the model's sums; *tail: what they sum up to beside the gradient. */
static enum status sum_over_ranks(struct trainer *t, const struct trainer_result *own,
                                  float tail[TAIL_FLOATS], struct err *err)
{
    tail[TAIL_COUNT] = (float)own->count;
    tail[TAIL_LOSS] = (float)own->loss;
    if (t->world == 1) {
        return OK;
    }
    float *sums = t->ops->sums(t->model);
    const size_t tail_bytes = TAIL_FLOATS * sizeof(*tail);
    memcpy(sums + t->parameter_count, tail, tail_bytes);
    TRY(t->coll_ops->allreduce(t->coll, sums, t->parameter_count + TAIL_FLOATS,
                               clock_now_ns() + t->timeout_ns, err));
    memcpy(tail, sums + t->parameter_count, tail_bytes);
    return OK;
}

static enum status reference_step(struct trainer *t, const struct trainer_batch *batch,
                                  struct trainer_result *out, struct err *err)
{
    TRY(check_labels(t, batch, err));
    struct trainer_result result;
    float tail[TAIL_FLOATS];
    TRY(t->ops->learn(t->model, batch, t->steps_done, &result, err));
    TRY(sum_over_ranks(t, &result, tail, err));
    if (!isfinite(tail[TAIL_LOSS])) {
        return err_set(err, ERR_CONFIG,
                       "reference trainer: the loss is no number any more, training has diverged; "
                       "lower learning_rate (it is %g)",
                       (double)t->learning_rate);
    }
    if (tail[TAIL_COUNT] > 0) {
        const struct sgd sgd = {
            .scale = 1.0F / tail[TAIL_COUNT],
            .momentum = t->momentum,
            .learning_rate = learning_rate(t),
        };
        TRY(t->ops->update(t->model, &sgd, err));
    }
    t->steps_done++;
    *out = result;
    return OK;
}

static enum status reference_evaluate(struct trainer *t, const struct trainer_batch *batch,
                                      struct trainer_result *out, struct err *err)
{
    TRY(check_labels(t, batch, err));
    return t->ops->evaluate(t->model, batch, t->steps_done, out, err);
}

static size_t reference_state_bytes(const struct trainer *t)
{
    return sizeof(struct state_header) + 2 * t->parameter_count * sizeof(float);
}

static enum status reference_save(struct trainer *t, void *state, struct err *err)
{
    struct state_header header = {
        .classes = t->classes, .parameters = t->parameter_count, .steps_done = t->steps_done};
    memcpy(header.magic, MAGIC, sizeof(MAGIC));
    memcpy(state, &header, sizeof(header));
    return t->ops->save(t->model, (uint8_t *)state + sizeof(header), err);
}

static enum status reference_load(struct trainer *t, const void *state, size_t bytes,
                                  struct err *err)
{
    struct state_header header;
    if (bytes != reference_state_bytes(t)) {
        return err_set(err, ERR_DATA,
                       "reference trainer: a saved state of %zu bytes, wanted %zu (%llu classes)",
                       bytes, reference_state_bytes(t), (unsigned long long)t->classes);
    }
    memcpy(&header, state, sizeof(header));
    if (memcmp(header.magic, MAGIC, sizeof(MAGIC)) != 0 || header.classes != t->classes ||
        header.parameters != t->parameter_count) {
        return err_set(err, ERR_DATA,
                       "reference trainer: the saved state is another model's (%llu classes, %llu "
                       "parameters; wanted %llu and %zu)",
                       (unsigned long long)header.classes, (unsigned long long)header.parameters,
                       (unsigned long long)t->classes, t->parameter_count);
    }
    TRY(t->ops->load(t->model, (const uint8_t *)state + sizeof(header), err));
    t->steps_done = header.steps_done;
    return OK;
}

static size_t reference_memory_bytes(const struct trainer *t)
{
    return sizeof(*t) + t->ops->memory_bytes(t->model);
}

const struct trainer_ops trainer_reference = {
    .name = "reference",
    .open = reference_open,
    .step = reference_step,
    .evaluate = reference_evaluate,
    .state_bytes = reference_state_bytes,
    .save = reference_save,
    .load = reference_load,
    .memory_bytes = reference_memory_bytes,
    .close = reference_close,
};
