/* SPDX-License-Identifier: Apache-2.0 */
#include "support/picture_png.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

enum { CHANNELS_MAX = 4 };

static void *must_have(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void append(png_structp png, png_bytep data, size_t count)
{
    struct bytes *out = png_get_io_ptr(png);
    out->data = must_have(realloc(out->data, out->count + count));
    memcpy(out->data + out->count, data, count);
    out->count += count;
}

static void flush(png_structp png)
{
}

static int type_of(enum png_colour colour)
{
    static const int TYPES[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE,
                                PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB_ALPHA};
    return TYPES[colour];
}

static int channels_of(enum png_colour colour)
{
    static const int CHANNELS[] = {1, 3, 1, 2, 4};
    return CHANNELS[colour];
}

/* Entry i of the palette: far from its neighbours. */
static png_color palette_entry(uint32_t i)
{
    return (png_color){(uint8_t)(i * 97), (uint8_t)(255 - i), (uint8_t)(i * i)};
}

/* A sample of `bits` bits out of a pixel's three values. */
static uint32_t sample_of(const uint8_t *pixel, int channel, int bits)
{
    const uint32_t first = pixel[channel % 3];
    const uint32_t second = pixel[(channel + 1) % 3];
    return bits == 16 ? first << 8 | second : first >> (8 - bits);
}

/* Half up: v * 255 / max. */
static uint8_t to_8_bits(uint32_t value, int bits)
{
    const uint32_t max = (1U << bits) - 1;
    return (uint8_t)((2 * value * 255 + max) / (2 * max));
}

static void set_pixel(const struct png_kind *kind, const uint8_t *pixel, uint8_t *row, uint32_t x,
                      uint8_t *rgb)
{
    const int channels = channels_of(kind->colour);
    uint32_t samples[CHANNELS_MAX] = {0};
    for (int c = 0; c < channels; c++) {
        samples[c] = sample_of(pixel, c, kind->bits);
        uint8_t *at = row + ((size_t)x * (size_t)channels + (size_t)c) * (kind->bits == 16 ? 2 : 1);
        at[0] = (uint8_t)(kind->bits == 16 ? samples[c] >> 8 : samples[c]);
        if (kind->bits == 16) {
            at[1] = (uint8_t)samples[c];
        }
    }
    if (kind->colour == PNG_PALETTE) {
        const png_color colour = palette_entry(samples[0]);
        rgb[0] = colour.red;
        rgb[1] = colour.green;
        rgb[2] = colour.blue;
        return;
    }
    for (int c = 0; c < 3; c++) {
        rgb[c] = to_8_bits(samples[channels >= 3 ? c : 0], kind->bits);
    }
}

static void set_chunks(png_structp png, png_infop info, const struct png_kind *kind)
{
    png_color palette[256];
    uint8_t alpha[256];
    for (uint32_t i = 0; i < 256; i++) {
        palette[i] = palette_entry(i);
        alpha[i] = (uint8_t)(i * 31);
    }
    const png_color_16 transparent = {.red = 1, .green = 2, .blue = 3, .gray = 1};
    if (kind->colour == PNG_PALETTE) {
        png_set_PLTE(png, info, palette, 1 << kind->bits);
    }
    if (kind->transparency) {
        png_set_tRNS(png, info, alpha, 1 << (kind->bits < 8 ? kind->bits : 8), &transparent);
    }
}

static void write_text(png_structp png, png_infop info, uint32_t count)
{
    char *zeros = must_have(malloc((size_t)count + 1));
    memset(zeros, '0', count);
    zeros[count] = '\0';
    char key[] = "Comment";
    const png_text text = {
        .compression = PNG_TEXT_COMPRESSION_zTXt, .key = key, .text = zeros, .text_length = count};
    png_set_text(png, info, &text, 1);
    free(zeros);
}

struct bytes picture_png(const struct picture *picture, const struct png_kind *kind,
                         struct picture *expected)
{
    struct bytes out = {NULL, 0};
    png_structp png = must_have(png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL));
    png_infop info = must_have(png_create_info_struct(png));
    png_set_write_fn(png, &out, append, flush); /* errors abort: no jump is set */
    png_set_IHDR(png, info, picture->width, picture->height, kind->bits, type_of(kind->colour),
                 kind->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    set_chunks(png, info, kind);
    if (kind->text_bytes > 0) {
        write_text(png, info, kind->text_bytes);
    }
    png_write_info(png, info);
    png_set_packing(png);
    const size_t row_bytes = (size_t)picture->width * CHANNELS_MAX * 2;
    uint8_t *rows = must_have(malloc(row_bytes * picture->height));
    png_bytep *pointers = must_have(malloc(picture->height * sizeof(png_bytep)));
    *expected = picture_new(picture->width, picture->height, 0);
    for (size_t y = 0; y < picture->height; y++) {
        pointers[y] = rows + y * row_bytes;
        for (uint32_t x = 0; x < picture->width; x++) {
            const size_t at = (y * picture->width + x) * 3;
            set_pixel(kind, picture->pixels + at, pointers[y], x, expected->pixels + at);
        }
    }
    png_write_image(png, pointers);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    free((void *)pointers);
    free(rows);
    return out;
}
