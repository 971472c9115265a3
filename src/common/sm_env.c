/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties, derived in the order of the toolkit's constructor. Its values are Python's: a
 * thing that it iterates over may be a list, an object (its keys) or a text (its characters), and
 * membership is asked of all three. What it would crash on is refused at the place where it would.
 */
#include "common/sm_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/python.h"
#include "common/sm_files.h"
#include "common/sm_machine.h"
#include "common/sm_source.h"
#include "common/text.h"

enum { TRN2_NEURONS = 64, LOG_LEVEL_INFO = 20 };

static const char PREFIX[] = "sagemaker_";

/* Settings of the toolkit itself, which it passes to nobody. */
static const char *const OWN_HYPERPARAMETERS[] = {
    "sagemaker_program",        "sagemaker_submit_directory",
    "sagemaker_region",         "sagemaker_enable_cloudwatch_metrics",
    "sagemaker_job_name",       "sagemaker_container_log_level",
    "sagemaker_s3_output",      "default_user_module_name",
    "_tuning_objective_metric",
};

/* A variable of the process as a text value; NULL: it is not set. */
static enum status variable(const struct sm_source *source, const char *name, struct json **out)
{
    const char *bytes = getenv(name);
    *out = NULL;
    if (bytes == NULL) {
        return OK;
    }
    const size_t size = 3 * strlen(bytes) + 1;
    char *text = malloc(size);
    if (text != NULL) {
        text_from_bytes(bytes, text, size);
        *out = json_new_text(text);
    }
    free(text);
    return *out != NULL ? OK : err_set(source->err, ERR_RESOURCE, "no memory for %s", name);
}

/* ---- the files ---- */

static enum status read_file(struct sm_source *source, const char *file, struct json **out)
{
    return sm_file_read(source->base, file, out, source->err);
}

static enum status decode_hyperparameters(struct sm_source *source)
{
    struct json *raw = NULL;
    TRY(read_file(source, SM_HYPERPARAMETERS, &raw));
    enum status status = OK;
    if (json_kind(raw) != JSON_OBJECT) {
        status = sm_refuse(source, SM_HYPERPARAMETERS, "the whole file", raw, "an object");
    }
    for (const struct json *m = json_first(raw); m != NULL && status == OK; m = json_next(m)) {
        struct json *value = NULL;
        status = sm_hyperparameter_decode(m, &value, source->err);
        if (status == ERR_CONFIG) {
            char path[PATH_BYTES_MAX];
            sm_file_path(source->base, SM_HYPERPARAMETERS, path, sizeof(path));
            status = err_prefix(source->err, "%s: %s", path, json_key(m));
        }
        if (status == OK) {
            status = json_add(source->hyperparameters, json_key(m), value, source->err);
        }
    }
    json_free(&raw);
    return status;
}

static bool is_own(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(OWN_HYPERPARAMETERS); i++) {
        if (strcmp(OWN_HYPERPARAMETERS[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static enum status split_hyperparameters(struct sm_source *source)
{
    for (const struct json *m = json_first(source->hyperparameters); m != NULL; m = json_next(m)) {
        if (is_own(json_key(m))) {
            continue;
        }
        const bool is_framework = strncmp(json_key(m), PREFIX, strlen(PREFIX)) == 0;
        TRY(json_add(is_framework ? source->framework : source->user, json_key(m), json_clone(m),
                     source->err));
    }
    return OK;
}

/* The toolkit copies these three into its own environment. */
static enum status check_copied_values(const struct sm_source *source)
{
    static const char WANTED[] = "a text that an environment variable can hold";
    const struct json *host = sm_resource(source, "current_host");
    if (host == NULL || !python_fits_environment(host)) {
        return sm_refuse(source, SM_RESOURCES, "current_host", host, WANTED);
    }
    const struct json *job = json_get(source->hyperparameters, "sagemaker_job_name");
    if (job != NULL && !python_fits_environment(job)) {
        return sm_refuse(source, SM_HYPERPARAMETERS, "sagemaker_job_name", job, WANTED);
    }
    const struct json *region = json_get(source->hyperparameters, "sagemaker_region");
    if (region != NULL && json_truth(region) && !python_fits_environment(region)) {
        return sm_refuse(source, SM_HYPERPARAMETERS, "sagemaker_region", region, WANTED);
    }
    return OK;
}

static enum status check_log_level(const struct sm_source *source)
{
    const char *level = getenv("SAGEMAKER_CONTAINER_LOG_LEVEL");
    if (level == NULL || python_reads_int(level)) {
        return OK;
    }
    return err_set(source->err, ERR_CONFIG,
                   "environment: SAGEMAKER_CONTAINER_LOG_LEVEL: found '%.64s', expected an integer",
                   level);
}

/* ---- one property each ---- */

/* Adds a property; value NULL: no memory. */
static enum status put(const struct sm_source *source, const char *name, struct json *value)
{
    return json_add(source->out, name, value, source->err);
}

static enum status put_variable(const struct sm_source *source, const char *name,
                                const char *variable_name)
{
    struct json *value = NULL;
    TRY(variable(source, variable_name, &value));
    return put(source, name, value != NULL ? value : json_new_null());
}

/* A key of the cluster file as it is, or a default; takes the default. */
static enum status put_resource(const struct sm_source *source, const char *name, const char *key,
                                struct json *otherwise)
{
    const struct json *value = sm_resource(source, key);
    if (value == NULL) {
        return put(source, name, otherwise);
    }
    json_free(&otherwise);
    return put(source, name, json_clone(value));
}

static enum status put_folder(const struct sm_source *source, const char *name, const char *folder,
                              const char *below)
{
    char path[PATH_BYTES_MAX];
    char text[3 * PATH_BYTES_MAX];
    if (!sm_path_join(folder, below, path, sizeof(path))) {
        return err_set(source->err, ERR_CONFIG, "the base folder's path has more than %d bytes",
                       PATH_BYTES_MAX - 64);
    }
    text_from_bytes(path, text, sizeof(text));
    return put(source, name, json_new_text(text));
}

static enum status put_channel(struct json *channels, const char *folder, const char *name,
                               struct err *err)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a channel's path");
    }
    CHECK(sm_path_join(folder, name, path, size));
    const enum status status = json_add(channels, name, json_new_text(path), err);
    free(path);
    return status;
}

static enum status fill_channels(const struct sm_source *source, const struct json *names,
                                 struct json *channels)
{
    char folder[PATH_BYTES_MAX];
    char text[3 * PATH_BYTES_MAX];
    if (!sm_path_join(source->base, "input/data", folder, sizeof(folder))) {
        return err_set(source->err, ERR_CONFIG, "the base folder's path has more than %d bytes",
                       PATH_BYTES_MAX - 64);
    }
    text_from_bytes(folder, text, sizeof(text));
    for (const struct json *name = json_first(names); name != NULL; name = json_next(name)) {
        if (json_kind(name) != JSON_TEXT) {
            return sm_refuse(source, SM_INPUTS, "a channel", name, "a name");
        }
        TRY(put_channel(channels, text, json_text(name), source->err));
    }
    return json_unite(channels, source->err);
}

static enum status put_channels(const struct sm_source *source)
{
    if (!python_is_iterable(source->inputs)) {
        return sm_refuse(source, SM_INPUTS, "the whole file", source->inputs,
                         "an object of channels by name");
    }
    struct json *names = json_new_list();
    struct json *channels = json_new_object();
    enum status status = OK;
    if (names == NULL || channels == NULL) {
        status = err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    if (status == OK) {
        status = python_extend(names, source->inputs, source->err);
    }
    if (status == OK) {
        status = fill_channels(source, names, channels);
    }
    json_free(&names);
    if (status != OK) {
        json_free(&channels);
        return status;
    }
    return put(source, "channel_input_dirs", channels);
}

/* The hosts of the first group that has the current group's name. */
static enum status put_current_group_hosts(const struct sm_source *source)
{
    struct json *current = sm_current_group(source);
    if (current == NULL) {
        return err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    const struct json *group = sm_first_group(source);
    while (group != NULL && !json_is_text(current, sm_group_name(group))) {
        group = json_next(group);
    }
    json_free(&current);
    if (group == NULL) {
        return put(source, "current_instance_group_hosts", json_new_list());
    }
    const struct json *hosts = json_get(group, "hosts");
    if (hosts == NULL) {
        return sm_refuse_group(source, group, "hosts", "a list of host names");
    }
    return put(source, "current_instance_group_hosts", json_clone(hosts));
}

static enum status put_groups(const struct sm_source *source)
{
    struct json *names = json_new_list();
    struct json *by_name = json_new_object();
    uint32_t count = 0;
    enum status status = OK;
    if (names == NULL || by_name == NULL) {
        status = err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    for (const struct json *group = sm_first_group(source); group != NULL && status == OK;
         group = json_next(group)) {
        count++;
        status = json_append(names, json_new_text(sm_group_name(group)), source->err);
        if (status == OK) {
            status = json_add(by_name, sm_group_name(group), json_clone(group), source->err);
        }
    }
    if (status == OK) {
        status = json_unite(by_name, source->err);
    }
    if (status != OK) {
        json_free(&names);
        json_free(&by_name);
        return status;
    }
    /* put takes its value on failure too; by_name is still ours if the first one fails. */
    status = put(source, "instance_groups", names);
    if (status != OK) {
        json_free(&by_name);
        return status;
    }
    TRY(put(source, "instance_groups_dict", by_name));
    return put(source, "is_hetero", json_new_bool(count > 1));
}

static enum status put_master(const struct sm_source *source)
{
    struct json *master = NULL;
    TRY(sm_derive_master(source, &master));
    if (master == NULL) {
        return err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    const bool is_master = json_is_text(master, json_text(sm_resource(source, "current_host")));
    TRY(put(source, "master_hostname", master));
    return put(source, "is_master", json_new_bool(is_master));
}

static enum status put_str_of(const struct sm_source *source, const char *name,
                              const struct json *value)
{
    struct json *text = NULL;
    TRY(python_str(value, &text, source->err));
    return put(source, name, text);
}

/* The program's name without its ".py"; without a program the text "None". */
static enum status put_module_name(const struct sm_source *source)
{
    const struct json *given = json_get(source->hyperparameters, "sagemaker_program");
    struct json *name = NULL;
    TRY(variable(source, "SAGEMAKER_PROGRAM", &name));
    if (name == NULL && given == NULL) {
        name = json_new_text("None");
    } else if (name == NULL) {
        TRY(python_str(given, &name, source->err));
    }
    if (name == NULL) {
        return err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    const char *text = json_text(name);
    const size_t len = strlen(text);
    if (len < 3 || strcmp(text + len - 3, ".py") != 0) {
        return put(source, "module_name", name);
    }
    char *cut = strndup(text, len - 3);
    json_free(&name);
    const enum status status = put(source, "module_name", cut == NULL ? NULL : json_new_text(cut));
    free(cut);
    return status;
}

static enum status put_entry_point(const struct sm_source *source)
{
    struct json *name = NULL;
    TRY(variable(source, "SAGEMAKER_PROGRAM", &name));
    if (name != NULL && json_truth(name)) {
        return put(source, "user_entry_point", name);
    }
    json_free(&name);
    const struct json *given = json_get(source->hyperparameters, "sagemaker_program");
    return put(source, "user_entry_point", given != NULL ? json_clone(given) : json_new_null());
}

static enum status put_module_dir(const struct sm_source *source)
{
    const struct json *given = json_get(source->hyperparameters, "sagemaker_submit_directory");
    return given == NULL ? put_folder(source, "module_dir", source->base, "code")
                         : put_str_of(source, "module_dir", given);
}

static enum status put_log_level(const struct sm_source *source)
{
    const struct json *given = json_get(source->hyperparameters, "sagemaker_container_log_level");
    return put(source, "log_level",
               given != NULL ? json_clone(given) : json_new_integer(LOG_LEVEL_INFO));
}

/* Python's `p and p != "{}"`: unset is null, empty is the empty text. */
static enum status put_modelparallel(const struct sm_source *source)
{
    const char *parameters = getenv("SM_HP_MP_PARAMETERS");
    struct json *value = NULL;
    if (parameters == NULL) {
        value = json_new_null();
    } else if (parameters[0] == '\0') {
        value = json_new_text("");
    } else {
        value = json_new_bool(strcmp(parameters, "{}") != 0);
    }
    return put(source, "is_modelparallel_enabled", value);
}

static enum status put_machine(const struct sm_source *source)
{
    const struct json *type = sm_resource(source, "current_instance_type");
    bool is_trn2 = false;
    if (type != NULL && !python_contains(type, "trn2.48xlarge", &is_trn2)) {
        return sm_refuse(source, SM_RESOURCES, "current_instance_type", type, "a text");
    }
    struct sm_machine machine = {0};
    if (source->machine_path != NULL) {
        TRY(sm_machine_read(source->machine_path, &machine, source->err));
    } else {
        TRY(sm_machine_probe(!is_trn2, SM_MACHINE_DEADLINE_MS, &machine, source->err));
        machine.num_neurons = is_trn2 ? TRN2_NEURONS : machine.num_neurons;
    }
    TRY(put(source, "num_cpus", json_new_integer(machine.num_cpus)));
    TRY(put(source, "num_gpus", json_new_integer(machine.num_gpus)));
    TRY(put(source, "num_neurons", json_new_integer(machine.num_neurons)));
    TRY(put(source, "is_smddprun_installed", json_new_bool(machine.has_smddprun)));
    return put(source, "is_smddpmprun_installed", json_new_bool(machine.has_smddpmprun));
}

/* ---- all together ---- */

static enum status read_files(struct sm_source *source)
{
    TRY(read_file(source, SM_RESOURCES, &source->resources));
    TRY(read_file(source, SM_INPUTS, &source->inputs));
    TRY(decode_hyperparameters(source));
    TRY(split_hyperparameters(source));
    if (json_kind(source->resources) != JSON_OBJECT) {
        return sm_refuse(source, SM_RESOURCES, "the whole file", source->resources, "an object");
    }
    if (sm_resource(source, "hosts") == NULL) {
        return sm_refuse(source, SM_RESOURCES, "hosts", NULL, "a list of host names");
    }
    return OK;
}

static enum status put_cluster(const struct sm_source *source)
{
    TRY(put_resource(source, "current_host", "current_host", NULL));
    TRY(put(source, "current_instance_group", sm_current_group(source)));
    TRY(put_current_group_hosts(source));
    TRY(put_resource(source, "current_instance_type", "current_instance_type",
                     json_new_text("local")));
    TRY(put(source, "distribution_hosts", json_clone(source->distribution_hosts)));
    TRY(put(source, "distribution_instance_groups", json_clone(source->distribution_groups)));
    TRY(put_resource(source, "hosts", "hosts", NULL));
    TRY(put_groups(source));
    TRY(put_master(source));
    TRY(put_resource(source, "network_interface_name", "network_interface_name",
                     json_new_text("eth0")));
    TRY(put(source, "resource_config", json_clone(source->resources)));
    return put_resource(source, "topology", "topology", json_new_list());
}

static enum status put_job(const struct sm_source *source)
{
    TRY(put(source, "additional_framework_parameters", json_clone(source->framework)));
    TRY(put(source, "hyperparameters", json_clone(source->user)));
    TRY(put_variable(source, "framework_module", "SAGEMAKER_TRAINING_MODULE"));
    TRY(put_variable(source, "job_name", "TRAINING_JOB_NAME"));
    TRY(put_log_level(source));
    TRY(put_module_dir(source));
    TRY(put_module_name(source));
    TRY(put_entry_point(source));
    return put_modelparallel(source);
}

static enum status put_folders(const struct sm_source *source)
{
    TRY(put(source, "input_data_config", json_clone(source->inputs)));
    TRY(put_channels(source));
    TRY(put_folder(source, "input_dir", source->base, "input"));
    TRY(put_folder(source, "input_config_dir", source->base, "input/config"));
    TRY(put_folder(source, "model_dir", source->base, "model"));
    TRY(put_folder(source, "output_dir", source->base, "output"));
    TRY(put_folder(source, "output_data_dir", source->base, "output/data"));
    return put_folder(source, "output_intermediate_dir", source->base, "output/intermediate");
}

static enum status derive(struct sm_source *source)
{
    if (source->hyperparameters == NULL || source->user == NULL || source->framework == NULL ||
        source->out == NULL) {
        return err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    TRY(check_log_level(source));
    TRY(read_files(source));
    TRY(check_copied_values(source));
    TRY(sm_derive_groups(source));
    TRY(put_cluster(source));
    TRY(put_job(source));
    TRY(put_folders(source));
    return put_machine(source);
}

enum status sm_env_load(const char *base, const char *machine_path, struct json **out,
                        struct err *err)
{
    struct sm_source source = {.base = base,
                               .machine_path = machine_path,
                               .hyperparameters = json_new_object(),
                               .user = json_new_object(),
                               .framework = json_new_object(),
                               .out = json_new_object(),
                               .err = err};
    const enum status status = derive(&source);
    if (status == OK) {
        *out = source.out;
        source.out = NULL;
    }
    json_free(&source.out);
    json_free(&source.distribution_hosts);
    json_free(&source.distribution_groups);
    json_free(&source.framework);
    json_free(&source.user);
    json_free(&source.hyperparameters);
    json_free(&source.inputs);
    json_free(&source.resources);
    return status;
}
