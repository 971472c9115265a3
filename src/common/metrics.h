/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers about a running program: a counter that one thread raises and any thread reads, and a
 * histogram of durations with fixed buckets. Neither ever allocates.
 */
#ifndef HEADRACE_COMMON_METRICS_H
#define HEADRACE_COMMON_METRICS_H

#include <stdatomic.h>

#include "common/base.h"

/* Zeroed is empty. Relaxed: a reader wants some recent value and orders nothing by it. */
struct counter {
    _Atomic uint64_t value;
};

static inline void counter_add(struct counter *counter, uint64_t delta)
{
    atomic_fetch_add_explicit(&counter->value, delta, memory_order_relaxed);
}

static inline uint64_t counter_get(const struct counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

/*
 * Log-linear: every power of two is cut into 16 equal buckets, so a bucket is at most 1/16 of its
 * value wide; values below 16 have a bucket each. Covers all of uint64_t. One thread. Zeroed is
 * empty.
 */
enum { HISTOGRAM_SUB = 16, HISTOGRAM_BUCKETS = 61 * HISTOGRAM_SUB };

struct histogram {
    uint64_t total;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* The largest value of the bucket in which the quantile (0..1) lies: never less than the true one,
 * and at most 1/16 more. 0 when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, double quantile);

#endif
