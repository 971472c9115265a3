/* SPDX-License-Identifier: Apache-2.0 */
/* headrace bench: the table of benchmarks. */
#include <stdio.h>
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
