/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PNG decoding: every colour type, depth and interlacing gives the RGB pixels that the file stands
 * for; any flipped byte and any cut is refused, or changes nothing that is ours.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "producer/image.h"
#include "support/picture_png.h"
#include "support/random.h"
#include "support/suite.h"

static const struct png_kind KINDS[] = {
    {.colour = PNG_GRAY, .bits = 1},
    {.colour = PNG_GRAY, .bits = 2},
    {.colour = PNG_GRAY, .bits = 4},
    {.colour = PNG_GRAY, .bits = 8},
    {.colour = PNG_GRAY, .bits = 16},
    {.colour = PNG_GRAY, .bits = 8, .transparency = true},
    {.colour = PNG_RGB_COLOUR, .bits = 8},
    {.colour = PNG_RGB_COLOUR, .bits = 16},
    {.colour = PNG_RGB_COLOUR, .bits = 8, .transparency = true},
    {.colour = PNG_PALETTE, .bits = 1},
    {.colour = PNG_PALETTE, .bits = 2},
    {.colour = PNG_PALETTE, .bits = 4},
    {.colour = PNG_PALETTE, .bits = 8},
    {.colour = PNG_PALETTE, .bits = 8, .transparency = true},
    {.colour = PNG_GRAY_AND_ALPHA, .bits = 8},
    {.colour = PNG_GRAY_AND_ALPHA, .bits = 16},
    {.colour = PNG_RGB_AND_ALPHA, .bits = 8},
    {.colour = PNG_RGB_AND_ALPHA, .bits = 16},
};

static struct image_decoder *decoder;

static void setup(void)
{
    struct err err = {0};
    ck_assert_msg(image_decoder_new(&decoder, &err) == OK, "%s", err.message);
}

static void teardown(void)
{
    image_decoder_free(&decoder);
}

static enum status read_rect(const uint8_t *bytes, size_t count, const struct image_rect *rect,
                             struct image_view *view, struct err *err)
{
    struct image_size size;
    TRY(image_open(decoder, bytes, count, &size, err));
    return image_read(decoder, rect, view, err);
}

static bool equals(const struct image_view *view, const struct image_rect *rect,
                   const struct picture *whole)
{
    for (uint32_t y = 0; y < rect->height; y++) {
        const uint8_t *want = whole->pixels + ((size_t)(rect->y + y) * whole->width + rect->x) * 3;
        if (memcmp(view->pixels + y * view->stride_bytes, want, (size_t)rect->width * 3) != 0) {
            return false;
        }
    }
    return true;
}

static void assert_rects(const struct png_kind *kind, uint32_t width, uint32_t height,
                         struct random_state *random)
{
    struct picture source = picture_new(width, height, random_u64(random));
    struct picture want;
    struct bytes file = picture_png(&source, kind, &want);
    for (int i = 0; i < 20; i++) {
        struct image_rect r = {.x = (uint32_t)random_in(random, 0, width - 1),
                               .y = (uint32_t)random_in(random, 0, height - 1)};
        r.width = (uint32_t)random_in(random, 1, width - r.x);
        r.height = (uint32_t)random_in(random, 1, height - r.y);
        struct err err = {0};
        struct image_view view;
        ck_assert_msg(read_rect(file.data, file.count, &r, &view, &err) == OK, "%s", err.message);
        ck_assert_msg(equals(&view, &r, &want), "colour %d, %d bits: %ux%u at (%u, %u) of %ux%u",
                      kind->colour, kind->bits, r.width, r.height, r.x, r.y, width, height);
    }
    picture_free(&want);
    picture_free(&source);
    free(file.data);
}

START_TEST(pixels_are_what_the_file_stands_for)
{
    struct random_state random = {random_seed()};
    struct png_kind kind = KINDS[_i];
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        kind.interlaced = interlaced == 1;
        assert_rects(&kind, 67, 45, &random);
        assert_rects(&kind, 1, 1, &random);
        assert_rects(&kind, 3, 9, &random);
    }
}
END_TEST

/* All depths of 16 bits come out rounded, not cut. */
START_TEST(sixteen_bits_are_rounded)
{
    struct picture source = picture_new(256, 256, 0);
    for (uint32_t i = 0; i < 256 * 256; i++) {
        source.pixels[3 * i] = (uint8_t)(i >> 8);
        source.pixels[3 * i + 1] = (uint8_t)i;
    }
    const struct png_kind kind = {.colour = PNG_GRAY, .bits = 16};
    struct picture want;
    struct bytes file = picture_png(&source, &kind, &want);
    const struct image_rect all = {0, 0, 256, 256};
    struct err err = {0};
    struct image_view view;
    ck_assert_msg(read_rect(file.data, file.count, &all, &view, &err) == OK, "%s", err.message);
    ck_assert(equals(&view, &all, &want));
    picture_free(&want);
    picture_free(&source);
    free(file.data);
}
END_TEST

START_TEST(any_flipped_byte_is_refused_or_harmless)
{
    const struct png_kind *kind = &KINDS[_i];
    struct picture source = picture_new(13, 11, 1);
    struct picture want;
    struct bytes file = picture_png(&source, kind, &want);
    const struct image_rect top = {2, 0, 5, 1};
    for (size_t i = 0; i < file.count; i++) {
        file.data[i] ^= (uint8_t)(1 << i % 8);
        struct err err = {0};
        struct image_view view;
        const enum status status = read_rect(file.data, file.count, &top, &view, &err);
        ck_assert_msg(status == ERR_DATA || (status == OK && equals(&view, &top, &want)),
                      "byte %zu: status %d", i, status);
        /* Only what lies in a chunk of transparency, which we drop, may pass. */
        ck_assert_msg(status == ERR_DATA || kind->transparency, "byte %zu", i);
        file.data[i] ^= (uint8_t)(1 << i % 8);
    }
    picture_free(&want);
    picture_free(&source);
    free(file.data);
}
END_TEST

START_TEST(any_cut_is_refused)
{
    const struct png_kind *kind = &KINDS[_i];
    struct picture source = picture_new(13, 11, 1);
    struct picture want;
    struct bytes file = picture_png(&source, kind, &want);
    const struct image_rect top = {0, 0, 1, 1};
    for (size_t count = 0; count < file.count; count++) {
        uint8_t *exact = malloc(count + 1);
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, file.data, count);
        struct err err = {0};
        struct image_view view;
        ck_assert_int_eq(read_rect(exact, count, &top, &view, &err), ERR_DATA);
        free(exact);
    }
    picture_free(&want);
    picture_free(&source);
    free(file.data);
}
END_TEST

/* Text that inflates to 7.5 MB, which the library would take, is passed over unread. */
START_TEST(text_costs_no_memory)
{
    const struct png_kind kind = {.colour = PNG_GRAY, .bits = 8, .text_bytes = 7500000};
    struct picture source = picture_new(67, 45, 1);
    struct picture want;
    struct bytes file = picture_png(&source, &kind, &want); /* its own text is gone now */
    const struct image_rect all = {0, 0, 67, 45};
    struct rusage before;
    struct rusage after;
    getrusage(RUSAGE_SELF, &before);
    uint8_t *ballast = malloc((size_t)before.ru_maxrss * 1024); /* up to the peak again */
    ck_assert_ptr_nonnull(ballast);
    memset(ballast, 1, (size_t)before.ru_maxrss * 1024);
    getrusage(RUSAGE_SELF, &before);
    struct err err = {0};
    struct image_view view;
    ck_assert_msg(read_rect(file.data, file.count, &all, &view, &err) == OK, "%s", err.message);
    ck_assert(equals(&view, &all, &want));
    getrusage(RUSAGE_SELF, &after);
    ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 4000);
    free(ballast);
    picture_free(&want);
    picture_free(&source);
    free(file.data);
}
END_TEST

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

/* CRC-32 as PNG defines it. */
static uint32_t crc32_of(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
        }
    }
    return ~crc;
}

START_TEST(large_claims_are_refused_by_the_header)
{
    enum { IHDR = 12, WIDTH = 16, HEIGHT = 20, CRC = 29 };
    static const uint32_t SIZES[][2] = {{INT32_MAX, INT32_MAX}, {65501, 1}, {1, 65501},
                                        {65500, 65500},         {0, 5},     {5, 0}};
    const struct png_kind kind = {.colour = PNG_RGB_AND_ALPHA, .bits = 16};
    struct picture source = picture_new(4, 4, 1);
    struct picture want;
    struct bytes file = picture_png(&source, &kind, &want);
    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++) {
        put32(file.data + WIDTH, SIZES[i][0]);
        put32(file.data + HEIGHT, SIZES[i][1]);
        put32(file.data + CRC, crc32_of(file.data + IHDR, CRC - IHDR));
        struct image_size size;
        struct err err = {0};
        ck_assert_int_eq(image_open(decoder, file.data, file.count, &size, &err), ERR_DATA);
        ck_assert_msg(strstr(err.message, "PNG") != NULL, "%s", err.message);
    }
    picture_free(&want);
    picture_free(&source);
    free(file.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_png");
    TCase *tc = tcase_create("image_png");
    const int kinds = (int)ARRAY_LEN(KINDS);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, pixels_are_what_the_file_stands_for, 0, kinds);
    tcase_add_test(tc, sixteen_bits_are_rounded);
    tcase_add_loop_test(tc, any_flipped_byte_is_refused_or_harmless, 0, kinds);
    tcase_add_loop_test(tc, any_cut_is_refused, 0, kinds);
    tcase_add_test(tc, text_costs_no_memory);
    tcase_add_test(tc, large_claims_are_refused_by_the_header);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
