/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double as the shortest decimal text that reads back equal, in the form of Python's repr: 0.1,
 * 1e-05, 100.0, 1e+16, -0.0, inf, nan. Pure.
 */
#ifndef HEADRACE_COMMON_FLOAT_TEXT_H
#define HEADRACE_COMMON_FLOAT_TEXT_H

#include "common/base.h"

enum { FLOAT_TEXT_BYTES = 32 };

void float_text(double value, char out[FLOAT_TEXT_BYTES]);

#endif
