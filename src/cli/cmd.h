/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands: one file each, cmd_<name>.c, registered in main.c's table. A command gets its
 * own arguments (argv[0] is the command's name) and returns the process's exit code; it prints its
 * results on stdout and one line on stderr for an error.
 */
#ifndef HEADRACE_CLI_CMD_H
#define HEADRACE_CLI_CMD_H

#include "common/err.h"

struct cmd {
    const char *name;
    const char *summary; /* one line of --help */
    int (*run)(int argc, char **argv);
    const char *usage; /* the text of `headrace NAME --help` */
};

extern const struct cmd cmd_bench;
extern const struct cmd cmd_env;
extern const struct cmd cmd_gen;
extern const struct cmd cmd_index;
extern const struct cmd cmd_local;
extern const struct cmd cmd_run;
extern const struct cmd cmd_serve;
extern const struct cmd cmd_train;

/* Prints "headrace NAME: message", which is also the last word to an agent, and returns the exit
 * code of err's status. */
int cmd_fail(const char *name, const struct err *err);

#endif
