/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream digest: the sum modulo 2^64, over real samples, of XXH3-64 of six little-endian 64-bit
 * fields: XXH3-64 of the stream's name, epoch, position, sample id, label, XXH3-64 of the pixels.
 * Being a sum it does not depend on how an epoch was split over ranks. Computed by the rank from
 * the bytes lent to the trainer. Pure.
 */
#ifndef HEADRACE_COMMON_DIGEST_H
#define HEADRACE_COMMON_DIGEST_H

#include "common/layout.h"
#include "common/plan.h"

uint64_t digest_name(const char *stream);
uint64_t digest_sample(uint64_t name, uint64_t epoch, uint64_t position, uint64_t sample_id,
                       uint64_t label, const void *pixels, size_t bytes);

/* The sum over the `count` real rows of a batch as it lies in memory, whose first row has position
 * `first`. */
uint64_t digest_batch(uint64_t name, uint64_t epoch, uint64_t first, uint32_t count,
                      const struct layout *layout, const void *batch);

#endif
