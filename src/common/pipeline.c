/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of a stream's operations, driven by one table: which operation has which parameters.
 * The canonical text is written from the parsed operations, never copied from the input.
 */
#include "common/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/float_text.h"
#include "common/json.h"
#include "common/text.h"

enum { DESCRIPTION_BYTES = 96, PARAMS_MAX = 3 };

/* Parses one parameter into its operation; says in *wanted_out what would have been right. */
typedef bool (*param_fn)(const struct json *value, struct op *op, const char **wanted_out);

struct param {
    const char *name;
    bool is_required;
    param_fn parse;
};

struct op_spec {
    enum op_kind kind;
    const char *name;
    struct param params[PARAMS_MAX + 1]; /* ends with a zeroed one */
};

static bool parse_side(const struct json *value, uint32_t *out)
{
    int64_t side = 0;
    if (!json_to_integer(value, &side) || side < 1 || side > TARGET_SIDE_MAX) {
        return false;
    }
    *out = (uint32_t)side;
    return true;
}

static bool parse_sides(const struct json *value, struct op *op)
{
    if (json_kind(value) != JSON_LIST || json_count(value) != 2) {
        return false;
    }
    const struct json *height = json_first(value);
    return parse_side(height, &op->height) && parse_side(json_next(height), &op->width);
}

/* One number is a square; two are height and width. */
static bool parse_size(const struct json *value, struct op *op, const char **wanted_out)
{
    *wanted_out = "an integer from 1 to 4096, or [height, width]";
    if (parse_side(value, &op->height)) {
        op->width = op->height;
        return true;
    }
    return parse_sides(value, op);
}

/* One number is the shorter side. */
static bool parse_resize_size(const struct json *value, struct op *op, const char **wanted_out)
{
    *wanted_out = "an integer from 1 to 4096 (the shorter side), or [height, width]";
    op->width = 0;
    return parse_side(value, &op->height) || parse_sides(value, op);
}

static bool parse_range(const struct json *value, double high, double out[2])
{
    if (json_kind(value) != JSON_LIST || json_count(value) != 2) {
        return false;
    }
    const struct json *first = json_first(value);
    double range[2];
    if (!json_to_double(first, &range[0]) || !json_to_double(json_next(first), &range[1])) {
        return false;
    }
    if (!(range[0] > 0 && range[0] <= range[1] && range[1] <= high)) {
        return false;
    }
    memcpy(out, range, sizeof(range));
    return true;
}

static bool parse_scale(const struct json *value, struct op *op, const char **wanted_out)
{
    *wanted_out = "[low, high] with 0 < low <= high <= 1";
    return parse_range(value, 1, op->scale);
}

static bool parse_ratio(const struct json *value, struct op *op, const char **wanted_out)
{
    *wanted_out = "[low, high] with 0 < low <= high <= 100";
    return parse_range(value, 100, op->ratio);
}

static bool parse_p(const struct json *value, struct op *op, const char **wanted_out)
{
    *wanted_out = "a probability from 0 to 1";
    double p = 0;
    if (!json_to_double(value, &p) || !(p >= 0 && p <= 1)) {
        return false;
    }
    op->p = p;
    return true;
}

static const struct op_spec SPECS[] = {
    {OP_DECODE, "decode", {{0}}},
    {OP_RANDOM_RESIZED_CROP,
     "random_resized_crop",
     {{"size", true, parse_size}, {"scale", false, parse_scale}, {"ratio", false, parse_ratio}}},
    {OP_RESIZE, "resize", {{"size", true, parse_resize_size}}},
    {OP_CENTER_CROP, "center_crop", {{"size", true, parse_size}}},
    {OP_HORIZONTAL_FLIP, "horizontal_flip", {{"p", false, parse_p}}},
};

static const struct op_spec *spec_of(enum op_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(SPECS); i++) {
        if (SPECS[i].kind == kind) {
            return &SPECS[i];
        }
    }
    CHECK(!"every kind has a row");
    return NULL;
}

static const char *nearest_op(const char *name)
{
    const char *nearest = SPECS[0].name;
    for (size_t i = 1; i < ARRAY_LEN(SPECS); i++) {
        if (text_distance(name, SPECS[i].name) < text_distance(name, nearest)) {
            nearest = SPECS[i].name;
        }
    }
    return nearest;
}

/* NULL: *err says what is wrong with the entry. */
static const struct op_spec *find_spec(const struct json *entry, uint32_t index, struct err *err)
{
    char found[DESCRIPTION_BYTES];
    if (json_kind(entry) != JSON_OBJECT) {
        json_describe(entry, found, sizeof(found));
        err_set(err, ERR_CONFIG,
                "operation %u: found %s, expected an object like {\"op\": \"decode\"}", index,
                found);
        return NULL;
    }
    const struct json *name = json_get(entry, "op");
    json_describe(name, found, sizeof(found));
    if (name == NULL || json_kind(name) != JSON_TEXT) {
        err_set(err, ERR_CONFIG, "operation %u: op: found %s, expected an operation's name", index,
                found);
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(SPECS); i++) {
        if (json_is_text(name, SPECS[i].name)) {
            return &SPECS[i];
        }
    }
    err_set(err, ERR_CONFIG, "operation %u: op: found %s, which is unknown; did you mean \"%s\"?",
            index, found, nearest_op(json_text(name)));
    return NULL;
}

static enum status refuse_param(const struct json *member, uint32_t index,
                                const struct op_spec *spec, struct err *err)
{
    if (spec->params[0].name == NULL) {
        return err_set(err, ERR_CONFIG, "operation %u: %s has no parameter, found '%s'", index,
                       spec->name, json_key(member));
    }
    const struct param *nearest = &spec->params[0];
    for (const struct param *param = nearest; param->name != NULL; param++) {
        if (text_distance(json_key(member), param->name) <
            text_distance(json_key(member), nearest->name)) {
            nearest = param;
        }
    }
    return err_set(err, ERR_CONFIG, "operation %u: %s has no parameter '%s'; did you mean '%s'?",
                   index, spec->name, json_key(member), nearest->name);
}

static enum status parse_member(const struct json *member, uint32_t index,
                                const struct op_spec *spec, struct op *op, struct err *err)
{
    for (const struct param *param = spec->params; param->name != NULL; param++) {
        if (strcmp(json_key(member), param->name) != 0) {
            continue;
        }
        const char *wanted = NULL;
        if (param->parse(member, op, &wanted)) {
            return OK;
        }
        char found[DESCRIPTION_BYTES];
        json_describe(member, found, sizeof(found));
        return err_set(err, ERR_CONFIG, "operation %u: %s: %s: found %s, expected %s", index,
                       spec->name, param->name, found, wanted);
    }
    return refuse_param(member, index, spec, err);
}

static enum status parse_op(const struct json *entry, uint32_t index, struct op *op,
                            struct err *err)
{
    const struct op_spec *spec = find_spec(entry, index, err);
    if (spec == NULL) {
        return ERR_CONFIG;
    }
    *op = (struct op){
        .kind = spec->kind, .scale = {0.08, 1}, .ratio = {3.0 / 4.0, 4.0 / 3.0}, .p = 0.5};
    for (const struct json *m = json_first(entry); m != NULL; m = json_next(m)) {
        if (strcmp(json_key(m), "op") != 0) {
            TRY(parse_member(m, index, spec, op, err));
        }
    }
    for (const struct param *param = spec->params; param->name != NULL; param++) {
        if (param->is_required && json_get(entry, param->name) == NULL) {
            return err_set(err, ERR_CONFIG, "operation %u: %s: %s: found nothing, it is required",
                           index, spec->name, param->name);
        }
    }
    if ((spec->kind == OP_DECODE) != (index == 0)) {
        return err_set(err, ERR_CONFIG, "operation %u: found %s, expected %s", index, spec->name,
                       index == 0 ? "decode, which comes first" : "decode only as operation 0");
    }
    return OK;
}

/* The shape after all operations; 0 by 0 while it depends on the picture. */
static enum status fix_shape(struct pipeline *pipeline, struct err *err)
{
    for (uint32_t i = 0; i < pipeline->op_count; i++) {
        const struct op *op = &pipeline->ops[i];
        if (op->kind == OP_RANDOM_RESIZED_CROP || op->kind == OP_CENTER_CROP ||
            op->kind == OP_RESIZE) {
            pipeline->height = op->width == 0 ? 0 : op->height;
            pipeline->width = op->width;
        }
    }
    pipeline->channels = 3;
    if (pipeline->width == 0) {
        return err_set(err, ERR_CONFIG,
                       "the pictures' size depends on the picture; end with random_resized_crop, "
                       "center_crop or a resize to [height, width]");
    }
    return OK;
}

/* ---- the canonical text ---- */

static void write_range(FILE *out, const char *name, const double range[2])
{
    char low[FLOAT_TEXT_BYTES];
    char high[FLOAT_TEXT_BYTES];
    float_text(range[0], low);
    float_text(range[1], high);
    fprintf(out, ",\"%s\":[%s,%s]", name, low, high);
}

static void write_op(FILE *out, const struct op *op)
{
    char p[FLOAT_TEXT_BYTES];
    fprintf(out, "{\"op\":\"%s\"", spec_of(op->kind)->name);
    switch (op->kind) {
    case OP_DECODE:
        break;
    case OP_RANDOM_RESIZED_CROP:
        fprintf(out, ",\"size\":[%u,%u]", op->height, op->width);
        write_range(out, "scale", op->scale);
        write_range(out, "ratio", op->ratio);
        break;
    case OP_RESIZE:
        if (op->width == 0) {
            fprintf(out, ",\"size\":%u", op->height);
            break;
        }
        fprintf(out, ",\"size\":[%u,%u]", op->height, op->width);
        break;
    case OP_CENTER_CROP:
        fprintf(out, ",\"size\":[%u,%u]", op->height, op->width);
        break;
    case OP_HORIZONTAL_FLIP:
        float_text(op->p, p);
        fprintf(out, ",\"p\":%s", p);
        break;
    }
    fputc('}', out);
}

static enum status write_text(struct pipeline *pipeline, struct err *err)
{
    FILE *out = fmemopen(pipeline->text, sizeof(pipeline->text), "w");
    if (out == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a pipeline's text");
    }
    fputc('[', out);
    for (uint32_t i = 0; i < pipeline->op_count; i++) {
        if (i > 0) {
            fputc(',', out);
        }
        write_op(out, &pipeline->ops[i]);
    }
    fputs("]", out);
    if (fclose(out) != 0) {
        return err_set(err, ERR_CONFIG, "more than %d bytes with all defaults written out",
                       PIPELINE_TEXT_BYTES - 1);
    }
    return OK;
}

static enum status parse_list(const struct json *list, struct pipeline *out, struct err *err)
{
    char found[DESCRIPTION_BYTES];
    json_describe(list, found, sizeof(found));
    if (json_kind(list) != JSON_LIST || json_first(list) == NULL) {
        return err_set(err, ERR_CONFIG, "found %s, expected a list of operations", found);
    }
    if (json_count(list) > OPS_MAX) {
        return err_set(err, ERR_CONFIG, "found %u operations, at most %d are allowed",
                       json_count(list), OPS_MAX);
    }
    struct pipeline pipeline = {0};
    for (const struct json *entry = json_first(list); entry != NULL; entry = json_next(entry)) {
        const uint32_t index = pipeline.op_count;
        TRY(parse_op(entry, index, &pipeline.ops[index], err));
        pipeline.op_count++;
    }
    TRY(fix_shape(&pipeline, err));
    TRY(write_text(&pipeline, err));
    *out = pipeline;
    return OK;
}

enum status pipeline_parse(const char *json, struct pipeline *out, struct err *err)
{
    struct json *list = NULL;
    const enum status parsed = json_parse(json, &list, err);
    if (parsed != OK) {
        return parsed == ERR_DATA ? err_restate(err, ERR_CONFIG) : parsed;
    }
    const enum status status = parse_list(list, out, err);
    json_free(&list);
    return status;
}
