/* SPDX-License-Identifier: Apache-2.0 */
/* The program's entry: --version, --help and the table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/failure.h"
#include "common/config.h"
#include "common/net.h"

/* clang-format off */
static const struct cmd *const COMMANDS[] = {
    &cmd_bench,
    &cmd_env,
    &cmd_gen,
    &cmd_index,
    &cmd_local,
    &cmd_run,
    &cmd_serve,
    &cmd_train,
    NULL, /* ends the table */
};
/* clang-format on */

int cmd_fail(const char *name, const struct err *err)
{
    char line[ERR_MESSAGE_BYTES + 64];
    snprintf(line, sizeof(line), "headrace %s: %s", name, err->message);
    fprintf(stderr, "%s\n", line);
    reason_say(line);
    return status_exit_code(err->status);
}

static void print_help(FILE *out)
{
    fprintf(out,
            "headrace %s: a CPU-to-GPU data feed for distributed training\n\n"
            "usage: headrace COMMAND [OPTION...]\n"
            "       headrace COMMAND --help\n"
            "       headrace --version\n",
            HEADRACE_VERSION);
    for (size_t i = 0; COMMANDS[i] != NULL; i++) {
        fprintf(out, "%s  %-8s %s\n", i == 0 ? "\ncommands:\n" : "", COMMANDS[i]->name,
                COMMANDS[i]->summary);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("headrace %s\n", HEADRACE_VERSION);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--options") == 0) { /* for the README */
        config_print_markdown(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; COMMANDS[i] != NULL; i++) {
        if (strcmp(argv[1], COMMANDS[i]->name) != 0) {
            continue;
        }
        if (argc > 2 && strcmp(argv[2], "--help") == 0) {
            fputs(COMMANDS[i]->usage, stdout);
            return EXIT_OK;
        }
        net_keep_memory();
        return COMMANDS[i]->run(argc - 1, argv + 1);
    }
    fprintf(stderr, "headrace: unknown command '%s'; see headrace --help\n", argv[1]);
    return EXIT_USAGE;
}
