/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace bench feed: what the whole feed does on this machine. `headrace local` runs producers
 * and one rank with the synthetic trainer, as real processes over real sockets; this command reads
 * the report and the CPU time of all of them. A first run of one epoch is taken off a second,
 * longer one, so that neither start nor index counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cmd.h"
#include "cli/cmd_bench.h"
#include "cli/report.h"
#include "common/clock.h"
#include "common/net.h"
#include "common/thread.h"

enum { NUMBER_BYTES = 32, EPOCHS_MAX = 1000 };

struct options {
    const char *folder;
    uint32_t producers, threads, epochs, batch;
    const char *step_ms;
    bool json;
};

/* One run of a local cluster. */
struct run {
    uint32_t epochs;
    double cpu_s;
    struct report report;
};

/* ---- the command line ---- */

static enum status parse(int argc, char **argv, struct options *out, struct err *err)
{
    *out = (struct options){.producers = 1, .epochs = 5, .batch = 64, .step_ms = "0"};
    const struct {
        const char *name;
        uint32_t max, *value;
    } numbers[] = {{"--producers", 64, &out->producers},
                   {"--threads", 1024, &out->threads},
                   {"--epochs", EPOCHS_MAX, &out->epochs},
                   {"--batch", 65536, &out->batch}};
    for (int i = 1; i < argc; i++) {
        size_t n = 0;
        while (n < ARRAY_LEN(numbers) && strcmp(argv[i], numbers[n].name) != 0) {
            n++;
        }
        if (n < ARRAY_LEN(numbers)) {
            TRY(bench_number(numbers[n].name, argv[i + 1], numbers[n].max, numbers[n].value, err));
            i++;
        } else if (strcmp(argv[i], "--step-ms") == 0 && argv[i + 1] != NULL) {
            out->step_ms = argv[++i];
        } else if (strcmp(argv[i], "--json") == 0) {
            out->json = true;
        } else if (argv[i][0] == '-' || out->folder != NULL) {
            return err_set(
                err, ERR_USAGE,
                "feed: unexpected '%s'; it takes DIR, --producers P, --threads N, --epochs E, "
                "--batch B, --step-ms T and --json",
                argv[i]);
        } else {
            out->folder = argv[i];
        }
    }
    return out->folder != NULL ? OK : err_set(err, ERR_USAGE, "feed: which folder?");
}

/* ---- a run ---- */

static enum status write_config(const char *path, const struct options *options, uint32_t epochs,
                                struct err *err)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return err_errno(err, ERR_IO, "%s", path);
    }
    fprintf(file,
            "{\"global_batch\": %u, \"epochs\": %u, \"trainer\": \"synthetic\","
            " \"streams\": {\"train\": {\"data\": \".\"}}}\n",
            options->batch, epochs);
    return fclose(file) == 0 ? OK : err_errno(err, ERR_IO, "%s", path);
}

static double children_cpu_s(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Starts the cluster, its output in a file, and waits for its end. */
static enum status run_local(const char *const *words, const char *log_path, struct err *err)
{
    const int log_fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        return err_errno(err, ERR_IO, "%s", log_path);
    }
    const struct child_options child = {.path = "/proc/self/exe",
                                        .argv = (char *const *)words, /* as execve's: not written */
                                        .environ_list = environ,
                                        .output_fd = log_fd,
                                        .reason_fd = -1};
    pid_t pid = 0;
    const enum status status = child_start(&child, &pid, err);
    close(log_fd);
    TRY(status);
    int end = 0;
    while (waitpid(pid, &end, 0) < 0) {
        if (errno != EINTR) {
            return err_errno(err, ERR_INTERNAL, "waiting for the local cluster");
        }
    }
    if (WIFEXITED(end) && WEXITSTATUS(end) == 0) {
        return OK;
    }
    char how[128];
    child_describe(end, how, sizeof(how));
    return err_set(err, ERR_INTERNAL, "the local cluster %s; its output is above", how);
}

static void show_file(const char *path)
{
    char bytes[4096];
    FILE *file = fopen(path, "r");
    for (size_t n = 0; file != NULL && (n = fread(bytes, 1, sizeof(bytes), file)) > 0;) {
        fwrite(bytes, 1, n, stderr);
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* The report of the only rank's host: the last of the hosts, for the cpu group comes first or not
 * at all. */
static enum status read_report(const char *folder, const struct options *options,
                               struct report *out, struct err *err)
{
    for (uint32_t host = 1; host <= options->producers + 1; host++) {
        char base[PATH_BYTES_MAX];
        snprintf(base, sizeof(base), "%s/algo-%u", folder, host);
        const enum status status = report_read(base, out, err);
        if (status != ERR_MISSING) {
            return status;
        }
    }
    return err_set(err, ERR_INTERNAL, "no host under %s has written a report", folder);
}

static enum status run_cluster(const char *folder, const struct options *options, uint32_t epochs,
                               struct run *out, struct err *err)
{
    char config[PATH_BYTES_MAX];
    char hosts[PATH_BYTES_MAX];
    char log_path[PATH_BYTES_MAX];
    char producers[NUMBER_BYTES];
    char threads[NUMBER_BYTES];
    snprintf(config, sizeof(config), "%s/job.json", folder);
    snprintf(hosts, sizeof(hosts), "%s/hosts-%u", folder, epochs);
    snprintf(log_path, sizeof(log_path), "%s/log", folder);
    snprintf(producers, sizeof(producers), "%u", options->producers);
    snprintf(threads, sizeof(threads), "%u", options->threads);
    TRY(write_config(config, options, epochs, err));
    const char *const words[] = {
        "headrace",  "local", "--cpu-hosts", producers,        "--gpu-hosts", "1",
        "--dir",     hosts,   "--data",      options->folder,  "--config",    config,
        "--threads", threads, "--step-ms",   options->step_ms, NULL};
    const double before_s = children_cpu_s();
    const enum status status = run_local(words, log_path, err);
    out->cpu_s = children_cpu_s() - before_s;
    out->epochs = epochs;
    if (status != OK) {
        show_file(log_path);
        return status;
    }
    TRY(read_report(hosts, options, &out->report, err));
    if (out->report.epoch_count != epochs) {
        return err_set(err, ERR_INTERNAL, "the report has %u epochs, %u were run",
                       out->report.epoch_count, epochs);
    }
    return OK;
}

/* ---- the result ---- */

/* Medians over the epochs after the first. */
struct medians {
    double images_per_s, wait_share, wait_p50_ms, wait_p99_ms;
};

static struct medians take_medians(const struct report *report)
{
    double values[4][EPOCHS_MAX + 1];
    const uint32_t count = report->epoch_count - 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct report_epoch *epoch = &report->epochs[i + 1];
        values[0][i] = epoch->images_per_s;
        values[1][i] = epoch->wait_share;
        values[2][i] = epoch->wait_p50_ms;
        values[3][i] = epoch->wait_p99_ms;
    }
    return (struct medians){.images_per_s = bench_median(values[0], count),
                            .wait_share = bench_median(values[1], count),
                            .wait_p50_ms = bench_median(values[2], count),
                            .wait_p99_ms = bench_median(values[3], count)};
}

/* The cores that the producers' decode threads can use at once. */
static uint32_t decode_cores(const struct options *options)
{
    const uint32_t cores = thread_cores();
    const uint32_t threads = options->producers * options->threads;
    return options->threads > 0 && threads < cores ? threads : cores;
}

static void print_result(const struct options *options, const struct run *first,
                         const struct run *second)
{
    const struct medians medians = take_medians(&second->report);
    const double images =
        (double)second->report.epochs[0].steps * options->batch * (second->epochs - first->epochs);
    const double cpu_s = (second->cpu_s - first->cpu_s) / images * 1000;
    uint64_t digest = 0;
    uint64_t bad = 0;
    for (uint32_t i = 0; i < second->report.epoch_count; i++) {
        digest += second->report.epochs[i].digest;
        bad += second->report.epochs[i].bad_samples;
    }
    char congestion[NAME_BYTES_MAX];
    net_congestion_control(congestion);
    printf(
        options->json
            ? "{\"bench\": \"feed\", \"images_per_s\": %.1f, \"images_per_s_per_core\": %.1f, "
              "\"cpu_s_per_1000_images\": %.4f, "
              "\"wait_share\": %.4f, \"wait_p50_ms\": %.3f, \"wait_p99_ms\": %.3f, "
              "\"stream_digest\": \"%016" PRIx64 "\", \"bad_images\": %" PRIu64
              ", \"producers\": %u, \"threads\": %u, \"epochs\": %u, \"batch\": %u, "
              "\"congestion_control\": \"%s\"}\n"
            : "  images/s                %10.1f\n"
              "  images/s per core       %10.1f   (of the decode threads)\n"
              "  CPU s per 1,000 images  %10.4f   (all processes)\n"
              "  time the rank waited    %10.4f   (share)\n"
              "  wait p50, p99           %10.3f %.3f ms\n"
              "  stream digest           %016" PRIx64 "\n"
              "  bad images              %" PRIu64 "\n"
              "  %u producers of %u threads (0: all cores), %u epochs after the first, batch %u\n"
              "  congestion control      %s\n",
        medians.images_per_s, medians.images_per_s / decode_cores(options), cpu_s,
        medians.wait_share, medians.wait_p50_ms, medians.wait_p99_ms, digest, bad,
        options->producers, options->threads, options->epochs, options->batch, congestion);
}

static enum status measure(const char *folder, const struct options *options, struct err *err)
{
    struct run first = {0};
    struct run second = {0};
    enum status status = run_cluster(folder, options, 1, &first, err);
    if (status == OK) {
        status = run_cluster(folder, options, 1 + options->epochs, &second, err);
    }
    if (status == OK && second.report.epochs[0].steps == 0) {
        status = err_set(err, ERR_CONFIG, "%s: fewer pictures than one batch of %u",
                         options->folder, options->batch);
    }
    if (status == OK) {
        print_result(options, &first, &second);
    }
    report_fini(&first.report);
    report_fini(&second.report);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    return remove(path);
}

int bench_feed(int argc, char **argv)
{
    struct err err = {0};
    struct options options;
    char folder[] = "/tmp/headrace-bench-XXXXXX";
    enum status status = parse(argc, argv, &options, &err);
    if (status == OK && mkdtemp(folder) == NULL) {
        status = err_errno(&err, ERR_IO, "%s", folder);
    }
    if (status == OK) {
        status = measure(folder, &options, &err);
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    return status == OK ? EXIT_OK : cmd_fail("bench", &err);
}
