/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference trainer's model: a small convolutional network for pictures of any size.
 *
 *   uint8 height x width x 3 -> normalized -> 3 convolutions of stride 2 with bias and ReLU (16, 32
 *   and 64 filters; channel norm in the first) -> mean over positions -> linear -> logits of the
 *   classes -> softmax, cross-entropy
 *
 * One picture at a time: memory does not grow with the batch, and a gradient is a sum over pictures
 * in the order of the calls. Parameters and gradients are plain arrays of network_parameters()
 * floats, owned by the caller. One thread per network.
 */
#ifndef HEADRACE_CONSUMER_NETWORK_H
#define HEADRACE_CONSUMER_NETWORK_H

#include "common/err.h"
#include "kernels/kernels.h"

struct network_shape {
    uint32_t height, width, classes;
};

/*
 * Where parameters lie: layer by layer, weights before bias: each convolution's [ky][kx][c][f] and
 * [f], then the linear layer's [feature][class] and [class].
 */
enum { NETWORK_LAYERS = 3 };
struct network_layer {
    struct conv conv;
    size_t positions;
    bool normalized;      /* channel norm before bias and ReLU */
    size_t weights, bias; /* offsets in the parameters */
};
struct network_layout {
    struct network_layer layers[NETWORK_LAYERS];
    size_t features;
    size_t linear_weights, linear_bias; /* offsets */
    size_t parameters;                  /* how many */
};
/* Errors as network_new's. */
MUST_USE enum status network_lay_out(const struct network_shape *shape, struct network_layout *out,
                                     struct err *err);

/* Of the pictures' channels, for normalize. */
extern const float NETWORK_MEAN[3];
extern const float NETWORK_STD[3];

struct network; /* shape and working memory */

/* ERR_CONFIG: a side of 0 or over TARGET_SIDE_MAX, or fewer than 2 or more than
 * NETWORK_CLASSES_MAX classes. */
enum { NETWORK_CLASSES_MAX = 65536 };
MUST_USE enum status network_new(const struct network_shape *shape, struct network **out,
                                 struct err *err);
void network_free(struct network **network);

/* All memory that it has taken. */
size_t network_bytes(const struct network *network);

size_t network_parameters(const struct network *network);

/* First weights: uniform in +-sqrt(6 / inputs of the layer) (He et al. 2015), a function of the
 * seed alone; biases 0. */
void network_init(const struct network *network, uint64_t seed, float *parameters);
void network_begin(const struct network_layout *layout, uint64_t seed, float *parameters);

/* Loss of a picture; label < classes. */
float network_loss(struct network *network, const float *parameters, const uint8_t *picture,
                   size_t label, bool *correct_out);

/* The same, and adds the loss's derivative by the parameters to *gradient. */
float network_learn(struct network *network, const float *parameters, const uint8_t *picture,
                    size_t label, float *gradient, bool *correct_out);

#endif
