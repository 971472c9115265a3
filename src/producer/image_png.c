/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PNG by libpng: every colour type and depth, interlaced or not, to 8-bit RGB. The file is always
 * read to its end, so that its checksums hold, and only the rectangle's rows are kept. Chunks that
 * change no pixel of ours (text, profiles, gamma, time) are passed over unread, so what they might
 * inflate to costs nothing.
 *
 * Invariant: the library's errors come back by longjmp to guard() and nowhere else, and no step
 * that guard() runs owns anything.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "producer/image_ops.h"

enum { REASON_BYTES = 256, SIGNATURE_BYTES = 8 };

struct png {
    png_structp png;
    png_infop info;
    jmp_buf failed;
    const uint8_t *bytes;
    size_t count, at;
    char reason[REASON_BYTES];
    char warning[REASON_BYTES];
    bool out_of_memory;
    /* what is read, for the steps */
    const struct image_rect *rect;
    uint8_t *pixels;
    size_t stride_bytes;
    uint32_t width, height;
    int passes;
};

static _Noreturn void on_error(png_structp library, png_const_charp message)
{
    struct png *png = png_get_error_ptr(library);
    (void)snprintf(png->reason, sizeof(png->reason), "%s", message);
    longjmp(png->failed, 1);
}

/* The library explains a bad header in a warning before it gives up. */
static void on_warning(png_structp library, png_const_charp message)
{
    struct png *png = png_get_error_ptr(library);
    (void)snprintf(png->warning, sizeof(png->warning), " (%s)", message);
}

static void on_read(png_structp library, png_bytep target, size_t count)
{
    struct png *png = png_get_io_ptr(library);
    if (count > png->count - png->at) {
        png_error(library, "the file is cut short");
    }
    memcpy(target, png->bytes + png->at, count);
    png->at += count;
}

static png_voidp on_malloc(png_structp library, png_alloc_size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        ((struct png *)png_get_mem_ptr(library))->out_of_memory = true;
    }
    return memory;
}

static void on_free(png_structp library, png_voidp memory)
{
    free(memory);
}

/* Runs a step of the library; the one place where its errors arrive. */
static enum status guard(struct png *png, void (*step)(struct png *), struct err *err)
{
    if (setjmp(png->failed) != 0) {
        const enum status status = png->out_of_memory ? ERR_RESOURCE : ERR_DATA;
        return err_set(err, status, "PNG: %s%s", png->reason, png->warning);
    }
    step(png);
    return OK;
}

static void close_picture(void *state)
{
    struct png *png = state;
    png_destroy_read_struct(&png->png, &png->info, NULL);
}

static void step_create(struct png *png)
{
    png->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, png, on_error, on_warning, png,
                                        on_malloc, on_free);
    if (png->png != NULL) {
        png->info = png_create_info_struct(png->png);
    }
}

static void step_header(struct png *png)
{
    png_set_read_fn(png->png, png, on_read);
    png_set_user_limits(png->png, IMAGE_SIDE_MAX, IMAGE_SIDE_MAX);
    png_set_keep_unknown_chunks(png->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png->png, png->info);
    png->width = png_get_image_width(png->png, png->info);
    png->height = png_get_image_height(png->png, png->info);
}

static enum status open_picture(void *state, const uint8_t *bytes, size_t count,
                                struct image_size *size_out, struct err *err)
{
    struct png *png = state;
    png->bytes = bytes;
    png->count = count;
    png->at = 0;
    png->warning[0] = '\0';
    png->out_of_memory = false;
    TRY(guard(png, step_create, err));
    if (png->info == NULL) {
        return err_set(err, ERR_RESOURCE, "PNG: no memory for the decoder");
    }
    TRY(guard(png, step_header, err));
    *size_out = (struct image_size){png->width, png->height};
    return OK;
}

/* Asks for 8-bit RGB whatever the file holds. */
static void step_start(struct png *png)
{
    const int type = png_get_color_type(png->png, png->info);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_palette_to_rgb(png->png);
    }
    if ((type & PNG_COLOR_MASK_COLOR) == 0) {
        png_set_expand_gray_1_2_4_to_8(png->png);
        png_set_gray_to_rgb(png->png);
    }
    png_set_scale_16(png->png);
    png_set_strip_alpha(png->png);
    png->passes = png_set_interlace_handling(png->png);
    png_read_update_info(png->png, png->info);
}

/* All rows at their place in memory, pass after pass. */
static void step_read_interlaced(struct png *png)
{
    for (int pass = 0; pass < png->passes; pass++) {
        for (uint32_t y = 0; y < png->height; y++) {
            png_read_row(png->png, png->pixels + y * png->stride_bytes, NULL);
        }
    }
    png_read_end(png->png, NULL);
}

/* The rectangle's rows to the front of memory, all others to the row behind them. */
static void step_read_rows(struct png *png)
{
    const struct image_rect *rect = png->rect;
    for (uint32_t y = 0; y < png->height; y++) {
        const bool wanted = y >= rect->y && y < rect->y + rect->height;
        const size_t row = wanted ? y - rect->y : rect->height;
        png_read_row(png->png, png->pixels + row * png->stride_bytes, NULL);
    }
    png_read_end(png->png, NULL);
}

static enum status read_rect(void *state, const struct image_rect *rect,
                             struct image_buffer *buffer, struct image_view *view_out,
                             struct err *err)
{
    struct png *png = state;
    png->rect = rect;
    TRY(guard(png, step_start, err));
    png->stride_bytes = (size_t)png->width * 3;
    CHECK(png_get_rowbytes(png->png, png->info) == png->stride_bytes);
    const bool interlaced = png->passes > 1;
    const size_t rows = interlaced ? png->height : (size_t)rect->height + 1;
    TRY(image_buffer_reserve(buffer, rows, png->stride_bytes, err));
    png->pixels = buffer->bytes;
    TRY(guard(png, interlaced ? step_read_interlaced : step_read_rows, err));
    const size_t first = interlaced ? rect->y : 0;
    view_out->pixels = png->pixels + first * png->stride_bytes + (size_t)rect->x * 3;
    view_out->stride_bytes = png->stride_bytes;
    return OK;
}

static bool matches(const uint8_t *bytes, size_t count)
{
    return count >= SIGNATURE_BYTES && png_sig_cmp(bytes, 0, SIGNATURE_BYTES) == 0;
}

static enum status new_state(void **out, struct err *err)
{
    *out = calloc(1, sizeof(struct png));
    if (*out == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a PNG decoder");
    }
    return OK;
}

static void free_state(void *state)
{
    free(state);
}

static void version(char *text, size_t text_bytes)
{
    (void)snprintf(text, text_bytes, "libpng %s", png_get_libpng_ver(NULL));
}

const struct image_ops image_png = {
    .name = "PNG",
    .matches = matches,
    .new_state = new_state,
    .free_state = free_state,
    .open = open_picture,
    .read = read_rect,
    .close = close_picture,
    .version = version,
};
