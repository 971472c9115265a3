/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to every picture of a stream, as parsed from the stream's JSON: the operations in
 * order with their parameters (names, defaults and meaning as in torchvision's v2 transforms), and
 * the shape that comes out. Knows no pixels: producer/op.h applies it.
 */
#ifndef HEADRACE_COMMON_PIPELINE_H
#define HEADRACE_COMMON_PIPELINE_H

#include "common/err.h"
#include "common/limits.h"

enum op_kind {
    OP_DECODE,              /* always first */
    OP_RANDOM_RESIZED_CROP, /* size, scale, ratio */
    OP_RESIZE,              /* size: the shorter side, or [height, width] */
    OP_CENTER_CROP,         /* size */
    OP_HORIZONTAL_FLIP,     /* p */
};

struct op {
    enum op_kind kind;
    uint32_t height, width; /* target; OP_RESIZE with width 0: `height` is the shorter side */
    double scale[2];        /* OP_RANDOM_RESIZED_CROP: default 0.08, 1 */
    double ratio[2];        /* OP_RANDOM_RESIZED_CROP: default 3/4, 4/3 */
    double p;               /* OP_HORIZONTAL_FLIP: default 0.5 */
};

enum { PIPELINE_TEXT_BYTES = 2048 };

struct pipeline {
    uint32_t op_count;
    struct op ops[OPS_MAX];
    uint32_t height, width, channels; /* of every output; fixed by the last sizing operation */
    char text[PIPELINE_TEXT_BYTES]; /* canonical JSON with all defaults written out: hashed and sent
                                       in the roster */
};

/*
 * Parses a JSON array of operations. Errors (ERR_CONFIG) name the operation's index, the field,
 * what was found and what is allowed; an unknown operation or parameter is answered with the
 * nearest known name. A pipeline whose output shape depends on the picture (no crop, or a
 * shorter-side resize last) is refused.
 */
MUST_USE enum status pipeline_parse(const char *json, struct pipeline *out, struct err *err);

#endif
