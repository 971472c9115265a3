/* SPDX-License-Identifier: Apache-2.0 */
/* The detail of a failure, and the names and exit codes of the status codes. */
#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void check_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "headrace: internal check failed: %s (%s:%d)\n", cond, file, line);
    abort();
}

/* Names out of files may hold anything. */
static void keep_on_one_line(char *message)
{
    for (char *p = message; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F) {
            *p = '?';
        }
    }
}

enum status err_set_at(struct err *err, enum status status, const char *file, int line,
                       const char *format, ...)
{
    if (err == NULL) {
        return status;
    }
    err->status = status;
    err->file = file;
    err->line = line;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    keep_on_one_line(err->message);
    return status;
}

enum status err_errno_at(struct err *err, enum status status, const char *file, int line,
                         const char *format, ...)
{
    const int saved = errno;
    if (err == NULL) {
        return status;
    }
    err->status = status;
    err->file = file;
    err->line = line;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    const size_t len = strlen(err->message);
    char text[128];
    snprintf(err->message + len, sizeof(err->message) - len, ": %s",
             strerror_r(saved, text, sizeof(text)));
    keep_on_one_line(err->message);
    return status;
}

enum status err_prefix(struct err *err, const char *format, ...)
{
    CHECK(err != NULL && err->status != OK);
    char message[ERR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    keep_on_one_line(message);
    const size_t len = strlen(message);
    snprintf(message + len, sizeof(message) - len, ": %s", err->message);
    memcpy(err->message, message, sizeof(message));
    return err->status;
}

enum status err_restate(struct err *err, enum status status)
{
    if (err != NULL) {
        err->status = status;
    }
    return status;
}

static const struct {
    enum status status;
    const char *name;
    int exit_code;
} STATUS_TABLE[] = {
    {OK, "ok", EXIT_OK},
    {ERR_AGAIN, "not ready", EXIT_TEMPORARY},
    {ERR_TIMEOUT, "timed out", EXIT_TEMPORARY},
    {ERR_PEER_GONE, "peer lost", EXIT_PEER},
    {ERR_PEER_WRONG, "protocol error", EXIT_PEER},
    {ERR_AUTH, "not allowed", EXIT_AUTH},
    {ERR_DATA, "bad data", EXIT_DATA},
    {ERR_MISSING, "missing input", EXIT_MISSING},
    {ERR_IO, "i/o error", EXIT_IO},
    {ERR_USAGE, "usage", EXIT_USAGE},
    {ERR_CONFIG, "configuration", EXIT_CONFIG},
    {ERR_RESOURCE, "out of resources", EXIT_RESOURCE},
    {ERR_DEVICE, "device error", EXIT_RESOURCE},
    {ERR_MISUSE, "misuse", EXIT_INTERNAL},
    {ERR_INTERNAL, "internal error", EXIT_INTERNAL},
    {ERR_CANCELLED, "cancelled", EXIT_OK},
};

const char *status_name(enum status status)
{
    for (size_t i = 0; i < ARRAY_LEN(STATUS_TABLE); i++) {
        if (STATUS_TABLE[i].status == status) {
            return STATUS_TABLE[i].name;
        }
    }
    return "unknown status";
}

int status_exit_code(enum status status)
{
    for (size_t i = 0; i < ARRAY_LEN(STATUS_TABLE); i++) {
        if (STATUS_TABLE[i].status == status) {
            return STATUS_TABLE[i].exit_code;
        }
    }
    return EXIT_INTERNAL;
}
