/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a pipeline applied to one picture: one const table per operation, one file per
 * table. They turn parameters and random draws into geometry and touch no pixel. Parameters,
 * defaults and meaning follow torchvision's v2 transforms. Pure.
 */
#ifndef HEADRACE_PRODUCER_OP_H
#define HEADRACE_PRODUCER_OP_H

#include "common/pipeline.h"
#include "common/rng.h"
#include "producer/geometry.h"

/* Where an operation's draws come from: draw d is rng_*(at, index, d). */
struct op_draws {
    const struct rng_at *at;
    uint32_t index; /* of the operation in the pipeline */
};

struct op_ops {
    enum op_kind kind;
    /* ERR_DATA: not possible with a picture of this shape. */
    MUST_USE enum status (*apply)(const struct op *op, const struct op_draws *draws,
                                  struct geometry *geometry, struct err *err);
};

extern const struct op_ops op_decode;
extern const struct op_ops op_random_resized_crop;
extern const struct op_ops op_resize;
extern const struct op_ops op_center_crop;
extern const struct op_ops op_horizontal_flip;

/* The whole pipeline for a picture of this size: its geometry, whose output is the pipeline's
 * height and width. */
MUST_USE enum status op_apply_all(const struct pipeline *pipeline, const struct rng_at *at,
                                  const struct image_size *picture, struct geometry *out,
                                  struct err *err);

#endif
