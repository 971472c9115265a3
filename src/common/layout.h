/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things lie in a batch: a table of named tensors over one byte range, cut into parts at
 * fixed offsets. All of it is a function of the shapes alone, so a rank and every producer agree
 * without a word on the wire. Pure.
 *
 *   at byte 0                image      rows x height x width x channels, uint8, RGB
 *   at the next multiple     label      rows x int64, little-endian; -1 on padding rows and in data
 *   of PART_ALIGN_BYTES                 sets without labels
 *   at the next multiple     sample_id  rows x int64, little-endian; -1 on padding rows
 *
 * A part is a run of whole samples where a sample fits into PART_BYTES_MAX, else PART_BYTES_MAX
 * bytes; the last part is what is left. Part i begins at i * part_bytes.
 */
#ifndef HEADRACE_COMMON_LAYOUT_H
#define HEADRACE_COMMON_LAYOUT_H

#include "common/err.h"
#include "common/limits.h"

struct layout {
    uint32_t rows; /* of one rank's batch */
    uint32_t height, width, channels;
    uint32_t sample_bytes; /* height * width * channels */
    uint64_t image_offset, label_offset, sample_id_offset;
    uint64_t bytes;      /* of the whole range */
    uint32_t part_bytes; /* of every part but the last */
    uint32_t part_count;
};

/* ERR_CONFIG when a shape is zero or past a limit (TARGET_SIDE_MAX, PARTS_MAX, four channels). */
MUST_USE enum status layout_init(uint32_t rows, uint32_t height, uint32_t width, uint32_t channels,
                                 struct layout *out, struct err *err);

/*
 * part < part_count. Offset and length of a part; first row and number of rows of which it holds at
 * least one byte of any tensor: those must be finished before the part can be sent. The run is
 * closed, so a last part with the end of the pictures and all labels belongs to all rows; a part of
 * alignment bytes only belongs to none.
 */
uint64_t layout_part_offset(const struct layout *layout, uint32_t part);
uint32_t layout_part_length(const struct layout *layout, uint32_t part);
void layout_part_rows(const struct layout *layout, uint32_t part, uint32_t *first_out,
                      uint32_t *count_out);

#endif
