/* SPDX-License-Identifier: Apache-2.0 */
/* `headrace local`: a whole cluster on one machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/local_plan.h"
#include "cli/local_table.h"
#include "cli/local_watch.h"
#include "cli/own_option.h"

static const char USAGE[] =
    "usage: headrace local [--cpu-hosts N] [--gpu-hosts N] [--ranks-per-host N]\n"
    "                      [--layout heterogeneous|homogeneous] [--data DIR] [--dir DIR] [--keep]\n"
    "                      [--config FILE] [OPTION...]\n"
    "\n"
    "Starts `headrace run` once for each host of a cluster that exists only on this machine, each\n"
    "with a loopback address and a folder of its own, shows what they print, and ends with a "
    "table.\n"
    "\n"
    "  --cpu-hosts N       hosts of the cpu group (default 2)\n"
    "  --gpu-hosts N       hosts of the gpu group (default 2)\n"
    "  --ranks-per-host N  trainer processes on each host that trains (default 1)\n"
    "  --layout LAYOUT     heterogeneous: the cpu group produces, the gpu group trains (default);\n"
    "                      homogeneous: all hosts, of both numbers, are one group, and every one\n"
    "                      produces and trains\n"
    "  --data DIR          the folder that holds the streams' folders (data_root)\n"
    "  --dir DIR           where the hosts' folders are made; they stay, for --resume\n"
    "  --keep              the temporary folders stay, too\n"
    "  OPTION              see headrace run --help\n"
    "\n"
    "Exit code: that of the first host that failed, 0 if none did.\n";

/* Takes this command's own options out of argv; what stays is for run. */
static enum status take_options(int *argc, char **argv, struct local_options *out, struct err *err)
{
    *out = (struct local_options){.cpu_hosts = 2, .gpu_hosts = 2, .ranks_per_host = 1};
    const char *layout = "heterogeneous";
    const struct own_option own[] = {
        {.name = "--cpu-hosts", .number = &out->cpu_hosts, .max = LOCAL_HOSTS_MAX},
        {.name = "--gpu-hosts", .number = &out->gpu_hosts, .max = LOCAL_HOSTS_MAX},
        {.name = "--ranks-per-host", .number = &out->ranks_per_host, .min = 1, .max = 64},
        {.name = "--layout", .text = &layout},
        {.name = "--data", .text = &out->data},
        {.name = "--dir", .text = &out->dir},
        {.name = "--keep", .flag = &out->keep},
    };
    TRY(own_options_take(own, ARRAY_LEN(own), argc, argv, err));
    out->homogeneous = strcmp(layout, "homogeneous") == 0;
    if (!out->homogeneous && strcmp(layout, "heterogeneous") != 0) {
        return err_set(err, ERR_USAGE,
                       "--layout: found \"%s\", expected heterogeneous or homogeneous", layout);
    }
    const uint32_t count = out->cpu_hosts + out->gpu_hosts;
    if (count == 0 || count > LOCAL_HOSTS_MAX) {
        return err_set(err, ERR_USAGE, "%u hosts: from 1 to %d are possible", count,
                       LOCAL_HOSTS_MAX);
    }
    return OK;
}

/* What any host would find wrong, found once. */
static enum status check(const struct local_plan *plan, int argc, char **argv,
                         struct local_table *table, struct err *err)
{
    char **words = calloc((size_t)argc + 1, sizeof(*words));
    if (words == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory");
    }
    memcpy(words, argv, (size_t)argc * sizeof(*words));
    const enum status status = local_table_init(table, plan, argc, words, err);
    free(words);
    return status;
}

static enum status run_cluster(const struct local_plan *plan, int argc, char **argv, int *code_out,
                               struct err *err)
{
    struct local_table table;
    TRY(check(plan, argc, argv, &table, err));
    int *codes = calloc(plan->count, sizeof(*codes));
    if (codes == NULL) {
        local_table_fini(&table);
        return err_set(err, ERR_RESOURCE, "out of memory");
    }
    *code_out = local_watch(plan, argc, argv, codes);
    local_table_print(&table, codes);
    free(codes);
    local_table_fini(&table);
    return OK;
}

static int run(int argc, char **argv)
{
    struct err err;
    struct local_options options;
    struct local_plan plan;
    if (take_options(&argc, argv, &options, &err) != OK ||
        local_plan_new(&options, &plan, &err) != OK) {
        return cmd_fail("local", &err);
    }
    int code = 0;
    if (run_cluster(&plan, argc, argv, &code, &err) != OK) {
        code = cmd_fail("local", &err);
    } else if (options.keep || options.dir != NULL) {
        printf("the hosts' folders are in %s\n", plan.dir);
    }
    local_plan_fini(&plan);
    return code;
}

const struct cmd cmd_local = {
    .name = "local",
    .summary = "run a whole cluster on this machine",
    .run = run,
    .usage = USAGE,
};
