/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keyed bijection on 0..n-1: a balanced Feistel network of 8 rounds over ceil(log2 n / 2) bits a
 * half with Philox 4x32-10 as its round function; results outside the range are sent through again
 * until they fall inside (cycle walking), fewer than 4 times on average. No table, no state. Pure.
 */
#ifndef HEADRACE_COMMON_SHUFFLE_H
#define HEADRACE_COMMON_SHUFFLE_H

#include "common/base.h"

/* What the bijection is for. Uses never share a Philox counter with each other or with the draws of
 * a pipeline's operations (rng_draw), whose op is below OPS_MAX. */
enum shuffle_use { SHUFFLE_USE_ORDER = 0xFFFF, SHUFFLE_USE_SUBSTITUTE = 0xFFFE };

/* The image of value under the bijection of (key, epoch, use, n); value < n, n >= 1. */
uint64_t shuffle_full(uint64_t key, uint32_t epoch, enum shuffle_use use, uint64_t n,
                      uint64_t value);

#endif
