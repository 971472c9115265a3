/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of every process of a job. */
#include "cli/join.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

/* A name is looked up for this long before cancel_fd is looked at again. */
enum { RESOLVE_ROUND_S = 5 };

static enum log_level log_level_of(const char *name)
{
    static const char *const NAMES[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            return (enum log_level)i;
        }
    }
    return LOG_INFO;
}

enum status member_load(int argc, char **argv, const char *suffix, struct member *out,
                        int *rest_count_out, struct err *err)
{
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof(path), "%s/input/config/hyperparameters.json", cluster_base());
    const struct config_sources sources = {
        .argc = argc, .argv = argv, .hyperparameters_path = path};
    memset(out, 0, sizeof(*out));
    TRY(config_load(&sources, &out->config, rest_count_out, err));
    const enum status status = cluster_load(cluster_base(), &out->config, &out->cluster, err);
    if (status != OK) {
        config_fini(&out->config);
        /* Without a cluster file this is no host of a job: nothing is missing in its data. */
        return status == ERR_MISSING ? err_restate(err, ERR_CONFIG) : status;
    }
    out->host = &out->cluster.hosts[out->cluster.current];
    char who[HOST_BYTES_MAX + 32];
    snprintf(who, sizeof(who), "%s%s%s", out->host->name, suffix[0] == '\0' ? "" : "/", suffix);
    log_init(log_level_of(out->config.log_level), who);
    return OK;
}

void member_fini(struct member *member)
{
    cluster_fini(&member->cluster);
    config_fini(&member->config);
}

static bool cancelled(const int *cancel_fd)
{
    struct pollfd fd = {.fd = cancel_fd == NULL ? -1 : *cancel_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static enum status resolve(const struct config *config, const char *name, const int *cancel_fd,
                           int64_t deadline_ns, char out[ADDR_BYTES_MAX], struct err *err)
{
    for (uint32_t i = 0; i < config->host_count; i++) {
        if (strcmp(config->hosts[i].name, name) == 0) {
            memcpy(out, config->hosts[i].address, ADDR_BYTES_MAX);
            return OK;
        }
    }
    for (;;) {
        const int64_t round_ns = clock_now_ns() + RESOLVE_ROUND_S * NS_PER_S;
        const bool last = round_ns >= deadline_ns;
        const enum status status = net_resolve(name, last ? deadline_ns : round_ns, out, err);
        if (status != ERR_TIMEOUT || last) {
            return status;
        }
        if (cancelled(cancel_fd)) {
            return err_set(err, ERR_CANCELLED, "stopped while waiting for the name of host %s",
                           name);
        }
    }
}

enum status member_resolve(struct member *member, const int *cancel_fd, int64_t deadline_ns,
                           struct err *err)
{
    const struct cluster *cluster = &member->cluster;
    TRY(resolve(&member->config, member->host->name, cancel_fd, deadline_ns, member->address, err));
    TRY(resolve(&member->config, cluster_coordinator(cluster)->name, cancel_fd, deadline_ns,
                member->coordinator, err));
    if (!net_address_on_interface(member->address, cluster->network_interface)) {
        return err_set(err, ERR_CONFIG,
                       "this host's name %s stands for %s, which is no address of interface %s "
                       "(network_interface_name of the cluster file)",
                       member->host->name, member->address, cluster->network_interface);
    }
    if (net_address_is_loopback(member->address) && !net_address_is_loopback(member->coordinator)) {
        return err_set(err, ERR_CONFIG,
                       "this host's name %s stands for %s, where no other host can reach it, while "
                       "%s is at %s: mend /etc/hosts or give addresses (option hosts)",
                       member->host->name, member->address, cluster_coordinator(cluster)->name,
                       member->coordinator);
    }
    return OK;
}

enum status member_join(const struct member *member, const struct coord_join *join,
                        int64_t deadline_ns, struct coord_client **out, struct err *err)
{
    struct coord_join full = *join;
    full.host = member->host->name;
    full.instance_type = member->host->instance_type;
    full.address = member->address;
    full.config_digest = config_digest(&member->config);
    full.peer_timeout_s = member->config.peer_timeout_s;
    return coord_connect(member->coordinator, (uint16_t)member->config.port,
                         member->config.insecure, &full, deadline_ns, out, err);
}
