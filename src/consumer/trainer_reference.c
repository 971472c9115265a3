/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small real network trained by SGD with momentum. The update is by the mean gradient over the
 * global batch: every rank sums over its rows in order, the ranks' sums are summed by the
 * collective, and one division by the number of rows follows. So losses are the same bits between
 * runs, whatever fed the ranks. All ranks begin with the same weights, drawn from the seed, and
 * stay equal because the collective gives all of them the same bits. The learning rate falls in a
 * straight line to 0 over the job's steps: the last epochs' accuracy then stops swinging.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "consumer/network.h"
#include "consumer/trainer.h"
#include "kernels/kernels.h"

/* What the ranks sum: the gradient, then these. */
enum { TAIL_COUNT, TAIL_LOSS, TAIL_FLOATS };

struct trainer {
    const struct coll_ops *coll_ops;
    struct coll *coll;
    struct network *network;
    uint64_t classes;
    size_t picture_bytes;
    size_t parameter_count;
    float *parameters, *velocity;
    float *sums; /* gradient and tail */
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
    network_free(&t->network);
    free(t->parameters);
    free(t->velocity);
    free(t->sums);
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
    const struct network_shape shape = {layout->height, layout->width, options->classes};
    enum status status = network_new(&shape, &t->network, err);
    if (status != OK) {
        goto fail;
    }
    t->coll_ops = options->coll_ops;
    t->coll = options->coll;
    t->classes = options->classes;
    t->picture_bytes = layout->sample_bytes;
    t->parameter_count = network_parameters(t->network);
    t->momentum = (float)options->config->momentum;
    t->learning_rate = (float)options->config->learning_rate;
    t->steps = options->steps;
    t->timeout_ns = coll_timeout_ns(options->config);
    t->parameters = calloc(t->parameter_count, sizeof(float));
    t->velocity = calloc(t->parameter_count, sizeof(float));
    t->sums = calloc(t->parameter_count + TAIL_FLOATS, sizeof(float));
    if (t->parameters == NULL || t->velocity == NULL || t->sums == NULL) {
        status = err_set(err, ERR_RESOURCE, "reference trainer: no memory for %zu parameters",
                         t->parameter_count);
        goto fail;
    }
    network_init(t->network, (uint64_t)options->config->seed, t->parameters);
    *out = t;
    return OK;
fail:
    reference_close(&t);
    return status;
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

/* Sums over the batch; adds gradients to t->sums when learning. */
static void run_batch(struct trainer *t, const struct trainer_batch *batch, bool learn,
                      struct trainer_result *result)
{
    *result = (struct trainer_result){.count = batch->count};
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint8_t *picture = batch->images + i * t->picture_bytes;
        const size_t label = (size_t)batch->labels[i];
        bool correct;
        const float loss =
            learn ? network_learn(t->network, t->parameters, picture, label, t->sums, &correct)
                  : network_loss(t->network, t->parameters, picture, label, &correct);
        result->loss += loss;
        result->correct += correct;
    }
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

static enum status reference_step(struct trainer *t, const struct trainer_batch *batch,
                                  struct trainer_result *out, struct err *err)
{
    TRY(check_labels(t, batch, err));
    struct trainer_result result;
    memset(t->sums, 0, t->parameter_count * sizeof(float));
    run_batch(t, batch, true, &result);
    float *tail = t->sums + t->parameter_count;
    tail[TAIL_COUNT] = (float)result.count;
    tail[TAIL_LOSS] = (float)result.loss;
    TRY(t->coll_ops->allreduce(t->coll, t->sums, t->parameter_count + TAIL_FLOATS,
                               clock_now_ns() + t->timeout_ns, err));
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
        sgd_host(&sgd, t->parameters, t->velocity, t->sums, t->parameter_count);
    }
    t->steps_done++;
    *out = result;
    return OK;
}

static enum status reference_evaluate(struct trainer *t, const struct trainer_batch *batch,
                                      struct trainer_result *out, struct err *err)
{
    TRY(check_labels(t, batch, err));
    run_batch(t, batch, false, out);
    return OK;
}

static size_t reference_state_bytes(const struct trainer *t)
{
    return sizeof(struct state_header) + 2 * t->parameter_count * sizeof(float);
}

static void reference_save(const struct trainer *t, void *state)
{
    struct state_header header = {
        .classes = t->classes, .parameters = t->parameter_count, .steps_done = t->steps_done};
    memcpy(header.magic, MAGIC, sizeof(MAGIC));
    const size_t bytes = t->parameter_count * sizeof(float);
    uint8_t *at = state;
    memcpy(at, &header, sizeof(header));
    memcpy(at + sizeof(header), t->parameters, bytes);
    memcpy(at + sizeof(header) + bytes, t->velocity, bytes);
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
    const uint8_t *at = (const uint8_t *)state + sizeof(header);
    const size_t half = t->parameter_count * sizeof(float);
    memcpy(t->parameters, at, half);
    memcpy(t->velocity, at + half, half);
    t->steps_done = header.steps_done;
    return OK;
}

static size_t reference_memory_bytes(const struct trainer *t)
{
    return sizeof(*t) + network_bytes(t->network) +
           (3 * t->parameter_count + TAIL_FLOATS) * sizeof(float);
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
