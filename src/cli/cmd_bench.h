/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks behind `headrace bench`, a file each: cmd_bench_<name>.c. As in cmd.h, argv[0] is
 * the benchmark's name and the exit code is returned. */
#ifndef HEADRACE_CLI_CMD_BENCH_H
#define HEADRACE_CLI_CMD_BENCH_H

#include "common/err.h"

int bench_decode(int argc, char **argv);
int bench_feed(int argc, char **argv);

/* The value of an option, 1 to max; text NULL: it is missing. ERR_USAGE. */
MUST_USE enum status bench_number(const char *option, const char *text, uint32_t max, uint32_t *out,
                                  struct err *err);
/* Of count >= 1 values, which are sorted. */
double bench_median(double *values, uint32_t count);

#endif
