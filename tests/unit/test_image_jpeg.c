/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG decoding: a rectangle equals the same pixels of a whole decode by libjpeg's plainest path,
 * for every kind of file; what is damaged, cut or too large is bad data, and leaves nothing behind.
 */
#include <stdio.h>
#include <string.h>

#include "producer/image.h"
#include "support/picture.h"
#include "support/random.h"
#include "support/suite.h"

enum { MARKER = 0xff, SOF0 = 0xc0, DQT = 0xdb, SOS = 0xda, RST0 = 0xd0 };

static const struct named_kind {
    const char *name;
    struct jpeg_kind kind;
} KINDS[] = {
    {"4:4:4", {.components = 3}},
    {"4:2:2", {.components = 3, .h = {2}}},
    {"4:4:0", {.components = 3, .v = {2}}},
    {"4:2:0", {.components = 3, .h = {2}, .v = {2}}},
    {"4:1:1", {.components = 3, .h = {4}}},
    {"1x4", {.components = 3, .v = {4}}},
    {"4:1:0", {.components = 3, .h = {4}, .v = {2}}},
    {"1x3", {.components = 3, .v = {3}}},
    {"2x2, 2x1, 1x1", {.components = 3, .h = {2, 2, 1}, .v = {2, 1, 1}}},
    {"4:4:4 as 2x1", {.components = 3, .h = {2, 2, 2}}},
    {"RGB", {.components = 3, .rgb = true}},
    {"gray", {.components = 1}},
    {"gray as 2x2", {.components = 1, .h = {2}, .v = {2}}},
    {"progressive 4:2:0", {.components = 3, .h = {2}, .v = {2}, .progressive = true}},
    {"progressive gray", {.components = 1, .progressive = true}},
    {"arithmetic 4:2:0", {.components = 3, .h = {2}, .v = {2}, .arithmetic = true}},
    {"a scan each, 4:2:0", {.components = 3, .h = {2}, .v = {2}, .scans = true}},
    {"restarts 4:2:0", {.components = 3, .h = {2}, .v = {2}, .restart_rows = 1}},
    {"coarse 4:2:0", {.components = 3, .h = {2}, .v = {2}, .quality = 20}},
    {"fine 4:4:4", {.components = 3, .quality = 100}},
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

static struct image_rect random_rect(struct random_state *random, const struct image_size *size)
{
    struct image_rect r;
    r.x = (uint32_t)random_in(random, 0, size->width - 1);
    r.y = (uint32_t)random_in(random, 0, size->height - 1);
    r.width = (uint32_t)random_in(random, 1, size->width - r.x);
    r.height = (uint32_t)random_in(random, 1, size->height - r.y);
    return r;
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

static void assert_rect_equals(const char *name, const struct bytes *file,
                               const struct picture *whole, const struct image_rect *rect)
{
    struct err err = {0};
    struct image_view view;
    ck_assert_msg(read_rect(file->data, file->count, rect, &view, &err) == OK, "%s: %s", name,
                  err.message);
    ck_assert_msg(equals(&view, rect, whole), "%s, %ux%u: rectangle %ux%u at (%u, %u)", name,
                  whole->width, whole->height, rect->width, rect->height, rect->x, rect->y);
}

START_TEST(rectangle_equals_whole_decode)
{
    static const uint32_t SIZES[][2] = {{1, 1}, {2, 3}, {15, 17}, {33, 31}, {67, 45}, {200, 150}};
    const struct named_kind *named = &KINDS[_i];
    struct random_state random = {random_seed()};
    for (size_t s = 0; s < ARRAY_LEN(SIZES); s++) {
        const struct image_size size = {SIZES[s][0], SIZES[s][1]};
        struct picture source = picture_new(size.width, size.height, random_u64(&random));
        struct bytes file = picture_jpeg(&source, &named->kind);
        struct picture whole = picture_of_jpeg(file.data, file.count);
        ck_assert_ptr_nonnull(whole.pixels);
        for (int i = 0; i < 60; i++) {
            const struct image_rect rect = random_rect(&random, &size);
            assert_rect_equals(named->name, &file, &whole, &rect);
        }
        picture_free(&whole);
        picture_free(&source);
        free(file.data);
    }
}
END_TEST

/* Inverted CMYK to RGB: C * K / 255 for each channel, within what the coding loses. */
START_TEST(four_components_become_rgb)
{
    const struct jpeg_kind kind = {.components = 4, .ycck = _i == 1, .quality = 100};
    struct picture source = picture_new(64, 48, 5);
    struct bytes file = picture_jpeg(&source, &kind);
    const struct image_rect rect = {7, 5, 50, 40};
    struct image_view view;
    struct err err = {0};
    ck_assert_msg(read_rect(file.data, file.count, &rect, &view, &err) == OK, "%s", err.message);
    for (uint32_t y = 0; y < rect.height; y++) {
        for (uint32_t i = 0; i < rect.width * 3; i++) {
            const uint32_t x = rect.x + i / 3;
            const int ink = source.pixels[((rect.y + y) * 64 + rect.x) * 3 + i];
            const int want = ink * (255 - (int)x % 64) / 255;
            const int got = view.pixels[y * view.stride_bytes + i];
            ck_assert_msg(abs(got - want) <= 6, "(%u, %u): %d, wanted %d", x, y, got, want);
        }
    }
    picture_free(&source);
    free(file.data);
}
END_TEST

/* The first marker of a kind; 0 when there is none. */
static size_t find_marker(const struct bytes *file, uint8_t marker)
{
    for (size_t i = 2; i + 1 < file->count; i++) {
        if (file->data[i] == MARKER && file->data[i + 1] == marker) {
            return i;
        }
    }
    return 0;
}

/* A file that ends early is bad even if the rectangle lies in what is there; but an end marker
 * alone loses nothing. */
START_TEST(cut_files_are_bad)
{
    const struct named_kind *named = &KINDS[_i];
    struct picture source = picture_new(67, 45, 9);
    struct bytes file = picture_jpeg(&source, &named->kind);
    struct picture whole = picture_of_jpeg(file.data, file.count);
    const struct image_rect top = {0, 0, 20, 1};
    for (size_t lost = 1; lost < file.count; lost += lost < 40 ? 1 : 7) {
        struct err err = {0};
        struct image_view view;
        const enum status status = read_rect(file.data, file.count - lost, &top, &view, &err);
        if (lost <= 2 && !named->kind.arithmetic) {
            ck_assert_msg(status == OK && equals(&view, &top, &whole), "%s, %zu bytes short: %s",
                          named->name, lost, err.message);
        } else if (lost > 4) { /* the last bytes before it may be padding */
            ck_assert_msg(status == ERR_DATA, "%s, %zu bytes short", named->name, lost);
            ck_assert_msg(err.message[0] != '\0', "a reason is given");
        }
    }
    picture_free(&whole);
    picture_free(&source);
    free(file.data);
}
END_TEST

/* Whatever the damage: the same pixels as the library's own whole decode, or bad data. */
START_TEST(damage_is_refused_or_decoded_as_the_library_does)
{
    const struct named_kind *named = &KINDS[_i];
    struct random_state random = {random_seed()};
    const struct image_size size = {67, 45};
    struct picture source = picture_new(size.width, size.height, 3);
    struct bytes file = picture_jpeg(&source, &named->kind);
    const size_t scan = find_marker(&file, SOS);
    int good = 0;
    int bad = 0;
    for (int i = 0; i < 150; i++) {
        const size_t at = random_in(&random, scan + 14, file.count - 3);
        const uint8_t before = file.data[at];
        file.data[at] = (uint8_t)random_u64(&random);
        struct picture whole = picture_of_jpeg(file.data, file.count);
        const struct image_rect rect = random_rect(&random, &size);
        struct err err = {0};
        struct image_view view;
        const enum status status = read_rect(file.data, file.count, &rect, &view, &err);
        ck_assert_msg(status == OK || status == ERR_DATA, "%s: %s", named->name, err.message);
        if (status == OK && whole.pixels != NULL) {
            ck_assert_msg(equals(&view, &rect, &whole), "%s, byte %zu: rectangle %ux%u at (%u, %u)",
                          named->name, at, rect.width, rect.height, rect.x, rect.y);
        }
        good += status == OK;
        bad += status != OK;
        picture_free(&whole);
        file.data[at] = before;
    }
    printf("%s: %d decoded, %d refused\n", named->name, good, bad);
    ck_assert_int_gt(good, 0);
    picture_free(&source);
    free(file.data);
}
END_TEST

/* Bytes before a restart marker make the library warn, but lose nothing. */
START_TEST(warnings_alone_are_no_damage)
{
    const struct image_size size = {96, 64};
    const struct jpeg_kind kind = {.components = 3, .h = {2}, .v = {2}, .restart_rows = 1};
    struct picture source = picture_new(size.width, size.height, 2);
    struct bytes file = picture_jpeg(&source, &kind);
    struct picture whole = picture_of_jpeg(file.data, file.count);
    const size_t at = find_marker(&file, RST0 + 1);
    ck_assert_uint_gt(at, 0);
    struct bytes longer = {malloc(file.count + 3), file.count + 3};
    ck_assert_ptr_nonnull(longer.data);
    memcpy(longer.data, file.data, at);
    memset(longer.data + at, 0x55, 3);
    memcpy(longer.data + at + 3, file.data + at, file.count - at);
    const struct image_rect rects[] = {{0, 0, 96, 64}, {5, 50, 9, 10}, {20, 3, 40, 5}};
    for (size_t i = 0; i < ARRAY_LEN(rects); i++) {
        assert_rect_equals("extraneous bytes", &longer, &whole, &rects[i]);
    }
    picture_free(&whole);
    picture_free(&source);
    free(longer.data);
    free(file.data);
}
END_TEST

static void set_size(struct bytes *file, uint32_t width, uint32_t height)
{
    const size_t frame = find_marker(file, SOF0);
    ck_assert_uint_gt(frame, 0);
    uint8_t *sizes = file->data + frame + 5;
    sizes[0] = (uint8_t)(height >> 8);
    sizes[1] = (uint8_t)height;
    sizes[2] = (uint8_t)(width >> 8);
    sizes[3] = (uint8_t)width;
}

static void assert_refused(const struct bytes *file, const char *text)
{
    struct err err = {0};
    struct image_view view;
    const struct image_rect first = {0, 0, 1, 1};
    ck_assert_int_eq(read_rect(file->data, file->count, &first, &view, &err), ERR_DATA);
    ck_assert_msg(strstr(err.message, text) != NULL, "'%s' lacks '%s'", err.message, text);
}

START_TEST(large_claims_are_refused_by_the_header)
{
    const struct jpeg_kind kind = {.components = 1};
    struct picture source = picture_new(40, 30, 4);
    struct bytes file = picture_jpeg(&source, &kind);
    set_size(&file, 65500, 65500);
    assert_refused(&file, "cannot hold the 65500x65500 pixels");
    set_size(&file, 65535, 10);
    assert_refused(&file, "65500 pixels");
    set_size(&file, 40, 0);
    assert_refused(&file, "JPEG");
    set_size(&file, 20000, 10000); /* with enough bytes behind it, the limit remains */
    struct bytes padded = {calloc(1, 1 << 20), 1 << 20};
    ck_assert_ptr_nonnull(padded.data);
    memcpy(padded.data, file.data, file.count);
    assert_refused(&padded, "20000x10000 pixels; at most");
    free(padded.data);
    picture_free(&source);
    free(file.data);
}
END_TEST

START_TEST(number_of_scans_is_limited)
{
    struct picture source = picture_new(16, 16, 6);
    const struct jpeg_kind kind = {.components = 1, .every_scan = true};
    struct bytes file = picture_jpeg(&source, &kind);
    assert_refused(&file, "more than 100 scans");
    picture_free(&source);
    free(file.data);
}
END_TEST

/* A file without quantisation tables must not borrow those of the picture before it. */
START_TEST(no_state_from_one_picture_to_the_next)
{
    struct picture source = picture_new(40, 30, 4);
    const struct jpeg_kind kind = {.components = 1};
    struct bytes file = picture_jpeg(&source, &kind);
    const size_t at = find_marker(&file, DQT);
    const size_t length = 2 + ((size_t)file.data[at + 2] << 8) + file.data[at + 3];
    struct bytes without = {malloc(file.count), file.count - length};
    ck_assert_ptr_nonnull(without.data);
    memcpy(without.data, file.data, at);
    memcpy(without.data + at, file.data + at + length, file.count - at - length);
    assert_refused(&without, "Quantization table");
    struct picture whole = picture_of_jpeg(file.data, file.count);
    const struct image_rect all = {0, 0, 40, 30};
    assert_rect_equals("gray", &file, &whole, &all);
    assert_refused(&without, "Quantization table");
    assert_rect_equals("gray", &file, &whole, &all);
    picture_free(&whole);
    picture_free(&source);
    free(without.data);
    free(file.data);
}
END_TEST

START_TEST(other_formats_are_named)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *text;
    } OTHERS[] = {
        {"", 0, "empty"},
        {"RIFF\1\2\3\4WEBPVP8 ", 16, "WebP"},
        {"GIF89a", 6, "GIF"},
        {"BM\1\2", 4, "BMP"},
        {"\x1f\x8b\x08", 3, "gzip"},
        {"<!DOCTYPE html>", 15, "HTML"},
        {"\xff\xff\xff\xff\xff", 5, "ffffffffff"},
        {"\xff\xd8", 2, "ffd8"},
        {"\x89PNG\r\n\x1a", 7, "89504e470d0a1a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++) {
        /* A copy of exactly this size, so that a read past it is seen. */
        struct bytes file = {malloc(OTHERS[i].count + 1), OTHERS[i].count};
        ck_assert_ptr_nonnull(file.data);
        memcpy(file.data, OTHERS[i].bytes, OTHERS[i].count);
        assert_refused(&file, OTHERS[i].text);
        free(file.data);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_jpeg");
    TCase *tc = tcase_create("image_jpeg");
    const int kinds = (int)ARRAY_LEN(KINDS);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, rectangle_equals_whole_decode, 0, kinds);
    tcase_add_loop_test(tc, four_components_become_rgb, 0, 2);
    tcase_add_loop_test(tc, cut_files_are_bad, 0, kinds);
    tcase_add_loop_test(tc, damage_is_refused_or_decoded_as_the_library_does, 0, kinds);
    tcase_add_test(tc, warnings_alone_are_no_damage);
    tcase_add_test(tc, large_claims_are_refused_by_the_header);
    tcase_add_test(tc, number_of_scans_is_limited);
    tcase_add_test(tc, no_state_from_one_picture_to_the_next);
    tcase_add_test(tc, other_formats_are_named);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
