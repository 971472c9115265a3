/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training environment as the platform's toolkit (sagemaker-training 5.1.4) gives it to
 * programs: every property of its Environment, and every SM_* variable, value for value. Where the
 * toolkit crashes there is one clear error instead. Reads the files under base, the process's
 * environment and the machine; makes no folder and sets no variable.
 *
 * Stricter than the toolkit in three places: instance_group_name has to be a text, JSON may be
 * JSON_DEPTH_MAX levels deep and JSON_BYTES_MAX bytes long.
 */
#ifndef HEADRACE_COMMON_SM_ENV_H
#define HEADRACE_COMMON_SM_ENV_H

#include "common/json.h"

/*
 * *out is an object of the 37 properties. machine_path: a file that stands in
 * for the machine (sm_machine_read); NULL: the machine is asked. ERR_CONFIG: "FILE: KEY: found ...,
 * expected ..."; ERR_MISSING: no such file.
 */
MUST_USE enum status sm_env_load(const char *base, const char *machine_path, struct json **out,
                                 struct err *err);

/* *out is an object of name to text, with all SM_* variables of the properties. */
MUST_USE enum status sm_env_vars(const struct json *properties, struct json **out, struct err *err);

/*
 * The variables as execve takes them: "NAME=value" in the system's bytes, ends with NULL, freed by
 * sm_env_list_free. Left out is what no environment can hold: a name with "=", a U+0000.
 */
MUST_USE enum status sm_env_list(const struct json *vars, char ***out, struct err *err);
void sm_env_list_free(char ***list);

#endif
