/* SPDX-License-Identifier: Apache-2.0 */
/* resize: to a height and width, or the shorter side to a length and the longer in proportion,
 * rounded down as torchvision does. */
#include "producer/op.h"

static uint32_t in_proportion(uint32_t longer, uint32_t shorter, uint32_t target)
{
    const uint64_t length = (uint64_t)target * longer / shorter;
    return length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
}

static enum status apply(const struct op *op, const struct op_draws *draws,
                         struct geometry *geometry, struct err *err)
{
    const struct image_size now = geometry_size(geometry);
    struct image_size target = {op->width, op->height};
    if (op->width == 0 && now.width <= now.height) {
        target.width = op->height;
        target.height = in_proportion(now.height, now.width, op->height);
    } else if (op->width == 0) {
        target.width = in_proportion(now.width, now.height, op->height);
        target.height = op->height;
    }
    return geometry_resize(geometry, &target, err);
}

const struct op_ops op_resize = {OP_RESIZE, apply};
