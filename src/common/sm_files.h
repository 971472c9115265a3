/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platform's files under <base>/input/config, and how it writes values into them. Reads only.
 */
#ifndef HEADRACE_COMMON_SM_FILES_H
#define HEADRACE_COMMON_SM_FILES_H

#include "common/json.h"

#define SM_RESOURCES       "resourceconfig.json"
#define SM_HYPERPARAMETERS "hyperparameters.json"
#define SM_INPUTS          "inputdataconfig.json"

/* folder/name as Python's os.path.join: an absolute name replaces the folder. false: too long. */
MUST_USE bool sm_path_join(const char *folder, const char *name, char *out, size_t size);

/* <base>/input/config/NAME, cut where it does not fit. */
void sm_file_path(const char *base, const char *name, char *out, size_t size);

/* ERR_MISSING: no such file; ERR_CONFIG: it holds no JSON; other failures as json_read_file. */
MUST_USE enum status sm_file_read(const char *base, const char *name, struct json **out,
                                  struct err *err);

/*
 * A hyperparameter's value: every one is written as a text, which is JSON or, where it is none,
 * means itself. *out is a value of its own. ERR_CONFIG: JSON, but too deep or too large.
 */
MUST_USE enum status sm_hyperparameter_decode(const struct json *value, struct json **out,
                                              struct err *err);

#endif
