/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SM_* variables, made from the properties alone: a text as it is, null as the empty text,
 * everything else as JSON with sorted keys. Names are upper case and nothing in them is replaced;
 * of names that become equal the later one wins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/python.h"
#include "common/sm_env.h"
#include "common/text.h"

/* Variable and property, in the toolkit's order, before those with a name of their own. */
static const char *const PLAIN[][2] = {
    {"hosts", "hosts"},
    {"network_interface_name", "network_interface_name"},
    {"hps", "hyperparameters"},
    {"user_entry_point", "user_entry_point"},
    {"framework_params", "additional_framework_parameters"},
    {"resource_config", "resource_config"},
    {"input_data_config", "input_data_config"},
    {"output_data_dir", "output_data_dir"},
    {"current_host", "current_host"},
    {"current_instance_type", "current_instance_type"},
    {"current_instance_group", "current_instance_group"},
    {"current_instance_group_hosts", "current_instance_group_hosts"},
    {"instance_groups", "instance_groups"},
    {"instance_groups_dict", "instance_groups_dict"},
    {"distribution_instance_groups", "distribution_instance_groups"},
    {"is_hetero", "is_hetero"},
    {"module_name", "module_name"},
    {"log_level", "log_level"},
    {"framework_module", "framework_module"},
    {"input_dir", "input_dir"},
    {"input_config_dir", "input_config_dir"},
    {"output_dir", "output_dir"},
    {"num_cpus", "num_cpus"},
    {"num_gpus", "num_gpus"},
    {"num_neurons", "num_neurons"},
    {"model_dir", "model_dir"},
    {"module_dir", "module_dir"},
    {"output_intermediate_dir", "output_intermediate_dir"},
};

/* A text that is being written. */
struct sheet {
    FILE *out;
    char *text;
    size_t size;
};

static enum status sheet_open(struct sheet *sheet, struct err *err)
{
    *sheet = (struct sheet){0};
    sheet->out = open_memstream(&sheet->text, &sheet->size);
    return sheet->out != NULL ? OK : err_set(err, ERR_RESOURCE, "no memory for a text");
}

/* Hands the text out if all before went well (`status`), else drops it. */
static enum status sheet_close(struct sheet *sheet, enum status status, char **out, struct err *err)
{
    if (fclose(sheet->out) != 0 && status == OK) {
        status = err_set(err, ERR_RESOURCE, "no memory for a text");
    }
    if (status != OK) {
        free(sheet->text);
        return status;
    }
    *out = sheet->text;
    return OK;
}

/* "SM_" + prefix + name, in upper case. */
static enum status make_name(const char *prefix, const char *name, char **out, struct err *err)
{
    struct sheet sheet;
    TRY(sheet_open(&sheet, err));
    fputs("SM_", sheet.out);
    python_write_upper(sheet.out, prefix);
    python_write_upper(sheet.out, name);
    return sheet_close(&sheet, OK, out, err);
}

static enum status make_value(const struct json *value, struct json **out, struct err *err)
{
    char *text = NULL;
    if (json_kind(value) == JSON_TEXT) {
        *out = json_clone(value);
        return OK;
    }
    if (json_kind(value) == JSON_NULL) {
        *out = json_new_text("");
        return OK;
    }
    TRY(json_print(value, &text, err));
    *out = json_new_text(text);
    free(text);
    return OK;
}

static enum status add(struct json *vars, const char *prefix, const char *name,
                       const struct json *value, struct err *err)
{
    char *variable = NULL;
    struct json *text = NULL;
    TRY(make_name(prefix, name, &variable, err));
    enum status status = make_value(value, &text, err);
    if (status == OK) {
        status = json_add(vars, variable, text, err);
    }
    free(variable);
    return status;
}

/* ---- the command line ---- */

/* str(), but for null, which is nothing. */
static enum status write_argument(FILE *out, const struct json *value, struct err *err)
{
    return json_kind(value) == JSON_NULL ? OK : python_write_str(out, value, err);
}

static int key_compare(const void *a, const void *b)
{
    const struct json *const *left = a;
    const struct json *const *right = b;
    return text_compare(json_key(*left), json_key(*right));
}

/* The members of an object in the order of their keys; the caller frees the array. */
static enum status sort_members(const struct json *object, const struct json ***out,
                                uint32_t *count_out, struct err *err)
{
    const uint32_t count = json_count(object);
    const struct json **members = calloc(count + 1U, sizeof(void *));
    if (members == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %u members", count);
    }
    uint32_t i = 0;
    for (const struct json *m = json_first(object); m != NULL; m = json_next(m)) {
        members[i++] = m;
    }
    qsort(members, count, sizeof(void *), key_compare);
    *out = members;
    *count_out = count;
    return OK;
}

/* An object is "key=value,key=value". */
static enum status write_pairs(FILE *out, const struct json *object, struct err *err)
{
    const struct json **members = NULL;
    uint32_t count = 0;
    TRY(sort_members(object, &members, &count, err));
    enum status status = OK;
    for (uint32_t i = 0; i < count && status == OK; i++) {
        fprintf(out, "%s%s=", i == 0 ? "" : ",", json_key(members[i]));
        status = python_write_str(out, members[i], err);
    }
    free((void *)members);
    return status;
}

static enum status make_argument(const struct json *value, struct json **out, struct err *err)
{
    struct sheet sheet;
    char *text = NULL;
    TRY(sheet_open(&sheet, err));
    const enum status status = json_kind(value) == JSON_OBJECT
                                   ? write_pairs(sheet.out, value, err)
                                   : write_argument(sheet.out, value, err);
    TRY(sheet_close(&sheet, status, &text, err));
    *out = json_new_text(text);
    free(text);
    return OK;
}

/* --name, -n, or nothing for the empty name. */
static enum status append_flag(struct json *arguments, const char *name, struct err *err)
{
    static const char *const DASHES[] = {"", "-", "--"};
    const size_t letters = text_length(name);
    struct sheet sheet;
    char *text = NULL;
    TRY(sheet_open(&sheet, err));
    fprintf(sheet.out, "%s%s", DASHES[letters > 2 ? 2 : letters], name);
    TRY(sheet_close(&sheet, OK, &text, err));
    const enum status status = json_append(arguments, json_new_text(text), err);
    free(text);
    return status;
}

static enum status fill_arguments(const struct json *hyperparameters, struct json *arguments,
                                  struct err *err)
{
    const struct json **members = NULL;
    uint32_t count = 0;
    TRY(sort_members(hyperparameters, &members, &count, err));
    enum status status = OK;
    for (uint32_t i = 0; i < count && status == OK; i++) {
        struct json *value = NULL;
        status = append_flag(arguments, json_key(members[i]), err);
        if (status == OK) {
            status = make_argument(members[i], &value, err);
        }
        if (status == OK) {
            status = json_append(arguments, value, err);
        }
    }
    free((void *)members);
    return status;
}

/* A list made by fill becomes a variable. */
static enum status add_list(struct json *vars, const char *name, const struct json *source,
                            enum status (*fill)(const struct json *source, struct json *list,
                                                struct err *err),
                            struct err *err)
{
    struct json *list = json_new_list();
    if (list == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    enum status status = fill(source, list, err);
    if (status == OK) {
        status = add(vars, "", name, list, err);
    }
    json_free(&list);
    return status;
}

static enum status fill_channel_names(const struct json *channels, struct json *names,
                                      struct err *err)
{
    const struct json **members = NULL;
    uint32_t count = 0;
    TRY(sort_members(channels, &members, &count, err));
    enum status status = OK;
    for (uint32_t i = 0; i < count && status == OK; i++) {
        status = json_append(names, json_new_text(json_key(members[i])), err);
    }
    free((void *)members);
    return status;
}

/* ---- all together ---- */

static enum status add_each(struct json *vars, const char *prefix, const struct json *object,
                            struct err *err)
{
    for (const struct json *m = json_first(object); m != NULL; m = json_next(m)) {
        TRY(add(vars, prefix, json_key(m), m, err));
    }
    return OK;
}

static enum status fill(const struct json *properties, struct json *vars, struct err *err)
{
    const struct json *channels = json_get(properties, "channel_input_dirs");
    const struct json *hyperparameters = json_get(properties, "hyperparameters");
    const struct json *topology = json_get(properties, "topology");
    for (size_t i = 0; i < ARRAY_LEN(PLAIN); i++) {
        TRY(add(vars, "", PLAIN[i][0], json_get(properties, PLAIN[i][1]), err));
    }
    TRY(add_list(vars, "channels", channels, fill_channel_names, err));
    TRY(add(vars, "", "training_env", properties, err));
    TRY(add_list(vars, "user_args", hyperparameters, fill_arguments, err));
    if (json_truth(topology)) {
        TRY(add(vars, "", "topology", topology, err));
    }
    TRY(add_each(vars, "channel_", channels, err));
    TRY(add_each(vars, "hp_", hyperparameters, err));
    return json_unite(vars, err);
}

enum status sm_env_vars(const struct json *properties, struct json **out, struct err *err)
{
    struct json *vars = json_new_object();
    if (vars == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    const enum status status = fill(properties, vars, err);
    if (status != OK) {
        json_free(&vars);
        return status;
    }
    *out = vars;
    return OK;
}

/* ---- for execve ---- */

/* "NAME=value" in the system's bytes; NULL in *out: no environment can hold it. */
static enum status make_entry(const struct json *variable, char **out, struct err *err)
{
    const char *name = json_key(variable);
    const char *value = json_text(variable);
    const size_t size = strlen(name) + strlen(value) + 2;
    *out = NULL;
    if (strchr(name, '=') != NULL) {
        return OK;
    }
    char *entry = malloc(size);
    if (entry == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a variable");
    }
    snprintf(entry, size, "%s=%s", name, value);
    if (!text_to_bytes(entry)) {
        free(entry);
        return OK;
    }
    *out = entry;
    return OK;
}

enum status sm_env_list(const struct json *vars, char ***out, struct err *err)
{
    char **list = calloc(json_count(vars) + 1U, sizeof(*list));
    if (list == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for the variables");
    }
    size_t count = 0;
    for (const struct json *m = json_first(vars); m != NULL; m = json_next(m)) {
        const enum status status = make_entry(m, &list[count], err);
        if (status != OK) {
            sm_env_list_free(&list);
            return status;
        }
        count += list[count] != NULL;
    }
    *out = list;
    return OK;
}

void sm_env_list_free(char ***list)
{
    for (size_t i = 0; *list != NULL && (*list)[i] != NULL; i++) {
        free((*list)[i]);
    }
    free(*list);
    *list = NULL;
}
