/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The detail of a failure: set once by whoever first knows the cause, carried upwards unchanged,
 * and inside queue items from thread to thread. Whoever ends the journey logs it.
 */
#ifndef HEADRACE_COMMON_ERR_H
#define HEADRACE_COMMON_ERR_H

#include "common/base.h"

enum { ERR_MESSAGE_BYTES = 1024 };

struct err {
    enum status status;
    int line;         /* of our source, for us */
    const char *file; /* static text */
    char message[ERR_MESSAGE_BYTES];
};

/* A failure's status is never OK: so said once, for readers that follow every path. */
static inline enum status err_failed(enum status status)
{
    CHECK(status != OK);
    return status;
}

/*
 * Fills *err (NULL: nothing to fill) with a formatted message and returns status, so that
 * `return err_set(err, ERR_DATA, "...", ...)` is the way to fail. A longer message is cut.
 * Messages say what, where, got, wanted, and what to do; no final newline or full stop. A message
 * is one line whatever it quotes: control characters become '?'.
 */
#define err_set(err, status, ...) \
    err_failed(err_set_at((err), (status), __FILE__, __LINE__, __VA_ARGS__))
enum status err_set_at(struct err *err, enum status status, const char *file, int line,
                       const char *format, ...) PRINTF(5, 6);

/* As err_set, with ": " and the text of errno at the end. */
#define err_errno(err, status, ...) \
    err_failed(err_errno_at((err), (status), __FILE__, __LINE__, __VA_ARGS__))
enum status err_errno_at(struct err *err, enum status status, const char *file, int line,
                         const char *format, ...) PRINTF(5, 6);

/* Puts formatted context and ": " in front of a message that is set already; returns its status. */
enum status err_prefix(struct err *err, const char *format, ...) PRINTF(2, 3);

/* Gives a failure another status, whose reader does something else about it; returns that. */
enum status err_restate(struct err *err, enum status status);

/* A short lower-case name ("bad data"), and the exit code of a process that ends for it (sysexits).
 */
const char *status_name(enum status status);
int status_exit_code(enum status status);

/* Exit codes: sysexits.h where it has one. */
enum {
    EXIT_OK = 0,
    EXIT_USAGE = 64,
    EXIT_DATA = 65,
    EXIT_MISSING = 66,
    EXIT_PEER = 69,
    EXIT_INTERNAL = 70,
    EXIT_RESOURCE = 71,
    EXIT_IO = 74,
    EXIT_TEMPORARY = 75,
    EXIT_AUTH = 77,
    EXIT_CONFIG = 78,
    EXIT_SIGNAL_BASE = 128,
};

#endif
