/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, the distribution and the master, as the toolkit derives them from the cluster file. */
#include "common/sm_source.h"

#include <stdio.h>
#include <string.h>

#include "common/limits.h"
#include "common/python.h"
#include "common/sm_files.h"

enum { DESCRIPTION_BYTES = 160 };

static const char DISTRIBUTION_KEY[] = "sagemaker_distribution_instance_groups";

static const char *const DISTRIBUTION_FLAGS[] = {
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_torch_distributed_enabled",
};

enum status sm_refuse(const struct sm_source *source, const char *file, const char *key,
                      const struct json *found, const char *wanted)
{
    char path[PATH_BYTES_MAX];
    char text[DESCRIPTION_BYTES];
    sm_file_path(source->base, file, path, sizeof(path));
    json_describe(found, text, sizeof(text));
    return err_set(source->err, ERR_CONFIG, "%s: %s: found %s, expected %s", path, key, text,
                   wanted);
}

enum status sm_refuse_group(const struct sm_source *source, const struct json *group,
                            const char *key, const char *wanted)
{
    char where[DESCRIPTION_BYTES];
    const struct json *name = json_get(group, "instance_group_name");
    snprintf(where, sizeof(where), "instance_groups: group '%.64s': %s",
             name != NULL && json_text(name) != NULL ? json_text(name) : "?", key);
    return sm_refuse(source, SM_RESOURCES, where, json_get(group, key), wanted);
}

const struct json *sm_resource(const struct sm_source *source, const char *key)
{
    return json_get(source->resources, key);
}

/* Absent and empty ones of every iterable kind are no groups. */
static enum status check_groups(const struct sm_source *source)
{
    const struct json *groups = sm_resource(source, "instance_groups");
    if (groups == NULL || (python_is_iterable(groups) && !json_truth(groups))) {
        return OK;
    }
    if (json_kind(groups) != JSON_LIST) {
        return sm_refuse(source, SM_RESOURCES, "instance_groups", groups, "a list of groups");
    }
    for (const struct json *group = json_first(groups); group != NULL; group = json_next(group)) {
        const struct json *name = json_get(group, "instance_group_name");
        if (json_kind(group) != JSON_OBJECT) {
            return sm_refuse(source, SM_RESOURCES, "instance_groups", group,
                             "a group, an object with instance_group_name and hosts");
        }
        if (name == NULL || json_kind(name) != JSON_TEXT) {
            return sm_refuse_group(source, group, "instance_group_name", "a text");
        }
    }
    return OK;
}

const struct json *sm_first_group(const struct sm_source *source)
{
    const struct json *groups = sm_resource(source, "instance_groups");
    return groups == NULL ? NULL : json_first(groups);
}

const char *sm_group_name(const struct json *group)
{
    return json_text(json_get(group, "instance_group_name"));
}

struct json *sm_current_group(const struct sm_source *source)
{
    const struct json *name = sm_resource(source, "current_group_name");
    return name != NULL ? json_clone(name) : json_new_text("homogeneousCluster");
}

static enum status derive_distribution_groups(struct sm_source *source)
{
    const struct json *given = json_get(source->framework, DISTRIBUTION_KEY);
    if (given != NULL) {
        source->distribution_groups = json_clone(given);
        return source->distribution_groups != NULL
                   ? OK
                   : err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    source->distribution_groups = json_new_list();
    if (source->distribution_groups == NULL) {
        return err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    for (size_t i = 0; i < ARRAY_LEN(DISTRIBUTION_FLAGS); i++) {
        const struct json *flag = json_get(source->framework, DISTRIBUTION_FLAGS[i]);
        if (flag != NULL && json_truth(flag)) {
            return json_append(source->distribution_groups, sm_current_group(source), source->err);
        }
    }
    return OK;
}

/* The toolkit asks whether the current group is in the distribution. */
static enum status check_distribution_groups(const struct sm_source *source)
{
    const struct json *groups = source->distribution_groups;
    const struct json *current = sm_resource(source, "current_group_name");
    const enum json_kind kind = current == NULL ? JSON_TEXT : json_kind(current);
    if (!python_is_iterable(groups)) {
        return sm_refuse(source, SM_HYPERPARAMETERS, DISTRIBUTION_KEY, groups,
                         "a list of group names");
    }
    if (json_kind(groups) == JSON_TEXT && kind != JSON_TEXT) {
        return sm_refuse(source, SM_RESOURCES, "current_group_name", current,
                         "a text, since the distribution groups are one");
    }
    if (json_kind(groups) == JSON_OBJECT && (kind == JSON_LIST || kind == JSON_OBJECT)) {
        return sm_refuse(source, SM_RESOURCES, "current_group_name", current,
                         "a text, since the distribution groups are an object");
    }
    return OK;
}

/* Without groups (local mode) a copy of hosts, else the hosts of the distribution's groups in file
 * order. */
static enum status derive_distribution_hosts(struct sm_source *source)
{
    const struct json *hosts = sm_resource(source, "hosts");
    if (sm_first_group(source) == NULL) {
        if (json_kind(hosts) != JSON_LIST && json_kind(hosts) != JSON_OBJECT) {
            return sm_refuse(source, SM_RESOURCES, "hosts", hosts, "a list of host names");
        }
        source->distribution_hosts = json_clone(hosts);
        return source->distribution_hosts != NULL
                   ? OK
                   : err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    source->distribution_hosts = json_new_list();
    if (source->distribution_hosts == NULL) {
        return err_set(source->err, ERR_RESOURCE, "no memory for JSON");
    }
    for (const struct json *group = sm_first_group(source); group != NULL;
         group = json_next(group)) {
        bool is_in = false;
        (void)python_contains(source->distribution_groups, sm_group_name(group), &is_in);
        if (!is_in) {
            continue;
        }
        const struct json *group_hosts = json_get(group, "hosts");
        if (group_hosts == NULL || !python_is_iterable(group_hosts)) {
            return sm_refuse_group(source, group, "hosts", "a list of host names");
        }
        TRY(python_extend(source->distribution_hosts, group_hosts, source->err));
    }
    return OK;
}

enum status sm_derive_master(const struct sm_source *source, struct json **out)
{
    if (json_truth(source->distribution_hosts)) {
        return python_first(source->distribution_hosts, out, source->err);
    }
    const struct json *hosts = sm_resource(source, "hosts");
    if (!python_is_iterable(hosts) || !json_truth(hosts)) {
        return sm_refuse(source, SM_RESOURCES, "hosts", hosts,
                         "at least one host name, since no group is distributed");
    }
    return python_first(hosts, out, source->err);
}

enum status sm_derive_groups(struct sm_source *source)
{
    TRY(check_groups(source));
    TRY(derive_distribution_groups(source));
    TRY(check_distribution_groups(source));
    return derive_distribution_hosts(source);
}
