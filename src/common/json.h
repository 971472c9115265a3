/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON values as Python's json reads and writes them: every integer with all its digits, floats in
 * their shortest form, NaN and the infinities, lone surrogates; of equal keys the last value wins
 * and keeps the first one's place. At most JSON_BYTES_MAX bytes and JSON_DEPTH_MAX levels. The tree
 * behind it is cJSON's, which no other file sees. Texts are as in text.h. Not for the hot path:
 * everything here allocates.
 */
#ifndef HEADRACE_COMMON_JSON_H
#define HEADRACE_COMMON_JSON_H

#include <stdio.h>

#include "common/err.h"

struct json; /* one value; it owns the values inside it */

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

/* ---- reading ---- */

/*
 * json_parse reads a text of the program (text.h); json_parse_bytes and json_read_file read what
 * comes from outside, which has to be strict UTF-8 (bytes[len] is NUL). ERR_DATA: no JSON, with
 * line and column; ERR_CONFIG: too large or too deep; ERR_MISSING, ERR_IO: the file, named in the
 * message.
 */
MUST_USE enum status json_parse(const char *text, struct json **out, struct err *err);
MUST_USE enum status json_parse_bytes(const char *bytes, size_t len, struct json **out,
                                      struct err *err);
MUST_USE enum status json_read_file(const char *path, struct json **out, struct err *err);
void json_free(struct json **json);

enum json_kind json_kind(const struct json *json);
const char *json_kind_name(enum json_kind kind); /* "a list" */

/* The text of a TEXT, the digits of a NUMBER ("1e-05", "NaN"); NULL for other kinds. Borrowed. */
const char *json_text(const struct json *json);
bool json_is_true(const struct json *json);
/* A NUMBER without fraction and exponent, of any size. */
bool json_is_integer(const struct json *json);
/* false: no number, or an integer outside 64 bits. A float counts as an integer when it is a whole
 * number. */
bool json_to_integer(const struct json *json, int64_t *out);
bool json_to_double(const struct json *json, double *out);
/* Truth as in Python: false are null, false, 0, 0.0 and whatever is empty. */
bool json_truth(const struct json *json);
bool json_is_text(const struct json *json, const char *text);

/* Members of a list or object in order; NULL at the end, and for other kinds. */
const struct json *json_first(const struct json *json);
const struct json *json_next(const struct json *member);
/* The key of an object's member. */
const char *json_key(const struct json *member);
uint32_t json_count(const struct json *json);
/* NULL: no such key, or json is no object (or NULL). */
const struct json *json_get(const struct json *json, const char *key);

/* ---- building: NULL when memory is short, which json_add and json_append report ---- */

struct json *json_new_object(void);
struct json *json_new_list(void);
struct json *json_new_null(void);
struct json *json_new_bool(bool value);
struct json *json_new_integer(int64_t value);
struct json *json_new_text(const char *text);
struct json *json_clone(const struct json *json);

/* Take value, also on failure (ERR_RESOURCE). The key has to be new, or json_unite has to follow,
 * which leaves of equal keys the last value in the first one's place. */
MUST_USE enum status json_add(struct json *object, const char *key, struct json *value,
                              struct err *err);
MUST_USE enum status json_append(struct json *list, struct json *value, struct err *err);
MUST_USE enum status json_unite(struct json *object, struct err *err);

/* ---- writing ---- */

/* How a value is written; JSON_COMPACT is what Python's json.dumps writes with sorted keys, no
 * blanks and non-ASCII as \u escapes. */
struct json_style {
    bool sorts_keys;
    const char *comma;
    const char *colon;
    void (*write_text)(FILE *out, const char *text);
    void (*write_scalar)(FILE *out, const struct json *json); /* null, a bool or a number */
};
extern const struct json_style JSON_COMPACT;

/* ERR_RESOURCE: no memory. What the stream does is the stream's business (ferror). */
MUST_USE enum status json_write(FILE *out, const struct json *json, const struct json_style *style,
                                struct err *err);
/* The text is the caller's to free(). */
MUST_USE enum status json_print(const struct json *json, char **out, struct err *err);
/* In double quotes, pure ASCII. */
void json_write_quoted(FILE *out, const char *text);

/* A value on one line for an error message, cut with "..." where it does not fit; NULL: "nothing".
 */
void json_describe(const struct json *json, char *out, size_t size);

#endif
