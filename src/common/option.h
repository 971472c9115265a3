/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option table in memory: one row per line of config.def, what a value of each kind looks like,
 * and the nearest name to a misspelt one. Knows nothing about where a value comes from.
 */
#ifndef HEADRACE_COMMON_OPTION_H
#define HEADRACE_COMMON_OPTION_H

#include "common/config.h"
#include "common/json.h"

enum option_kind { OPTION_INT, OPTION_FLOAT, OPTION_BOOL, OPTION_TEXT, OPTION_CHOICE };

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset; /* of its field in struct config */
    const char *default_text;
    const char *choices; /* "a|b|c" of a CHOICE */
    double min, max;     /* of an INT or FLOAT */
    const char *help;
};

extern const struct option OPTIONS[]; /* ends with a NULL name */

/* Names of what is configured but no row of the table: config, streams, roles, hosts. */
extern const char *const OPTION_MAPS[]; /* ends with NULL */

const struct option *option_find(const char *name); /* NULL: no such row */
/* Among all names, those of OPTION_MAPS too. */
const char *option_nearest(const char *name);

/*
 * Store a value in its field. ERR_CONFIG: "WHERE: found ..., expected ...". option_set_json takes a
 * number for a number and a text for a text; option_set_text reads numbers and true or false (in
 * any case, also yes, no, on, off, 1, 0) out of the text.
 */
MUST_USE enum status option_set_text(const struct option *option, const char *text,
                                     const char *where, struct config *config, struct err *err);
MUST_USE enum status option_set_json(const struct option *option, const struct json *value,
                                     const char *where, struct config *config, struct err *err);

/* What its values look like: "an integer from 1 to 64". */
void option_describe(const struct option *option, char *out, size_t size);

/* The nearest word to a misspelt one in "a|b|c", copied to out. */
void choice_nearest(const char *choices, const char *word, char *out, size_t size);
bool choice_has(const char *choices, const char *word);

#endif
