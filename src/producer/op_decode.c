/* SPDX-License-Identifier: Apache-2.0 */
/* decode: the picture as the file holds it. It is the start of every geometry, so nothing is left
 * to do. */
#include "producer/op.h"

static enum status apply(const struct op *op, const struct op_draws *draws,
                         struct geometry *geometry, struct err *err)
{
    return OK;
}

const struct op_ops op_decode = {OP_DECODE, apply};
