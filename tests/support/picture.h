/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures for tests: made pixels, the same as a JPEG file of any kind, and the whole decode of a
 * JPEG by libjpeg's plainest path, which is what regions are compared with. Failures abort: they
 * are the test's own.
 */
#ifndef HEADRACE_TESTS_SUPPORT_PICTURE_H
#define HEADRACE_TESTS_SUPPORT_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* RGB, rows without gaps. */
struct picture {
    uint32_t width, height;
    uint8_t *pixels; /* of malloc */
};

/* Smooth ramps, edges and noise, so that every coefficient occurs. */
struct picture picture_new(uint32_t width, uint32_t height, uint64_t seed);
void picture_free(struct picture *picture);

struct jpeg_kind {
    int components;                      /* 1 gray, 3 YCbCr, 4 CMYK */
    bool rgb;                            /* 3 components that are no YCbCr */
    bool ycck;                           /* 4 components: YCCK instead of CMYK */
    int h[4], v[4];                      /* sampling factors; 0: 1 */
    int quality;                         /* 0: 90 */
    bool progressive, arithmetic, scans; /* scans: sequential, one for each component */
    bool every_scan;                     /* gray: 64 coefficients in 4 steps each: 256 scans */
    unsigned restart_rows;
};

struct bytes {
    uint8_t *data; /* of malloc */
    size_t count;
};

struct bytes picture_jpeg(const struct picture *picture, const struct jpeg_kind *kind);

/* Gray and YCbCr files only; all pixels, with libjpeg's defaults but for RGB output. Warnings are
 * passed over; pixels is NULL where the library gave up. */
struct picture picture_of_jpeg(const uint8_t *bytes, size_t count);

#endif
