/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer is convolution, in the first one channel norm, bias and ReLU. The first layer's filters
 * begin without a mean and its answers are normalized, so that the network sees edges of every
 * contrast at once: without either it needs several times the epochs on `headrace gen` pictures.
 */
#include "consumer/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/rng.h"
#include "kernels/kernels.h"

enum { LAYERS = NETWORK_LAYERS, LINEAR = LAYERS };

static const struct {
    size_t kernel, stride, filters;
    bool normalized;
} DESIGN[LAYERS] = {{5, 2, 16, true}, {3, 2, 32, false}, {3, 2, 64, false}};

/* The usual figures of the ImageNet photographs. */
const float NETWORK_MEAN[3] = {0.485F, 0.456F, 0.406F};
const float NETWORK_STD[3] = {0.229F, 0.224F, 0.225F};

struct layer {
    struct network_layer plan;
    float *before;      /* bias and ReLU: positions x filters */
    float *out, *d_out; /* positions x filters */
    float *inverse;     /* of the channel norm; NULL: this layer has none */
};

struct network {
    struct network_shape shape;
    struct network_layout layout;
    struct layer layers[LAYERS];
    size_t bytes; /* of all buffers, and this */
    float *input; /* 3 x height x width */
    float *scratch;
    float *pooled, *d_pooled;
    float *logits, *d_logits;
};

static enum status check_shape(const struct network_shape *shape, struct err *err)
{
    if (shape->height < 1 || shape->height > TARGET_SIDE_MAX || shape->width < 1 ||
        shape->width > TARGET_SIDE_MAX) {
        return err_set(err, ERR_CONFIG, "network: pictures of %ux%u, allowed are sides of 1 to %d",
                       shape->height, shape->width, TARGET_SIDE_MAX);
    }
    if (shape->classes < 2 || shape->classes > NETWORK_CLASSES_MAX) {
        return err_set(err, ERR_CONFIG, "network: %u classes, allowed are 2 to %d", shape->classes,
                       NETWORK_CLASSES_MAX);
    }
    return OK;
}

enum status network_lay_out(const struct network_shape *shape, struct network_layout *out,
                            struct err *err)
{
    TRY(check_shape(shape, err));
    size_t height = shape->height;
    size_t width = shape->width;
    size_t channels = 3;
    size_t offset = 0;
    for (int i = 0; i < LAYERS; i++) {
        struct network_layer *layer = &out->layers[i];
        layer->conv = (struct conv){
            .height = height,
            .width = width,
            .channels = channels,
            .kernel = DESIGN[i].kernel,
            .stride = DESIGN[i].stride,
            .filters = DESIGN[i].filters,
            .planar = i == 0, /* as normalize_host writes it */
        };
        height = conv_side(&layer->conv, height);
        width = conv_side(&layer->conv, width);
        channels = layer->conv.filters;
        layer->positions = height * width;
        layer->normalized = DESIGN[i].normalized;
        layer->weights = offset;
        layer->bias = offset + conv_weights(&layer->conv);
        offset = layer->bias + channels;
    }
    out->features = channels;
    out->linear_weights = offset;
    out->linear_bias = offset + channels * shape->classes;
    out->parameters = out->linear_bias + shape->classes;
    return OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The shape's limits keep every product far below SIZE_MAX. */
static bool floats_new(struct network *network, size_t count, float **out)
{
    network->bytes += count * sizeof(float);
    *out = calloc(count, sizeof(float));
    return *out != NULL;
}

static bool buffers_new(struct network *network)
{
    size_t scratch = 0;
    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &network->layers[i];
        const size_t count = layer->plan.positions * layer->plan.conv.filters;
        scratch = larger(scratch, conv_scratch(&layer->plan.conv));
        scratch = larger(scratch, 2 * layer->plan.conv.filters); /* of the channel norm */
        if (!floats_new(network, count, &layer->before) ||
            !floats_new(network, count, &layer->out) ||
            !floats_new(network, count, &layer->d_out)) {
            return false;
        }
        if (layer->plan.normalized &&
            !floats_new(network, layer->plan.conv.filters, &layer->inverse)) {
            return false;
        }
    }
    const struct network_shape *shape = &network->shape;
    return floats_new(network, (size_t)3 * shape->height * shape->width, &network->input) &&
           floats_new(network, scratch, &network->scratch) &&
           floats_new(network, network->layout.features, &network->pooled) &&
           floats_new(network, network->layout.features, &network->d_pooled) &&
           floats_new(network, shape->classes, &network->logits) &&
           floats_new(network, shape->classes, &network->d_logits);
}

enum status network_new(const struct network_shape *shape, struct network **out, struct err *err)
{
    struct network_layout layout;
    TRY(network_lay_out(shape, &layout, err));
    struct network *network = calloc(1, sizeof(*network));
    if (network == NULL) {
        return err_set(err, ERR_RESOURCE, "network: out of memory");
    }
    network->shape = *shape;
    network->bytes = sizeof(*network);
    network->layout = layout;
    for (int i = 0; i < LAYERS; i++) {
        network->layers[i].plan = layout.layers[i];
    }
    if (!buffers_new(network)) {
        network_free(&network);
        return err_set(err, ERR_RESOURCE, "network: no memory for pictures of %ux%u", shape->height,
                       shape->width);
    }
    *out = network;
    return OK;
}

size_t network_bytes(const struct network *network)
{
    return network->bytes;
}

void network_free(struct network **network)
{
    struct network *n = *network;
    if (n == NULL) {
        return;
    }
    for (int i = 0; i < LAYERS; i++) {
        free(n->layers[i].before);
        free(n->layers[i].out);
        free(n->layers[i].d_out);
        free(n->layers[i].inverse);
    }
    free(n->input);
    free(n->scratch);
    free(n->pooled);
    free(n->d_pooled);
    free(n->logits);
    free(n->d_logits);
    free(n);
    *network = NULL;
}

size_t network_parameters(const struct network *network)
{
    return network->layout.parameters;
}

static void fill_uniform(float *values, size_t count, size_t inputs, uint64_t seed, uint32_t layer)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const double bound = sqrt(6.0 / (double)inputs);
    for (size_t i = 0; i < count; i += 4) {
        const uint32_t counter[4] = {(uint32_t)(i / 4), layer, 0, 0};
        uint32_t bits[4];
        rng_philox4x32(counter, key, bits);
        for (size_t j = 0; j < 4 && i + j < count; j++) {
            values[i + j] = (float)(((double)bits[j] / 2147483648.0 - 1.0) * bound);
        }
    }
}

/* Takes the mean over the kernel's positions from every filter, channel by channel. */
static void remove_means(const struct conv *conv, float *weights)
{
    const size_t taps = conv->kernel * conv->kernel;
    const size_t step = conv->channels * conv->filters;
    for (size_t i = 0; i < step; i++) {
        double sum = 0;
        for (size_t t = 0; t < taps; t++) {
            sum += weights[t * step + i];
        }
        for (size_t t = 0; t < taps; t++) {
            weights[t * step + i] = (float)(weights[t * step + i] - sum / (double)taps);
        }
    }
}

void network_begin(const struct network_layout *layout, uint64_t seed, float *parameters)
{
    const size_t linear = layout->linear_bias - layout->linear_weights;
    memset(parameters, 0, layout->parameters * sizeof(float));
    for (uint32_t i = 0; i < LAYERS; i++) {
        const struct network_layer *layer = &layout->layers[i];
        const size_t count = conv_weights(&layer->conv);
        fill_uniform(parameters + layer->weights, count, count / layer->conv.filters, seed, i);
    }
    remove_means(&layout->layers[0].conv, parameters + layout->layers[0].weights);
    fill_uniform(parameters + layout->linear_weights, linear, layout->features, seed, LINEAR);
}

void network_init(const struct network *network, uint64_t seed, float *parameters)
{
    network_begin(&network->layout, seed, parameters);
}

static void forward_layer(const struct layer *layer, const float *parameters, const float *in,
                          float *scratch)
{
    const size_t filters = layer->plan.conv.filters;
    conv_host(&layer->plan.conv, in, parameters + layer->plan.weights, layer->before, scratch);
    if (layer->inverse != NULL) {
        channel_norm_host(layer->before, layer->plan.positions, filters, layer->before,
                          layer->inverse, scratch);
    }
    bias_relu_host(layer->before, parameters + layer->plan.bias, layer->plan.positions, filters,
                   layer->out);
}

/* Up to the logits. */
static void forward(struct network *network, const float *parameters, const uint8_t *picture)
{
    const struct network_shape *shape = &network->shape;
    normalize_host(picture, network->input, 1, shape->height, shape->width, NETWORK_MEAN,
                   NETWORK_STD);
    const float *in = network->input;
    for (int i = 0; i < LAYERS; i++) {
        forward_layer(&network->layers[i], parameters, in, network->scratch);
        in = network->layers[i].out;
    }
    mean_pool_host(in, network->layers[LAYERS - 1].plan.positions, network->layout.features,
                   network->pooled);
    memcpy(network->logits, parameters + network->layout.linear_bias,
           shape->classes * sizeof(float));
    gemm_host(&(struct gemm){
        .m = 1,
        .n = shape->classes,
        .k = network->layout.features,
        .a = network->pooled,
        .a_row = network->layout.features,
        .a_column = 1,
        .b = parameters + network->layout.linear_weights,
        .b_row = shape->classes,
        .b_column = 1,
        .c = network->logits,
        .c_row = shape->classes,
        .accumulate = true,
    });
}

/* From d_logits to d_pooled. */
static void backward_linear(struct network *network, const float *parameters, float *gradient)
{
    const size_t classes = network->shape.classes;
    for (size_t i = 0; i < classes; i++) {
        gradient[network->layout.linear_bias + i] += network->d_logits[i];
    }
    gemm_host(&(struct gemm){
        .m = network->layout.features,
        .n = classes,
        .k = 1,
        .a = network->pooled,
        .a_row = 1,
        .a_column = network->layout.features,
        .b = network->d_logits,
        .b_row = classes,
        .b_column = 1,
        .c = gradient + network->layout.linear_weights,
        .c_row = classes,
        .accumulate = true,
    });
    gemm_host(&(struct gemm){
        .m = 1,
        .n = network->layout.features,
        .k = classes,
        .a = network->d_logits,
        .a_row = classes,
        .a_column = 1,
        .b = parameters + network->layout.linear_weights,
        .b_row = 1,
        .b_column = classes,
        .c = network->d_pooled,
        .c_row = network->layout.features,
        .accumulate = false,
    });
}

/* From d_out to the gradient of the layer's parameters, and to d_in unless that is NULL. */
static void backward_layer(const struct layer *layer, const float *parameters, const float *in,
                           float *gradient, float *d_in, float *scratch)
{
    const size_t filters = layer->plan.conv.filters;
    bias_relu_gradient_host(layer->out, layer->plan.positions, filters, layer->d_out,
                            gradient + layer->plan.bias);
    if (layer->inverse != NULL) {
        channel_norm_gradient_host(layer->before, layer->inverse, layer->plan.positions, filters,
                                   layer->d_out, scratch);
    }
    conv_weights_gradient_host(&layer->plan.conv, in, layer->d_out, gradient + layer->plan.weights,
                               scratch);
    if (d_in != NULL) {
        conv_input_gradient_host(&layer->plan.conv, parameters + layer->plan.weights, layer->d_out,
                                 d_in, scratch);
    }
}

static void backward(struct network *network, const float *parameters, float *gradient)
{
    backward_linear(network, parameters, gradient);
    const struct layer *last = &network->layers[LAYERS - 1];
    mean_pool_gradient_host(network->d_pooled, last->plan.positions, network->layout.features,
                            last->d_out);
    for (int i = LAYERS - 1; i >= 0; i--) {
        const struct layer *below = i > 0 ? &network->layers[i - 1] : NULL;
        backward_layer(&network->layers[i], parameters, below != NULL ? below->out : network->input,
                       gradient, below != NULL ? below->d_out : NULL, network->scratch);
    }
}

float network_loss(struct network *network, const float *parameters, const uint8_t *picture,
                   size_t label, bool *correct_out)
{
    forward(network, parameters, picture);
    return softmax_loss_host(network->logits, network->shape.classes, label, NULL, correct_out);
}

float network_learn(struct network *network, const float *parameters, const uint8_t *picture,
                    size_t label, float *gradient, bool *correct_out)
{
    forward(network, parameters, picture);
    const float loss = softmax_loss_host(network->logits, network->shape.classes, label,
                                         network->d_logits, correct_out);
    backward(network, parameters, gradient);
    return loss;
}
