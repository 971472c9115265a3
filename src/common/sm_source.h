/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment's properties are derived from, and the part of the derivation that is about
 * groups. Internal to sm_env.
 */
#ifndef HEADRACE_COMMON_SM_SOURCE_H
#define HEADRACE_COMMON_SM_SOURCE_H

#include "common/json.h"

/* All values are owned. */
struct sm_source {
    const char *base;
    const char *machine_path;
    struct json *resources;
    struct json *inputs;
    struct json *hyperparameters;     /* all of them, decoded */
    struct json *user;                /* of those, the user's */
    struct json *framework;           /* of those, the frameworks' */
    struct json *distribution_groups; /* set by sm_derive_groups */
    struct json *distribution_hosts;  /* set by sm_derive_groups */
    struct json *out;                 /* the properties */
    struct err *err;
};

/* ERR_CONFIG: "FILE: KEY: found ..., expected WANTED". */
enum status sm_refuse(const struct sm_source *source, const char *file, const char *key,
                      const struct json *found, const char *wanted);
enum status sm_refuse_group(const struct sm_source *source, const struct json *group,
                            const char *key, const char *wanted);

/* A key of the cluster file; NULL: it is not there. */
const struct json *sm_resource(const struct sm_source *source, const char *key);

/*
 * Checks the groups and derives the distribution's groups and hosts. After that every member of the
 * list that starts at sm_first_group (NULL: there are no groups) is an object with a text name.
 */
MUST_USE enum status sm_derive_groups(struct sm_source *source);
const struct json *sm_first_group(const struct sm_source *source);
const char *sm_group_name(const struct json *group);

/* The current group's name, a new value; NULL: no memory. */
struct json *sm_current_group(const struct sm_source *source);

/* The first host of the distribution, or else of all hosts; NULL: no memory. */
MUST_USE enum status sm_derive_master(const struct sm_source *source, struct json **out);

#endif
