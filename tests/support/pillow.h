/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pillow's resize(BILINEAR) restated from its documentation, horizontally first, to the bit
 * (tests/integration/pillow.py checks that against Pillow itself): the oracle of the resampler's
 * tests.
 */
#ifndef HEADRACE_TESTS_SUPPORT_PILLOW_H
#define HEADRACE_TESTS_SUPPORT_PILLOW_H

#include "support/picture.h"

/* The rectangle (x, y, width, height) of source, resampled: Pillow's
 * source.crop(...).resize((out_width, out_height), BILINEAR). */
struct picture pillow_resize(const struct picture *source, uint32_t x, uint32_t y, uint32_t width,
                             uint32_t height, uint32_t out_width, uint32_t out_height);

#endif
