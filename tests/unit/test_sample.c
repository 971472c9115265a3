/* SPDX-License-Identifier: Apache-2.0 */
/* sample_make: whole pipelines over made pictures, against a whole decode and Pillow's resampling.
 */
#include <stdio.h>
#include <string.h>

#include "producer/sample.h"
#include "support/pillow.h"
#include "support/suite.h"

static const struct op DECODE = {.kind = OP_DECODE};
static const struct rng_at AT = {.key = 7, .position = 11, .epoch = 3};

static struct pipeline pipeline_of(const struct op *ops, uint32_t count, uint32_t height,
                                   uint32_t width)
{
    struct pipeline pipeline = {
        .op_count = count + 1, .height = height, .width = width, .channels = 3};
    pipeline.ops[0] = DECODE;
    memcpy(pipeline.ops + 1, ops, count * sizeof(*ops));
    return pipeline;
}

/* The output of a pipeline for a file, to be freed. */
static struct picture make(const struct pipeline *pipeline, const struct bytes *file,
                           const struct rng_at *at)
{
    struct err err = {0};
    struct sample_maker *maker = NULL;
    ck_assert_msg(sample_maker_new(pipeline, &maker, &err) == OK, "%s", err.message);
    struct picture out = {pipeline->width, pipeline->height,
                          malloc((size_t)pipeline->width * pipeline->height * 3)};
    ck_assert_ptr_nonnull(out.pixels);
    struct sample_times times;
    ck_assert_msg(sample_make(maker, file->data, file->count, at, out.pixels, &times, &err) == OK,
                  "%s", err.message);
    sample_maker_free(&maker);
    return out;
}

static void assert_near(const struct picture *got, const struct picture *want)
{
    ck_assert_uint_eq(got->width, want->width);
    ck_assert_uint_eq(got->height, want->height);
    for (size_t i = 0; i < (size_t)got->width * got->height * 3; i++) {
        const int difference = got->pixels[i] - want->pixels[i];
        ck_assert_msg(difference >= -1 && difference <= 1, "value %zu: %d, wanted %d", i,
                      got->pixels[i], want->pixels[i]);
    }
}

START_TEST(resize_then_center_crop_is_pillows)
{
    const struct op ops[] = {{.kind = OP_RESIZE, .height = 64},
                             {.kind = OP_CENTER_CROP, .height = 48, .width = 48}};
    const struct pipeline pipeline = pipeline_of(ops, 2, 48, 48);
    struct picture source = picture_new(160, 120, 1);
    const struct jpeg_kind kind = {.components = 3, .h = {2}, .v = {2}};
    struct bytes file = picture_jpeg(&source, &kind);
    struct picture decoded = picture_of_jpeg(file.data, file.count);
    struct picture scaled = pillow_resize(&decoded, 0, 0, 160, 120, 85, 64);
    struct picture want = picture_new(48, 48, 0);
    for (size_t y = 0; y < 48; y++) {
        memcpy(want.pixels + y * 48 * 3, scaled.pixels + ((y + 8) * 85 + 18) * 3,
               (size_t)48 * 3); /* round((85 - 48) / 2) = round(18.5) = 18 */
    }
    struct picture got = make(&pipeline, &file, &AT);
    assert_near(&got, &want);
    picture_free(&got);
    picture_free(&want);
    picture_free(&scaled);
    picture_free(&decoded);
    picture_free(&source);
    free(file.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sample");
    TCase *tc = tcase_create("sample");
    tcase_add_test(tc, resize_then_center_crop_is_pillows);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
