/* SPDX-License-Identifier: Apache-2.0 */
/* center_crop: the middle of the picture; where it is smaller, black around it. The odd pixel goes
 * where torchvision puts it: padding has its larger half behind, and half a pixel of offset is
 * rounded to even. */
#include "producer/op.h"

static int64_t offset(uint32_t have, uint32_t want)
{
    if (want > have) {
        return -(int64_t)((want - have) / 2);
    }
    const uint32_t spare = have - want;
    const uint32_t half = spare / 2;
    return spare % 2 == 1 && half % 2 == 1 ? half + 1 : half;
}

static enum status apply(const struct op *op, const struct op_draws *draws,
                         struct geometry *geometry, struct err *err)
{
    const struct image_size now = geometry_size(geometry);
    const struct image_size target = {op->width, op->height};
    geometry_crop(geometry, offset(now.width, op->width), offset(now.height, op->height), &target);
    return OK;
}

const struct op_ops op_center_crop = {OP_CENTER_CROP, apply};
