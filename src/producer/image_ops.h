/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the decoder and its formats: one const table per format, one file per table. A
 * backend lives in one thread and reports failures as image.h says.
 */
#ifndef HEADRACE_PRODUCER_IMAGE_OPS_H
#define HEADRACE_PRODUCER_IMAGE_OPS_H

#include "producer/image.h"

/* Memory that grows to what the pictures need and is kept between them. */
struct image_buffer {
    uint8_t *bytes;
    size_t capacity;
};

/* Makes room for rows * stride_bytes and IMAGE_PAD_BYTES behind them; the old content is lost.
 * ERR_RESOURCE: no memory. */
MUST_USE enum status image_buffer_reserve(struct image_buffer *buffer, size_t rows,
                                          size_t stride_bytes, struct err *err);

struct image_ops {
    const char *name;
    /* Whether the bytes begin as this format does. */
    bool (*matches)(const uint8_t *bytes, size_t count);
    /* The state of one thread's decoder; free accepts NULL. */
    MUST_USE enum status (*new_state)(void **out, struct err *err);
    void (*free_state)(void *state);
    /* As image_open, image_read and image_close. After a failed open or read, close is still
     * called. The view lies in buffer. */
    MUST_USE enum status (*open)(void *state, const uint8_t *bytes, size_t count,
                                 struct image_size *size_out, struct err *err);
    MUST_USE enum status (*read)(void *state, const struct image_rect *rect,
                                 struct image_buffer *buffer, struct image_view *view_out,
                                 struct err *err);
    void (*close)(void *state);
    /* Name and version of the library. */
    void (*version)(char *text, size_t text_bytes);
};

extern const struct image_ops image_jpeg;
extern const struct image_ops image_png;

#endif
