/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file needs: the status codes, the attributes and a few macros. No function, no state,
 * and no header but the language's own.
 */
#ifndef HEADRACE_COMMON_BASE_H
#define HEADRACE_COMMON_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a function that can fail returns: 0, or a negative code grouped by what the caller does
 * next. */
enum status {
    OK = 0,
    /* try again: nothing was done */
    ERR_AGAIN = -1,   /* would block, or not ready yet */
    ERR_TIMEOUT = -2, /* the deadline of the call passed */
    /* the peer: end the session */
    ERR_PEER_GONE = -10,  /* connection, process or host lost */
    ERR_PEER_WRONG = -11, /* it sent what the protocol does not allow */
    ERR_AUTH = -12,       /* it may not speak to us */
    /* the input: name it, substitute or stop */
    ERR_DATA = -20,    /* bytes of a sample, file or checkpoint are bad */
    ERR_MISSING = -21, /* an input does not exist */
    ERR_IO = -22,      /* reading or writing failed; the bytes may be good */
    /* the user: say it and stop */
    ERR_USAGE = -30,  /* command line */
    ERR_CONFIG = -31, /* configuration or cluster file */
    /* this machine: stop */
    ERR_RESOURCE = -40, /* memory, descriptors, ports, threads */
    ERR_DEVICE = -41,   /* an accelerator */
    /* ourselves */
    ERR_MISUSE = -50,    /* the API was used against its contract */
    ERR_INTERNAL = -51,  /* a mistake of ours that could still be reported */
    ERR_CANCELLED = -52, /* asked to stop; not a failure */
};

#define MUST_USE        __attribute__((warn_unused_result))
#define PRINTF(fmt, at) __attribute__((format(printf, fmt, at)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The only macro that returns: passes a failure on unchanged. */
#define TRY(x)                               \
    do {                                     \
        const enum status try_status_ = (x); \
        if (try_status_ != OK) {             \
            return try_status_;              \
        }                                    \
    } while (0)

/* For our own mistakes only, on in every build; never for bytes from disk, network or
 * configuration. */
#define CHECK(cond)                                  \
    do {                                             \
        if (!(cond)) {                               \
            check_failed(#cond, __FILE__, __LINE__); \
        }                                            \
    } while (0)

/* Prints the condition and aborts (exit code 134 = 128 + SIGABRT). In err.c. */
_Noreturn void check_failed(const char *cond, const char *file, int line);

#endif
