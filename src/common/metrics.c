/* SPDX-License-Identifier: Apache-2.0 */
/* The histogram's buckets: index and bounds are two directions of one formula. */
#include "common/metrics.h"

enum { SUB_BITS = 4 };

/* Values of 2^e .. 2^(e+1)-1, e >= 4, lie in 16 buckets from (e - 3) * 16 on. */
static uint32_t bucket_of(uint64_t value)
{
    if (value < HISTOGRAM_SUB) {
        return (uint32_t)value;
    }
    const uint32_t exponent = 63 - (uint32_t)__builtin_clzll(value);
    const uint32_t sub = (uint32_t)(value >> (exponent - SUB_BITS)) & (HISTOGRAM_SUB - 1);
    return (exponent - SUB_BITS + 1) * HISTOGRAM_SUB + sub;
}

static uint64_t bucket_highest(uint32_t bucket)
{
    if (bucket < HISTOGRAM_SUB) {
        return bucket;
    }
    const uint32_t shift = bucket / HISTOGRAM_SUB - 1;
    const uint64_t lowest = (uint64_t)(HISTOGRAM_SUB + bucket % HISTOGRAM_SUB) << shift;
    return lowest + ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->counts[bucket_of(value)]++;
    histogram->total++;
}

uint64_t histogram_quantile(const struct histogram *histogram, double quantile)
{
    const double wanted = quantile * (double)histogram->total;
    uint64_t seen = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (histogram->counts[i] == 0) {
            continue;
        }
        last = i;
        seen += histogram->counts[i];
        if ((double)seen >= wanted) {
            break;
        }
    }
    return bucket_highest(last);
}
