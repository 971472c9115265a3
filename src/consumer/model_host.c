/* SPDX-License-Identifier: Apache-2.0 */
/* The network on the host: picture after picture, each rank's rows in order. */
#include <stdlib.h>
#include <string.h>

#include "consumer/model.h"
#include "consumer/network.h"

struct model {
    struct network *network;
    size_t picture_bytes;
    size_t parameter_count;
    float *parameters, *velocity;
    float *sums; /* gradient and tail */
};

static void host_close(struct model **model)
{
    struct model *m = *model;
    if (m == NULL) {
        return;
    }
    network_free(&m->network);
    free(m->parameters);
    free(m->velocity);
    free(m->sums);
    free(m);
    *model = NULL;
}

static enum status host_open(const struct trainer_options *options, struct model **out,
                             struct err *err)
{
    const struct layout *layout = options->layout;
    struct model *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return err_set(err, ERR_RESOURCE, "reference trainer: out of memory");
    }
    const struct network_shape shape = {layout->height, layout->width, options->classes};
    enum status status = network_new(&shape, &m->network, err);
    if (status != OK) {
        goto fail;
    }
    m->picture_bytes = layout->sample_bytes;
    m->parameter_count = network_parameters(m->network);
    m->parameters = calloc(m->parameter_count, sizeof(float));
    m->velocity = calloc(m->parameter_count, sizeof(float));
    m->sums = calloc(m->parameter_count + MODEL_TAIL_FLOATS, sizeof(float));
    if (m->parameters == NULL || m->velocity == NULL || m->sums == NULL) {
        status = err_set(err, ERR_RESOURCE, "reference trainer: no memory for %zu parameters",
                         m->parameter_count);
        goto fail;
    }
    network_init(m->network, (uint64_t)options->config->seed, m->parameters);
    *out = m;
    return OK;
fail:
    host_close(&m);
    return status;
}

static size_t host_parameters(const struct model *m)
{
    return m->parameter_count;
}

/* gradient NULL: forward only. */
static void run_batch(struct model *m, const struct trainer_batch *batch, float *gradient,
                      struct trainer_result *out)
{
    *out = (struct trainer_result){.count = batch->count};
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint8_t *picture = batch->images + i * m->picture_bytes;
        const size_t label = (size_t)batch->labels[i];
        bool correct;
        const float loss =
            gradient != NULL
                ? network_learn(m->network, m->parameters, picture, label, gradient, &correct)
                : network_loss(m->network, m->parameters, picture, label, &correct);
        out->loss += loss;
        out->correct += correct;
    }
}

static enum status host_learn(struct model *m, const struct trainer_batch *batch, uint64_t step,
                              struct trainer_result *out, struct err *err)
{
    (void)step;
    (void)err;
    memset(m->sums, 0, m->parameter_count * sizeof(float));
    run_batch(m, batch, m->sums, out);
    return OK;
}

static enum status host_evaluate(struct model *m, const struct trainer_batch *batch, uint64_t step,
                                 struct trainer_result *out, struct err *err)
{
    (void)step;
    (void)err;
    run_batch(m, batch, NULL, out);
    return OK;
}

static float *host_sums(struct model *m)
{
    return m->sums;
}

static enum status host_update(struct model *m, const struct sgd *sgd, struct err *err)
{
    (void)err;
    sgd_host(sgd, m->parameters, m->velocity, m->sums, m->parameter_count);
    return OK;
}

static enum status host_save(struct model *m, void *state, struct err *err)
{
    (void)err;
    const size_t half = m->parameter_count * sizeof(float);
    memcpy(state, m->parameters, half);
    memcpy((uint8_t *)state + half, m->velocity, half);
    return OK;
}

static enum status host_load(struct model *m, const void *state, struct err *err)
{
    (void)err;
    const size_t half = m->parameter_count * sizeof(float);
    memcpy(m->parameters, state, half);
    memcpy(m->velocity, (const uint8_t *)state + half, half);
    return OK;
}

static size_t host_memory_bytes(const struct model *m)
{
    return sizeof(*m) + network_bytes(m->network) +
           (3 * m->parameter_count + MODEL_TAIL_FLOATS) * sizeof(float);
}

const struct model_ops model_host = {
    .name = "host",
    .open = host_open,
    .parameters = host_parameters,
    .learn = host_learn,
    .evaluate = host_evaluate,
    .sums = host_sums,
    .update = host_update,
    .save = host_save,
    .load = host_load,
    .memory_bytes = host_memory_bytes,
    .close = host_close,
};
