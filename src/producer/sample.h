/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample: the bytes of a picture file in, the pixels of the pipeline out. The unit of work of a
 * producer. A pure function of (bytes, pipeline, key, epoch, position): the same on every CPU,
 * thread and host.
 */
#ifndef HEADRACE_PRODUCER_SAMPLE_H
#define HEADRACE_PRODUCER_SAMPLE_H

#include "common/pipeline.h"
#include "common/rng.h"

/* A thread's scratch memory and decoder state; grows to what the pictures need, within
 * IMAGE_PIXELS_MAX. */
struct sample_maker;
MUST_USE enum status sample_maker_new(const struct pipeline *pipeline, struct sample_maker **out,
                                      struct err *err);
void sample_maker_free(struct sample_maker **maker);

struct sample_times {
    uint64_t decode_ns, augment_ns;
};

/*
 * Writes pipeline->height * width * 3 bytes, RGB, at out. ERR_DATA: the bytes are no picture we can
 * decode (reason in err: format, what is wrong, where); ERR_RESOURCE. Nothing else makes a sample
 * bad. times may be NULL.
 */
MUST_USE enum status sample_make(struct sample_maker *maker, const void *bytes, size_t count,
                                 const struct rng_at *at, uint8_t *out, struct sample_times *times,
                                 struct err *err);

/* The decode fingerprint: hash of Headrace's version and those of its picture libraries; and the
 * same as text. */
uint64_t sample_fingerprint(char text[256]);

#endif
