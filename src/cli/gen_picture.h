/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One picture of `headrace gen`: an object on a textured background, of many sizes, noisy and lit
 * from a side as photographs are. The class decides the object's outline and pattern alone; place,
 * size, turn and every colour are drawn without looking at it, so that neither the mean colour nor
 * a coarse thumbnail tells the class. A pure function of (seed, split, number, class), in integers
 * and IEEE + - x / sqrt: the same pixels on every CPU.
 */
#ifndef HEADRACE_CLI_GEN_PICTURE_H
#define HEADRACE_CLI_GEN_PICTURE_H

#include "cli/gen_noise.h"

enum { GEN_SIDE_MAX = 600, GEN_PIXEL_BYTES_MAX = GEN_SIDE_MAX * GEN_SIDE_MAX * 3 };

enum gen_chroma { GEN_CHROMA_420, GEN_CHROMA_422, GEN_CHROMA_444, GEN_CHROMA_GRAY };

struct gen_id {
    uint64_t seed;
    uint32_t split; /* 0: train, 1: test */
    uint32_t number;
    uint32_t class;
};

/* How a picture is to be stored. */
struct gen_format {
    uint32_t width, height; /* <= GEN_SIDE_MAX */
    enum gen_chroma chroma;
    int quality; /* of JPEG */
    bool progressive;
};

/* Draws RGB pixels, width x height x 3. Any thread. */
void gen_picture(const struct noise *noise, const struct gen_id *id,
                 uint8_t pixels[GEN_PIXEL_BYTES_MAX], struct gen_format *format_out);

#endif
