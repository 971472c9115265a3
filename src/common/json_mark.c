/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON reader without recursion: one bit per open bracket says whether it is an object. */
#include "common/json_mark.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/float_text.h"
#include "common/limits.h"
#include "common/text.h"

/* Deeper than this nothing is looked at any more: Python's own limit is near. */
enum { LEVELS_MAX = 1024 };

struct reader {
    const char *start;
    const char *at;
    const char *end;
    bool outside;
    FILE *out;
    uint32_t depth;
    uint32_t depth_seen;
    bool is_object[LEVELS_MAX];
    struct err *err;
};

/* What stands at the reader's place, for an error message. */
static void describe_place(const struct reader *reader, char *out, size_t size)
{
    if (reader->at >= reader->end) {
        snprintf(out, size, "the end");
        return;
    }
    const char *at = reader->at;
    const int32_t point = text_decode(&at, reader->end);
    if (point >= 0x20 && point < 0x7F) {
        snprintf(out, size, "'%c'", (int)point);
    } else if (point >= 0) {
        snprintf(out, size, "U+%04X", (unsigned)point);
    } else {
        snprintf(out, size, "byte 0x%02X", (unsigned)(unsigned char)reader->at[0]);
    }
}

static enum status refuse(const struct reader *reader, const char *wanted)
{
    size_t line = 1;
    const char *line_start = reader->start;
    for (const char *p = reader->start; p < reader->at; p++) {
        if (*p == '\n') {
            line++;
            line_start = p + 1;
        }
    }
    char found[32];
    describe_place(reader, found, sizeof(found));
    return err_set(reader->err, ERR_DATA, "line %zu column %zu: found %s, expected %s", line,
                   (size_t)(reader->at - line_start) + 1, found, wanted);
}

static void put(const struct reader *reader, char byte)
{
    putc_unlocked(byte, reader->out);
}

static void put_bytes(const struct reader *reader, const char *bytes, size_t count)
{
    fwrite_unlocked(bytes, 1, count, reader->out);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && is_blank(*reader->at)) {
        reader->at++;
    }
}

/* The byte at the reader's place; NUL at the end (a NUL byte inside is refused wherever it is). */
static char peek(const struct reader *reader)
{
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool take(struct reader *reader, const char *word)
{
    const size_t len = strlen(word);
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0) {
        return false;
    }
    reader->at += len;
    return true;
}

/* Four hex digits at `at`; -1: there are none. */
static int32_t hex4(const struct reader *reader, const char *at)
{
    if (reader->end - at < 4) {
        return -1;
    }
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef";
        const char lower = at[i] >= 'A' && at[i] <= 'F' ? (char)(at[i] + 32) : at[i];
        const char *digit = lower == '\0' ? NULL : strchr(digits, lower);
        if (digit == NULL) {
            return -1;
        }
        value = value << 4 | (int32_t)(digit - digits);
    }
    return value;
}

static void put_point(const struct reader *reader, uint32_t point)
{
    char bytes[POINT_BYTES_MAX];
    if (point == '"' || point == '\\') {
        put(reader, '\\');
    }
    put_bytes(reader, bytes, text_encode(bytes, point));
}

/* At the `u` of an escape. */
static enum status mark_unicode_escape(struct reader *reader)
{
    int32_t point = hex4(reader, reader->at + 1);
    if (point < 0) {
        return refuse(reader, "\\u and four hex digits");
    }
    reader->at += 5;
    const bool is_high = point >= 0xD800 && point <= 0xDBFF;
    if (is_high && reader->end - reader->at >= 6 && memcmp(reader->at, "\\u", 2) == 0) {
        const int32_t low = hex4(reader, reader->at + 2);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
            reader->at += 6;
        }
    }
    put_point(reader, (uint32_t)point);
    return OK;
}

static enum status mark_escape(struct reader *reader)
{
    reader->at++;
    const char kind = peek(reader);
    if (kind == 'u') {
        return mark_unicode_escape(reader);
    }
    if (kind == '\0' || strchr("\"\\/bfnrt", kind) == NULL) {
        return refuse(reader, "one of \"\\/bfnrtu after a backslash");
    }
    put(reader, '\\');
    put(reader, kind);
    reader->at++;
    return OK;
}

static enum status mark_raw_point(struct reader *reader)
{
    const char *first = reader->at;
    const int32_t point = text_decode(&reader->at, reader->end);
    if (point >= 0x20 && !(reader->outside && text_is_surrogate(point))) {
        put_bytes(reader, first, (size_t)(reader->at - first));
        return OK;
    }
    reader->at = first;
    return refuse(reader,
                  point < 0 || point >= 0x20 ? "UTF-8" : "no bare control character in a text");
}

/* A text in double quotes; mark 0: a key. */
static enum status mark_text(struct reader *reader, char mark)
{
    if (peek(reader) != '"') {
        return refuse(reader, "a key in double quotes");
    }
    reader->at++;
    put(reader, '"');
    if (mark != '\0') {
        put(reader, mark);
    }
    while (reader->at < reader->end && *reader->at != '"') {
        TRY(*reader->at == '\\' ? mark_escape(reader) : mark_raw_point(reader));
    }
    if (reader->at == reader->end) {
        return refuse(reader, "the closing double quote of a text");
    }
    reader->at++;
    put(reader, '"');
    return OK;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static const char *skip_digits(const char *at)
{
    while (is_digit(*at)) {
        at++;
    }
    return at;
}

static void put_number(const struct reader *reader, const char *text, size_t len)
{
    put(reader, '"');
    put(reader, JSON_MARK_NUMBER);
    put_bytes(reader, text, len);
    put(reader, '"');
}

static void put_float(const struct reader *reader, double value)
{
    char text[FLOAT_TEXT_BYTES];
    float_text(value, text);
    if (isinf(value)) {
        snprintf(text, sizeof(text), "%s", value > 0 ? "Infinity" : "-Infinity");
    }
    put_number(reader, text, strlen(text));
}

/* The document ends with a NUL, so that looking one byte ahead is always allowed. */
static enum status mark_number(struct reader *reader)
{
    const char *first = reader->at;
    const char *digits = first + (*first == '-');
    const char *end = *digits == '0' ? digits + 1 : skip_digits(digits);
    if (end == digits) {
        return refuse(reader, "a value");
    }
    const size_t digit_count = (size_t)(end - digits);
    bool is_float = false;
    if (*end == '.' && is_digit(end[1])) {
        is_float = true;
        end = skip_digits(end + 1);
    }
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1 + (end[1] == '+' || end[1] == '-');
        if (is_digit(*exponent)) {
            is_float = true;
            end = skip_digits(exponent);
        }
    }
    if (!is_float && digit_count > JSON_INTEGER_DIGITS_MAX) {
        return refuse(reader, "an integer of at most 4300 digits");
    }
    if (is_float) {
        put_float(reader, strtod(first, NULL));
    } else {
        const bool is_minus_zero = first != digits && *digits == '0';
        put_number(reader, is_minus_zero ? digits : first,
                   (size_t)(end - (is_minus_zero ? digits : first)));
    }
    reader->at = end;
    return OK;
}

static enum status mark_scalar(struct reader *reader)
{
    static const char *const SAME[] = {"null", "true", "false"};
    static const char *const NUMBERS[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < ARRAY_LEN(SAME); i++) {
        if (take(reader, SAME[i])) {
            put_bytes(reader, SAME[i], strlen(SAME[i]));
            return OK;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        if (take(reader, NUMBERS[i])) {
            put_number(reader, NUMBERS[i], strlen(NUMBERS[i]));
            return OK;
        }
    }
    if (peek(reader) == '"') {
        return mark_text(reader, JSON_MARK_TEXT);
    }
    if (reader->at == reader->end) {
        return refuse(reader, "a value");
    }
    return mark_number(reader);
}

static enum status mark_key(struct reader *reader)
{
    skip_blanks(reader);
    TRY(mark_text(reader, '\0'));
    skip_blanks(reader);
    if (!take(reader, ":")) {
        return refuse(reader, "':' after a key");
    }
    put(reader, ':');
    return OK;
}

static enum status open_bracket(struct reader *reader, bool is_object)
{
    if (reader->depth == LEVELS_MAX) {
        return err_set(reader->err, ERR_CONFIG, "nested deeper than %d levels", JSON_DEPTH_MAX);
    }
    put(reader, *reader->at);
    reader->at++;
    reader->is_object[reader->depth] = is_object;
    reader->depth++;
    if (reader->depth > reader->depth_seen) {
        reader->depth_seen = reader->depth;
    }
    return OK;
}

/* Takes the closing bracket of the innermost level if it is there. */
static bool close_bracket(struct reader *reader)
{
    const char *bracket = reader->is_object[reader->depth - 1] ? "}" : "]";
    skip_blanks(reader);
    if (!take(reader, bracket)) {
        return false;
    }
    put(reader, *bracket);
    reader->depth--;
    return true;
}

/* Opening brackets, keys and one scalar or empty pair of brackets: up to where a value has ended.
 */
static enum status mark_value(struct reader *reader)
{
    for (;;) {
        skip_blanks(reader);
        const char first = peek(reader);
        if (first != '{' && first != '[') {
            return mark_scalar(reader);
        }
        TRY(open_bracket(reader, first == '{'));
        if (close_bracket(reader)) {
            return OK;
        }
        if (first == '{') {
            TRY(mark_key(reader));
        }
    }
}

static enum status mark_document(struct reader *reader)
{
    TRY(mark_value(reader));
    while (reader->depth > 0) {
        if (close_bracket(reader)) {
            continue;
        }
        const bool is_object = reader->is_object[reader->depth - 1];
        if (!take(reader, ",")) {
            return refuse(reader, is_object ? "',' or '}'" : "',' or ']'");
        }
        put(reader, ',');
        if (is_object) {
            TRY(mark_key(reader));
        }
        TRY(mark_value(reader));
    }
    skip_blanks(reader);
    if (reader->at != reader->end) {
        return refuse(reader, "nothing after the document");
    }
    if (reader->depth_seen > JSON_DEPTH_MAX) {
        return err_set(reader->err, ERR_CONFIG, "nested %u levels deep, at most %d are allowed",
                       reader->depth_seen, JSON_DEPTH_MAX);
    }
    return OK;
}

enum status json_mark(const char *text, size_t len, bool outside, FILE *out, struct err *err)
{
    CHECK(text[len] == '\0');
    struct reader reader = {
        .start = text, .at = text, .end = text + len, .outside = outside, .out = out, .err = err};
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        return refuse(&reader, "a document without byte order mark");
    }
    return mark_document(&reader);
}
