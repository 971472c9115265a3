/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configured things that are more than one value: streams, roles, the hosts map. Each function
 * reads one JSON object and replaces what the configuration held before. Internal to config.
 */
#ifndef HEADRACE_COMMON_CONFIG_MAPS_H
#define HEADRACE_COMMON_CONFIG_MAPS_H

#include "common/config.h"
#include "common/json.h"

/* ERR_CONFIG: "WHERE.KEY: found ..., expected ...". */
MUST_USE enum status config_set_streams(const struct json *value, const char *where,
                                        struct config *config, struct err *err);
MUST_USE enum status config_set_roles(const struct json *value, const char *where,
                                      struct config *config, struct err *err);
MUST_USE enum status config_set_hosts(const struct json *value, const char *where,
                                      struct config *config, struct err *err);

/* Makes every stream's data a path relative to data_root, without "." and ".."; ERR_CONFIG: it
 * leaves data_root. (That no link leads out of it is the index's to check.) */
MUST_USE enum status config_confine_streams(struct config *config, struct err *err);

#endif
