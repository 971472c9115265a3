/* SPDX-License-Identifier: Apache-2.0 */
/* A command's own options, by a table of where each one goes. */
#include "cli/own_option.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The option that word is, as "--name" or "--name=value"; NULL: none of them. */
static const struct own_option *find(const struct own_option *options, size_t count,
                                     const char *word)
{
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) == length && strncmp(options[i].name, word, length) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

static enum status set_number(const struct own_option *option, const char *text, struct err *err)
{
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < option->min ||
        value > option->max) {
        return err_set(err, ERR_USAGE,
                       "%s: found \"%s\", expected a number from %" PRIu32 " to %" PRIu32,
                       option->name, text, option->min, option->max);
    }
    *option->number = (uint32_t)value;
    return OK;
}

/* value: NULL: none. */
static enum status set(const struct own_option *option, const char *value, struct err *err)
{
    if (option->flag != NULL) {
        *option->flag = true;
        return value == NULL ? OK
                             : err_set(err, ERR_USAGE, "%s: found \"%s\", but it takes no value",
                                       option->name, value);
    }
    if (value == NULL) {
        return err_set(err, ERR_USAGE, "%s: a value has to follow", option->name);
    }
    if (option->text != NULL) {
        *option->text = value;
        return OK;
    }
    return set_number(option, value, err);
}

enum status own_options_take(const struct own_option *options, size_t count, int *argc, char **argv,
                             struct err *err)
{
    int kept = 1;
    int i = 1;
    for (; i < *argc && strcmp(argv[i], "--") != 0; i++) {
        const struct own_option *option = find(options, count, argv[i]);
        if (option == NULL) {
            argv[kept++] = argv[i];
            continue;
        }
        const char *equals = strchr(argv[i], '=');
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (value == NULL && option->flag == NULL && i + 1 < *argc) {
            value = argv[++i];
        }
        TRY(set(option, value, err));
    }
    while (i < *argc) {
        argv[kept++] = argv[i++];
    }
    argv[kept] = NULL;
    *argc = kept;
    return OK;
}
