/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What consumes batches. The train command owns the loop over epochs and steps, the feed and the
 * collective; a trainer owns a model and does one step. One thread.
 */
#ifndef HEADRACE_CONSUMER_TRAINER_H
#define HEADRACE_CONSUMER_TRAINER_H

#include <stdio.h>

#include "common/config.h"
#include "common/layout.h"
#include "consumer/coll.h"
#include "consumer/device.h"

struct kernel_images;
struct trainer;

struct trainer_options {
    const struct config *config;
    const struct layout *layout; /* of the train stream; borrowed */
    uint32_t classes;
    uint32_t world;
    uint64_t steps; /* of the whole job, all epochs of the train stream: over them the learning rate
                       falls to 0; 0: it stays */
    const struct coll_ops *coll_ops;
    struct coll *coll;
    struct device *device;              /* of device_cuda: compute on it; NULL: on the host */
    const struct kernel_images *images; /* with a device: what is embedded */
};

struct trainer_batch {
    const uint8_t *images; /* rows x height x width x 3 */
    const int64_t *labels;
    uint32_t count; /* real rows */
    /* The same on the options' device, once `copied` (NULL: already there) has fired. The trainer
     * records `done` (NULL: not wanted) behind its last use of them. */
    const uint8_t *device_images;
    const int64_t *device_labels;
    struct device_event *copied, *done;
};

struct trainer_result { /* sums over the real rows of this rank */
    double loss;
    uint64_t correct;
    uint64_t count;
};

struct trainer_ops {
    const char *name; /* "reference", "synthetic" */
    enum status (*open)(const struct trainer_options *options, struct trainer **out,
                        struct err *err);
    /* Forward, backward, allreduce of the gradients, update. ERR_DATA: a label outside 0..classes-1
     * (no labels). ERR_CONFIG: training has diverged; on all ranks at the same step. */
    enum status (*step)(struct trainer *trainer, const struct trainer_batch *batch,
                        struct trainer_result *out, struct err *err);
    /* Forward only. */
    enum status (*evaluate)(struct trainer *trainer, const struct trainer_batch *batch,
                            struct trainer_result *out, struct err *err);
    /* The model's state as bytes: size, then save into / load from a buffer of that size. */
    size_t (*state_bytes)(const struct trainer *trainer);
    enum status (*save)(struct trainer *trainer, void *state, struct err *err);
    enum status (*load)(struct trainer *trainer, const void *state, size_t bytes, struct err *err);
    /* All memory of the host that open has taken, for the printed budget; a step takes none. */
    size_t (*memory_bytes)(const struct trainer *trainer);
    void (*close)(struct trainer **trainer);
};

extern const struct trainer_ops trainer_reference;
extern const struct trainer_ops trainer_synthetic;

#endif
