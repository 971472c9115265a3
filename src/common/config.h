/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's configuration: one option table (config.def), the streams, the roles and the hosts map.
 * Precedence: command line, HEADRACE_* environment, hyperparameters named headrace_<option>, the
 * file, the default. Read once at start, then passed down as const.
 */
#ifndef HEADRACE_COMMON_CONFIG_H
#define HEADRACE_COMMON_CONFIG_H

#include "common/pipeline.h"
#include "common/plan.h"

enum { CONFIG_TEXT_BYTES = 1024, ROLES_MAX = 64 };

struct stream_config {
    char name[NAME_BYTES_MAX];
    char data[CONFIG_TEXT_BYTES]; /* relative to data_root, or absolute below it */
    enum shuffle_kind shuffle;    /* default: full for train, none for others */
    enum last_kind last;          /* default: drop for train, partial for others */
    struct pipeline pipeline; /* default: train: decode, random_resized_crop 224, horizontal_flip
                                 0.5; others: decode, resize 256, center_crop 224 */
};

struct role_setting {
    char group[CONFIG_TEXT_BYTES];
    char role[NAME_BYTES_MAX]; /* producer, trainer or both */
};

struct host_address {
    char name[HOST_BYTES_MAX];
    char address[ADDR_BYTES_MAX]; /* numeric */
};

struct config {
#define CONFIG_TYPE_INT                                   int64_t
#define CONFIG_TYPE_FLOAT                                 double
#define CONFIG_TYPE_BOOL                                  bool
#define OPTION(field, kind, default_text, min, max, help) CONFIG_FIELD_##kind(field)
#define CONFIG_FIELD_INT(field)                           int64_t field;
#define CONFIG_FIELD_FLOAT(field)                         double field;
#define CONFIG_FIELD_BOOL(field)                          bool field;
#define CONFIG_FIELD_TEXT(field)                          char field[CONFIG_TEXT_BYTES];
#define CONFIG_FIELD_CHOICE(field)                        char field[CONFIG_TEXT_BYTES];
#include "common/config.def"
#undef OPTION
    uint32_t stream_count;
    struct stream_config streams[STREAMS_MAX]; /* "train" first where there is one */
    uint32_t role_count;
    struct role_setting roles[ROLES_MAX];
    uint32_t host_count;        /* of the hosts map; 0: names are resolved */
    struct host_address *hosts; /* owned */
};

struct config_sources {
    int argc; /* options of the command line, as --name value, --name=value, --flag; argv[0] is not
                 looked at */
    char **argv;
    char **environ_list;              /* NULL: the process's */
    const char *hyperparameters_path; /* NULL or absent file: none */
    const char *config_path;        /* NULL: none; --config FILE on the command line overrides it */
    const char *const *own_options; /* the command's own, which it has taken out of argv, without
                                       dashes in front, ending with NULL: to be suggested too */
};

/*
 * Reads all sources; err is not NULL, *out is zeroed on failure. ERR_USAGE: an unknown command-line
 * option, answered with the nearest name, or one without its value; ERR_CONFIG: a bad value or
 * another source's unknown name, naming source, option, what was found and what is allowed;
 * ERR_MISSING, ERR_IO: the file that was named. Hyperparameters that do not begin with headrace_
 * belong to the user's program and are never an error. Words that are no options, and all words
 * after "--", are handed back in order in argv[0..*rest_count_out).
 *
 * streams, roles and hosts may come from every source, as JSON, and replace a weaker source's. The
 * file itself is named by --config, HEADRACE_CONFIG, the hyperparameter headrace_config or
 * config_path. Empty folders get their default below the base; streams' data becomes relative to
 * data_root.
 */
MUST_USE enum status config_load(const struct config_sources *sources, struct config *out,
                                 int *rest_count_out, struct err *err);
void config_fini(struct config *config);

const struct stream_config *config_stream(const struct config *config, const char *name);

/* One line per option for --help, "  --name VALUE  help (default: ...)"; and the README's Markdown
 * table. */
void config_print_help(void *file);
void config_print_markdown(void *file);

/* XXH3-64 over everything that shapes the streams (names, data, shuffle, last, pipelines, seed,
 * global batch): what all hosts AGREE on before the first grant. */
uint64_t config_digest(const struct config *config);

#endif
