/* SPDX-License-Identifier: Apache-2.0 */
/* The folders and files of a local cluster. */
#include "cli/local_plan.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"

enum {
    PORT_FIRST = 17400, /* below the ports that the system gives to connections (32768 up) */
    PORT_STEP = 200,    /* one port, and two for each of at most 64 ranks */
    PORT_TRIES = 50,
};

/* ---- hosts ---- */

/* Which names are in the cpu group: spread over the list, as the platform's own are. */
static bool is_cpu_host(const struct local_options *options, uint32_t i, uint32_t count)
{
    /* The i-th host is a cpu host when the running share passes a whole number (Bresenham). */
    return (i + 1) * options->cpu_hosts / count != i * options->cpu_hosts / count;
}

static enum status fill_hosts(struct local_plan *plan, struct err *err)
{
    const struct local_options *options = plan->options;
    uint8_t block[2];
    plan->count = options->cpu_hosts + options->gpu_hosts;
    plan->hosts = calloc(plan->count, sizeof(*plan->hosts));
    if (plan->hosts == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory for %u hosts", plan->count);
    }
    /* A block of the loopback network that nobody else is likely to use, now or soon. */
    if (getrandom(block, sizeof(block), 0) != (ssize_t)sizeof(block)) {
        return err_errno(err, ERR_RESOURCE, "getrandom");
    }
    for (uint32_t i = 0; i < plan->count; i++) {
        struct local_host *host = &plan->hosts[i];
        const bool cpu = is_cpu_host(options, i, plan->count);
        snprintf(host->name, sizeof(host->name), "algo-%u", i + 1);
        host->group = options->homogeneous ? "homogeneousCluster" : cpu ? "cpu" : "gpu";
        host->instance_type = cpu && !options->homogeneous ? "ml.c5.18xlarge" : "ml.p3dn.24xlarge";
        snprintf(host->address, sizeof(host->address), "127.%u.%u.%u", 1 + block[0] % 250U,
                 block[1], i + 1);
        snprintf(host->base, sizeof(host->base), "%s/%s", plan->dir, host->name);
    }
    return OK;
}

/* ---- the port ---- */

static bool is_free(const char *address, uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &name.sin_addr);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    const int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    const bool free_now = bind(fd, (const struct sockaddr *)&name, sizeof(name)) == 0;
    close(fd);
    return free_now;
}

static bool block_is_free(const struct local_plan *plan, uint16_t port)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        for (uint32_t offset = 0; offset <= 2 * plan->options->ranks_per_host; offset++) {
            if (!is_free(plan->hosts[i].address, (uint16_t)(port + offset))) {
                return false;
            }
        }
    }
    return true;
}

static enum status choose_port(struct local_plan *plan, struct err *err)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        plan->port = (uint16_t)(PORT_FIRST + i * PORT_STEP);
        if (block_is_free(plan, plan->port)) {
            return OK;
        }
    }
    return err_set(err, ERR_RESOURCE, "no free block of ports from %d to %d on %s", PORT_FIRST,
                   PORT_FIRST + PORT_TRIES * PORT_STEP - 1, plan->hosts[0].address);
}

/* ---- folders ---- */

static enum status make_folder(const char *path, struct err *err)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return err_errno(err, ERR_IO, "making folder %s", path);
    }
    return OK;
}

static enum status make_folders(const struct local_host *host, struct err *err)
{
    static const char *const FOLDERS[] = {"",       "/input",  "/input/config", "/input/data",
                                          "/model", "/output", "/output/data",  "/checkpoints"};
    char path[PATH_BYTES_MAX + 64];
    for (size_t i = 0; i < ARRAY_LEN(FOLDERS); i++) {
        snprintf(path, sizeof(path), "%s%s", host->base, FOLDERS[i]);
        TRY(make_folder(path, err));
    }
    /* What an earlier run left in a folder that is kept. */
    static const char *const OLD[] = {"/output/failure", "/output/headrace/report.json"};
    for (size_t i = 0; i < ARRAY_LEN(OLD); i++) {
        snprintf(path, sizeof(path), "%s%s", host->base, OLD[i]);
        unlink(path);
    }
    return OK;
}

static enum status make_dir(struct local_plan *plan, struct err *err)
{
    if (plan->options->dir != NULL) {
        TRY(make_folder(plan->options->dir, err));
        if (realpath(plan->options->dir, plan->dir) == NULL) {
            return err_errno(err, ERR_IO, "folder %s", plan->options->dir);
        }
        return OK;
    }
    const char *parent = getenv("TMPDIR");
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof(path), "%s/headrace-local-XXXXXX", parent != NULL ? parent : "/tmp");
    if (mkdtemp(path) == NULL) {
        return err_errno(err, ERR_IO, "making a temporary folder in %s",
                         parent != NULL ? parent : "/tmp");
    }
    memcpy(plan->dir, path, sizeof(path));
    return OK;
}

static enum status find_data(struct local_plan *plan, struct err *err)
{
    if (plan->options->data == NULL) {
        return OK;
    }
    if (realpath(plan->options->data, plan->data) == NULL) {
        plan->data[0] = '\0';
        return err_errno(err, ERR_MISSING, "data folder %s", plan->options->data);
    }
    return OK;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    return remove(path);
}

/* ---- files: json_add reports what json_new could not ---- */

static enum status write_json(const struct local_host *host, const char *name,
                              const struct json *json, struct err *err)
{
    char path[PATH_BYTES_MAX + 64];
    snprintf(path, sizeof(path), "%s/input/config/%s", host->base, name);
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return err_errno(err, ERR_IO, "writing %s", path);
    }
    const enum status status = json_write(file, json, &JSON_COMPACT, err);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        return err_errno(err, ERR_IO, "writing %s", path);
    }
    return status;
}

/* The i-th of `count` in an order that is nobody's natural one: neither the platform's lists of
 * groups nor its hosts come sorted by number. */
static uint32_t shuffled(uint32_t i, uint32_t count)
{
    return (count - 1 - i + count / 2) % count;
}

/* Names of the group's hosts; NULL: of all. */
static enum status host_names(const struct local_plan *plan, const char *group, struct json **out,
                              struct err *err)
{
    struct json *list = json_new_list();
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct local_host *host = &plan->hosts[shuffled(i, plan->count)];
        if (group != NULL && strcmp(host->group, group) != 0) {
            continue;
        }
        const enum status status = json_append(list, json_new_text(host->name), err);
        if (status != OK) {
            json_free(&list);
            return status;
        }
    }
    *out = list;
    return OK;
}

static const struct local_host *first_of(const struct local_plan *plan, const char *group)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (strcmp(plan->hosts[i].group, group) == 0) {
            return &plan->hosts[i];
        }
    }
    return NULL;
}

static enum status add_group(const struct local_plan *plan, const char *name, struct json *groups,
                             struct err *err)
{
    const struct local_host *host = first_of(plan, name);
    if (host == NULL) {
        return OK;
    }
    struct json *names = NULL;
    struct json *group = json_new_object();
    enum status status = host_names(plan, name, &names, err);
    if (status == OK) {
        status = json_add(group, "instance_group_name", json_new_text(name), err);
    }
    if (status == OK) {
        status = json_add(group, "instance_type", json_new_text(host->instance_type), err);
    }
    if (status != OK) {
        json_free(&names);
        json_free(&group);
        return status;
    }
    status = json_add(group, "hosts", names, err);
    if (status != OK) {
        json_free(&group);
        return status;
    }
    return json_append(groups, group, err);
}

static enum status fill_resources(const struct local_plan *plan, const struct local_host *host,
                                  struct json *json, struct err *err)
{
    static const char *const GROUPS[] = {"gpu", "cpu", "homogeneousCluster"};
    struct json *names = NULL;
    struct json *groups = json_new_list();
    for (size_t i = 0; i < ARRAY_LEN(GROUPS); i++) {
        const enum status status = add_group(plan, GROUPS[i], groups, err);
        if (status != OK) {
            json_free(&groups);
            return status;
        }
    }
    TRY(json_add(json, "instance_groups", groups, err));
    TRY(json_add(json, "current_host", json_new_text(host->name), err));
    TRY(json_add(json, "current_instance_type", json_new_text(host->instance_type), err));
    TRY(json_add(json, "current_group_name", json_new_text(host->group), err));
    TRY(host_names(plan, NULL, &names, err));
    TRY(json_add(json, "hosts", names, err));
    TRY(json_add(json, "network_interface_name", json_new_text("lo"), err));
    return json_add(json, "topology", json_new_null(), err);
}

/* A value inside a text, as hyperparameters are; takes value. */
static enum status add_text_of(struct json *json, const char *key, struct json *value,
                               struct err *err)
{
    char *text = NULL;
    if (value == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory for %s", key);
    }
    enum status status = json_print(value, &text, err);
    json_free(&value);
    if (status == OK) {
        status = json_add(json, key, json_new_text(text), err);
    }
    free(text);
    return status;
}

static enum status add_addresses(const struct local_plan *plan, struct json *json, struct err *err)
{
    struct json *addresses = json_new_object();
    for (uint32_t i = 0; i < plan->count; i++) {
        const enum status status =
            json_add(addresses, plan->hosts[i].name, json_new_text(plan->hosts[i].address), err);
        if (status != OK) {
            json_free(&addresses);
            return status;
        }
    }
    return add_text_of(json, "headrace_hosts", addresses, err);
}

static enum status fill_hyperparameters(const struct local_plan *plan,
                                        const struct local_host *host, struct json *json,
                                        struct err *err)
{
    TRY(add_addresses(plan, json, err));
    TRY(add_text_of(json, "headrace_port", json_new_integer(plan->port), err));
    TRY(add_text_of(json, "headrace_ranks_per_host",
                    json_new_integer(plan->options->ranks_per_host), err));
    if (plan->data[0] != '\0') {
        TRY(add_text_of(json, "headrace_data_root", json_new_text(plan->data), err));
    }
    if (plan->options->homogeneous) {
        return OK;
    }
    struct json *groups = json_new_list();
    const enum status status = json_append(groups, json_new_text("gpu"), err);
    if (status != OK) {
        json_free(&groups);
        return status;
    }
    return add_text_of(json, "sagemaker_distribution_instance_groups", groups, err);
}

/* A channel: its entry, and a link in input/data as the platform would mount it. */
static enum status add_channel(const struct local_plan *plan, const struct local_host *host,
                               const char *name, struct json *json, struct err *err)
{
    char target[2 * PATH_BYTES_MAX];
    char link_path[2 * PATH_BYTES_MAX];
    snprintf(target, sizeof(target), "%s/%s", plan->data, name);
    snprintf(link_path, sizeof(link_path), "%s/input/data/%s", host->base, name);
    unlink(link_path);
    if (symlink(target, link_path) != 0) {
        return err_errno(err, ERR_IO, "linking %s to %s", link_path, target);
    }
    struct json *channel = json_new_object();
    enum status status = json_add(channel, "TrainingInputMode", json_new_text("File"), err);
    if (status == OK) {
        status = json_add(channel, "S3DistributionType", json_new_text("FullyReplicated"), err);
    }
    if (status == OK) {
        status = json_add(channel, "RecordWrapperType", json_new_text("None"), err);
    }
    if (status != OK) {
        json_free(&channel);
        return status;
    }
    return json_add(json, name, channel, err);
}

static enum status fill_channels(const struct local_plan *plan, const struct local_host *host,
                                 struct json *json, struct err *err)
{
    if (plan->data[0] == '\0') {
        return OK;
    }
    DIR *dir = opendir(plan->data);
    if (dir == NULL) {
        return err_errno(err, ERR_MISSING, "data folder %s", plan->data);
    }
    enum status status = OK;
    const struct dirent *entry;
    while (status == OK && (entry = readdir(dir)) != NULL) {
        struct stat folder;
        const bool is_channel = entry->d_name[0] != '.' &&
                                fstatat(dirfd(dir), entry->d_name, &folder, 0) == 0 &&
                                S_ISDIR(folder.st_mode);
        if (is_channel) {
            status = add_channel(plan, host, entry->d_name, json, err);
        }
    }
    closedir(dir);
    return status;
}

static enum status write_host(const struct local_plan *plan, const struct local_host *host,
                              struct err *err)
{
    static const struct {
        const char *name;
        enum status (*fill)(const struct local_plan *plan, const struct local_host *host,
                            struct json *json, struct err *err);
    } FILES[] = {{"resourceconfig.json", fill_resources},
                 {"hyperparameters.json", fill_hyperparameters},
                 {"inputdataconfig.json", fill_channels}};
    TRY(make_folders(host, err));
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        struct json *json = json_new_object();
        enum status status = FILES[i].fill(plan, host, json, err);
        if (status == OK) {
            status = write_json(host, FILES[i].name, json, err);
        }
        json_free(&json);
        TRY(status);
    }
    return OK;
}

static enum status write_hosts(const struct local_plan *plan, struct err *err)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        TRY(write_host(plan, &plan->hosts[i], err));
    }
    return OK;
}

static enum status make(struct local_plan *plan, struct err *err)
{
    TRY(find_data(plan, err));
    TRY(make_dir(plan, err));
    TRY(fill_hosts(plan, err));
    TRY(choose_port(plan, err));
    return write_hosts(plan, err);
}

enum status local_plan_new(const struct local_options *options, struct local_plan *out,
                           struct err *err)
{
    *out = (struct local_plan){.options = options};
    const enum status status = make(out, err);
    if (status != OK) {
        local_plan_fini(out);
    }
    return status;
}

void local_plan_fini(struct local_plan *plan)
{
    const bool temporary = plan->options->dir == NULL && !plan->options->keep;
    if (temporary && plan->dir[0] != '\0') {
        nftw(plan->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    free(plan->hosts);
    *plan = (struct local_plan){.options = plan->options};
}
