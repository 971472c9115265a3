/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON values, without recursion: a stack of the lists and objects that are open. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/limits.h"
#include "common/text.h"

/* A value built by us may be a little deeper than the documents that it holds. */
enum { TREE_DEPTH_MAX = 2 * JSON_DEPTH_MAX };

void json_write_quoted(FILE *out, const char *text)
{
    const char *end = text + strlen(text);
    fputc('"', out);
    while (text < end) {
        int32_t point = text_decode(&text, end);
        if (point < 0) {
            point = 0xDC00 | (unsigned char)*text++; /* as Python escapes a stray byte */
        }
        const char *plain = "\"\\\n\r\t\f\b";
        const char *special = point != 0 && point < 0x80 ? strchr(plain, point) : NULL;
        if (special != NULL) {
            fprintf(out, "\\%c", "\"\\nrtfb"[special - plain]);
        } else if (point >= 0x20 && point < 0x7F) {
            fputc(point, out);
        } else if (point < 0x10000) {
            fprintf(out, "\\u%04x", (unsigned)point);
        } else {
            const unsigned offset = (unsigned)point - 0x10000;
            fprintf(out, "\\u%04x\\u%04x", 0xD800 | offset >> 10, 0xDC00 | (offset & 0x3FF));
        }
    }
    fputc('"', out);
}

static void write_json_scalar(FILE *out, const struct json *json)
{
    switch (json_kind(json)) {
    case JSON_NUMBER:
        fputs(json_text(json), out);
        return;
    case JSON_BOOL:
        fputs(json_is_true(json) ? "true" : "false", out);
        return;
    default:
        fputs("null", out);
    }
}

const struct json_style JSON_COMPACT = {true, ",", ":", json_write_quoted, write_json_scalar};

struct member {
    const struct json *value;
};

/* An open list or object: its members in the order of writing. */
struct level {
    struct member *members;
    uint32_t count;
    uint32_t next;
    bool is_object;
};

struct writer {
    FILE *out;
    const struct json_style *style;
    struct err *err;
    size_t depth;
    struct level levels[TREE_DEPTH_MAX];
};

static int member_compare(const void *a, const void *b)
{
    const struct member *left = a;
    const struct member *right = b;
    return text_compare(json_key(left->value), json_key(right->value));
}

static enum status open_level(struct writer *writer, const struct json *json)
{
    CHECK(writer->depth < ARRAY_LEN(writer->levels));
    struct level *level = &writer->levels[writer->depth];
    *level = (struct level){.count = json_count(json), .is_object = json_kind(json) == JSON_OBJECT};
    level->members = calloc(level->count + 1U, sizeof(*level->members));
    if (level->members == NULL) {
        return err_set(writer->err, ERR_RESOURCE, "no memory for JSON");
    }
    writer->depth++;
    uint32_t i = 0;
    for (const struct json *value = json_first(json); value != NULL; value = json_next(value)) {
        level->members[i++].value = value;
    }
    if (level->is_object && writer->style->sorts_keys) {
        qsort(level->members, level->count, sizeof(*level->members), member_compare);
    }
    fputc(level->is_object ? '{' : '[', writer->out);
    return OK;
}

static void close_level(struct writer *writer)
{
    writer->depth--;
    free(writer->levels[writer->depth].members);
}

static enum status write_value(struct writer *writer, const struct json *json)
{
    switch (json_kind(json)) {
    case JSON_LIST:
    case JSON_OBJECT:
        return open_level(writer, json);
    case JSON_TEXT:
        writer->style->write_text(writer->out, json_text(json));
        return OK;
    default:
        writer->style->write_scalar(writer->out, json);
        return OK;
    }
}

/* The next member of the innermost level, or its end. */
static enum status write_step(struct writer *writer)
{
    struct level *level = &writer->levels[writer->depth - 1];
    if (level->next == level->count) {
        fputc(level->is_object ? '}' : ']', writer->out);
        close_level(writer);
        return OK;
    }
    if (level->next > 0) {
        fputs(writer->style->comma, writer->out);
    }
    const struct json *value = level->members[level->next++].value;
    if (level->is_object) {
        writer->style->write_text(writer->out, json_key(value));
        fputs(writer->style->colon, writer->out);
    }
    return write_value(writer, value);
}

enum status json_write(FILE *out, const struct json *json, const struct json_style *style,
                       struct err *err)
{
    struct writer writer = {.out = out, .style = style, .err = err};
    enum status status = write_value(&writer, json);
    while (status == OK && writer.depth > 0) {
        status = write_step(&writer);
    }
    while (writer.depth > 0) {
        close_level(&writer);
    }
    return status;
}

enum status json_print(const struct json *json, char **out, struct err *err)
{
    char *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    if (stream == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    enum status status = json_write(stream, json, &JSON_COMPACT, err);
    if (fclose(stream) != 0 && status == OK) {
        status = err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    if (status != OK) {
        free(text);
        return status;
    }
    *out = text;
    return OK;
}

void json_describe(const struct json *json, char *out, size_t size)
{
    char *text = NULL;
    if (json == NULL) {
        snprintf(out, size, "nothing");
        return;
    }
    if (json_print(json, &text, NULL) != OK || text == NULL) {
        snprintf(out, size, "%s", json_kind_name(json_kind(json)));
        return;
    }
    const size_t len = strlen(text);
    snprintf(out, size, "%s", text);
    if (len >= size && size > 4) {
        memcpy(out + size - 4, "...", 4);
    }
    free(text);
}
