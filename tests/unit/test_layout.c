/* SPDX-License-Identifier: Apache-2.0 */
#include "common/layout.h"

#include <string.h>

#include "support/suite.h"

static struct layout make(uint32_t rows, uint32_t height, uint32_t width, uint32_t channels)
{
    struct layout layout;
    struct err err = {0};
    ck_assert_msg(layout_init(rows, height, width, channels, &layout, &err) == OK, "%s",
                  err.message);
    return layout;
}

/* Whether a part holds a byte of a row, byte range against byte range. */
static bool touches(const struct layout *l, uint32_t part, uint32_t row)
{
    const uint64_t begin = layout_part_offset(l, part);
    const uint64_t end = begin + layout_part_length(l, part);
    const struct {
        uint64_t offset, bytes;
    } fields[] = {{l->image_offset + (uint64_t)row * l->sample_bytes, l->sample_bytes},
                  {l->label_offset + (uint64_t)row * 8, 8},
                  {l->sample_id_offset + (uint64_t)row * 8, 8}};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (fields[i].offset < end && fields[i].offset + fields[i].bytes > begin) {
            return true;
        }
    }
    return false;
}

static void check_parts(const struct layout *l)
{
    uint64_t next = 0;
    for (uint32_t part = 0; part < l->part_count; part++) {
        ck_assert_uint_eq(layout_part_offset(l, part), next);
        const uint32_t length = layout_part_length(l, part);
        ck_assert_uint_gt(length, 0);
        ck_assert_uint_le(length, PART_BYTES_MAX);
        next += length;
        uint32_t first, count;
        layout_part_rows(l, part, &first, &count);
        ck_assert_uint_le(first + count, l->rows);
        for (uint32_t row = 0; row < l->rows; row++) {
            const bool inside = row >= first && row < first + count;
            const bool at_edge = row == first || row + 1 == first + count;
            const bool touched = touches(l, part, row);
            if (inside ? !touched && at_edge : touched) {
                ck_abort_msg("part %u and row %u", part, row);
            }
        }
    }
    ck_assert_uint_eq(next, l->bytes);
}

START_TEST(imagenet_batch_has_the_documented_places)
{
    const struct layout l = make(256, 224, 224, 3);
    ck_assert_uint_eq(l.sample_bytes, 150528);
    ck_assert_uint_eq(l.image_offset, 0);
    ck_assert_uint_eq(l.label_offset, 38535168);
    ck_assert_uint_eq(l.sample_id_offset, 38537216);
    ck_assert_uint_eq(l.bytes, 38539264);
    ck_assert_uint_eq(l.part_bytes, 6 * 150528);
    ck_assert_uint_eq(l.part_count, 43);
    uint32_t first, count;
    layout_part_rows(&l, 1, &first, &count);
    ck_assert_uint_eq(first, 6);
    ck_assert_uint_eq(count, 6);
    layout_part_rows(&l, 42, &first, &count);
    ck_assert_uint_eq(first, 0);
    ck_assert_uint_eq(count, 256);
}
END_TEST

START_TEST(parts_cover_every_shape)
{
    static const uint32_t SHAPES[][4] = {
        {1, 1, 1, 1},       {1, 1, 1, 3},       {7, 5, 3, 3},       {64, 32, 32, 3},
        {5, 600, 600, 3},   {3, 1024, 1024, 1}, {2, 4096, 4096, 3}, {9, 591, 592, 3},
        {257, 224, 224, 3}, {100000, 2, 2, 3},  {1000, 24, 43, 4},  {6, 1021, 1027, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        const struct layout l = make(SHAPES[i][0], SHAPES[i][1], SHAPES[i][2], SHAPES[i][3]);
        ck_assert_uint_eq(l.label_offset % PART_ALIGN_BYTES, 0);
        ck_assert_uint_eq(l.sample_id_offset % PART_ALIGN_BYTES, 0);
        ck_assert_uint_ge(l.label_offset, (uint64_t)l.rows * l.sample_bytes);
        ck_assert_uint_ge(l.sample_id_offset, l.label_offset + (uint64_t)l.rows * 8);
        if (l.sample_bytes <= PART_BYTES_MAX) {
            ck_assert_uint_eq(l.part_bytes % l.sample_bytes, 0);
        }
        check_parts(&l);
    }
}
END_TEST

START_TEST(shapes_out_of_range_are_refused)
{
    static const uint32_t SHAPES[][4] = {
        {0, 8, 8, 3},
        {1, 0, 8, 3},
        {1, 8, 0, 3},
        {1, 8, 8, 0},
        {1, 4097, 8, 3},
        {1, 8, 4097, 3},
        {1, 8, 8, 5},
        {UINT32_MAX, 1, 1, 1},
        {1, UINT32_MAX, UINT32_MAX, 3},
        {100, 4096, 4096, 3},
        {UINT32_MAX, 4096, 4096, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        struct layout l;
        struct err err = {0};
        ck_assert_int_eq(
            layout_init(SHAPES[i][0], SHAPES[i][1], SHAPES[i][2], SHAPES[i][3], &l, &err),
            ERR_CONFIG);
        ck_assert_ptr_nonnull(strstr(err.message, "batch layout"));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layout");
    TCase *tc = tcase_create("layout");
    tcase_add_test(tc, imagenet_batch_has_the_documented_places);
    tcase_add_test(tc, parts_cover_every_shape);
    tcase_add_test(tc, shapes_out_of_range_are_refused);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
