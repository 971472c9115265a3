/* SPDX-License-Identifier: Apache-2.0 */
/* `headrace serve`: one producer process of a job. The agent starts it; by hand it joins a running
 * job as an extra one. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/join.h"
#include "cli/own_option.h"
#include "common/clock.h"
#include "common/log.h"
#include "producer/sample.h"
#include "producer/server.h"

static const char USAGE[] =
    "usage: headrace serve [--connect HOST[:PORT]] [--crash-record FILE] [OPTION...]\n"
    "\n"
    "Makes batches for the ranks of a job until the job ends. Without --connect the coordinator is "
    "found through\n"
    "the cluster file, as `headrace run` does, which is what usually starts this command. With "
    "--connect nothing\n"
    "but the data has to be on this host: the coordinator's roster names the streams.\n"
    "\n"
    "  --connect HOST[:PORT]  the first trainer host (port 17400 unless given)\n"
    "  --crash-record FILE    where the sample that a decoder dies of is left for the agent\n"
    "  --index N              number of this producer among those of its host (default 0)\n"
    "  OPTION                 see headrace run --help\n";

static volatile bool stop_requested;

static void on_stop(int number)
{
    (void)number;
    stop_requested = true;
}

struct serve_options {
    const char *connect; /* NULL: by the cluster file */
    const char *crash_record;
    uint32_t index;
};

/* Takes this command's own options out of argv; the rest stays for config_load. */
static enum status take_options(int *argc, char **argv, struct serve_options *out, struct err *err)
{
    *out = (struct serve_options){0};
    const struct own_option own[] = {
        {.name = "--connect", .text = &out->connect},
        {.name = "--crash-record", .text = &out->crash_record},
        {.name = "--index", .number = &out->index, .max = UINT16_MAX},
    };
    return own_options_take(own, ARRAY_LEN(own), argc, argv, err);
}

/* "HOST", "HOST:PORT", "[V6]:PORT" */
static enum status parse_connect(const char *text, uint16_t default_port, char host[HOST_BYTES_MAX],
                                 uint16_t *port_out, struct err *err)
{
    const bool bracketed = text[0] == '[';
    const char *host_end = bracketed ? strchr(text, ']') : strrchr(text, ':');
    const char *begin = bracketed ? text + 1 : text;
    if (host_end == NULL || (!bracketed && strchr(text, ':') != host_end)) {
        host_end = text + strlen(text); /* no port: a name, or an address of version 6 */
    }
    const char *colon = bracketed && *host_end == ']' ? host_end + 1 : host_end;
    *port_out = default_port;
    if (*colon == ':') {
        char *end = NULL;
        const unsigned long port = strtoul(colon + 1, &end, 10);
        if (colon[1] == '\0' || *end != '\0' || port == 0 || port > UINT16_MAX) {
            return err_set(err, ERR_USAGE, "--connect %s: no port after the colon", text);
        }
        *port_out = (uint16_t)port;
    }
    const size_t length = (size_t)(host_end - begin);
    if (length == 0 || length >= HOST_BYTES_MAX) {
        return err_set(err, ERR_USAGE, "--connect %s: HOST or HOST:PORT is wanted", text);
    }
    memcpy(host, begin, length);
    host[length] = '\0';
    return OK;
}

static int64_t join_deadline(const struct config *config)
{
    return clock_now_ns() + (int64_t)(config->join_timeout_s * NS_PER_S);
}

static enum status run_server(const struct config *config, const char *data_root, const char *host,
                              const struct serve_options *serve, struct coord_client *coord,
                              struct err *err)
{
    struct roster roster = {0};
    const enum status waited = coord_roster(coord, join_deadline(config), &roster, err);
    if (waited != OK) {
        return waited == ERR_CANCELLED ? OK : waited;
    }
    const struct server_options options = {.config = config,
                                           .data_root = data_root,
                                           .coord = coord,
                                           .roster = &roster,
                                           .host = host,
                                           .index = serve->index,
                                           .crash_record = serve->crash_record};
    const enum status status = server_run(&options, &stop_requested, err);
    roster_fini(&roster);
    return status;
}

/* As an extra producer: all that is known is where the coordinator is. */
static enum status serve_connected(int argc, char **argv, const struct serve_options *serve,
                                   struct err *err)
{
    struct config config;
    const struct config_sources sources = {.argc = argc, .argv = argv};
    int rest = 0;
    TRY(config_load(&sources, &config, &rest, err));
    char host[HOST_BYTES_MAX] = "";
    char name[HOST_BYTES_MAX];
    char address[ADDR_BYTES_MAX];
    char folder[CONFIG_TEXT_BYTES];
    uint16_t port = 0;
    struct coord_client *coord = NULL;
    gethostname(host, sizeof(host) - 1);
    log_init(LOG_INFO, host);
    enum status status = parse_connect(serve->connect, (uint16_t)config.port, name, &port, err);
    if (status == OK && config.data_root[0] == '\0' && getcwd(folder, sizeof(folder)) == NULL) {
        status = err_errno(err, ERR_IO, "current folder");
    }
    if (status == OK) {
        status = net_resolve(name, join_deadline(&config), address, err);
    }
    if (status == OK) {
        char text[256];
        const struct coord_join join = {.kind = COORD_PRODUCER,
                                        .host = host,
                                        .instance_type = "",
                                        .address = "",
                                        .fingerprint = sample_fingerprint(text),
                                        .peer_timeout_s = config.peer_timeout_s};
        status = coord_connect(address, port, config.insecure, &join, join_deadline(&config),
                               &coord, err);
    }
    if (status == OK) {
        status = run_server(&config, config.data_root[0] != '\0' ? config.data_root : folder, host,
                            serve, coord, err);
        coord_close(&coord);
    }
    config_fini(&config);
    return status;
}

/* As part of the cluster. */
static enum status serve_cluster(int argc, char **argv, const struct serve_options *serve,
                                 struct err *err)
{
    struct member member;
    int rest = 0;
    TRY(member_load(argc, argv, "producer", &member, &rest, err));
    char root[CONFIG_TEXT_BYTES + 16];
    struct coord_client *coord = NULL;
    snprintf(root, sizeof(root), "%s/input/data", member.cluster.base);
    char text[256];
    const struct coord_join join = {.kind = COORD_PRODUCER,
                                    .fingerprint = sample_fingerprint(text)};
    const int64_t deadline_ns = join_deadline(&member.config);
    enum status status = member_resolve(&member, NULL, deadline_ns, err);
    if (status == OK) {
        status = member_join(&member, &join, deadline_ns, &coord, err);
    }
    if (status == OK) {
        const char *chosen = member.config.data_root;
        status = run_server(&member.config, chosen[0] != '\0' ? chosen : root, member.host->name,
                            serve, coord, err);
        coord_close(&coord);
    }
    member_fini(&member);
    return status;
}

static int run(int argc, char **argv)
{
    struct err err = {0};
    struct serve_options serve;
    const struct sigaction action = {.sa_handler = on_stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    enum status status = take_options(&argc, argv, &serve, &err);
    if (status == OK) {
        status = serve.connect != NULL ? serve_connected(argc, argv, &serve, &err)
                                       : serve_cluster(argc, argv, &serve, &err);
    }
    return status == OK ? EXIT_OK : cmd_fail("serve", &err);
}

const struct cmd cmd_serve = {
    .name = "serve",
    .summary = "make batches for the ranks of a running job",
    .run = run,
    .usage = USAGE,
};
