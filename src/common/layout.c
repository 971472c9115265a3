/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets and parts of a batch. See layout.h. */
#include "common/layout.h"

#include <inttypes.h>

enum { CHANNELS_MAX = 4, ROW_FIELD_BYTES = 8 };

static uint64_t align_up(uint64_t offset)
{
    return (offset + PART_ALIGN_BYTES - 1) / PART_ALIGN_BYTES * PART_ALIGN_BYTES;
}

static enum status check_range(const char *what, uint64_t got, uint64_t max, struct err *err)
{
    if (got == 0 || got > max) {
        return err_set(err, ERR_CONFIG,
                       "batch layout: %s is %" PRIu64 ", allowed are 1 to %" PRIu64, what, got,
                       max);
    }
    return OK;
}

enum status layout_init(uint32_t rows, uint32_t height, uint32_t width, uint32_t channels,
                        struct layout *out, struct err *err)
{
    TRY(check_range("picture height", height, TARGET_SIDE_MAX, err));
    TRY(check_range("picture width", width, TARGET_SIDE_MAX, err));
    TRY(check_range("channels", channels, CHANNELS_MAX, err));
    const uint32_t sample_bytes = height * width * channels; /* at most 2^26 */
    CHECK(sample_bytes != 0);
    const uint64_t bytes_max = (uint64_t)PARTS_MAX * PART_BYTES_MAX;
    TRY(check_range("rows (batch size of a rank)", rows, bytes_max / sample_bytes, err));
    struct layout l = {.rows = rows,
                       .height = height,
                       .width = width,
                       .channels = channels,
                       .sample_bytes = sample_bytes};
    l.label_offset = align_up((uint64_t)rows * l.sample_bytes);
    l.sample_id_offset = align_up(l.label_offset + (uint64_t)rows * ROW_FIELD_BYTES);
    l.bytes = l.sample_id_offset + (uint64_t)rows * ROW_FIELD_BYTES;
    l.part_bytes = l.sample_bytes <= PART_BYTES_MAX
                       ? PART_BYTES_MAX / l.sample_bytes * l.sample_bytes
                       : PART_BYTES_MAX;
    const uint64_t parts = (l.bytes + l.part_bytes - 1) / l.part_bytes;
    if (parts > PARTS_MAX) {
        return err_set(err, ERR_CONFIG,
                       "batch layout: %" PRIu32 " rows of %" PRIu32 "x%" PRIu32 "x%" PRIu32
                       " make %" PRIu64 " parts of %" PRIu32 " bytes, the limit is %d: use a "
                       "smaller global_batch or more ranks",
                       rows, height, width, channels, parts, l.part_bytes, PARTS_MAX);
    }
    l.part_count = (uint32_t)parts;
    *out = l;
    return OK;
}

uint64_t layout_part_offset(const struct layout *layout, uint32_t part)
{
    CHECK(part < layout->part_count);
    return (uint64_t)part * layout->part_bytes;
}

uint32_t layout_part_length(const struct layout *layout, uint32_t part)
{
    const uint64_t left = layout->bytes - layout_part_offset(layout, part);
    return (uint32_t)(left < layout->part_bytes ? left : layout->part_bytes);
}

/* A run of rows, [first, end). */
struct rows {
    uint64_t first, end;
};

/* Widens *rows to the rows of a tensor (row_bytes each from offset on) that have a byte in [begin,
 * end). */
static void add_tensor(struct rows *rows, const struct layout *layout, uint64_t offset,
                       uint64_t row_bytes, uint64_t begin, uint64_t end)
{
    const uint64_t tensor_end = offset + layout->rows * row_bytes;
    const uint64_t low = begin > offset ? begin : offset;
    const uint64_t high = end < tensor_end ? end : tensor_end;
    if (low >= high) {
        return;
    }
    const uint64_t first = (low - offset) / row_bytes;
    const uint64_t last = (high - 1 - offset) / row_bytes;
    rows->first = first < rows->first ? first : rows->first;
    rows->end = last + 1 > rows->end ? last + 1 : rows->end;
}

void layout_part_rows(const struct layout *layout, uint32_t part, uint32_t *first_out,
                      uint32_t *count_out)
{
    const uint64_t begin = layout_part_offset(layout, part);
    const uint64_t end = begin + layout_part_length(layout, part);
    struct rows rows = {.first = layout->rows, .end = 0};
    add_tensor(&rows, layout, layout->image_offset, layout->sample_bytes, begin, end);
    add_tensor(&rows, layout, layout->label_offset, ROW_FIELD_BYTES, begin, end);
    add_tensor(&rows, layout, layout->sample_id_offset, ROW_FIELD_BYTES, begin, end);
    *first_out = (uint32_t)(rows.end > 0 ? rows.first : 0);
    *count_out = (uint32_t)(rows.end > 0 ? rows.end - rows.first : 0);
}
