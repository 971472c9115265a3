/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks behind `headrace bench`, a file each: cmd_bench_<name>.c. As in cmd.h, argv[0] is
 * the benchmark's name and the exit code is returned. */
#ifndef HEADRACE_CLI_CMD_BENCH_H
#define HEADRACE_CLI_CMD_BENCH_H

int bench_decode(int argc, char **argv);
int bench_feed(int argc, char **argv);

#endif
