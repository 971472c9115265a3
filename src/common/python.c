/* SPDX-License-Identifier: Apache-2.0 */
/* repr() of texts and scalars, what is built on it, and a few of Python's operations. */
#include "common/python.h"

#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "common/unicode.h"

static void write_escaped(FILE *out, uint32_t point)
{
    if (point <= 0xFF) {
        fprintf(out, "\\x%02x", point);
    } else if (point <= 0xFFFF) {
        fprintf(out, "\\u%04x", point);
    } else {
        fprintf(out, "\\U%08x", point);
    }
}

/* Single quotes, unless that would need escapes that double quotes do not. */
static void write_text(FILE *out, const char *text)
{
    const char *end = text + strlen(text);
    const char quote = strchr(text, '\'') != NULL && strchr(text, '"') == NULL ? '"' : '\'';
    fputc(quote, out);
    while (text < end) {
        const char *first = text;
        const int32_t point = text_decode(&text, end);
        CHECK(point >= 0);
        const char *special = point == 0 ? NULL : strchr("\t\n\r", point);
        if (point == quote || point == '\\') {
            fprintf(out, "\\%c", (int)point);
        } else if (special != NULL && point < 0x80) {
            fprintf(out, "\\%c", point == '\t' ? 't' : (point == '\n' ? 'n' : 'r'));
        } else if (unicode_is_printable((uint32_t)point)) {
            fwrite(first, 1, (size_t)(text - first), out);
        } else {
            write_escaped(out, (uint32_t)point);
        }
    }
    fputc(quote, out);
}

static void write_scalar(FILE *out, const struct json *json)
{
    static const char *const NUMBERS[][2] = {
        {"NaN", "nan"}, {"Infinity", "inf"}, {"-Infinity", "-inf"}};
    switch (json_kind(json)) {
    case JSON_BOOL:
        fputs(json_is_true(json) ? "True" : "False", out);
        return;
    case JSON_NUMBER:
        for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
            if (strcmp(json_text(json), NUMBERS[i][0]) == 0) {
                fputs(NUMBERS[i][1], out);
                return;
            }
        }
        fputs(json_text(json), out);
        return;
    default:
        fputs("None", out);
    }
}

const struct json_style PYTHON_REPR = {false, ", ", ": ", write_text, write_scalar};

enum status python_write_str(FILE *out, const struct json *value, struct err *err)
{
    if (json_kind(value) == JSON_TEXT) {
        fputs(json_text(value), out);
        return OK;
    }
    return json_write(out, value, &PYTHON_REPR, err);
}

void python_write_upper(FILE *out, const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        const int32_t point = text_decode(&text, end);
        CHECK(point >= 0);
        uint32_t upper[UPPER_POINTS_MAX];
        const size_t count = unicode_upper((uint32_t)point, upper);
        for (size_t i = 0; i < count; i++) {
            char bytes[POINT_BYTES_MAX];
            fwrite(bytes, 1, text_encode(bytes, upper[i]), out);
        }
    }
}

/* ---- what its operations do ---- */

bool python_contains(const struct json *value, const char *text, bool *is_in_out)
{
    *is_in_out = false;
    switch (json_kind(value)) {
    case JSON_TEXT:
        *is_in_out = strstr(json_text(value), text) != NULL;
        return true;
    case JSON_OBJECT:
        *is_in_out = json_get(value, text) != NULL;
        return true;
    case JSON_LIST:
        for (const struct json *m = json_first(value); m != NULL && !*is_in_out; m = json_next(m)) {
            *is_in_out = json_is_text(m, text);
        }
        return true;
    default:
        return false;
    }
}

bool python_is_iterable(const struct json *value)
{
    bool unused = false;
    return value != NULL && python_contains(value, "", &unused);
}

static enum status append_characters(struct json *list, const char *text, struct err *err)
{
    const char *end = text + strlen(text);
    while (text < end) {
        char character[POINT_BYTES_MAX + 1] = "";
        const char *first = text;
        CHECK(text_decode(&text, end) >= 0);
        memcpy(character, first, (size_t)(text - first));
        TRY(json_append(list, json_new_text(character), err));
    }
    return OK;
}

enum status python_extend(struct json *list, const struct json *value, struct err *err)
{
    if (json_kind(value) == JSON_TEXT) {
        return append_characters(list, json_text(value), err);
    }
    const bool is_object = json_kind(value) == JSON_OBJECT;
    for (const struct json *m = json_first(value); m != NULL; m = json_next(m)) {
        TRY(json_append(list, is_object ? json_new_text(json_key(m)) : json_clone(m), err));
    }
    return OK;
}

enum status python_first(const struct json *value, struct json **out, struct err *err)
{
    struct json *list = json_new_list();
    if (list == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    const enum status status = python_extend(list, value, err);
    *out = status == OK ? json_clone(json_first(list)) : NULL;
    json_free(&list);
    return status;
}

enum status python_str(const struct json *value, struct json **out, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    enum status status = python_write_str(stream, value, err);
    if (fclose(stream) != 0 && status == OK) {
        status = err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    *out = status == OK ? json_new_text(text) : NULL;
    free(text);
    return status;
}

bool python_fits_environment(const struct json *value)
{
    if (json_kind(value) != JSON_TEXT) {
        return false;
    }
    const char *at = json_text(value);
    const char *end = at + strlen(at);
    while (at < end) {
        const int32_t point = text_decode(&at, end);
        const bool is_byte = point >= 0xDC80 && point <= 0xDCFF;
        if (point == 0 || (text_is_surrogate(point) && !is_byte)) {
            return false;
        }
    }
    return true;
}

static size_t digits_with_underscores(const char *text)
{
    size_t len = 0;
    while ((text[len] >= '0' && text[len] <= '9') ||
           (text[len] == '_' && len > 0 && text[len - 1] != '_' && text[len + 1] != '\0')) {
        len++;
    }
    return len > 0 && text[len - 1] == '_' ? 0 : len;
}

bool python_reads_int(const char *text)
{
    static const char BLANKS[] = " \t\n\v\f\r";
    text += strspn(text, BLANKS);
    text += *text == '+' || *text == '-';
    const size_t len = digits_with_underscores(text);
    text += len;
    return len > 0 && text[strspn(text, BLANKS)] == '\0';
}
