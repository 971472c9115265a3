/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small file that survives its process: which sample each decode thread is working on, and which
 * of them was being decoded by the thread that a fatal signal (SEGV, BUS, ILL, FPE, ABRT) ended.
 * The producer writes it through a shared mapping, its agent reads it after the crash. A KILL
 * leaves no verdict, for it says nothing about the sample.
 *
 * Format, little-endian machine words: magic "HRCR", version 1, thread count, crashed thread + 1
 * (0: none); then per thread: sample id (64 bits), stream (32), in work (32).
 */
#ifndef HEADRACE_COMMON_CRASH_RECORD_H
#define HEADRACE_COMMON_CRASH_RECORD_H

#include "common/err.h"

struct crash_record; /* the producer's mapping */

MUST_USE enum status crash_record_new(const char *path, uint32_t threads, struct crash_record **out,
                                      struct err *err);
/* Removes the handlers; the file stays. */
void crash_record_free(struct crash_record **record);

/* Installs the handlers of the fatal signals, once per process. They mark the record and let the
 * signal take its course. */
MUST_USE enum status crash_record_arm(struct crash_record *record, struct err *err);

/* By a decode thread, before and after it decodes: thread < threads. Costs three stores. */
void crash_record_enter(struct crash_record *record, uint32_t thread, uint32_t stream,
                        uint64_t sample);
void crash_record_leave(struct crash_record *record, uint32_t thread);

/* By the agent: *found_out false when there is no file or nobody crashed in a decoder. ERR_DATA: a
 * damaged file. */
MUST_USE enum status crash_record_read(const char *path, bool *found_out, uint32_t *stream_out,
                                       uint64_t *sample_out, struct err *err);

#endif
