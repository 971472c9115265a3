/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gen_picture.h"

#include <stdlib.h>
#include <string.h>

#include "cli/gen_class.h"
#include "common/hash.h"
#include "support/suite.h"

static const uint64_t GOLDEN = UINT64_C(0x3828c1f5ce610921);
static struct noise *noise;
static uint8_t pixels[2][GEN_PIXEL_BYTES_MAX];

static void setup(void)
{
    struct err err = {0};
    ck_assert_int_eq(noise_new(1, &noise, &err), OK);
}

static void teardown(void)
{
    free(noise);
}

static size_t bytes_of(const struct gen_format *format)
{
    return (size_t)format->width * format->height * 3;
}

/* The pixels are the same on every CPU and with every compiler, for ever: whoever changes them on
 * purpose changes GEN_VERSION in gen_folder.c and the number here. */
START_TEST(pixels_are_what_they_always_were)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 64; i++) {
        const struct gen_id id = {.seed = 1, .split = i % 2, .number = i, .class = i};
        struct gen_format format;
        gen_picture(noise, &id, pixels[0], &format);
        sum += hash64(pixels[0], bytes_of(&format));
    }
    ck_assert_msg(sum == GOLDEN, "the pixels' digest is 0x%016" PRIx64, sum);
}
END_TEST

/* Format, place, background and light do not depend on the class: what differs is inside the
 * object. */
START_TEST(the_class_decides_the_object_alone)
{
    for (uint32_t number = 0; number < 20; number++) {
        struct gen_format formats[2];
        for (uint32_t k = 0; k < 2; k++) {
            const struct gen_id id = {.seed = 5, .number = number, .class = k * 3};
            gen_picture(noise, &id, pixels[k], &formats[k]);
        }
        ck_assert_uint_eq(formats[0].width, formats[1].width);
        ck_assert_uint_eq(formats[0].height, formats[1].height);
        ck_assert_int_eq(formats[0].chroma, formats[1].chroma);
        ck_assert_int_eq(formats[0].quality, formats[1].quality);
        const size_t count = bytes_of(&formats[0]);
        size_t different = 0;
        for (size_t i = 0; i < count; i++) {
            different += pixels[0][i] != pixels[1][i];
        }
        ck_assert_uint_gt(different, count / 50);
        ck_assert_uint_lt(different, count * 3 / 5); /* a disc of 0.48 of the side: at most 0.58 */
    }
}
END_TEST

START_TEST(seeds_splits_and_numbers_give_other_pictures)
{
    const struct gen_id ids[] = {
        {.seed = 1}, {.seed = 2}, {.seed = 1, .split = 1}, {.seed = 1, .number = 1}};
    uint64_t sums[ARRAY_LEN(ids)];
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        struct gen_format format;
        gen_picture(noise, &ids[i], pixels[0], &format);
        sums[i] = hash64(pixels[0], bytes_of(&format));
        for (size_t j = 0; j < i; j++) {
            ck_assert_uint_ne(sums[i], sums[j]);
        }
    }
}
END_TEST

START_TEST(class_names_are_folder_names_and_differ)
{
    char names[GEN_CLASSES_MAX][GEN_NAME_BYTES];
    for (uint32_t i = 0; i < GEN_CLASSES_MAX; i++) {
        gen_class_name(i, names[i]);
        ck_assert_uint_eq(strspn(names[i], "abcdefghijklmnopqrstuvwxyz_"), strlen(names[i]));
        ck_assert_uint_lt(strlen(names[i]), GEN_NAME_BYTES - 1);
        for (uint32_t j = 0; j < i; j++) {
            ck_assert_str_ne(names[i], names[j]);
        }
    }
}
END_TEST

START_TEST(outlines_fit_into_the_unit_circle)
{
    for (uint32_t class = 0; class < GEN_CLASSES_MAX; class ++) {
        size_t inside = 0;
        for (int i = 0; i < 200 * 200; i++) {
            const int column = i % 200, row = i / 200;
            const double x = (column - 99.5) / 80;
            const double y = (row - 99.5) / 80;
            if (gen_class_outline(class, x, y) > 0) {
                ck_assert(x * x + y * y < 1.005);
                inside++;
            }
        }
        ck_assert_uint_gt(inside, 80 * 80); /* a third of the circle */
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gen_picture");
    TCase *tc = tcase_create("gen_picture");
    tcase_add_unchecked_fixture(tc, setup, teardown);
    tcase_add_test(tc, pixels_are_what_they_always_were);
    tcase_add_test(tc, the_class_decides_the_object_alone);
    tcase_add_test(tc, seeds_splits_and_numbers_give_other_pictures);
    tcase_add_test(tc, class_names_are_folder_names_and_differ);
    tcase_add_test(tc, outlines_fit_into_the_unit_circle);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
