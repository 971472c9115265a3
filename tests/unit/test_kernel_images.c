/* SPDX-License-Identifier: Apache-2.0 */
/* Which image a card gets, over tables made up here. */
#include "consumer/kernel_images.h"

#include <string.h>

#include "support/suite.h"

static const uint8_t BYTES[2];

#define CUBIN(source, number)                   \
    {                                           \
        source, number, false, BYTES, BYTES + 1 \
    }
#define PTX(source, number)                    \
    {                                          \
        source, number, true, BYTES, BYTES + 2 \
    }

static const struct kernel_image IMAGES[] = {
    CUBIN("first", 70),           CUBIN("first", 75),   CUBIN("first", 80),  CUBIN("first", 86),
    CUBIN("first", 90),           CUBIN("first", 120),  PTX("first", 120),   CUBIN("second", 86),
    CUBIN("second", 80),          CUBIN("second", 120), CUBIN("second", 70), PTX("second", 86),
    {NULL, 0, false, NULL, NULL},
};
static const struct kernel_images TABLE = {"NVRTC 12.9", IMAGES};

struct card {
    int major, minor;
    uint32_t first, second; /* the architecture of the image; + 1000: PTX */
};

static uint32_t number(const struct kernel_image *image)
{
    return image->architecture + (image->is_ptx ? 1000 : 0);
}

START_TEST(the_cubin_of_the_same_major_and_at_most_the_same_minor_else_ptx)
{
    static const struct card CARDS[] = {
        {7, 0, 70, 70}, {7, 2, 70, 70},    {7, 5, 75, 70},    {8, 0, 80, 80},      {8, 6, 86, 86},
        {8, 7, 86, 86}, {12, 0, 120, 120}, {12, 1, 120, 120}, {13, 0, 1120, 1086},
    };
    for (size_t i = 0; i < ARRAY_LEN(CARDS); i++) {
        struct kernel_choice choice;
        struct err err = {0};
        ck_assert_int_eq(
            kernel_images_choose(&TABLE, CARDS[i].major, CARDS[i].minor, &choice, &err), OK);
        ck_assert_uint_eq(choice.count, 2);
        ck_assert_str_eq(choice.images[0]->source, "first");
        ck_assert_str_eq(choice.images[1]->source, "second");
        ck_assert_uint_eq(number(choice.images[0]), CARDS[i].first);
        ck_assert_uint_eq(number(choice.images[1]), CARDS[i].second);
    }
}
END_TEST

START_TEST(a_card_that_none_suits_is_refused_with_what_there_is)
{
    static const int CARDS[][2] = {{6, 1}, {5, 2}, {10, 0}}; /* 10.0: none of "first" */
    for (size_t i = 0; i < ARRAY_LEN(CARDS); i++) {
        struct kernel_choice choice;
        struct err err = {0};
        char card[16];
        snprintf(card, sizeof(card), "sm_%d%d", CARDS[i][0], CARDS[i][1]);
        ck_assert_int_eq(kernel_images_choose(&TABLE, CARDS[i][0], CARDS[i][1], &choice, &err),
                         ERR_DEVICE);
        ck_assert_ptr_nonnull(strstr(err.message, card));
        ck_assert_ptr_nonnull(strstr(err.message, "none of first"));
        ck_assert_ptr_nonnull(strstr(err.message, "NVRTC 12.9, sm_70 sm_75 sm_80 sm_86 sm_90 "
                                                  "sm_120 compute_120"));
    }
}
END_TEST

START_TEST(no_images_say_how_to_build_them)
{
    static const struct kernel_images NONE = {"", &IMAGES[ARRAY_LEN(IMAGES) - 1]};
    struct kernel_choice choice;
    struct err err = {0};
    char text[256];
    ck_assert_int_eq(kernel_images_choose(&NONE, 9, 0, &choice, &err), ERR_DEVICE);
    ck_assert_ptr_nonnull(strstr(err.message, "./dev cuda"));
    kernel_images_describe(&NONE, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "none ("));
}
END_TEST

START_TEST(a_description_is_cut_at_its_room)
{
    char text[24];
    memset(text, 'x', sizeof(text));
    kernel_images_describe(&TABLE, text, 20);
    ck_assert_str_eq(text, "NVRTC 12.9, sm_70 s");
    ck_assert_int_eq(text[20], 'x');
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_images");
    TCase *all = tcase_create("all");
    tcase_add_test(all, the_cubin_of_the_same_major_and_at_most_the_same_minor_else_ptx);
    tcase_add_test(all, a_card_that_none_suits_is_refused_with_what_there_is);
    tcase_add_test(all, no_images_say_how_to_build_them);
    tcase_add_test(all, a_description_is_cut_at_its_room);
    suite_add_tcase(suite, all);
    return suite_main(suite);
}
