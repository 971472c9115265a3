/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr: "headrace[who]: level: text", one write per line, so that lines of several
 * processes do not mix. Lower case, no secrets. Any thread. The sink's level and name are the
 * program's only mutable globals.
 */
#ifndef HEADRACE_COMMON_LOG_H
#define HEADRACE_COMMON_LOG_H

#include "common/base.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Called once, before other threads start. who is copied (at most 47 bytes): "algo-2", "algo-2/rank
 * 1". */
void log_init(enum log_level level, const char *who);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
void log_write(enum log_level level, const char *format, ...) PRINTF(2, 3);

#endif
