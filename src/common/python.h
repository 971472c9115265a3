/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How Python writes the values of a JSON document and what its operations do with them: str(),
 * repr(), str.upper(), in, extend. The platform's toolkit is written in it. Texts are as in text.h.
 */
#ifndef HEADRACE_COMMON_PYTHON_H
#define HEADRACE_COMMON_PYTHON_H

#include "common/json.h"

/* For json_write: repr(). */
extern const struct json_style PYTHON_REPR;

/* str(): a text is itself, everything else is its repr(). */
MUST_USE enum status python_write_str(FILE *out, const struct json *value, struct err *err);

MUST_USE enum status python_str(const struct json *value, struct json **out, struct err *err);

void python_write_upper(FILE *out, const char *text);

/* A list, an object (its keys) or a text (its characters); false for NULL and all else. */
bool python_is_iterable(const struct json *value);

/* `text in value`; false, without an answer, where value is not iterable. */
bool python_contains(const struct json *value, const char *text, bool *is_in_out);

/* list.extend(value), of an iterable value. */
MUST_USE enum status python_extend(struct json *list, const struct json *value, struct err *err);

/* list(value)[0], of an iterable value that is not empty. */
MUST_USE enum status python_first(const struct json *value, struct json **out, struct err *err);

/* A text that os.environ takes: no U+0000, and no surrogate but those that stand for bytes. */
bool python_fits_environment(const struct json *value);

/* What int() reads: blanks around, a sign, single underscores between digits. */
bool python_reads_int(const char *text);

#endif
