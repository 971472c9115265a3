/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of ours: named, and deaf to signals, which are for the program's own threads. */
#ifndef HEADRACE_COMMON_THREAD_H
#define HEADRACE_COMMON_THREAD_H

#include <pthread.h>

#include "common/err.h"

/* name: at most 15 bytes, seen in ps and gdb. The caller joins it. */
MUST_USE enum status thread_start(const char *name, void *(*run)(void *context), void *context,
                                  pthread_t *out, struct err *err);

/* The cores that this process may use (its affinity's); 1 where that cannot be told. */
uint32_t thread_cores(void);

#endif
