/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_make: whole pipelines against the same operations done one after another on whole
 * pictures, with Pillow's resampling; purity, bad data, and no allocation of ours once warm.
 */
#include <stdio.h>
#include <string.h>

#include "producer/op.h"
#include "producer/sample.h"
#include "support/alloc_count.h"
#include "support/picture_png.h"
#include "support/pillow.h"
#include "support/random.h"
#include "support/suite.h"

static struct sample_maker *maker_new(const struct pipeline *pipeline)
{
    struct err err = {0};
    struct sample_maker *maker = NULL;
    ck_assert_msg(sample_maker_new(pipeline, &maker, &err) == OK, "%s", err.message);
    return maker;
}

static struct picture blank(uint32_t width, uint32_t height)
{
    ck_assert(width > 0 && height > 0);
    struct picture p = {width, height, calloc((size_t)width * height, 3)};
    ck_assert_ptr_nonnull(p.pixels);
    return p;
}

static struct picture make(struct sample_maker *maker, const struct pipeline *pipeline,
                           const struct bytes *file, const struct rng_at *at)
{
    struct picture out = blank(pipeline->width, pipeline->height);
    struct sample_times times;
    struct err err = {0};
    ck_assert_msg(sample_make(maker, file->data, file->count, at, out.pixels, &times, &err) == OK,
                  "%s", err.message);
    return out;
}

/* ---- step by step ---- */

static struct picture cut(const struct picture *source, int64_t x, int64_t y, uint32_t width,
                          uint32_t height)
{
    struct picture out = blank(width, height);
    for (int64_t row = 0; row < height; row++) {
        for (int64_t column = 0; column < width; column++) {
            if (x + column >= 0 && x + column < source->width && y + row >= 0 &&
                y + row < source->height) {
                memcpy(out.pixels + (row * width + column) * 3,
                       source->pixels + ((y + row) * source->width + x + column) * 3, 3);
            }
        }
    }
    return out;
}

static struct picture mirrored(const struct picture *source)
{
    struct picture out = blank(source->width, source->height);
    for (size_t row = 0; row < source->height; row++) {
        for (size_t column = 0; column < source->width; column++) {
            memcpy(out.pixels + (row * source->width + source->width - 1 - column) * 3,
                   source->pixels + (row * source->width + column) * 3, 3);
        }
    }
    return out;
}

/* One operation on all pixels; its numbers come from its own geometry, which test_op.c checks. */
static struct picture do_op(const struct pipeline *pipeline, uint32_t index,
                            const struct rng_at *at, const struct picture *source)
{
    /* The operation at its place in the pipeline, which its draws depend on; the rest does nothing.
     */
    struct pipeline alone = *pipeline;
    for (uint32_t i = 0; i < alone.op_count; i++) {
        if (i != index) {
            alone.ops[i] = (struct op){.kind = OP_DECODE};
        }
    }
    const struct op *op = &pipeline->ops[index];
    const bool sized = op->kind != OP_DECODE && op->kind != OP_HORIZONTAL_FLIP;
    alone.height = sized ? op->height : source->height;
    alone.width = sized ? op->width : source->width;
    const struct image_size size = {source->width, source->height};
    struct geometry g;
    struct err err = {0};
    ck_assert_msg(op_apply_all(&alone, at, &size, &g, &err) == OK, "%s", err.message);
    const struct stage *s = &g.stages[0];
    if (s->resampled) {
        return pillow_resize(source, s->crop.x, s->crop.y, s->crop.width, s->crop.height,
                             s->scaled.width, s->scaled.height);
    }
    return s->mirror ? mirrored(source) : cut(source, s->x, s->y, s->width, s->height);
}

static struct picture step_by_step(const struct pipeline *pipeline, const struct rng_at *at,
                                   const struct picture *source)
{
    struct picture now = cut(source, 0, 0, source->width, source->height);
    for (uint32_t i = 0; i < pipeline->op_count; i++) {
        struct picture next = do_op(pipeline, i, at, &now);
        picture_free(&now);
        now = next;
    }
    return now;
}

static struct op random_op(struct random_state *random)
{
    struct op op = {.height = (uint32_t)random_in(random, 1, 70),
                    .width = (uint32_t)random_in(random, 1, 70),
                    .scale = {0.08, 1.0},
                    .ratio = {0.5, 2.0},
                    .p = 0.5};
    static const enum op_kind KINDS[] = {OP_RANDOM_RESIZED_CROP, OP_RESIZE, OP_CENTER_CROP,
                                         OP_HORIZONTAL_FLIP};
    op.kind = KINDS[random_u64(random) % ARRAY_LEN(KINDS)];
    return op;
}

static struct pipeline random_pipeline(struct random_state *random)
{
    struct pipeline pipeline = {.op_count = (uint32_t)random_in(random, 2, 7), .channels = 3};
    pipeline.ops[0] = (struct op){.kind = OP_DECODE};
    for (uint32_t i = 1; i < pipeline.op_count; i++) {
        pipeline.ops[i] = random_op(random);
        if (i == 1 && pipeline.ops[i].kind == OP_HORIZONTAL_FLIP) {
            pipeline.ops[i].kind = OP_CENTER_CROP; /* something must fix the size */
        }
        if (pipeline.ops[i].kind != OP_HORIZONTAL_FLIP) {
            pipeline.height = pipeline.ops[i].height;
            pipeline.width = pipeline.ops[i].width;
        }
    }
    return pipeline;
}

/* Each resampling is within 1 of Pillow's; a later one passes that on and rounds it again. */
static int tolerance(const struct pipeline *pipeline)
{
    int resamplings = 0;
    for (uint32_t i = 0; i < pipeline->op_count; i++) {
        const enum op_kind kind = pipeline->ops[i].kind;
        resamplings += kind == OP_RESIZE || kind == OP_RANDOM_RESIZED_CROP;
    }
    return resamplings == 0 ? 0 : 2 * resamplings - 1;
}

START_TEST(folded_equals_step_by_step)
{
    struct random_state random = {random_seed()};
    const struct png_kind kind = {.colour = PNG_RGB_COLOUR, .bits = 8};
    for (int i = 0; i < 300; i++) {
        const struct pipeline pipeline = random_pipeline(&random);
        struct picture source =
            picture_new((uint32_t)random_in(&random, 1, 90), (uint32_t)random_in(&random, 1, 90),
                        random_u64(&random));
        struct picture same;
        struct bytes file = picture_png(&source, &kind, &same);
        const struct rng_at at = {random_u64(&random), random_u64(&random), 1};
        struct sample_maker *maker = maker_new(&pipeline);
        struct picture got = make(maker, &pipeline, &file, &at);
        struct picture want = step_by_step(&pipeline, &at, &source);
        const int allowed = tolerance(&pipeline);
        for (size_t k = 0; k < (size_t)got.width * got.height * 3; k++) {
            if (abs(got.pixels[k] - want.pixels[k]) > allowed) {
                ck_abort_msg("pipeline %d of %u operations, value %zu: %d, wanted %d within %d", i,
                             pipeline.op_count, k, got.pixels[k], want.pixels[k], allowed);
            }
        }
        sample_maker_free(&maker);
        picture_free(&want);
        picture_free(&got);
        picture_free(&same);
        picture_free(&source);
        free(file.data);
    }
}
END_TEST

/* ---- as a producer uses it ---- */

static const char TRAIN[] = "[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\",\"size\":64},"
                            "{\"op\":\"horizontal_flip\",\"p\":0.5}]";

static struct pipeline parse(const char *json)
{
    struct pipeline pipeline;
    struct err err = {0};
    ck_assert_msg(pipeline_parse(json, &pipeline, &err) == OK, "%s", err.message);
    return pipeline;
}

static struct bytes jpeg_of(uint32_t width, uint32_t height, uint64_t seed)
{
    const struct jpeg_kind kind = {.components = 3, .h = {2}, .v = {2}};
    struct picture source = picture_new(width, height, seed);
    struct bytes file = picture_jpeg(&source, &kind);
    picture_free(&source);
    return file;
}

/* A sample is a function of its bytes and its place, not of what the maker did before. */
START_TEST(history_does_not_matter)
{
    const struct pipeline pipeline = parse(TRAIN);
    struct random_state random = {random_seed()};
    struct sample_maker *used = maker_new(&pipeline);
    for (int i = 0; i < 40; i++) {
        struct bytes file = jpeg_of((uint32_t)random_in(&random, 1, 300),
                                    (uint32_t)random_in(&random, 1, 300), random_u64(&random));
        const struct rng_at at = {1, random_u64(&random), 2};
        struct sample_maker *fresh = maker_new(&pipeline);
        struct picture a = make(used, &pipeline, &file, &at);
        struct picture b = make(fresh, &pipeline, &file, &at);
        ck_assert_mem_eq(a.pixels, b.pixels, (size_t)64 * 64 * 3);
        sample_maker_free(&fresh);
        picture_free(&a);
        picture_free(&b);
        free(file.data);
    }
    sample_maker_free(&used);
}
END_TEST

START_TEST(bad_bytes_leave_the_maker_usable)
{
    const struct pipeline pipeline = parse(TRAIN);
    struct sample_maker *maker = maker_new(&pipeline);
    struct bytes file = jpeg_of(120, 80, 3);
    const struct rng_at at = {1, 2, 3};
    struct picture want = make(maker, &pipeline, &file, &at);
    const struct bytes bad[] = {
        {file.data, file.count / 2}, {file.data, 0}, {file.data, 20}, {file.data + 1, 100}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        uint8_t out[64 * 64 * 3];
        ck_assert_int_eq(sample_make(maker, bad[i].data, bad[i].count, &at, out, NULL, &err),
                         ERR_DATA);
        ck_assert_int_eq(err.status, ERR_DATA);
        ck_assert_msg(err.message[0] != '\0', "a reason is given");
        struct picture again = make(maker, &pipeline, &file, &at);
        ck_assert_mem_eq(again.pixels, want.pixels, sizeof(out));
        picture_free(&again);
    }
    picture_free(&want);
    sample_maker_free(&maker);
    free(file.data);
}
END_TEST

/* Epoch after epoch over the same pictures: the second one finds all memory in place but the
 * weights of lengths that it meets first. */
START_TEST(steady_state_allocates_nothing)
{
    enum { FILES = 8 };
    const struct pipeline pipeline = parse("[{\"op\":\"decode\"},{\"op\":\"resize\",\"size\":50},"
                                           "{\"op\":\"center_crop\",\"size\":48},"
                                           "{\"op\":\"horizontal_flip\",\"p\":0.5}]");
    struct sample_maker *maker = maker_new(&pipeline);
    struct bytes files[FILES];
    uint8_t out[48 * 48 * 3];
    for (uint32_t i = 0; i < FILES; i++) {
        files[i] = jpeg_of(60 + 30 * i, 200 - 20 * i, i);
    }
    uint64_t before = 0;
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        before = epoch == 1 ? alloc_count() : before;
        for (uint64_t i = 0; i < FILES; i++) {
            const struct rng_at at = {1, i, epoch};
            struct err err = {0};
            const enum status status =
                sample_make(maker, files[i].data, files[i].count, &at, out, NULL, &err);
            if (status != OK) {
                ck_abort_msg("%s", err.message);
            }
        }
    }
    const uint64_t after = alloc_count();
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_eq(after, before);
    sample_maker_free(&maker);
    for (uint32_t i = 0; i < FILES; i++) {
        free(files[i].data);
    }
}
END_TEST

START_TEST(fingerprint_names_the_libraries)
{
    char text[256];
    char again[256];
    const uint64_t fingerprint = sample_fingerprint(text);
    ck_assert_msg(strstr(text, "headrace " HEADRACE_VERSION) != NULL &&
                      strstr(text, "libjpeg-turbo ") != NULL && strstr(text, "libpng ") != NULL,
                  "%s", text);
    ck_assert_uint_eq(sample_fingerprint(again), fingerprint);
    ck_assert_str_eq(again, text);
}
END_TEST

START_TEST(an_impossible_cpu_level_is_refused)
{
    const struct pipeline pipeline = parse(TRAIN);
    struct sample_maker *maker = NULL;
    struct err err = {0};
    setenv("HEADRACE_CPU", "sse9", 1);
    ck_assert_int_eq(sample_maker_new(&pipeline, &maker, &err), ERR_CONFIG);
    ck_assert_msg(strstr(err.message, "sse9") != NULL, "%s", err.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sample");
    TCase *tc = tcase_create("sample");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, folded_equals_step_by_step);
    tcase_add_test(tc, history_does_not_matter);
    tcase_add_test(tc, bad_bytes_leave_the_maker_usable);
    tcase_add_test(tc, steady_state_allocates_nothing);
    tcase_add_test(tc, fingerprint_names_the_libraries);
    tcase_add_test(tc, an_impossible_cpu_level_is_refused);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
