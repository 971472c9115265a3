/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a checkpoint keeps of the report, as bytes (docs/FORMATS.md): the entries of the epochs that
 * are done, and the sums of the one that is not. Pure.
 */
#ifndef HEADRACE_CLI_TRAIN_HISTORY_H
#define HEADRACE_CLI_TRAIN_HISTORY_H

#include "cli/report.h"
#include "cli/train_total.h"

size_t history_bytes(uint32_t epochs);
/* partial: loss, samples and bad_samples of it are kept. out has history_bytes(epoch_count). */
void history_encode(const struct report *report, const struct train_total *partial, uint8_t *out);

/* out: entries, newly allocated, with room for `room` of them or all that are there; partial_out:
 * the three fields, the others 0. ERR_DATA: no history; ERR_RESOURCE. */
MUST_USE enum status history_decode(const uint8_t *bytes, size_t count, uint32_t room,
                                    struct report *out, struct train_total *partial_out,
                                    struct err *err);

#endif
