/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a class of `headrace gen` looks like: the outline of its object and the pattern on it. Pure;
 * IEEE + - x / sqrt only.
 */
#ifndef HEADRACE_CLI_GEN_CLASS_H
#define HEADRACE_CLI_GEN_CLASS_H

#include "common/base.h"

enum { GEN_CLASSES_MAX = 64, GEN_NAME_BYTES = 40 };

/* "thin_striped_disc". No two are equal; class < GEN_CLASSES_MAX. */
void gen_class_name(uint32_t class, char name[GEN_NAME_BYTES]);

/* The signed distance to the outline, or nearly, > 0 inside. (x, y): from the object's centre, its
 * radius being 1. */
double gen_class_outline(uint32_t class, double x, double y);

/* The same for the border between the pattern's two colours, > 0 in the second one. (x, y): from
 * the object's centre, the picture's shorter side being 1. */
double gen_class_pattern(uint32_t class, double x, double y);

#endif
