/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures: compressed bytes in, the RGB pixels of a rectangle out. One decoder per thread; one
 * backend (struct image_ops) per format, chosen by content, never by a file's name. What is decoded
 * follows Pillow's convert("RGB"): gray becomes three equal channels, alpha is dropped, 16 bits
 * become 8 by rounding v / 257, CMYK is taken as Adobe writes it (inverted). An orientation in EXIF
 * data is not applied.
 *
 * Every limit (IMAGE_SIDE_MAX, IMAGE_PIXELS_MAX, JPEG_SCANS_MAX) is checked before memory is taken.
 * The pixels of a rectangle equal those of a decode of the whole picture.
 */
#ifndef HEADRACE_PRODUCER_IMAGE_H
#define HEADRACE_PRODUCER_IMAGE_H

#include "common/err.h"
#include "common/limits.h"

struct image_size {
    uint32_t width, height;
};

struct image_rect {
    uint32_t x, y, width, height;
};

/* Readable bytes behind the last pixel of a view: vector code may load them, never use them. */
enum { IMAGE_PAD_BYTES = 64 };

/* RGB pixels in the decoder's memory, row after row; valid until the decoder's next call. */
struct image_view {
    const uint8_t *pixels;
    size_t stride_bytes;
};

struct image_decoder; /* of one thread */

MUST_USE enum status image_decoder_new(struct image_decoder **out, struct err *err);
void image_decoder_free(struct image_decoder **decoder);

/*
 * Recognises the format and reads the header. bytes stay borrowed until image_close. ERR_DATA: no
 * picture of a known format (a foreign one is named), a bad header, or a picture past a limit;
 * ERR_RESOURCE. After a failure nothing is open.
 */
MUST_USE enum status image_open(struct image_decoder *decoder, const void *bytes, size_t count,
                                struct image_size *size_out, struct err *err);

/*
 * Decodes a rectangle (not empty, inside the open picture), once per image_open. ERR_DATA: damaged,
 * or cut short, with the library's reason. Damage in a JPEG's rows below the rectangle is not
 * looked for, but a file that does not end as a JPEG does is decoded whole, so that a truncated
 * picture is found whatever the rectangle.
 */
MUST_USE enum status image_read(struct image_decoder *decoder, const struct image_rect *rect,
                                struct image_view *view_out, struct err *err);

/* Lets go of the bytes and of the library's memory for this picture; harmless when nothing is open.
 */
void image_close(struct image_decoder *decoder);

/* The picture libraries that decode, with their versions: "libjpeg-turbo 2.1.5, libpng 1.6.39". */
void image_versions(char *text, size_t text_bytes);

#endif
