/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder's front: recognises the format by its first bytes and hands over to the backend.
 * Knows no compression and holds no pixels but the buffer that the backends fill.
 */
#include "producer/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer/image_ops.h"

static const struct image_ops *const FORMATS[] = {
    &image_jpeg,
    &image_png,
};

struct image_decoder {
    struct image_buffer buffer;
    const struct image_ops *open; /* NULL: nothing is open */
    struct image_size size;
    void *states[ARRAY_LEN(FORMATS)];
    void *state; /* of open */
};

/* What people feed to training jobs under a picture's name; an error that names it saves a search.
 */
static const struct signature {
    const char *name;
    uint32_t offset, count;
    const char *bytes;
} FOREIGN[] = {
    {"a WebP picture", 8, 4, "WEBP"},
    {"a GIF picture", 0, 4, "GIF8"},
    {"a BMP picture", 0, 2, "BM"},
    {"a TIFF picture", 0, 4, "II*\0"},
    {"a TIFF picture", 0, 4, "MM\0*"},
    {"an AVIF picture", 4, 8, "ftypavif"},
    {"a HEIC picture", 4, 8, "ftypheic"},
    {"gzip-compressed data", 0, 2, "\x1f\x8b"},
    {"a zip archive", 0, 4, "PK\3\4"},
    {"HTML or XML text", 0, 1, "<"},
    {"JSON text", 0, 1, "{"},
};

enum status image_buffer_reserve(struct image_buffer *buffer, size_t rows, size_t stride_bytes,
                                 struct err *err)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(rows, stride_bytes, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)IMAGE_PAD_BYTES, &bytes)) {
        return err_set(err, ERR_RESOURCE, "a picture of %zu rows of %zu bytes is too large", rows,
                       stride_bytes);
    }
    if (bytes <= buffer->capacity) {
        return OK;
    }
    uint8_t *fresh = malloc(bytes);
    if (fresh == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %zu bytes of decoded pixels", bytes);
    }
    free(buffer->bytes);
    buffer->bytes = fresh;
    buffer->capacity = bytes;
    return OK;
}

static enum status check_size(const char *format, const struct image_size *size, struct err *err)
{
    if (size->width == 0 || size->height == 0) {
        return err_set(err, ERR_DATA, "%s: the header says %" PRIu32 "x%" PRIu32 " pixels", format,
                       size->width, size->height);
    }
    if (size->width > IMAGE_SIDE_MAX || size->height > IMAGE_SIDE_MAX ||
        (uint64_t)size->width * size->height > IMAGE_PIXELS_MAX) {
        return err_set(err, ERR_DATA,
                       "%s: the header says %" PRIu32 "x%" PRIu32
                       " pixels; at most %d on a side and %d in all are decoded",
                       format, size->width, size->height, (int)IMAGE_SIDE_MAX,
                       (int)IMAGE_PIXELS_MAX);
    }
    return OK;
}

enum status image_decoder_new(struct image_decoder **out, struct err *err)
{
    struct image_decoder *decoder = calloc(1, sizeof(*decoder));
    if (decoder == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a picture decoder");
    }
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        const enum status status = FORMATS[i]->new_state(&decoder->states[i], err);
        if (status != OK) {
            image_decoder_free(&decoder);
            return status;
        }
    }
    *out = decoder;
    return OK;
}

void image_decoder_free(struct image_decoder **decoder)
{
    if (*decoder == NULL) {
        return;
    }
    image_close(*decoder);
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        FORMATS[i]->free_state((*decoder)->states[i]);
    }
    free((*decoder)->buffer.bytes);
    free(*decoder);
    *decoder = NULL;
}

static const char *foreign_name(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < ARRAY_LEN(FOREIGN); i++) {
        const struct signature *s = &FOREIGN[i];
        if (count >= (size_t)s->offset + s->count &&
            memcmp(bytes + s->offset, s->bytes, s->count) == 0) {
            return s->name;
        }
    }
    return NULL;
}

static enum status refuse(const uint8_t *bytes, size_t count, struct err *err)
{
    if (count == 0) {
        return err_set(err, ERR_DATA, "the file is empty");
    }
    const char *name = foreign_name(bytes, count);
    if (name != NULL) {
        return err_set(err, ERR_DATA, "neither JPEG nor PNG but %s, which is not supported", name);
    }
    char head[2 * 8 + 1] = "";
    for (size_t i = 0; i < count && i < 8; i++) {
        (void)snprintf(head + 2 * i, 3, "%02x", bytes[i]);
    }
    return err_set(err, ERR_DATA, "neither JPEG nor PNG: the file begins with %s", head);
}

enum status image_open(struct image_decoder *decoder, const void *bytes, size_t count,
                       struct image_size *size_out, struct err *err)
{
    image_close(decoder);
    size_t i = 0;
    while (i < ARRAY_LEN(FORMATS) && !FORMATS[i]->matches(bytes, count)) {
        i++;
    }
    if (i == ARRAY_LEN(FORMATS)) {
        return refuse(bytes, count, err);
    }
    decoder->open = FORMATS[i];
    decoder->state = decoder->states[i];
    enum status status = FORMATS[i]->open(decoder->state, bytes, count, &decoder->size, err);
    if (status == OK) {
        status = check_size(FORMATS[i]->name, &decoder->size, err);
    }
    if (status != OK) {
        image_close(decoder);
        return status;
    }
    *size_out = decoder->size;
    return OK;
}

enum status image_read(struct image_decoder *decoder, const struct image_rect *rect,
                       struct image_view *view_out, struct err *err)
{
    CHECK(decoder->open != NULL);
    CHECK(rect->width > 0 && rect->x < decoder->size.width &&
          rect->width <= decoder->size.width - rect->x);
    CHECK(rect->height > 0 && rect->y < decoder->size.height &&
          rect->height <= decoder->size.height - rect->y);
    return decoder->open->read(decoder->state, rect, &decoder->buffer, view_out, err);
}

void image_close(struct image_decoder *decoder)
{
    if (decoder->open != NULL) {
        decoder->open->close(decoder->state);
        decoder->open = NULL;
    }
}

void image_versions(char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        char version[128];
        FORMATS[i]->version(version, sizeof(version));
        const int n = snprintf(text + used, text_bytes - used, "%s%s", i > 0 ? ", " : "", version);
        if (n < 0 || (size_t)n >= text_bytes - used) {
            return;
        }
        used += (size_t)n;
    }
}
