/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches without pictures: what a good producer would send of a plan, with pixels that are a
 * function of sample and place, so that any byte of another sample shows.
 */
#ifndef HEADRACE_TESTS_FAKES_BATCH_FAKE_H
#define HEADRACE_TESTS_FAKES_BATCH_FAKE_H

#include "common/layout.h"
#include "common/msg.h"
#include "common/plan.h"

enum { BATCH_FAKE_CLASSES = 7 };

struct batch_fake {
    const struct plan *plan;
    const struct layout *layout;
    uint32_t rank;
    uint64_t bad_every; /* samples whose id this divides are bad, but for id 0 when it is 0: none */
};

/* How far along the chain the sample at a position is found: 0 for a good one. */
uint32_t batch_fake_attempt(const struct batch_fake *fake, uint32_t epoch, uint64_t position,
                            uint64_t *sample_out);
/* Writes layout->bytes. */
void batch_fake_fill(const struct batch_fake *fake, uint32_t epoch, uint64_t step, uint8_t *out);

/* The header of a part of a filled batch, all but the lease and the times. */
void batch_fake_part(const struct batch_fake *fake, uint32_t epoch, uint64_t step, uint32_t part,
                     const uint8_t *batch, struct msg_data *out);

/* Does a batch hold what batch_fake_fill writes? Scratch of layout->bytes. */
bool batch_fake_holds(const struct batch_fake *fake, uint32_t epoch, uint64_t step,
                      const uint8_t *batch, uint8_t *scratch);

#endif
