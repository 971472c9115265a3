/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations, and a pipeline's run through it. */
#include "producer/op.h"

static const struct op_ops *const OPS[] = {
    &op_decode, &op_random_resized_crop, &op_resize, &op_center_crop, &op_horizontal_flip,
};

static const struct op_ops *find(enum op_kind kind)
{
    size_t i = 0;
    while (i < ARRAY_LEN(OPS) && OPS[i]->kind != kind) {
        i++;
    }
    CHECK(i < ARRAY_LEN(OPS));
    return OPS[i];
}

enum status op_apply_all(const struct pipeline *pipeline, const struct rng_at *at,
                         const struct image_size *picture, struct geometry *out, struct err *err)
{
    geometry_init(out, picture);
    for (uint32_t i = 0; i < pipeline->op_count; i++) {
        const struct op *op = &pipeline->ops[i];
        const struct op_draws draws = {at, i};
        TRY(find(op->kind)->apply(op, &draws, out, err));
    }
    const struct image_size size = geometry_size(out);
    CHECK(size.width == pipeline->width && size.height == pipeline->height);
    return OK;
}
