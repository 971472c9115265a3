/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a process failed, on its way to the platform: a child writes its last words into a descriptor
 * of its agent's, and the agent writes the failure file, <base>/output/failure, whose first 1,024
 * characters SageMaker shows as the job's failure reason.
 */
#ifndef HEADRACE_CLI_FAILURE_H
#define HEADRACE_CLI_FAILURE_H

#include "common/err.h"

enum { FAILURE_BYTES_MAX = 1024 };

/* Writes the file unless it exists, for the first reason is the cause; not being able to is a
 * warning. */
void failure_write(const char *base, const char *text);

/* ---- last words, through the descriptor in HR_REASON_FD ---- */

/* A child: one line. Nothing happens in a process that has no agent. */
void reason_say(const char *text);
/* A child: it has said one already. */
bool reason_is_said(void);
/* An agent: an empty place for them; -1: none is left, and the reason will be missing. */
int reason_open(void);
/* The last line that was written, "" if none; empties the place. */
void reason_take(int fd, char *out, size_t bytes);

#endif
