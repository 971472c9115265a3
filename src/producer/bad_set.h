/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples known to be bad, so that none is decoded twice in vain, and the queue of those not
 * yet named. Bounded: past BAD_SET_MAX a sample is found bad anew each time it is met. Not
 * thread-safe: work.c's lock guards it.
 */
#ifndef HEADRACE_PRODUCER_BAD_SET_H
#define HEADRACE_PRODUCER_BAD_SET_H

#include "common/err.h"
#include "common/limits.h"

enum { BAD_SET_MAX = 1 << 15 };

struct bad_sample {
    uint32_t stream;
    uint64_t sample;
    char reason[TEXT_BYTES_MAX];
};

struct bad_set;

MUST_USE enum status bad_set_new(struct bad_set **out, struct err *err);
void bad_set_free(struct bad_set **set);
bool bad_set_has(const struct bad_set *set, uint32_t stream, uint64_t sample);
/* Adds it and queues it for naming, unless it is there already. A full naming queue leaves it out:
 * the next decode of the sample finds it again. */
void bad_set_add(struct bad_set *set, uint32_t stream, uint64_t sample, const char *reason);
/* The next one to name, each once; false when there is none. */
bool bad_set_pop(struct bad_set *set, struct bad_sample *out);

#endif
