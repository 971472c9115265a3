/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lexical pass in front of the JSON parser: it checks a document as strictly as Python's json
 * does and rewrites it so that the parser behind cannot lose anything. A number becomes the text
 * "nNUMBER" (an integer with all its digits; a float in Python's shortest form; NaN, Infinity,
 * -Infinity), a text value becomes "sTEXT"; keys stay. Escapes that the parser cannot keep (U+0000,
 * a lone surrogate) become bytes as in text.h. Builds no tree.
 */
#ifndef HEADRACE_COMMON_JSON_MARK_H
#define HEADRACE_COMMON_JSON_MARK_H

#include <stdio.h>

#include "common/err.h"

enum {
    JSON_MARK_NUMBER = 'n',
    JSON_MARK_TEXT = 's',
    JSON_INTEGER_DIGITS_MAX = 4300, /* as Python: more digits are no number */
};

/*
 * Writes the marked document to out. text[len] is NUL. outside: the bytes come from outside the
 * program and have to be strict UTF-8 (a text out of another document may hold what text.h allows).
 * ERR_DATA: no JSON, with line and column. ERR_CONFIG: JSON, but nested deeper than JSON_DEPTH_MAX.
 */
MUST_USE enum status json_mark(const char *text, size_t len, bool outside, FILE *out,
                               struct err *err);

#endif
