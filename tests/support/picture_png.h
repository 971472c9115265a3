/* SPDX-License-Identifier: Apache-2.0 */
/* PNG files of every kind for tests, with the RGB pixels that they stand for. */
#ifndef HEADRACE_TESTS_SUPPORT_PICTURE_PNG_H
#define HEADRACE_TESTS_SUPPORT_PICTURE_PNG_H

#include "support/picture.h"

enum png_colour { PNG_GRAY, PNG_RGB_COLOUR, PNG_PALETTE, PNG_GRAY_AND_ALPHA, PNG_RGB_AND_ALPHA };

struct png_kind {
    enum png_colour colour;
    int bits; /* of a sample: those that PNG allows for the colour */
    bool interlaced;
    bool transparency;   /* a tRNS chunk: a transparent colour, or alpha of palette entries */
    uint32_t text_bytes; /* of a compressed text chunk of zeros */
};

/* A file made from the picture's values, and in *expected what it means: alpha dropped, v * 255 /
 * max rounded. Both are the caller's to free. */
struct bytes picture_png(const struct picture *picture, const struct png_kind *kind,
                         struct picture *expected);

#endif
