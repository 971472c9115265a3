/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sample ids are compared byte by byte, because a part may end in the middle of one; each byte of
 * every id is then compared exactly once, by the part that holds it.
 */
#include "consumer/part.h"

#include <inttypes.h>

enum { ID_BYTES = 8 };

void part_notes_clear(struct part_notes *notes, const struct layout *layout)
{
    for (uint32_t row = 0; row < layout->rows; row++) {
        notes->attempts[row] = PART_ROW_UNKNOWN;
    }
}

uint32_t part_notes_substituted(const struct part_notes *notes, const struct layout *layout)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < layout->rows; row++) {
        count += notes->attempts[row] != 0 && notes->attempts[row] != PART_ROW_UNKNOWN;
    }
    return count;
}

/* The rows a part belongs to, and where the batch's real ones end. */
struct span {
    uint32_t first, end; /* rows of the part */
    uint32_t real;       /* rows of the batch that hold samples */
    uint64_t position;   /* of row 0 */
};

static struct span span_of(const struct part_context *context, const struct msg_data *data)
{
    struct span span;
    uint32_t count = 0;
    layout_part_rows(context->layout, data->part, &span.first, &count);
    span.end = span.first + count;
    span.real = plan_batch(context->plan, data->step, context->rank, &span.position);
    return span;
}

/* The substitution of a row, or NULL. The list is short and mostly empty. */
static const struct substitution *find(const struct msg_data *data, uint32_t row)
{
    for (uint32_t i = 0; i < data->substitution_count; i++) {
        if (data->substitutions[i].row == row) {
            return &data->substitutions[i];
        }
    }
    return NULL;
}

/* Is a listed substitution one that the chain allows, of a real row of this part, and the only one?
 */
static enum status check_substitution(const struct part_context *context,
                                      const struct msg_data *data, const struct span *span,
                                      const struct substitution *s, struct err *err)
{
    if (s->row < span->first || s->row >= span->end || s->row >= span->real) {
        return err_set(err, ERR_PEER_WRONG, "substitution of row %u, which this part does not hold",
                       s->row);
    }
    if (find(data, s->row) != s) {
        return err_set(err, ERR_PEER_WRONG, "two substitutions of row %u", s->row);
    }
    const uint64_t position = span->position + s->row;
    const uint64_t bad = plan_sample(context->plan, data->epoch, position);
    if (s->bad != bad) {
        return err_set(err, ERR_PEER_WRONG,
                       "substitution of row %u for sample %" PRIu64
                       ", but the plan has sample %" PRIu64 " there",
                       s->row, s->bad, bad);
    }
    const uint64_t taken = plan_substitute(context->plan, data->epoch, position, s->attempt);
    if (s->attempt == 0 || s->taken != taken) {
        return err_set(err, ERR_PEER_WRONG,
                       "row %u holds substitute %" PRIu64
                       ", but attempt %u of the chain is %" PRIu64,
                       s->row, s->taken, s->attempt, taken);
    }
    return OK;
}

static uint32_t attempt_of(const struct msg_data *data, uint32_t row)
{
    const struct substitution *s = find(data, row);
    return s != NULL ? s->attempt : 0;
}

/* The other parts of a row must have said the same: else it would be made of two samples. */
static enum status check_notes(const struct msg_data *data, const struct span *span,
                               const struct part_notes *notes, struct err *err)
{
    for (uint32_t row = span->first; row < span->end; row++) {
        const uint32_t noted = notes->attempts[row];
        if (noted != PART_ROW_UNKNOWN && noted != attempt_of(data, row)) {
            return err_set(err, ERR_PEER_WRONG,
                           "row %u came as attempt %u of its chain, and another part of it as "
                           "attempt %u",
                           row, attempt_of(data, row), noted);
        }
    }
    return OK;
}

static int64_t expected_id(const struct part_context *context, const struct msg_data *data,
                           const struct span *span, uint32_t row)
{
    if (row >= span->real) {
        return -1;
    }
    const struct substitution *s = find(data, row);
    return (int64_t)(s != NULL ? s->taken
                               : plan_sample(context->plan, data->epoch, span->position + row));
}

/* The bytes of a row's id that lie in the part. */
static bool id_matches(const struct layout *layout, const struct msg_data *data,
                       const uint8_t *bytes, uint32_t row, int64_t id)
{
    const uint64_t at = layout->sample_id_offset + (uint64_t)row * ID_BYTES;
    for (uint32_t i = 0; i < ID_BYTES; i++) {
        const uint64_t offset = at + i - data->offset; /* wraps below the part: then too large */
        if (offset < data->length && bytes[offset] != (uint8_t)((uint64_t)id >> (8 * i))) {
            return false;
        }
    }
    return true;
}

static enum status check_ids(const struct part_context *context, const struct msg_data *data,
                             const struct span *span, const uint8_t *bytes, struct err *err)
{
    if (data->offset + data->length <= context->layout->sample_id_offset) {
        return OK; /* pictures or labels only */
    }
    for (uint32_t row = span->first; row < span->end; row++) {
        const int64_t id = expected_id(context, data, span, row);
        if (!id_matches(context->layout, data, bytes, row, id)) {
            return err_set(err, ERR_PEER_WRONG,
                           "row %u does not hold sample %" PRId64 ", which the plan has there", row,
                           id);
        }
    }
    return OK;
}

enum status part_check(const struct part_context *context, const struct msg_data *data,
                       const uint8_t *bytes, struct part_notes *notes, struct err *err)
{
    const struct span span = span_of(context, data);
    for (uint32_t i = 0; i < data->substitution_count; i++) {
        TRY(check_substitution(context, data, &span, &data->substitutions[i], err));
    }
    TRY(check_notes(data, &span, notes, err));
    TRY(check_ids(context, data, &span, bytes, err));
    for (uint32_t row = span.first; row < span.end; row++) {
        notes->attempts[row] = attempt_of(data, row);
    }
    return OK;
}
