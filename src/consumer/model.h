/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the reference trainer computes: its network, the parameters and the optimizer's velocity,
 * on the host (model_host.c) or on a GPU (model_cuda.c). The parts of a step, each up to the
 * trainer: learn, the sum over ranks, update. One thread.
 *
 * Losses are the same bits on both, picture by picture, for the same parameters. Gradients are not:
 * a GPU sums them in another order (kernels/launch.h).
 */
#ifndef HEADRACE_CONSUMER_MODEL_H
#define HEADRACE_CONSUMER_MODEL_H

#include "consumer/trainer.h"
#include "kernels/kernels.h"

struct model;

/* Behind the gradient, there is room for what else the ranks sum. */
enum { MODEL_TAIL_FLOATS = 2 };

struct model_ops {
    const char *name; /* "host", "cuda" */
    /* With first weights drawn from the seed. */
    enum status (*open)(const struct trainer_options *options, struct model **out, struct err *err);
    size_t (*parameters)(const struct model *model);
    /* Sums over the batch's real rows, whose labels are classes, and their gradient. step: for
     * errors. Waits until the result is there. */
    enum status (*learn)(struct model *model, const struct trainer_batch *batch, uint64_t step,
                         struct trainer_result *out, struct err *err);
    /* The sums alone. */
    enum status (*evaluate)(struct model *model, const struct trainer_batch *batch, uint64_t step,
                            struct trainer_result *out, struct err *err);
    /* Of a job with several ranks: the last learn's gradient in host memory, with room for the
     * tail; it may be written until update, which takes it from there. */
    float *(*sums)(struct model *model);
    enum status (*update)(struct model *model, const struct sgd *sgd, struct err *err);
    /* Parameters, then velocity, as floats of host memory; not aligned. */
    enum status (*save)(struct model *model, void *state, struct err *err);
    enum status (*load)(struct model *model, const void *state, struct err *err);
    size_t (*memory_bytes)(const struct model *model); /* of the host */
    void (*close)(struct model **model);
};

extern const struct model_ops model_host;
extern const struct model_ops model_cuda; /* on the device of the options, which is never NULL */

#endif
