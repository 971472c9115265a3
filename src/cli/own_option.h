/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that a command has beside those of the job's configuration: taken out of its words,
 * so that the rest can go to config_load or to another command.
 */
#ifndef HEADRACE_CLI_OWN_OPTION_H
#define HEADRACE_CLI_OWN_OPTION_H

#include "common/err.h"

/* One of the three says where it goes and what follows: nothing, a text, a number. */
struct own_option {
    const char *name; /* "--cpu-hosts" */
    bool *flag;
    const char **text; /* borrowed from argv */
    uint32_t *number;
    uint32_t min, max; /* of the number */
};

/*
 * "--name value" and "--name=value"; given twice, the last one counts. Words from "--" on are not
 * looked at. What is not given is not written. argv[0] stays; argv[*argc] is NULL afterwards.
 * ERR_USAGE names the option.
 */
MUST_USE enum status own_options_take(const struct own_option *options, size_t count, int *argc,
                                      char **argv, struct err *err);

#endif
