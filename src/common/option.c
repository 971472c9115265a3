/* SPDX-License-Identifier: Apache-2.0 */
/* The rows come from config.def; every kind has one function that reads its text. */
#include "common/option.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/text.h"

enum { DESCRIPTION_BYTES = 160 };

#define LIMITS_INT(low, high)    NULL, (low), (high)
#define LIMITS_FLOAT(low, high)  NULL, (low), (high)
#define LIMITS_BOOL(low, high)   NULL, 0, 0
#define LIMITS_TEXT(low, high)   NULL, 0, 0
#define LIMITS_CHOICE(low, high) (low), 0, 0
#define OPTION(field, kind, default_text, min, max, help)                   \
    {#field,       OPTION_##kind,           offsetof(struct config, field), \
     default_text, LIMITS_##kind(min, max), help},
const struct option OPTIONS[] = {
#include "common/config.def"
    {0},
};
#undef OPTION

const char *const OPTION_MAPS[] = {"config", "streams", "roles", "hosts", NULL};

const struct option *option_find(const char *name)
{
    for (const struct option *option = OPTIONS; option->name != NULL; option++) {
        if (strcmp(option->name, name) == 0) {
            return option;
        }
    }
    return NULL;
}

const char *option_nearest(const char *name)
{
    const char *nearest = OPTION_MAPS[0];
    for (size_t i = 1; OPTION_MAPS[i] != NULL; i++) {
        if (text_distance(name, OPTION_MAPS[i]) < text_distance(name, nearest)) {
            nearest = OPTION_MAPS[i];
        }
    }
    for (const struct option *option = OPTIONS; option->name != NULL; option++) {
        if (text_distance(name, option->name) < text_distance(name, nearest)) {
            nearest = option->name;
        }
    }
    return nearest;
}

/* The word at *at, copied to out; moves *at behind it; false: there is none left. */
static bool next_choice(const char **at, char *out, size_t size)
{
    if (**at == '\0') {
        return false;
    }
    const size_t len = strcspn(*at, "|");
    snprintf(out, size, "%.*s", (int)len, *at);
    *at += len + ((*at)[len] == '|');
    return true;
}

bool choice_has(const char *choices, const char *word)
{
    char choice[NAME_BYTES_MAX];
    for (const char *at = choices; next_choice(&at, choice, sizeof(choice));) {
        if (strcmp(choice, word) == 0) {
            return true;
        }
    }
    return false;
}

void choice_nearest(const char *choices, const char *word, char *out, size_t size)
{
    char choice[NAME_BYTES_MAX];
    uint32_t best = UINT32_MAX;
    for (const char *at = choices; next_choice(&at, choice, sizeof(choice));) {
        const uint32_t distance = text_distance(word, choice);
        if (distance < best) {
            best = distance;
            snprintf(out, size, "%s", choice);
        }
    }
}

void option_describe(const struct option *option, char *out, size_t size)
{
    switch (option->kind) {
    case OPTION_INT:
        snprintf(out, size, "an integer from %.0f to %.0f", option->min, option->max);
        return;
    case OPTION_FLOAT:
        snprintf(out, size, "a number from %g to %g", option->min, option->max);
        return;
    case OPTION_BOOL:
        snprintf(out, size, "true or false");
        return;
    case OPTION_TEXT:
        snprintf(out, size, "a text of at most %d bytes", CONFIG_TEXT_BYTES - 1);
        return;
    case OPTION_CHOICE:
        snprintf(out, size, "one of %s", option->choices);
        return;
    }
}

static bool read_int(const struct option *option, const char *text, int64_t *field)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || strchr(" \t\n\v\f\r", text[0]) != NULL) {
        return false;
    }
    if ((double)value < option->min || (double)value > option->max) {
        return false;
    }
    *field = value;
    return true;
}

static bool read_float(const struct option *option, const char *text, double *field)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    const bool is_decimal = text[0] != '\0' && text[strspn(text, "0123456789+-.eE")] == '\0';
    if (!is_decimal || end == text || *end != '\0') {
        return false;
    }
    if (!(value >= option->min && value <= option->max)) {
        return false;
    }
    *field = value;
    return true;
}

static bool read_bool(const char *text, bool *field)
{
    static const char *const YES[] = {"true", "yes", "on", "1"};
    static const char *const NO[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < ARRAY_LEN(YES); i++) {
        if (strcasecmp(text, YES[i]) == 0 || strcasecmp(text, NO[i]) == 0) {
            *field = strcasecmp(text, YES[i]) == 0;
            return true;
        }
    }
    return false;
}

static bool read_text(const char *text, char *field)
{
    if (strlen(text) >= CONFIG_TEXT_BYTES) {
        return false;
    }
    memcpy(field, text, strlen(text) + 1);
    return true;
}

static bool read_value(const struct option *option, const char *text, struct config *config)
{
    void *field = (char *)config + option->offset;
    switch (option->kind) {
    case OPTION_INT:
        return read_int(option, text, field);
    case OPTION_FLOAT:
        return read_float(option, text, field);
    case OPTION_BOOL:
        return read_bool(text, field);
    case OPTION_TEXT:
        return read_text(text, field);
    case OPTION_CHOICE:
        return choice_has(option->choices, text) && read_text(text, field);
    }
    return false;
}

static enum status refuse(const struct option *option, const char *found, const char *where,
                          struct err *err)
{
    char wanted[DESCRIPTION_BYTES];
    option_describe(option, wanted, sizeof(wanted));
    return err_set(err, ERR_CONFIG, "%s: found %s, expected %s", where, found, wanted);
}

enum status option_set_text(const struct option *option, const char *text, const char *where,
                            struct config *config, struct err *err)
{
    if (read_value(option, text, config)) {
        return OK;
    }
    char found[DESCRIPTION_BYTES];
    snprintf(found, sizeof(found), "'%.100s'%s", text, strlen(text) > 100 ? "..." : "");
    return refuse(option, found, where, err);
}

/* The kinds of JSON value that an option may be given as. */
static bool is_fitting(const struct option *option, const struct json *value)
{
    const enum json_kind kind = json_kind(value);
    switch (option->kind) {
    case OPTION_INT:
    case OPTION_FLOAT:
        return kind == JSON_NUMBER;
    case OPTION_BOOL:
        return kind == JSON_BOOL;
    case OPTION_TEXT:
    case OPTION_CHOICE:
        return kind == JSON_TEXT;
    }
    return false;
}

enum status option_set_json(const struct option *option, const struct json *value,
                            const char *where, struct config *config, struct err *err)
{
    char whole[32];
    int64_t integer = 0;
    if (is_fitting(option, value)) {
        const char *text = json_text(value);
        if (option->kind == OPTION_BOOL) {
            text = json_is_true(value) ? "true" : "false";
        } else if (option->kind == OPTION_INT && json_to_integer(value, &integer)) {
            snprintf(whole, sizeof(whole), "%lld", (long long)integer);
            text = whole;
        }
        if (read_value(option, text, config)) {
            return OK;
        }
    }
    char found[DESCRIPTION_BYTES];
    json_describe(value, found, sizeof(found));
    return refuse(option, found, where, err);
}
