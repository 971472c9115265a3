/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a part of a batch what the plan says? The sample ids in its bytes and the substitutions that
 * its message lists are checked against the plan and the keyed chain, and against what the batch's
 * other parts said of the same rows. Bytes are not hashed here. Pure; one thread at a time for one
 * batch's notes.
 */
#ifndef HEADRACE_CONSUMER_PART_H
#define HEADRACE_CONSUMER_PART_H

#include "common/layout.h"
#include "common/msg.h"
#include "common/plan.h"

enum { PART_ROW_UNKNOWN = UINT32_MAX };

/* What is known of the rows of one batch. */
struct part_notes {
    uint32_t *attempts; /* layout.rows entries of the caller's: place on the chain, 0: as planned,
                           PART_ROW_UNKNOWN: no part of it has come */
};
void part_notes_clear(struct part_notes *notes, const struct layout *layout);
/* Rows that hold a substitute. */
uint32_t part_notes_substituted(const struct part_notes *notes, const struct layout *layout);

struct part_context {
    const struct plan *plan;
    const struct layout *layout;
    uint32_t rank;
};

/*
 * data: a DATA header whose part, offset and length are those of the layout (the scheduler has seen
 * to that). bytes: the part's. OK: the notes have taken in its rows. ERR_PEER_WRONG, notes
 * unchanged: the text says which row.
 */
MUST_USE enum status part_check(const struct part_context *context, const struct msg_data *data,
                                const uint8_t *bytes, struct part_notes *notes, struct err *err);

#endif
