/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network on a GPU: a batch at a time from the device's copy of it, all on one stream. The CPU
 * waits once a step, for the losses and, where several ranks sum it, the gradient; update and what
 * follows it are only queued. Every launch is of kernels/launch.h, in the order of network.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "consumer/device_cuda.h"
#include "consumer/model.h"
#include "consumer/network.h"

#define WAIT_NS (60 * NS_PER_S) /* for a step, which takes milliseconds */
#define MIB     (1024.0 * 1024.0)
enum { LAYERS = NETWORK_LAYERS, ALIGNMENT = 256, WORK_BYTES = 64 };

struct layer {
    struct network_layer plan;
    float *before; /* bias and ReLU: rows x positions x filters, like the next */
    float *out, *d_out;
};

struct model {
    struct device *device;
    struct gpu_stream *stream;
    struct device_event *event; /* behind what the CPU waits for */
    struct network_layout layout;
    size_t height, width, classes, rows; /* rows: at most */
    bool is_summed;                      /* over ranks, by the host */
    char work[WORK_BYTES];               /* what is queued now, for errors */
    struct layer layers[LAYERS];

    void *memory; /* on the device; all these lie in it */
    size_t memory_size;
    float *parameters, *velocity, *gradient;
    float *input, *pooled, *d_pooled, *logits, *d_logits;
    float *means, *inverses; /* rows x filters; twice as many means: going backward there are two */
    float *parts;            /* of any layer's gradient, picture by picture */
    float *losses;
    uint32_t *corrects;

    void *pinned; /* likewise, of the host */
    size_t pinned_size;
    float *host_sums, *host_state, *host_losses;
    uint32_t *host_corrects;
};

/* ---- memory ---- */

struct piece {
    uint8_t *base; /* NULL: only counts */
    size_t used;
};

static void *take(struct piece *piece, size_t count, size_t each)
{
    uint8_t *at = piece->base == NULL ? NULL : piece->base + piece->used;
    piece->used += (count * each + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static float *take_floats(struct piece *piece, size_t count)
{
    return take(piece, count, sizeof(float));
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The shape's limits keep every product far below SIZE_MAX. */
static size_t place_memory(struct model *m, uint8_t *base)
{
    struct piece piece = {.base = base};
    const size_t rows = m->rows;
    size_t parts = m->layout.features;
    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &m->layers[i];
        const size_t count = rows * layer->plan.positions * layer->plan.conv.filters;
        layer->before = take_floats(&piece, count);
        layer->out = take_floats(&piece, count);
        layer->d_out = take_floats(&piece, count);
        parts = larger(parts, larger(conv_weights(&layer->plan.conv), layer->plan.conv.filters));
    }
    const size_t norms = rows * m->layers[0].plan.conv.filters;
    m->parameters = take_floats(&piece, m->layout.parameters);
    m->velocity = take_floats(&piece, m->layout.parameters);
    m->gradient = take_floats(&piece, m->layout.parameters);
    m->input = take_floats(&piece, rows * 3 * m->height * m->width);
    m->pooled = take_floats(&piece, rows * m->layout.features);
    m->d_pooled = take_floats(&piece, rows * m->layout.features);
    m->logits = take_floats(&piece, rows * m->classes);
    m->d_logits = take_floats(&piece, rows * m->classes);
    m->means = take_floats(&piece, 2 * norms);
    m->inverses = take_floats(&piece, norms);
    m->parts = take_floats(&piece, rows * parts);
    m->losses = take_floats(&piece, rows);
    m->corrects = take(&piece, rows, sizeof(uint32_t));
    return piece.used;
}

static size_t place_pinned(struct model *m, uint8_t *base)
{
    struct piece piece = {.base = base};
    m->host_sums = take_floats(&piece, m->layout.parameters + MODEL_TAIL_FLOATS);
    m->host_state = take_floats(&piece, 2 * m->layout.parameters);
    m->host_losses = take_floats(&piece, m->rows);
    m->host_corrects = take(&piece, m->rows, sizeof(uint32_t));
    return piece.used;
}

static enum status take_memory(struct model *m, struct err *err)
{
    m->memory_size = place_memory(m, NULL);
    m->pinned_size = place_pinned(m, NULL);
    TRY(device_cuda.alloc_device(m->device, m->memory_size, &m->memory, err));
    TRY(device_cuda.alloc_pinned(m->device, m->pinned_size, &m->pinned, err));
    (void)place_memory(m, m->memory);
    (void)place_pinned(m, m->pinned);
    return device_cuda.event_new(m->device, &m->event, err);
}

/* ---- waiting ---- */

static void name_work(struct model *m, const char *work)
{
    snprintf(m->work, sizeof(m->work), "%s", work);
    gpu_stream_work(m->stream, m->work);
}

static void name_step(struct model *m, const char *kind, uint64_t step)
{
    char work[WORK_BYTES];
    snprintf(work, sizeof(work), "%s %llu", kind, (unsigned long long)step);
    name_work(m, work);
}

/* Until all that was queued is done. */
static enum status await_all(struct model *m, struct err *err)
{
    TRY(gpu_record(m->stream, m->event, err));
    return device_cuda.wait(m->device, m->event, clock_now_ns() + WAIT_NS, err);
}

static enum status settle(struct model *m, struct err *err)
{
    const enum status status = await_all(m, err);
    if (status == ERR_TIMEOUT) {
        return err_set(err, ERR_DEVICE,
                       "reference trainer, %s: the GPU has not finished within 60 s", m->work);
    }
    return status == OK ? OK : err_prefix(err, "reference trainer, %s", m->work);
}

/* ---- the network ---- */

static struct maps maps_of(const struct layer *layer, size_t rows)
{
    return (struct maps){rows, layer->plan.positions, layer->plan.conv.filters};
}

static enum status forward_layer(struct model *m, int number, size_t rows, const float *in,
                                 struct err *err)
{
    const struct layer *l = &m->layers[number];
    const struct maps maps = maps_of(l, rows);
    TRY(gpu_launch(m->stream,
                   conv_launch(&l->plan.conv, rows, in, m->parameters + l->plan.weights, l->before),
                   err));
    if (l->plan.normalized) {
        TRY(gpu_launch(m->stream,
                       channel_norm_moments_launch(&maps, l->before, m->means, m->inverses), err));
        TRY(gpu_launch(m->stream,
                       channel_norm_launch(&maps, l->before, m->means, m->inverses, l->before),
                       err));
    }
    return gpu_launch(
        m->stream, bias_relu_launch(&maps, l->before, m->parameters + l->plan.bias, l->out), err);
}

static enum status forward_linear(struct model *m, const struct trainer_batch *batch,
                                  bool wants_gradient, struct err *err)
{
    const struct gemm linear = {
        .m = batch->count,
        .n = m->classes,
        .k = m->layout.features,
        .a = m->pooled,
        .a_row = m->layout.features,
        .a_column = 1,
        .b = m->parameters + m->layout.linear_weights,
        .b_row = m->classes,
        .b_column = 1,
        .c = m->logits,
        .c_row = m->classes,
    };
    const struct softmax_arrays arrays = {
        .logits = m->logits,
        .labels = batch->device_labels,
        .losses = m->losses,
        .corrects = m->corrects,
        .d_logits = wants_gradient ? m->d_logits : NULL,
    };
    TRY(gpu_launch(m->stream, gemm_launch(&linear, m->parameters + m->layout.linear_bias), err));
    return gpu_launch(m->stream, softmax_loss_launch(batch->count, m->classes, &arrays), err);
}

/* Up to the losses; the batch is then free for others. */
static enum status forward(struct model *m, const struct trainer_batch *batch, bool wants_gradient,
                           struct err *err)
{
    const struct layer *last = &m->layers[LAYERS - 1];
    const struct maps maps = maps_of(last, batch->count);
    struct normalize normalize =
        normalize_dense(batch->count, m->height, m->width, NORMALIZE_F32, false);
    normalize_factors(&normalize, NETWORK_MEAN, NETWORK_STD);
    const float *in = m->input;
    if (batch->copied != NULL) {
        TRY(gpu_await(m->stream, batch->copied, err));
    }
    TRY(gpu_launch(m->stream, normalize_launch(&normalize, batch->device_images, m->input), err));
    for (int i = 0; i < LAYERS; i++) {
        TRY(forward_layer(m, i, batch->count, in, err));
        in = m->layers[i].out;
    }
    TRY(gpu_launch(m->stream, mean_pool_launch(&maps, last->out, m->pooled), err));
    TRY(forward_linear(m, batch, wants_gradient, err));
    return batch->done == NULL ? OK : gpu_record(m->stream, batch->done, err);
}

/* From d_logits to d_pooled. */
static enum status backward_linear(struct model *m, size_t rows, struct err *err)
{
    const size_t features = m->layout.features;
    const struct gemm weights = {
        .m = features,
        .n = m->classes,
        .k = rows,
        .a = m->pooled,
        .a_row = 1,
        .a_column = features,
        .b = m->d_logits,
        .b_row = m->classes,
        .b_column = 1,
        .c = m->gradient + m->layout.linear_weights,
        .c_row = m->classes,
        .accumulate = true,
    };
    const struct gemm input = {
        .m = rows,
        .n = features,
        .k = m->classes,
        .a = m->d_logits,
        .a_row = m->classes,
        .a_column = 1,
        .b = m->parameters + m->layout.linear_weights,
        .b_row = 1,
        .b_column = m->classes,
        .c = m->d_pooled,
        .c_row = features,
    };
    TRY(gpu_launch(
        m->stream,
        sum_pictures_launch(rows, m->classes, m->d_logits, m->gradient + m->layout.linear_bias),
        err));
    TRY(gpu_launch(m->stream, gemm_launch(&weights, NULL), err));
    return gpu_launch(m->stream, gemm_launch(&input, NULL), err);
}

/* From d_out to the derivative by what the convolution gave, and the gradient of the bias. */
static enum status backward_maps(struct model *m, const struct layer *l, size_t rows,
                                 struct err *err)
{
    const struct maps maps = maps_of(l, rows);
    float *along = m->means + maps.pictures * maps.channels;
    TRY(gpu_launch(m->stream,
                   relu_gradient_launch(rows * maps.positions * maps.channels, l->out, l->d_out),
                   err));
    TRY(gpu_launch(m->stream, bias_gradient_launch(&maps, l->d_out, m->parts), err));
    TRY(gpu_launch(m->stream,
                   sum_pictures_launch(rows, maps.channels, m->parts, m->gradient + l->plan.bias),
                   err));
    if (!l->plan.normalized) {
        return OK;
    }
    TRY(gpu_launch(m->stream,
                   channel_norm_gradient_means_launch(&maps, l->before, l->d_out, m->means, along),
                   err));
    return gpu_launch(
        m->stream,
        channel_norm_gradient_launch(&maps, l->before, m->inverses, m->means, along, l->d_out),
        err);
}

static enum status backward_layer(struct model *m, int number, size_t rows, struct err *err)
{
    const struct layer *l = &m->layers[number];
    const struct conv *conv = &l->plan.conv;
    const float *in = number > 0 ? m->layers[number - 1].out : m->input;
    TRY(backward_maps(m, l, rows, err));
    TRY(gpu_launch(m->stream, conv_weights_gradient_launch(conv, rows, in, l->d_out, m->parts),
                   err));
    TRY(gpu_launch(
        m->stream,
        sum_pictures_launch(rows, conv_weights(conv), m->parts, m->gradient + l->plan.weights),
        err));
    if (number == 0) {
        return OK;
    }
    return gpu_launch(m->stream,
                      conv_input_gradient_launch(conv, rows, m->parameters + l->plan.weights,
                                                 l->d_out, m->layers[number - 1].d_out),
                      err);
}

static enum status backward(struct model *m, size_t rows, struct err *err)
{
    const struct layer *last = &m->layers[LAYERS - 1];
    const struct maps maps = maps_of(last, rows);
    TRY(backward_linear(m, rows, err));
    TRY(gpu_launch(m->stream, mean_pool_gradient_launch(&maps, m->d_pooled, last->d_out), err));
    for (int i = LAYERS - 1; i >= 0; i--) {
        TRY(backward_layer(m, i, rows, err));
    }
    return OK;
}

/* ---- the table ---- */

static void check_batch(const struct model *m, const struct trainer_batch *batch)
{
    CHECK(batch->count <= m->rows);
    CHECK(batch->device_images != NULL && batch->device_labels != NULL);
}

/* In the rows' order, as on the host. */
static enum status collect(struct model *m, uint32_t count, struct trainer_result *out,
                           struct err *err)
{
    struct trainer_result result = {.count = count};
    if (count > 0) {
        TRY(gpu_download(m->stream, m->host_losses, m->losses, count * sizeof(float), err));
        TRY(gpu_download(m->stream, m->host_corrects, m->corrects, count * sizeof(uint32_t), err));
    }
    TRY(settle(m, err));
    for (uint32_t i = 0; i < count; i++) {
        result.loss += m->host_losses[i];
        result.correct += m->host_corrects[i];
    }
    *out = result;
    return OK;
}

static enum status cuda_learn(struct model *m, const struct trainer_batch *batch, uint64_t step,
                              struct trainer_result *out, struct err *err)
{
    const size_t bytes = m->layout.parameters * sizeof(float);
    check_batch(m, batch);
    name_step(m, "step", step);
    TRY(gpu_zero(m->stream, m->gradient, bytes, err));
    TRY(forward(m, batch, true, err));
    TRY(backward(m, batch->count, err));
    if (m->is_summed) {
        TRY(gpu_download(m->stream, m->host_sums, m->gradient, bytes, err));
    }
    return collect(m, batch->count, out, err);
}

static enum status cuda_evaluate(struct model *m, const struct trainer_batch *batch, uint64_t step,
                                 struct trainer_result *out, struct err *err)
{
    check_batch(m, batch);
    name_step(m, "the evaluation before step", step);
    TRY(forward(m, batch, false, err));
    return collect(m, batch->count, out, err);
}

static float *cuda_sums(struct model *m)
{
    CHECK(m->is_summed);
    return m->host_sums;
}

static enum status cuda_update(struct model *m, const struct sgd *sgd, struct err *err)
{
    const size_t count = m->layout.parameters;
    if (m->is_summed) {
        TRY(gpu_upload(m->stream, m->gradient, m->host_sums, count * sizeof(float), err));
    }
    return gpu_launch(m->stream, sgd_launch(sgd, m->parameters, m->velocity, m->gradient, count),
                      err);
}

static enum status cuda_save(struct model *m, void *state, struct err *err)
{
    const size_t count = m->layout.parameters;
    const size_t half = count * sizeof(float);
    name_work(m, "a checkpoint");
    TRY(gpu_download(m->stream, m->host_state, m->parameters, half, err));
    TRY(gpu_download(m->stream, m->host_state + count, m->velocity, half, err));
    TRY(settle(m, err));
    memcpy(state, m->host_state, 2 * half);
    return OK;
}

/* From host_state. */
static enum status send_state(struct model *m, struct err *err)
{
    const size_t count = m->layout.parameters;
    const size_t half = count * sizeof(float);
    TRY(gpu_upload(m->stream, m->parameters, m->host_state, half, err));
    TRY(gpu_upload(m->stream, m->velocity, m->host_state + count, half, err));
    return settle(m, err);
}

static enum status cuda_load(struct model *m, const void *state, struct err *err)
{
    name_work(m, "a checkpoint");
    memcpy(m->host_state, state, 2 * m->layout.parameters * sizeof(float));
    return send_state(m, err);
}

static size_t cuda_parameters(const struct model *m)
{
    return m->layout.parameters;
}

static size_t cuda_memory_bytes(const struct model *m)
{
    return sizeof(*m) + m->pinned_size;
}

/* What the GPU may still use is left to the process's end. */
static void cuda_close(struct model **model)
{
    struct model *m = *model;
    struct err err = {0};
    if (m == NULL) {
        return;
    }
    if (m->event != NULL && await_all(m, &err) == ERR_TIMEOUT) {
        log_error("the trainer's memory on the GPU leaks: it may still use it");
    } else { /* a broken device is not called */
        device_cuda.event_free(m->device, &m->event);
        gpu_stream_free(&m->stream);
        device_cuda.free_pinned(m->device, m->pinned, m->pinned_size);
        device_cuda.free_device(m->device, m->memory);
    }
    free(m);
    *model = NULL;
}

static enum status set_up(struct model *m, const struct trainer_options *options, struct err *err)
{
    TRY(gpu_stream_new(m->device, options->images, &m->stream, err));
    name_work(m, "opening");
    TRY(take_memory(m, err));
    network_begin(&m->layout, (uint64_t)options->config->seed, m->host_state);
    TRY(send_state(m, err));
    log_info("memory budget: trainer on the GPU: %.1f MiB of the GPU's for %zu rows",
             (double)m->memory_size / MIB, m->rows);
    return OK;
}

static enum status cuda_open(const struct trainer_options *options, struct model **out,
                             struct err *err)
{
    const struct layout *layout = options->layout;
    const struct network_shape shape = {layout->height, layout->width, options->classes};
    struct network_layout network;
    if (layout->rows >= LAUNCH_SIDE_MAX / layout->height / layout->width) {
        return err_set(
            err, ERR_CONFIG,
            "reference trainer: %u pictures of %ux%u a rank are too many for its kernels; "
            "lower global_batch",
            layout->rows, layout->height, layout->width);
    }
    TRY(network_lay_out(&shape, &network, err));
    struct model *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return err_set(err, ERR_RESOURCE, "reference trainer: out of memory");
    }
    m->device = options->device;
    m->layout = network;
    m->height = layout->height;
    m->width = layout->width;
    m->classes = options->classes;
    m->rows = layout->rows;
    m->is_summed = options->world > 1;
    for (int i = 0; i < LAYERS; i++) {
        m->layers[i].plan = network.layers[i];
    }
    const enum status status = set_up(m, options, err);
    if (status != OK) {
        cuda_close(&m);
        return err_prefix(err, "reference trainer");
    }
    *out = m;
    return OK;
}

const struct model_ops model_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .parameters = cuda_parameters,
    .learn = cuda_learn,
    .evaluate = cuda_evaluate,
    .sums = cuda_sums,
    .update = cuda_update,
    .save = cuda_save,
    .load = cuda_load,
    .memory_bytes = cuda_memory_bytes,
    .close = cuda_close,
};
