/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations' geometry against torchvision's formulas, restated here with libm; and how they
 * fold into stages.
 */
#include <math.h>
#include <string.h>

#include "producer/op.h"
#include "support/random.h"
#include "support/suite.h"

static struct pipeline pipeline_of(const struct op *ops, uint32_t count, uint32_t height,
                                   uint32_t width)
{
    struct pipeline pipeline = {.op_count = count, .height = height, .width = width, .channels = 3};
    memcpy(pipeline.ops, ops, count * sizeof(*ops));
    return pipeline;
}

static struct geometry apply(const struct pipeline *pipeline, const struct rng_at *at,
                             uint32_t width, uint32_t height)
{
    const struct image_size picture = {width, height};
    struct geometry geometry;
    struct err err = {0};
    ck_assert_msg(op_apply_all(pipeline, at, &picture, &geometry, &err) == OK, "%s", err.message);
    return geometry;
}

static const struct rng_at ANYWHERE = {1, 2, 3};

START_TEST(center_crop_is_torchvisions)
{
    for (uint32_t have = 1; have < 40; have++) {
        for (uint32_t want = 1; want < 40; want++) {
            const struct op op = {.kind = OP_CENTER_CROP, .height = want, .width = 5};
            const struct pipeline pipeline = pipeline_of(&op, 1, want, 5);
            const struct geometry g = apply(&pipeline, &ANYWHERE, 5, have);
            const int64_t offset = want > have ? -(int64_t)((want - have) / 2)
                                               : (int64_t)nearbyint((have - want) / 2.0);
            ck_assert_uint_eq(g.count, 1);
            ck_assert_int_eq(g.stages[0].y, offset);
            ck_assert_int_eq(g.stages[0].x, 0);
        }
    }
}
END_TEST

START_TEST(resize_keeps_the_proportion)
{
    struct random_state random = {random_seed()};
    for (int i = 0; i < 2000; i++) {
        const uint32_t width = (uint32_t)random_in(&random, 1, 3000);
        const uint32_t height = (uint32_t)random_in(&random, 1, 3000);
        const uint32_t side = (uint32_t)random_in(&random, 1, 20);
        const struct op ops[] = {{.kind = OP_RESIZE, .height = side},
                                 {.kind = OP_CENTER_CROP, .height = 7, .width = 9}};
        const struct pipeline pipeline = pipeline_of(ops, 2, 7, 9);
        const struct geometry g = apply(&pipeline, &ANYWHERE, width, height);
        const struct image_size scaled = g.stages[0].scaled;
        const double longer = width > height ? width : height;
        const double shorter = width > height ? height : width;
        const uint32_t expected = (uint32_t)(side * longer / shorter);
        ck_assert_uint_eq(width <= height ? scaled.width : scaled.height, side);
        ck_assert_uint_eq(width <= height ? scaled.height : scaled.width, expected);
    }
}
END_TEST

START_TEST(resize_of_a_thread_is_refused)
{
    const struct op ops[] = {{.kind = OP_RESIZE, .height = 256},
                             {.kind = OP_CENTER_CROP, .height = 224, .width = 224}};
    const struct pipeline pipeline = pipeline_of(ops, 2, 224, 224);
    const struct image_size thread = {1, 65500};
    struct geometry geometry;
    struct err err = {0};
    ck_assert_int_eq(op_apply_all(&pipeline, &ANYWHERE, &thread, &geometry, &err), ERR_DATA);
    ck_assert_msg(strstr(err.message, "1x65500 would be resized to 256x16768000") != NULL, "%s",
                  err.message);
}
END_TEST

struct crop {
    int64_t x, y, width, height;
};

/* RandomResizedCrop.make_params of torchvision's transforms v2, with our draws for its own. */
static struct crop torchvision_crop(const struct op *op, const struct rng_at *at, uint32_t index,
                                    int64_t width, int64_t height)
{
    const double log_ratio[2] = {log(op->ratio[0]), log(op->ratio[1])};
    for (uint32_t try = 0; try < 10; try++) {
        const double area = (double)(height * width);
        const double u = rng_uniform(at, index, 4 * try);
        const double v = rng_uniform(at, index, 4 * try + 1);
        const double target_area = area * (op->scale[0] + (op->scale[1] - op->scale[0]) * u);
        const double aspect = exp(log_ratio[0] + (log_ratio[1] - log_ratio[0]) * v);
        const int64_t w = (int64_t)nearbyint(sqrt(target_area * aspect));
        const int64_t h = (int64_t)nearbyint(sqrt(target_area / aspect));
        if (0 < w && w <= width && 0 < h && h <= height) {
            const uint32_t y = rng_below(at, index, 4 * try + 2, (uint32_t)(height - h + 1));
            const uint32_t x = rng_below(at, index, 4 * try + 3, (uint32_t)(width - w + 1));
            return (struct crop){x, y, w, h};
        }
    }
    const double in_ratio = (double)width / (double)height;
    int64_t w = width;
    int64_t h = height;
    if (in_ratio < op->ratio[0]) {
        h = (int64_t)nearbyint((double)w / op->ratio[0]);
    } else if (in_ratio > op->ratio[1]) {
        w = (int64_t)nearbyint((double)h * op->ratio[1]);
    }
    return (struct crop){(width - w) / 2, (height - h) / 2, w, h};
}

START_TEST(random_resized_crop_is_torchvisions)
{
    enum { CROPS = 20000 };
    struct random_state random = {random_seed()};
    const struct op ops[] = {
        {.kind = OP_DECODE},
        {.kind = OP_RANDOM_RESIZED_CROP,
         .height = 8,
         .width = 9,
         .scale = {0.08, 1.0},
         .ratio = {3.0 / 4.0, 4.0 / 3.0}},
    };
    const struct pipeline pipeline = pipeline_of(ops, 2, 8, 9);
    int others = 0;
    for (int i = 0; i < CROPS; i++) {
        const uint32_t width = (uint32_t)random_in(&random, 1, 700);
        const uint32_t height = (uint32_t)random_in(&random, 1, 700);
        const struct rng_at at = {random_u64(&random), random_u64(&random),
                                  (uint32_t)random_u64(&random)};
        const struct crop want = torchvision_crop(&ops[1], &at, 1, width, height);
        const struct geometry g = apply(&pipeline, &at, width, height);
        const struct image_rect got = g.stages[0].crop;
        ck_assert_uint_eq(g.count, 1);
        ck_assert(g.stages[0].resampled);
        ck_assert(got.width > 0 && got.x + got.width <= width);
        ck_assert(got.height > 0 && got.y + got.height <= height);
        others += got.x != want.x || got.y != want.y || got.width != want.width ||
                  got.height != want.height;
    }
    printf("%d of %d crops differ by the last bit of exp or log\n", others, CROPS);
    ck_assert_int_le(others, 2);
}
END_TEST

START_TEST(random_resized_crop_falls_back_to_the_middle)
{
    static const struct {
        uint32_t width, height;
        double ratio[2];
        struct image_rect want;
    } CASES[] = {
        {100, 50, {1.0, 1.0}, {25, 0, 50, 50}},  /* too wide */
        {50, 101, {1.0, 1.0}, {0, 25, 50, 50}},  /* too high */
        {7, 900, {0.5, 0.5}, {0, 443, 7, 14}},   /* much too high */
        {10, 10, {0.001, 0.002}, {4, 0, 1, 10}}, /* no width left: one pixel */
        {10, 10, {500.0, 900.0}, {0, 4, 10, 1}},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const struct op op = {.kind = OP_RANDOM_RESIZED_CROP,
                              .height = 8,
                              .width = 8,
                              .scale = {1.0, 1.0},
                              .ratio = {CASES[i].ratio[0], CASES[i].ratio[1]}};
        const struct pipeline pipeline = pipeline_of(&op, 1, 8, 8);
        const struct geometry g = apply(&pipeline, &ANYWHERE, CASES[i].width, CASES[i].height);
        ck_assert_mem_eq(&g.stages[0].crop, &CASES[i].want, sizeof(struct image_rect));
    }
}
END_TEST

START_TEST(flip_happens_with_probability_p)
{
    enum { DRAWS = 20000 };
    const double shares[] = {0.0, 0.3, 0.5, 1.0};
    for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
        const struct op op = {.kind = OP_HORIZONTAL_FLIP, .p = shares[i]};
        const struct pipeline pipeline = pipeline_of(&op, 1, 4, 4);
        int flips = 0;
        for (uint64_t position = 0; position < DRAWS; position++) {
            const struct rng_at at = {99, position, 0};
            flips += apply(&pipeline, &at, 4, 4).stages[0].mirror;
        }
        const double deviation = sqrt(DRAWS * shares[i] * (1 - shares[i]));
        ck_assert_msg(fabs(flips - DRAWS * shares[i]) <= 5 * deviation, "p %g: %d flips", shares[i],
                      flips);
    }
}
END_TEST

/* Stages begin only where they must. */
START_TEST(folding)
{
    const struct op resize = {.kind = OP_RESIZE, .height = 20, .width = 30};
    const struct op inner = {.kind = OP_CENTER_CROP, .height = 10, .width = 10};
    const struct op outer = {.kind = OP_CENTER_CROP, .height = 50, .width = 50};
    const struct op flip = {.kind = OP_HORIZONTAL_FLIP, .p = 1.0};
    const struct {
        struct op ops[4];
        uint32_t count, stages, side;
    } CASES[] = {
        {{inner, resize, flip, inner}, 4, 1, 10},
        {{resize, inner, outer}, 3, 2, 50}, /* what the crop took away stays away */
        {{resize, outer, inner}, 3, 1, 10},
        {{outer, resize, inner}, 3, 2, 10}, /* black is resampled too */
        {{resize, inner, resize, inner}, 4, 2, 10},
        {{flip, outer, flip, outer}, 4, 1, 50},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const struct pipeline pipeline =
            pipeline_of(CASES[i].ops, CASES[i].count, CASES[i].side, CASES[i].side);
        const struct geometry g = apply(&pipeline, &ANYWHERE, 40, 40);
        ck_assert_msg(g.count == CASES[i].stages, "case %zu: %u stages", i, g.count);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("op");
    TCase *tc = tcase_create("op");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, center_crop_is_torchvisions);
    tcase_add_test(tc, resize_keeps_the_proportion);
    tcase_add_test(tc, resize_of_a_thread_is_refused);
    tcase_add_test(tc, random_resized_crop_is_torchvisions);
    tcase_add_test(tc, random_resized_crop_falls_back_to_the_middle);
    tcase_add_test(tc, flip_happens_with_probability_p);
    tcase_add_test(tc, folding);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
