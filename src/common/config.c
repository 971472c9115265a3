/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sources of the configuration, applied from the weakest to the strongest: defaults, file,
 * hyperparameters, environment, command line. Every source hands its values to one pair of
 * functions, so that all of them know the same options.
 */
#include "common/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config_maps.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/option.h"
#include "common/sm_files.h"
#include "common/text.h"

static const char ENV_PREFIX[] = "HEADRACE_";
static const char HYPERPARAMETER_PREFIX[] = "headrace_";
static const char BASE_DEFAULT[] = "/opt/ml";

/* Variables with our prefix that are no options but looked at elsewhere: producer/cpu.c. */
static const char *const OTHER_VARIABLES[] = {"HEADRACE_CPU"};

enum { WHERE_BYTES = PATH_BYTES_MAX + 128 };
enum source_kind { SOURCE_FILE, SOURCE_HYPERPARAMETER, SOURCE_ENVIRONMENT, SOURCE_COMMAND_LINE };

struct source {
    enum source_kind kind;
    const char *path;               /* of a file */
    const char *const *own_options; /* of the command line; may be NULL */
};

/* An option's name as its source spells it. */
static void spell(const struct source *source, const char *name, char *out, size_t size)
{
    size_t len = 0;
    switch (source->kind) {
    case SOURCE_FILE:
        snprintf(out, size, "%s: %s", source->path, name);
        return;
    case SOURCE_HYPERPARAMETER:
        snprintf(out, size, "hyperparameter %s%s", HYPERPARAMETER_PREFIX, name);
        return;
    case SOURCE_ENVIRONMENT:
        len = (size_t)snprintf(out, size, "%s%s", ENV_PREFIX, name);
        for (size_t i = 0; i < len && i < size - 1; i++) {
            if (out[i] >= 'a' && out[i] <= 'z') {
                out[i] = (char)(out[i] - 'a' + 'A');
            }
        }
        return;
    case SOURCE_COMMAND_LINE:
        len = (size_t)snprintf(out, size, "--%s", name);
        for (size_t i = 2; i < len && i < size - 1; i++) {
            if (out[i] == '_') {
                out[i] = '-';
            }
        }
        return;
    }
}

/* The nearest of all names that the source knows. */
static const char *nearest_name(const struct source *source, const char *name)
{
    const char *nearest = option_nearest(name);
    for (size_t i = 0; source->own_options != NULL && source->own_options[i] != NULL; i++) {
        if (text_distance(name, source->own_options[i]) < text_distance(name, nearest)) {
            nearest = source->own_options[i];
        }
    }
    return nearest;
}

static enum status refuse_name(const struct source *source, const char *name, struct err *err)
{
    char where[WHERE_BYTES];
    char nearest[WHERE_BYTES];
    spell(source, name, where, sizeof(where));
    if (source->kind == SOURCE_FILE) {
        snprintf(nearest, sizeof(nearest), "%s", option_nearest(name));
    } else {
        spell(source, nearest_name(source, name), nearest, sizeof(nearest));
    }
    return err_set(err, source->kind == SOURCE_COMMAND_LINE ? ERR_USAGE : ERR_CONFIG,
                   "%s: no such option; did you mean %s?", where, nearest);
}

/* ---- one value ---- */

static enum status set_map(const char *name, const struct json *value, const char *where,
                           struct config *config, struct err *err)
{
    if (strcmp(name, "streams") == 0) {
        return config_set_streams(value, where, config, err);
    }
    if (strcmp(name, "roles") == 0) {
        return config_set_roles(value, where, config, err);
    }
    CHECK(strcmp(name, "hosts") == 0);
    return config_set_hosts(value, where, config, err);
}

static bool is_map(const char *name)
{
    for (size_t i = 0; OPTION_MAPS[i] != NULL; i++) {
        if (strcmp(OPTION_MAPS[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* A value given as text: an option's value, or the JSON of a map. */
static enum status set_text(const struct source *source, const char *name, const char *text,
                            struct config *config, struct err *err)
{
    char where[WHERE_BYTES];
    spell(source, name, where, sizeof(where));
    if (strcmp(name, "config") == 0) {
        return OK; /* looked at before all else */
    }
    const struct option *option = option_find(name);
    if (option != NULL) {
        return option_set_text(option, text, where, config, err);
    }
    if (!is_map(name)) {
        return refuse_name(source, name, err);
    }
    struct json *value = NULL;
    const enum status parsed = json_parse(text, &value, err);
    if (parsed != OK) {
        (void)err_prefix(err, "%s", where);
        return parsed == ERR_DATA ? err_restate(err, ERR_CONFIG) : parsed;
    }
    const enum status status = set_map(name, value, where, config, err);
    json_free(&value);
    return status;
}

/* {"name": "reference", "learning_rate": 0.05}: the trainer and the options that are its own. */
static enum status set_trainer(const struct source *source, const struct json *trainer,
                               const struct json *root, struct config *config, struct err *err)
{
    static const char OWN[] = "learning_rate|momentum|step_ms|grad_mb";
    for (const struct json *m = json_first(trainer); m != NULL; m = json_next(m)) {
        char where[WHERE_BYTES];
        spell(source, "trainer", where, sizeof(where));
        const size_t len = strlen(where);
        snprintf(where + len, sizeof(where) - len, ".%s", json_key(m));
        const bool is_name = strcmp(json_key(m), "name") == 0;
        if (!is_name && !choice_has(OWN, json_key(m))) {
            char nearest[NAME_BYTES_MAX];
            choice_nearest(OWN, json_key(m), nearest, sizeof(nearest));
            return err_set(err, ERR_CONFIG, "%s: no such option of a trainer; did you mean %s?",
                           where, nearest);
        }
        if (!is_name && json_get(root, json_key(m)) != NULL) {
            return err_set(err, ERR_CONFIG, "%s: given twice, here and beside the trainer", where);
        }
        const struct option *option = option_find(is_name ? "trainer" : json_key(m));
        TRY(option_set_json(option, m, where, config, err));
    }
    return OK;
}

static enum status set_member(const struct source *source, const struct json *member,
                              const struct json *root, struct config *config, struct err *err)
{
    const char *name = json_key(member);
    char where[WHERE_BYTES];
    spell(source, name, where, sizeof(where));
    if (strcmp(name, "trainer") == 0 && json_kind(member) == JSON_OBJECT) {
        return set_trainer(source, member, root, config, err);
    }
    const struct option *option = option_find(name);
    if (option != NULL) {
        return option_set_json(option, member, where, config, err);
    }
    if (!is_map(name) || strcmp(name, "config") == 0) {
        return refuse_name(source, name, err);
    }
    return set_map(name, member, where, config, err);
}

/* ---- the sources ---- */

static enum status apply_defaults(struct config *config, struct err *err)
{
    for (const struct option *option = OPTIONS; option->name != NULL; option++) {
        TRY(option_set_text(option, option->default_text, option->name, config, err));
    }
    return OK;
}

static enum status read_object(const char *path, struct json **out, struct err *err)
{
    const enum status status = json_read_file(path, out, err);
    if (status == ERR_DATA) {
        return err_restate(err, ERR_CONFIG);
    }
    if (status == OK && json_kind(*out) != JSON_OBJECT) {
        json_free(out);
        return err_set(err, ERR_CONFIG, "%s: expected an object", path);
    }
    return status;
}

static enum status apply_file(const char *path, struct config *config, struct err *err)
{
    const struct source source = {SOURCE_FILE, path, NULL};
    struct json *root = NULL;
    TRY(read_object(path, &root, err));
    enum status status = OK;
    for (const struct json *m = json_first(root); m != NULL && status == OK; m = json_next(m)) {
        status = set_member(&source, m, root, config, err);
    }
    json_free(&root);
    return status;
}

/*
 * A hyperparameter's value is a text that may be JSON inside: "256", "\"host\"", "{...}" or bare
 * words, as the toolkits write them. Only texts and objects need the inner value: everything else
 * reads the same as text.
 */
static enum status apply_hyperparameter(const struct json *member, struct config *config,
                                        struct err *err)
{
    const struct source source = {SOURCE_HYPERPARAMETER, NULL, NULL};
    const char *name = json_key(member) + strlen(HYPERPARAMETER_PREFIX);
    char *text = NULL;
    struct json *inner = NULL;
    if (json_kind(member) != JSON_TEXT) {
        TRY(json_print(member, &text, err));
        const enum status status = set_text(&source, name, text, config, err);
        free(text);
        return status;
    }
    if (json_parse(json_text(member), &inner, NULL) != OK) {
        return set_text(&source, name, json_text(member), config, err);
    }
    enum status status = OK;
    if (json_kind(inner) == JSON_TEXT) {
        status = set_text(&source, name, json_text(inner), config, err);
    } else if (json_kind(inner) == JSON_OBJECT && strcmp(name, "trainer") == 0) {
        status = set_trainer(&source, inner, NULL, config, err);
    } else {
        status = set_text(&source, name, json_text(member), config, err);
    }
    json_free(&inner);
    return status;
}

static bool is_ours(const struct json *hyperparameter)
{
    return strncmp(json_key(hyperparameter), HYPERPARAMETER_PREFIX,
                   strlen(HYPERPARAMETER_PREFIX)) == 0;
}

static enum status apply_hyperparameters(const struct json *all, struct config *config,
                                         struct err *err)
{
    if (all == NULL) {
        return OK;
    }
    for (const struct json *m = json_first(all); m != NULL; m = json_next(m)) {
        if (is_ours(m)) {
            TRY(apply_hyperparameter(m, config, err));
        }
    }
    return OK;
}

/* HEADRACE_GLOBAL_BATCH=64 -> global_batch; false: a variable that is none of ours. */
static bool option_of_variable(const char *entry, size_t name_len, char *out, size_t size)
{
    if (strncmp(entry, ENV_PREFIX, strlen(ENV_PREFIX)) != 0) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(OTHER_VARIABLES); i++) {
        if (strlen(OTHER_VARIABLES[i]) == name_len &&
            memcmp(entry, OTHER_VARIABLES[i], name_len) == 0) {
            return false;
        }
    }
    const size_t prefix_len = strlen(ENV_PREFIX);
    snprintf(out, size, "%.*s", (int)(name_len - prefix_len), entry + prefix_len);
    for (char *p = out; *p != '\0'; p++) {
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    }
    return true;
}

static enum status apply_environment(char **list, struct config *config, struct err *err)
{
    const struct source source = {SOURCE_ENVIRONMENT, NULL, NULL};
    for (size_t i = 0; list[i] != NULL; i++) {
        char name[NAME_BYTES_MAX];
        const char *value = strchr(list[i], '=');
        if (value != NULL &&
            option_of_variable(list[i], (size_t)(value - list[i]), name, sizeof(name))) {
            TRY(set_text(&source, name, value + 1, config, err));
        }
    }
    return OK;
}

/* ---- the command line ---- */

/* An option of the command line: its name as in the table, and its value if it stands in the same
 * word. */
struct argument {
    char name[NAME_BYTES_MAX];
    const char *value;
};

/* false: a word that is no option ("-" included). */
static bool split_argument(const char *word, struct argument *out)
{
    if (word[0] != '-' || word[1] == '\0') {
        return false;
    }
    const char *name = word + (word[1] == '-' ? 2 : 1);
    const size_t len = strcspn(name, "=");
    snprintf(out->name, sizeof(out->name), "%.*s", (int)len, name);
    for (char *p = out->name; *p != '\0'; p++) {
        *p = (char)(*p == '-' ? '_' : *p);
    }
    out->value = name[len] == '=' ? name + len + 1 : NULL;
    return true;
}

/* Finds the option's value, in its own word or the next one, and moves *index to the last word
 * used. */
static enum status take_value(const struct config_sources *sources, int *index,
                              struct argument *argument, struct err *err)
{
    const struct source source = {SOURCE_COMMAND_LINE, NULL, sources->own_options};
    const struct option *option = option_find(argument->name);
    if (sources->argv[*index][1] != '-' || (option == NULL && !is_map(argument->name))) {
        return refuse_name(&source, argument->name, err);
    }
    if (argument->value != NULL) {
        return OK;
    }
    if (option != NULL && option->kind == OPTION_BOOL) {
        argument->value = "true";
        return OK;
    }
    if (*index + 1 >= sources->argc) {
        return err_set(err, ERR_USAGE, "%s: a value has to follow", sources->argv[*index]);
    }
    (*index)++;
    argument->value = sources->argv[*index];
    return OK;
}

/* Walks over the words. config NULL: only finds --config, in *path_out. */
static enum status walk_arguments(const struct config_sources *sources, struct config *config,
                                  const char **path_out, int *rest_count_out, struct err *err)
{
    const struct source source = {SOURCE_COMMAND_LINE, NULL, sources->own_options};
    int rest_count = 0;
    bool is_open = true;
    for (int i = 1; i < sources->argc; i++) {
        char *word = sources->argv[i];
        struct argument argument;
        if (is_open && strcmp(word, "--") == 0) {
            is_open = false;
            continue;
        }
        if (!is_open || !split_argument(word, &argument)) {
            if (config != NULL) {
                sources->argv[rest_count++] = word;
            }
            continue;
        }
        TRY(take_value(sources, &i, &argument, err));
        if (config != NULL) {
            TRY(set_text(&source, argument.name, argument.value, config, err));
        } else if (strcmp(argument.name, "config") == 0) {
            *path_out = argument.value;
        }
    }
    *rest_count_out = rest_count;
    return OK;
}

/* ---- all together ---- */

static const char *find_variable(char **list, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; list[i] != NULL; i++) {
        if (strncmp(list[i], name, len) == 0 && list[i][len] == '=') {
            return list[i] + len + 1;
        }
    }
    return NULL;
}

/* The strongest of --config, HEADRACE_CONFIG, the hyperparameter and what the caller says. */
static const char *find_config_path(const struct config_sources *sources, const char *from_line,
                                    char **environment, const struct json *hyperparameters)
{
    if (from_line != NULL) {
        return from_line;
    }
    const char *from_environment = find_variable(environment, "HEADRACE_CONFIG");
    if (from_environment != NULL) {
        return from_environment;
    }
    const struct json *member = json_get(hyperparameters, "headrace_config");
    if (member != NULL && json_kind(member) == JSON_TEXT) {
        return json_text(member);
    }
    return sources->config_path;
}

static enum status set_default_folder(char *folder, const char *base, const char *below,
                                      struct err *err)
{
    if (folder[0] != '\0') {
        return OK;
    }
    if (!sm_path_join(base, below, folder, CONFIG_TEXT_BYTES)) {
        return err_set(err, ERR_CONFIG, "SAGEMAKER_BASE_DIR has more than %d bytes",
                       CONFIG_TEXT_BYTES - 16);
    }
    return OK;
}

static enum status finish(char **environment, struct config *config, struct err *err)
{
    const char *base = find_variable(environment, "SAGEMAKER_BASE_DIR");
    base = base != NULL ? base : BASE_DEFAULT;
    TRY(set_default_folder(config->data_root, base, "input/data", err));
    TRY(set_default_folder(config->checkpoint_dir, base, "checkpoints", err));
    return config_confine_streams(config, err);
}

static enum status load(const struct config_sources *sources, char **environment,
                        const struct json *hyperparameters, struct config *config,
                        int *rest_count_out, struct err *err)
{
    const char *from_line = NULL;
    TRY(walk_arguments(sources, NULL, &from_line, rest_count_out, err));
    TRY(apply_defaults(config, err));
    const char *path = find_config_path(sources, from_line, environment, hyperparameters);
    if (path != NULL) {
        TRY(apply_file(path, config, err));
    }
    TRY(apply_hyperparameters(hyperparameters, config, err));
    TRY(apply_environment(environment, config, err));
    TRY(walk_arguments(sources, config, NULL, rest_count_out, err));
    return finish(environment, config, err);
}

enum status config_load(const struct config_sources *sources, struct config *out,
                        int *rest_count_out, struct err *err)
{
    char **environment = sources->environ_list != NULL ? sources->environ_list : environ;
    struct json *hyperparameters = NULL;
    *out = (struct config){0};
    if (sources->hyperparameters_path != NULL) {
        const enum status read = read_object(sources->hyperparameters_path, &hyperparameters, err);
        if (read != OK && read != ERR_MISSING) {
            return read;
        }
    }
    const enum status status =
        load(sources, environment, hyperparameters, out, rest_count_out, err);
    if (status != OK) {
        config_fini(out);
    }
    json_free(&hyperparameters);
    return status;
}

void config_fini(struct config *config)
{
    free(config->hosts);
    *config = (struct config){0};
}

const struct stream_config *config_stream(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->stream_count; i++) {
        if (strcmp(config->streams[i].name, name) == 0) {
            return &config->streams[i];
        }
    }
    return NULL;
}

uint64_t config_digest(const struct config *config)
{
    enum { STREAM_FIELDS = 5, FIELDS_MAX = 3 + STREAMS_MAX * STREAM_FIELDS };
    uint64_t fields[FIELDS_MAX];
    size_t count = 0;
    fields[count++] = (uint64_t)config->seed;
    fields[count++] = (uint64_t)config->global_batch;
    fields[count++] = config->stream_count;
    for (uint32_t i = 0; i < config->stream_count; i++) {
        const struct stream_config *stream = &config->streams[i];
        fields[count++] = hash64(stream->name, strlen(stream->name));
        fields[count++] = hash64(stream->data, strlen(stream->data));
        fields[count++] = (uint64_t)stream->shuffle;
        fields[count++] = (uint64_t)stream->last;
        fields[count++] = hash64(stream->pipeline.text, strlen(stream->pipeline.text));
    }
    uint8_t bytes[FIELDS_MAX * 8];
    for (size_t i = 0; i < count; i++) {
        hash_put64(bytes + 8 * i, fields[i]);
    }
    return hash64(bytes, 8 * count);
}
