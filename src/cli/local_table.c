/* SPDX-License-Identifier: Apache-2.0 */
/* The tables at the end of `headrace local`. */
#include "cli/local_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/report.h"

enum status local_table_init(struct local_table *out, const struct local_plan *plan, int argc,
                             char **argv, struct err *err)
{
    char path[PATH_BYTES_MAX + 64];
    int rest_count = 0;
    const char *base = plan->hosts[0].base;
    snprintf(path, sizeof(path), "%s/input/config/hyperparameters.json", base);
    const struct config_sources sources = {
        .argc = argc, .argv = argv, .hyperparameters_path = path};
    *out = (struct local_table){.plan = plan};
    TRY(config_load(&sources, &out->config, &rest_count, err));
    enum status status = OK;
    if (rest_count > 0) {
        status = err_set(err, ERR_USAGE, "'%s' is no option; see headrace local --help", argv[0]);
    } else {
        status = cluster_load(base, &out->config, &out->cluster, err);
    }
    if (status != OK) {
        config_fini(&out->config);
    }
    return status;
}

void local_table_fini(struct local_table *table)
{
    cluster_fini(&table->cluster);
    config_fini(&table->config);
}

static void print_failure(const struct local_host *host, int code)
{
    char path[PATH_BYTES_MAX + 64];
    char text[FAILURE_BYTES_MAX + 1] = "";
    snprintf(path, sizeof(path), "%s/output/failure", host->base);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        const size_t count = fread(text, 1, sizeof(text) - 1, file);
        text[count] = '\0';
        text[strcspn(text, "\n")] = '\0';
        fclose(file);
    }
    printf("%s ended with exit code %d%s%s\n", host->name, code, text[0] == '\0' ? "" : ": ", text);
}

static void print_failures(const struct local_table *table, const int *codes)
{
    for (uint32_t i = 0; i < table->plan->count; i++) {
        if (codes[i] != EXIT_OK) {
            print_failure(&table->plan->hosts[i], codes[i]);
        }
    }
}

/* "0-1", "3", "-"; "auto": by the GPUs that each host finds */
static void describe_ranks(const struct cluster_host *host, uint32_t per_host, char *out,
                           size_t bytes)
{
    if (host->trainer_index < 0) {
        snprintf(out, bytes, "-");
        return;
    }
    const uint32_t first = (uint32_t)host->trainer_index * per_host;
    if (per_host == 0) {
        snprintf(out, bytes, "auto");
    } else if (per_host == 1) {
        snprintf(out, bytes, "%u", first);
    } else {
        snprintf(out, bytes, "%u-%u", first, first + per_host - 1);
    }
}

static void print_hosts(const struct local_table *table)
{
    printf("\n%-10s %-20s %-10s %s\n", "host", "group", "role", "ranks");
    for (uint32_t i = 0; i < table->cluster.host_count; i++) {
        const struct cluster_host *host = &table->cluster.hosts[i];
        char ranks[32];
        describe_ranks(host, (uint32_t)table->config.ranks_per_host, ranks, sizeof(ranks));
        printf("%-10s %-20s %-10s %s\n", host->name, host->group, role_name(host->role), ranks);
    }
}

static void print_epochs(const struct local_table *table)
{
    char base[PATH_BYTES_MAX];
    struct report report;
    struct err err;
    snprintf(base, sizeof(base), "%s/%s", table->plan->dir,
             cluster_coordinator(&table->cluster)->name);
    const enum status status = report_read(base, &report, &err);
    if (status != OK) {
        printf("\n%s\n", status == ERR_MISSING ? "no epoch was finished" : err.message);
        return;
    }
    printf("\n%5s %10s %9s %10s %8s  %-16s\n", "epoch", "loss", "accuracy", "images/s", "waiting",
           "stream digest");
    for (uint32_t i = 0; i < report.epoch_count; i++) {
        const struct report_epoch *epoch = &report.epochs[i];
        char accuracy[16] = "-";
        if (epoch->evaluated) {
            snprintf(accuracy, sizeof(accuracy), "%.2f %%", 100 * epoch->accuracy);
        }
        printf("%5u %10.4f %9s %10.1f %6.1f %%  %016" PRIx64 "\n", epoch->epoch, epoch->loss,
               accuracy, epoch->images_per_s, 100 * epoch->wait_share, epoch->digest);
    }
    if (report.stopped) {
        printf("stopped before the end of epoch %u\n", report.epoch_count);
    }
    report_fini(&report);
}

void local_table_print(const struct local_table *table, const int *codes)
{
    print_failures(table, codes);
    print_hosts(table);
    print_epochs(table);
    fflush(stdout);
}
