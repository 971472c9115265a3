/* SPDX-License-Identifier: Apache-2.0 */
/* horizontal_flip: with probability p, left and right change places. */
#include "producer/op.h"

static enum status apply(const struct op *op, const struct op_draws *draws,
                         struct geometry *geometry, struct err *err)
{
    if (rng_uniform(draws->at, draws->index, 0) < op->p) {
        geometry_mirror(geometry);
    }
    return OK;
}

const struct op_ops op_horizontal_flip = {OP_HORIZONTAL_FLIP, apply};
