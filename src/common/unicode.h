/* SPDX-License-Identifier: Apache-2.0 */
/* What the program has to know of single code points: upper case and printability, as Python 3.11
 * knows them (Unicode 14.0). Pure. */
#ifndef HEADRACE_COMMON_UNICODE_H
#define HEADRACE_COMMON_UNICODE_H

#include "common/base.h"

enum { UPPER_POINTS_MAX = 3 };

/* The upper case of a code point, without context, is 1 to 3 code points; returns how many. */
size_t unicode_upper(uint32_t point, uint32_t out[UPPER_POINTS_MAX]);

bool unicode_is_printable(uint32_t point);

#endif
