/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time and CPU time in nanoseconds. Pure files take time as an argument and never include
 * this. */
#ifndef HEADRACE_COMMON_CLOCK_H
#define HEADRACE_COMMON_CLOCK_H

#include "common/base.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

int64_t clock_now_ns(void);         /* CLOCK_MONOTONIC */
int64_t clock_process_cpu_ns(void); /* user and system time of this process, all threads */
int64_t clock_thread_cpu_ns(void);

#endif
