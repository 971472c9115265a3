/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster file is read strictly: a host in no group or in two, or a list that is none, would
 * give hosts different ideas of the cluster. Roles are given to groups; hosts inherit them.
 */
#include "common/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/sm_files.h"
#include "common/text.h"

static const char BASE_DEFAULT[] = "/opt/ml";
static const char ONE_GROUP[] = "homogeneousCluster";
static const char DISTRIBUTION_KEY[] = "sagemaker_distribution_instance_groups";

enum { DESCRIPTION_BYTES = 160, GROUPS_MAX = 1024 };

/* By which rule a group has its role; the order of DESIGN.md section 6. */
enum rule { RULE_NONE, RULE_SETTING, RULE_ONE_GROUP, RULE_DISTRIBUTION, RULE_FAMILY };

/* Texts are borrowed from the files. */
struct group {
    const char *name;
    const char *type; /* NULL: not said */
    const struct json *hosts;
    enum role role; /* 0: not placed yet */
    enum rule rule;
};

/* What cluster_load works with. */
struct source {
    const char *path; /* of the cluster file */
    struct json *resources;
    struct json *hyperparameters; /* NULL: no file */
    struct json *distribution;    /* the decoded hyperparameter; NULL: not given */
    const struct config *config;
    uint32_t group_count;
    struct group *groups;
};

const char *cluster_base(void)
{
    const char *base = getenv("SAGEMAKER_BASE_DIR");
    return base != NULL ? base : BASE_DEFAULT;
}

const char *role_name(enum role role)
{
    static const char *const NAMES[] = {
        [ROLE_PRODUCER] = "producer", [ROLE_TRAINER] = "trainer", [ROLE_BOTH] = "both"};
    return NAMES[role];
}

/* ---- reading ---- */

static enum status refuse(const struct source *source, const char *key, const struct json *value,
                          const char *wanted, struct err *err)
{
    char found[DESCRIPTION_BYTES];
    json_describe(value, found, sizeof(found));
    return err_set(err, ERR_CONFIG, "%s: %s: found %s, expected %s", source->path, key, found,
                   wanted);
}

/* A text of less than size bytes under key; a missing one is `otherwise`, unless that is NULL. */
static enum status read_text(const struct source *source, const char *key, const char *otherwise,
                             char *out, size_t size, struct err *err)
{
    const struct json *value = json_get(source->resources, key);
    const bool is_absent = value == NULL || json_kind(value) == JSON_NULL;
    if (is_absent && otherwise != NULL) {
        snprintf(out, size, "%s", otherwise);
        return OK;
    }
    if (is_absent || json_kind(value) != JSON_TEXT || json_text(value)[0] == '\0' ||
        strlen(json_text(value)) >= size) {
        char wanted[DESCRIPTION_BYTES];
        snprintf(wanted, sizeof(wanted), "a text of 1 to %zu bytes", size - 1);
        return refuse(source, key, value, wanted, err);
    }
    snprintf(out, size, "%s", json_text(value));
    return OK;
}

static bool is_host_list(const struct json *value)
{
    if (value == NULL || json_kind(value) != JSON_LIST) {
        return false;
    }
    for (const struct json *host = json_first(value); host != NULL; host = json_next(host)) {
        if (json_kind(host) != JSON_TEXT || json_text(host)[0] == '\0' ||
            strlen(json_text(host)) >= HOST_BYTES_MAX) {
            return false;
        }
    }
    return true;
}

static int host_compare(const void *a, const void *b)
{
    const struct cluster_host *left = a;
    const struct cluster_host *right = b;
    return text_compare_natural(left->name, right->name);
}

/* -1: no such host. */
static int64_t host_find(const struct cluster *cluster, const char *name)
{
    uint32_t low = 0;
    uint32_t high = cluster->host_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = text_compare_natural(cluster->hosts[middle].name, name);
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return -1;
}

/* The hosts in natural order, without group and role yet. */
static enum status read_hosts(const struct source *source, struct cluster *cluster, struct err *err)
{
    const struct json *list = json_get(source->resources, "hosts");
    const uint32_t count = is_host_list(list) ? json_count(list) : 0;
    if (count == 0 || count > HOSTS_MAX) {
        char wanted[DESCRIPTION_BYTES];
        snprintf(wanted, sizeof(wanted), "a list of 1 to %d host names", HOSTS_MAX);
        return refuse(source, "hosts", list, wanted, err);
    }
    cluster->hosts = calloc(count, sizeof(*cluster->hosts));
    if (cluster->hosts == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %u hosts", count);
    }
    for (const struct json *name = json_first(list); name != NULL; name = json_next(name)) {
        struct cluster_host *host = &cluster->hosts[cluster->host_count++];
        snprintf(host->name, sizeof(host->name), "%s", json_text(name));
    }
    qsort(cluster->hosts, count, sizeof(*cluster->hosts), host_compare);
    for (uint32_t i = 1; i < count; i++) {
        if (strcmp(cluster->hosts[i - 1].name, cluster->hosts[i].name) == 0) {
            return err_set(err, ERR_CONFIG, "%s: hosts: found %s twice, expected it once",
                           source->path, cluster->hosts[i].name);
        }
    }
    return OK;
}

static enum status read_group(const struct source *source, const struct json *entry,
                              struct group *group, struct err *err)
{
    const struct json *name = json_get(entry, "instance_group_name");
    if (json_kind(entry) != JSON_OBJECT || name == NULL || json_kind(name) != JSON_TEXT ||
        strlen(json_text(name)) >= CONFIG_TEXT_BYTES) {
        return refuse(source, "instance_groups", entry, "a group with a text instance_group_name",
                      err);
    }
    char key[DESCRIPTION_BYTES];
    snprintf(key, sizeof(key), "instance_groups: group '%.64s': hosts", json_text(name));
    const struct json *hosts = json_get(entry, "hosts");
    if (!is_host_list(hosts)) {
        return refuse(source, key, hosts, "a list of host names", err);
    }
    const struct json *type = json_get(entry, "instance_type");
    *group = (struct group){
        .name = json_text(name), .type = type == NULL ? NULL : json_text(type), .hosts = hosts};
    return OK;
}

static enum status check_group_names(const struct source *source, struct err *err)
{
    for (uint32_t i = 0; i < source->group_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(source->groups[i].name, source->groups[j].name) == 0) {
                return err_set(err, ERR_CONFIG,
                               "%s: instance_groups: found two groups '%s', expected one",
                               source->path, source->groups[i].name);
            }
        }
    }
    return OK;
}

/* Without instance_groups (older platforms, local mode) all hosts are one group. */
static enum status read_groups(struct source *source, struct err *err)
{
    const struct json *list = json_get(source->resources, "instance_groups");
    const bool is_list = list == NULL || json_kind(list) == JSON_LIST;
    const uint32_t count = list != NULL && is_list ? json_count(list) : 0;
    if (!is_list || count > GROUPS_MAX) {
        return refuse(source, "instance_groups", list, "a list of groups", err);
    }
    source->group_count = 0;
    source->groups = calloc(count + 1U, sizeof(*source->groups));
    if (source->groups == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %u groups", count);
    }
    if (count == 0) {
        const struct json *name = json_get(source->resources, "current_group_name");
        const struct json *type = json_get(source->resources, "current_instance_type");
        source->group_count = 1;
        source->groups[0] = (struct group){
            .name = name != NULL && json_text(name) != NULL ? json_text(name) : ONE_GROUP,
            .type = type == NULL ? NULL : json_text(type),
            .hosts = json_get(source->resources, "hosts")};
        return OK;
    }
    for (const struct json *entry = json_first(list); entry != NULL; entry = json_next(entry)) {
        TRY(read_group(source, entry, &source->groups[source->group_count], err));
        source->group_count++;
    }
    return check_group_names(source, err);
}

/* ---- the role of a group ---- */

static enum role role_of_name(const char *name)
{
    for (enum role role = ROLE_PRODUCER; role <= ROLE_BOTH; role++) {
        if (strcmp(role_name(role), name) == 0) {
            return role;
        }
    }
    CHECK(!"the configuration knows the roles");
    return ROLE_BOTH;
}

static struct group *group_find(const struct source *source, const char *name)
{
    for (uint32_t i = 0; i < source->group_count; i++) {
        if (strcmp(source->groups[i].name, name) == 0) {
            return &source->groups[i];
        }
    }
    return NULL;
}

/*
 * The settings of groups that this cluster does not have are left alone: the same job file serves
 * clusters of different make. A misspelt name is seen by the warning.
 */
static void apply_settings(const struct source *source)
{
    for (uint32_t i = 0; i < source->config->role_count; i++) {
        const struct role_setting *setting = &source->config->roles[i];
        struct group *group = group_find(source, setting->group);
        if (group == NULL) {
            log_warn("roles: this cluster has no group '%s'", setting->group);
            continue;
        }
        group->role = role_of_name(setting->role);
        group->rule = RULE_SETTING;
    }
}

static bool is_open(const struct group *group)
{
    return group->role == 0 && json_first(group->hosts) != NULL;
}

static bool has_open_group(const struct source *source)
{
    for (uint32_t i = 0; i < source->group_count; i++) {
        if (is_open(&source->groups[i])) {
            return true;
        }
    }
    return false;
}

static bool list_has(const struct json *list, const char *text)
{
    for (const struct json *member = json_first(list); member != NULL; member = json_next(member)) {
        if (json_is_text(member, text)) {
            return true;
        }
    }
    return false;
}

static bool names_known_groups(const struct source *source, const struct json *value)
{
    if (json_kind(value) != JSON_LIST) {
        return false;
    }
    for (const struct json *name = json_first(value); name != NULL; name = json_next(name)) {
        if (json_kind(name) != JSON_TEXT || group_find(source, json_text(name)) == NULL) {
            return false;
        }
    }
    return true;
}

static enum status apply_distribution(const struct source *source, struct err *err)
{
    if (!names_known_groups(source, source->distribution)) {
        char found[DESCRIPTION_BYTES];
        json_describe(source->distribution, found, sizeof(found));
        return err_set(err, ERR_CONFIG,
                       "%s beside %s: %s: found %s, expected a JSON list of names of this "
                       "cluster's groups, or roles that place every group",
                       SM_HYPERPARAMETERS, source->path, DISTRIBUTION_KEY, found);
    }
    for (uint32_t i = 0; i < source->group_count; i++) {
        struct group *group = &source->groups[i];
        if (is_open(group)) {
            group->role =
                list_has(source->distribution, group->name) ? ROLE_TRAINER : ROLE_PRODUCER;
            group->rule = RULE_DISTRIBUTION;
        }
    }
    return OK;
}

/* The family of "ml.p3dn.24xlarge" is "p3dn.24xlarge" up to its dot. */
static const char *family_of(const char *type)
{
    return strncmp(type, "ml.", 3) == 0 ? type + 3 : type;
}

static enum status apply_families(const struct source *source, struct err *err)
{
    for (uint32_t i = 0; i < source->group_count; i++) {
        struct group *group = &source->groups[i];
        if (!is_open(group)) {
            continue;
        }
        if (group->type == NULL || family_of(group->type)[0] == '\0') {
            return err_set(err, ERR_CONFIG,
                           "%s: instance_groups: group '%s': found no instance_type, expected one, "
                           "or a role for the group, like roles {\"%s\": \"trainer\"}",
                           source->path, group->name, group->name);
        }
        const char *family = family_of(group->type);
        const bool trains = family[0] == 'g' || family[0] == 'p' || strncmp(family, "trn", 3) == 0;
        group->role = trains ? ROLE_TRAINER : ROLE_PRODUCER;
        group->rule = RULE_FAMILY;
    }
    return OK;
}

static enum status place_groups(struct source *source, struct err *err)
{
    apply_settings(source);
    if (!has_open_group(source)) {
        return OK;
    }
    if (source->group_count == 1) {
        source->groups[0].role = ROLE_BOTH;
        source->groups[0].rule = RULE_ONE_GROUP;
        return OK;
    }
    return source->distribution != NULL ? apply_distribution(source, err)
                                        : apply_families(source, err);
}

/* ---- the role of a host ---- */

static enum status place_group_hosts(const struct source *source, const struct group *group,
                                     struct cluster *cluster, struct err *err)
{
    for (const struct json *name = json_first(group->hosts); name != NULL; name = json_next(name)) {
        const int64_t index = host_find(cluster, json_text(name));
        if (index < 0) {
            return err_set(err, ERR_CONFIG,
                           "%s: instance_groups: group '%s' has the host %s, which is not in hosts",
                           source->path, group->name, json_text(name));
        }
        struct cluster_host *host = &cluster->hosts[index];
        if (host->role != 0) {
            return err_set(err, ERR_CONFIG,
                           "%s: instance_groups: the host %s stands in group '%s' and in group "
                           "'%s', expected it once",
                           source->path, host->name, host->group, group->name);
        }
        host->role = group->role;
        snprintf(host->group, sizeof(host->group), "%s", group->name);
        snprintf(host->instance_type, sizeof(host->instance_type), "%s",
                 group->type == NULL ? "" : group->type);
    }
    return OK;
}

static enum status place_hosts(const struct source *source, struct cluster *cluster,
                               struct err *err)
{
    for (uint32_t i = 0; i < source->group_count; i++) {
        TRY(place_group_hosts(source, &source->groups[i], cluster, err));
    }
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        struct cluster_host *host = &cluster->hosts[i];
        if (host->role == 0) {
            return err_set(err, ERR_CONFIG,
                           "%s: instance_groups: no group has the host %s, expected one",
                           source->path, host->name);
        }
        const bool trains = (host->role & ROLE_TRAINER) != 0;
        host->trainer_index = trains ? (int32_t)cluster->trainer_count : -1;
        cluster->trainer_count += trains;
        cluster->producer_count += (host->role & ROLE_PRODUCER) != 0;
    }
    return OK;
}

static enum status check_both_sides(const struct source *source, const struct cluster *cluster,
                                    struct err *err)
{
    if (cluster->trainer_count > 0 && cluster->producer_count > 0) {
        return OK;
    }
    const bool no_trainer = cluster->trainer_count == 0;
    char groups[DESCRIPTION_BYTES] = "";
    for (uint32_t i = 0; i < source->group_count; i++) {
        const size_t len = strlen(groups);
        snprintf(groups + len, sizeof(groups) - len, "%s'%s'", i == 0 ? "" : ", ",
                 source->groups[i].name);
    }
    return err_set(
        err, ERR_CONFIG, "%s: no host %s: all of group %s %s; set roles, like {\"%s\": \"%s\"}",
        source->path, no_trainer ? "trains" : "produces", groups, no_trainer ? "produce" : "train",
        source->groups[0].name, no_trainer ? "trainer" : "producer");
}

static void explain(const struct source *source, struct cluster *cluster)
{
    const struct cluster_host *host = &cluster->hosts[cluster->current];
    const struct group *group = group_find(source, host->group);
    char *why = cluster->why;
    switch (group->rule) {
    case RULE_NONE:
        break;
    case RULE_SETTING:
        snprintf(why, sizeof(cluster->why), "because roles says so for its group '%s'",
                 group->name);
        return;
    case RULE_ONE_GROUP:
        snprintf(why, sizeof(cluster->why),
                 "because the cluster is one group, '%s', where every host produces and trains",
                 group->name);
        return;
    case RULE_DISTRIBUTION:
        snprintf(why, sizeof(cluster->why), "because the hyperparameter %s %s its group '%s'",
                 DISTRIBUTION_KEY, host->role == ROLE_TRAINER ? "names" : "does not name",
                 group->name);
        return;
    case RULE_FAMILY:
        snprintf(why, sizeof(cluster->why),
                 "because instances of its group '%s' are %s, whose family %s one that trains (g, "
                 "p, trn)",
                 group->name, group->type, host->role == ROLE_TRAINER ? "is" : "is not");
        return;
    }
    CHECK(!"a placed group has a rule");
}

/* ---- all together ---- */

static enum status open_source(const char *base, const char *path, const struct config *config,
                               struct source *source, struct err *err)
{
    *source = (struct source){.path = path, .config = config};
    TRY(sm_file_read(base, SM_RESOURCES, &source->resources, err));
    if (json_kind(source->resources) != JSON_OBJECT) {
        return refuse(source, "the whole file", source->resources, "an object", err);
    }
    const enum status read = sm_file_read(base, SM_HYPERPARAMETERS, &source->hyperparameters, err);
    if (read == ERR_MISSING) {
        return OK;
    }
    TRY(read);
    const struct json *value = json_get(source->hyperparameters, DISTRIBUTION_KEY);
    return value == NULL ? OK : sm_hyperparameter_decode(value, &source->distribution, err);
}

static void close_source(struct source *source)
{
    free(source->groups);
    json_free(&source->distribution);
    json_free(&source->hyperparameters);
    json_free(&source->resources);
}

static enum status load(const char *base, struct source *source, struct cluster *out,
                        struct err *err)
{
    if (strlen(base) >= sizeof(out->base)) {
        return err_set(err, ERR_CONFIG, "the base folder's path has more than %zu bytes",
                       sizeof(out->base) - 1);
    }
    snprintf(out->base, sizeof(out->base), "%s", base);
    TRY(read_text(source, "current_host", NULL, out->current_host, sizeof(out->current_host), err));
    TRY(read_text(source, "network_interface_name", "eth0", out->network_interface,
                  sizeof(out->network_interface), err));
    TRY(read_hosts(source, out, err));
    TRY(read_groups(source, err));
    const int64_t current = host_find(out, out->current_host);
    if (current < 0) {
        return refuse(source, "current_host", json_get(source->resources, "current_host"),
                      "one of hosts", err);
    }
    out->current = (uint32_t)current;
    TRY(place_groups(source, err));
    TRY(place_hosts(source, out, err));
    TRY(check_both_sides(source, out, err));
    explain(source, out);
    return OK;
}

enum status cluster_load(const char *base, const struct config *config, struct cluster *out,
                         struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct source source;
    sm_file_path(base, SM_RESOURCES, path, sizeof(path));
    *out = (struct cluster){0};
    enum status status = open_source(base, path, config, &source, err);
    if (status == OK) {
        status = load(base, &source, out, err);
    }
    if (status != OK) {
        cluster_fini(out);
    }
    close_source(&source);
    return status;
}

void cluster_fini(struct cluster *cluster)
{
    free(cluster->hosts);
    *cluster = (struct cluster){0};
}

const struct cluster_host *cluster_coordinator(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        if (cluster->hosts[i].trainer_index == 0) {
            return &cluster->hosts[i];
        }
    }
    CHECK(!"a loaded cluster has a trainer");
    return NULL;
}
