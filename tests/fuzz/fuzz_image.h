/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every picture fuzzer checks: a rectangle of whatever the decoder takes has the pixels of the
 * whole picture, and what it refuses is bad data with a reason. One decoder for all inputs, so that
 * what one leaves behind meets the next.
 */
#ifndef HEADRACE_TESTS_FUZZ_FUZZ_IMAGE_H
#define HEADRACE_TESTS_FUZZ_FUZZ_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "producer/image.h"

enum { FUZZ_PIXELS_MAX = 1 << 18 }; /* larger ones only cost time */

static inline enum status fuzz_read(struct image_decoder *decoder, const uint8_t *bytes,
                                    size_t count, const struct image_rect *rect,
                                    struct image_view *view)
{
    struct image_size size;
    struct err err = {0};
    enum status status = image_open(decoder, bytes, count, &size, &err);
    if (status == OK) {
        status = image_read(decoder, rect, view, &err);
    }
    CHECK(status == OK || (status == ERR_DATA && err.status == status && err.message[0] != '\0'));
    return status;
}

static inline uint8_t *fuzz_copy(const struct image_view *view, const struct image_rect *rect)
{
    const size_t row_bytes = (size_t)rect->width * 3;
    uint8_t *pixels = malloc(rect->height * row_bytes);
    CHECK(pixels != NULL);
    for (size_t y = 0; y < rect->height; y++) {
        memcpy(pixels + y * row_bytes, view->pixels + y * view->stride_bytes, row_bytes);
    }
    return pixels;
}

/* The rectangle is chosen by the input's last bytes. */
static inline struct image_rect fuzz_rect(const uint8_t *bytes, size_t count,
                                          const struct image_size *size)
{
    const uint8_t *choice = bytes + count - 4;
    struct image_rect r = {.x = choice[0] % size->width, .y = choice[1] % size->height};
    r.width = 1 + choice[2] % (size->width - r.x);
    r.height = 1 + choice[3] % (size->height - r.y);
    return r;
}

static inline void fuzz_image(const uint8_t *bytes, size_t count)
{
    static struct image_decoder *decoder;
    struct err err = {0};
    struct image_size size;
    CHECK(decoder != NULL || image_decoder_new(&decoder, &err) == OK);
    if (count < 4 || image_open(decoder, bytes, count, &size, &err) != OK ||
        (uint64_t)size.width * size.height > FUZZ_PIXELS_MAX) {
        return;
    }
    const struct image_rect all = {0, 0, size.width, size.height};
    const struct image_rect rect = fuzz_rect(bytes, count, &size);
    struct image_view view;
    const enum status whole = fuzz_read(decoder, bytes, count, &all, &view);
    uint8_t *pixels = whole == OK ? fuzz_copy(&view, &all) : NULL;
    const enum status part = fuzz_read(decoder, bytes, count, &rect, &view);
    CHECK(whole != OK || part == OK);
    for (size_t y = 0; pixels != NULL && y < rect.height; y++) {
        const uint8_t *want = pixels + ((rect.y + y) * size.width + rect.x) * 3;
        CHECK(memcmp(view.pixels + y * view.stride_bytes, want, (size_t)rect.width * 3) == 0);
    }
    free(pixels);
    image_close(decoder);
}

#endif
