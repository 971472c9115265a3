/* SPDX-License-Identifier: Apache-2.0 */
/* What people read about the options: --help and the README's table, both from the option table. */
#include <stdio.h>
#include <string.h>

#include "common/config.h"
#include "common/option.h"

static const struct {
    const char *name;
    const char *value;
    const char *help;
} MAP_HELP[] = {
    {"config", "FILE", "the job's file, JSON with these options as keys"},
    {"streams", "JSON", "the streams by name, each with data, shuffle, last and pipeline"},
    {"roles", "JSON", "instance group to producer, trainer or both, where it is to be fixed"},
    {"hosts", "JSON", "host name to numeric address, where names do not resolve"},
};

static const char *value_word(const struct option *option)
{
    static const char *const WORDS[] = {
        [OPTION_INT] = "INTEGER", [OPTION_FLOAT] = "NUMBER", [OPTION_TEXT] = "TEXT"};
    return option->kind == OPTION_CHOICE ? option->choices : WORDS[option->kind];
}

/* global_batch -> --global-batch */
static void write_flag(FILE *out, const char *name)
{
    fputs("--", out);
    for (const char *p = name; *p != '\0'; p++) {
        fputc(*p == '_' ? '-' : *p, out);
    }
}

void config_print_help(void *file)
{
    FILE *out = file;
    for (size_t i = 0; i < ARRAY_LEN(MAP_HELP); i++) {
        fprintf(out, "  --%s %s  %s\n", MAP_HELP[i].name, MAP_HELP[i].value, MAP_HELP[i].help);
    }
    for (const struct option *option = OPTIONS; option->name != NULL; option++) {
        fputs("  ", out);
        write_flag(out, option->name);
        if (option->kind != OPTION_BOOL) {
            fprintf(out, " %s", value_word(option));
        }
        fprintf(out, "  %s", option->help);
        if (option->default_text[0] != '\0') {
            fprintf(out, " (default: %s)", option->default_text);
        }
        fputc('\n', out);
    }
}

/* A vertical bar would end the cell. */
static void write_cell(FILE *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        fputs(*p == '|' ? "\\|" : (char[]){*p, '\0'}, out);
    }
}

void config_print_markdown(void *file)
{
    FILE *out = file;
    fputs("| option | values | default | meaning |\n| --- | --- | --- | --- |\n", out);
    for (size_t i = 0; i < ARRAY_LEN(MAP_HELP); i++) {
        fprintf(out, "| `%s` | %s | | %s |\n", MAP_HELP[i].name, MAP_HELP[i].value,
                MAP_HELP[i].help);
    }
    for (const struct option *option = OPTIONS; option->name != NULL; option++) {
        char values[128];
        option_describe(option, values, sizeof(values));
        fprintf(out, "| `%s` | ", option->name);
        write_cell(out, values);
        fprintf(out, " | %s | ", option->default_text);
        write_cell(out, option->help);
        fputs(" |\n", out);
    }
}
