/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An asynchronous device without hardware: one copy stream, run by a thread that takes its (seeded)
 * time. It watches its user: every breach of device.h's contract is written down. And it fails on
 * request.
 *
 * Options, all optional, as text "seed=1 delay_us=500 ...":
 *   seed      of the delays
 *   delay_us  every copy takes 0 .. delay_us microseconds
 *   fail_at   the n-th call (from 1) that returns a status fails with ERR_DEVICE and does nothing
 *   break_at  the n-th copy breaks the device when its turn comes: events behind it never fire
 *   hang_at   the n-th copy never ends, and nothing behind it begins
 *
 * Breaches: source not pinned; source changed while its copy was in flight; target of a copy in
 * flight copied to; pinned or device memory freed in flight; event recorded again before it fired,
 * or freed; what was never freed when the device closed. Targets hold 0xDB from copy_async until
 * the copy is done, so reading early shows.
 */
#ifndef HEADRACE_TESTS_FAKES_DEVICE_FAKE_H
#define HEADRACE_TESTS_FAKES_DEVICE_FAKE_H

#include "consumer/device.h"

extern const struct device_ops device_fake;

enum { DEVICE_FAKE_POISON = 0xDB };

/* Since the process began, over all fake devices; *first_out (may be NULL) names the first. */
int device_fake_breaches(const char **first_out);
/* Calls so far that return a status: how far fail_at can usefully go. */
int device_fake_calls(void);
void device_fake_forget(void); /* sets both to 0 */

#endif
