/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a picture as JPEG into memory. libjpeg-turbo's accurate integer transform gives the same
 * bytes on every CPU; other versions of the library may give others.
 */
#ifndef HEADRACE_CLI_GEN_JPEG_H
#define HEADRACE_CLI_GEN_JPEG_H

#include "cli/gen_picture.h"

enum { GEN_JPEG_BYTES_MAX = GEN_PIXEL_BYTES_MAX + (1 << 16) };

/* pixels: RGB, width x height of the format. ERR_INTERNAL with the library's words. */
MUST_USE enum status gen_jpeg(const uint8_t *pixels, const struct gen_format *format,
                              uint8_t out[GEN_JPEG_BYTES_MAX], size_t *bytes_out, struct err *err);

#endif
