/* SPDX-License-Identifier: Apache-2.0 */
/* The log sink. A line is formatted on the stack and written with one write(2). */
#include "common/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* PIPE_BUF: a write of at most this many bytes is not mixed with another process's. */
enum { LINE_BYTES = 4096 };

static _Atomic int sink_level = LOG_INFO;
static char sink_who[48];

void log_init(enum log_level level, const char *who)
{
    sink_level = (int)level;
    snprintf(sink_who, sizeof(sink_who), "%s", who);
}

void log_write(enum log_level level, const char *format, ...)
{
    static const char *const NAMES[] = {"error", "warning", "info", "debug"};
    if ((int)level > sink_level) {
        return;
    }
    char line[LINE_BYTES];
    size_t used =
        (size_t)(sink_who[0] == '\0'
                     ? snprintf(line, sizeof(line), "headrace: %s: ", NAMES[level])
                     : snprintf(line, sizeof(line), "headrace[%s]: %s: ", sink_who, NAMES[level]));
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    if (len > 0) {
        used += (size_t)len;
    }
    if (used > sizeof(line) - 1) {
        used = sizeof(line) - 1;
    }
    line[used++] = '\n';
    size_t done = 0;
    while (done < used) {
        const ssize_t n = write(STDERR_FILENO, line + done, used - done);
        if (n <= 0) {
            return; /* nowhere left to say it */
        }
        done += (size_t)n;
    }
}
