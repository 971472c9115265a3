/* SPDX-License-Identifier: Apache-2.0 */
/* `headrace run`: this host's part of a job. The entry point of a container. */
#include <stdio.h>
#include <string.h>

#include "cli/agent.h"
#include "cli/cmd.h"
#include "cli/failure.h"

static const char USAGE[] =
    "usage: headrace run [--config FILE] [OPTION...]\n"
    "\n"
    "Runs this host's part of a job: reads the cluster file, works out the host's role, starts a\n"
    "producer, trainer processes or both, watches them, and ends when the job does. Started on\n"
    "every host with the same options; as the entry point of a SageMaker container, too (the word\n"
    "`train` that the platform adds is accepted).\n"
    "\n"
    "SIGTERM stops the whole job at a common step, with a checkpoint; a second one ends it at "
    "once.\n"
    "Exit codes: 0 done or stopped, 64 usage, 65 bad data, 66 input missing, 69 a peer was lost,\n"
    "70 internal, 71 system resource, 74 I/O, 75 temporary, 77 authentication, 78 configuration,\n"
    "128+n signal. On failure the reason is in <base>/output/failure.\n";

static int fail_early(const struct err *err)
{
    char text[FAILURE_BYTES_MAX];
    snprintf(text, sizeof(text), "%s (exit code %d)", err->message, status_exit_code(err->status));
    failure_write(cluster_base(), text);
    return cmd_fail("run", err);
}

/* SageMaker adds this one word, last, when it starts an image. */
static enum status drop_platform_word(const char *word, int *argc, char **argv, struct err *err)
{
    if (strcmp(word, "train") != 0 || strcmp(argv[*argc - 1], "train") != 0) {
        return err_set(err, ERR_USAGE, "'%s' is no option; see headrace run --help", word);
    }
    argv[--*argc] = NULL;
    return OK;
}

static int run(int argc, char **argv)
{
    struct err err;
    struct member member;
    int rest_count = 0;
    if (member_load(argc, argv, "", &member, &rest_count, &err) != OK) {
        return fail_early(&err);
    }
    int code;
    /* What was left over came to the front; the options still stand from argv[1] on. */
    if (rest_count > 0 && drop_platform_word(argv[0], &argc, argv, &err) != OK) {
        code = fail_early(&err);
    } else {
        const struct agent_options options = {.member = &member, .argc = argc, .argv = argv};
        code = agent_run(&options);
    }
    member_fini(&member);
    return code;
}

const struct cmd cmd_run = {
    .name = "run",
    .summary = "run this host's part of a job",
    .run = run,
    .usage = USAGE,
};
