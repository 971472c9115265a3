/* SPDX-License-Identifier: Apache-2.0 */
/* headrace bench: the table of benchmarks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/cmd_bench.h"

static const struct bench {
    const char *name;
    int (*run)(int argc, char **argv);
} BENCHES[] = {
    {"decode", bench_decode},
    {"feed", bench_feed},
};

static const char USAGE[] =
    "usage: headrace bench decode DIR [--threads N] [--rounds R] [--json]\n"
    "  Decodes and augments every picture under DIR as a producer does: random_resized_crop 224\n"
    "  and horizontal_flip into uint8 batches of 64. Every file is read each time, every round\n"
    "  has fresh crops. Prints the median of R rounds (default 5) after one to warm up, reading\n"
    "  apart. HEADRACE_CPU=scalar|sse2|avx2|avx512 chooses the resampler's instructions.\n"
    "  --threads N   default: the cores that this process may use\n"
    "\n"
    "       headrace bench feed DIR [--producers P] [--threads N] [--epochs E] [--batch B]\n"
    "                           [--step-ms T] [--json]\n"
    "  The same through real processes and sockets on this machine: P producers (default 1) of N\n"
    "  decode threads (default: all cores) feed one rank, which takes T ms a step (default 0), for "
    "E\n"
    "  epochs (default 5) after one to warm up. CPU time is that of all processes, without their\n"
    "  start.\n"
    "\n"
    "  --json        one JSON object instead of text\n";

enum status bench_number(const char *option, const char *text, uint32_t max, uint32_t *out,
                         struct err *err)
{
    char *end = NULL;
    errno = 0;
    const unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0' || errno != 0 || value < 1 || value > max) {
        return err_set(err, ERR_USAGE, "%s takes a number from 1 to %u, not '%s'", option, max,
                       text != NULL ? text : "");
    }
    *out = (uint32_t)value;
    return OK;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static int run(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(BENCHES); i++) {
        if (strcmp(argv[1], BENCHES[i].name) == 0) {
            return BENCHES[i].run(argc - 1, argv + 1);
        }
    }
    fputs(USAGE, stderr);
    return EXIT_USAGE;
}

const struct cmd cmd_bench = {
    .name = "bench",
    .summary = "measure decoding and the feed on this machine",
    .run = run,
    .usage = USAGE,
};
