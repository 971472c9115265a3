/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of bias_relu, channel_norm, mean_pool, sgd and sums, run on the fake GPU over
 * batches, against their twins picture by picture: equal bits, in every order of threads and in any
 * grid.
 */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/on_shim.h"
#include "support/suite.h"

/* Random numbers for a batch, and a few that are special. */
static float *batch_random(size_t count, uint64_t *state)
{
    static const float SPECIAL[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e-42F, 3e38F};
    float *values = guarded_random(count, state);
    for (size_t i = 0; random_bits(state) % 4 == 0 && i < 3; i++) {
        values[random_bits(state) % count] = SPECIAL[random_bits(state) % ARRAY_LEN(SPECIAL)];
    }
    return values;
}

typedef void (*check_fn)(const struct maps *maps, uint64_t *state);

static void for_many_shapes(check_fn check)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t i = 0; i < 120; i++) {
        const struct maps maps = {
            .pictures = random_bits(&state) % 4 + 1,
            .positions = random_bits(&state) % (i % 3 == 0 ? 200 : 40) + 1,
            .channels = random_bits(&state) % 40 + 1,
        };
        cuda_shim_set_order(i % CUDA_SHIM_ORDERS, random_bits(&state));
        check(&maps, &state);
    }
}

static size_t elements(const struct maps *maps)
{
    return maps->pictures * maps->positions * maps->channels;
}

/* In the grid of the launch, or in a small one that makes threads stride. */
static void run_anyhow(struct launch launch, uint64_t *state)
{
    if (random_bits(state) % 2 == 0) {
        launch.grid[0] = random_bits(state) % 2 + 1;
        launch.grid[1] = launch.grid[1] > 1 ? 2 : 1;
    }
    run_on_shim(&launch);
}

static void check_bias_relu(const struct maps *maps, uint64_t *state)
{
    const size_t count = elements(maps);
    float *in = batch_random(count, state);
    float *bias = batch_random(maps->channels, state);
    float *got = guarded_new(count);
    float *want = guarded_new(count);
    bias_relu_host(in, bias, maps->pictures * maps->positions, maps->channels, want);
    run_anyhow(bias_relu_launch(maps, in, bias, got), state);
    assert_same_bits(got, want, count);
    run_anyhow(bias_relu_launch(maps, in, bias, in), state);
    assert_same_bits(in, want, count);
    guarded_free(in, count);
    guarded_free(bias, maps->channels);
    guarded_free(got, count);
    guarded_free(want, count);
}

START_TEST(bias_relu)
{
    for_many_shapes(check_bias_relu);
}
END_TEST

/* The twin does three things at once: d, the sums over positions, those over pictures. */
static void check_bias_relu_gradient(const struct maps *maps, uint64_t *state)
{
    const size_t count = elements(maps);
    const size_t sums = maps->pictures * maps->channels;
    const size_t picture = maps->positions * maps->channels;
    float *out = batch_random(count, state);
    float *d = batch_random(count, state);
    float *d_want = guarded_copy(d, count);
    float *parts = guarded_new(sums);
    float *parts_want = guarded_new(sums);
    float *sum = batch_random(maps->channels, state);
    float *sum_want = guarded_copy(sum, maps->channels);
    memset(parts_want, 0, sums * sizeof(float));
    for (size_t i = 0; i < count; i++) { /* as bias_relu leaves them */
        out[i] = out[i] < 0 ? 0 : out[i];
    }
    for (size_t n = 0; n < maps->pictures; n++) {
        bias_relu_gradient_host(out + n * picture, maps->positions, maps->channels,
                                d_want + n * picture, parts_want + n * maps->channels);
    }
    sum_pictures_host(parts_want, maps->pictures, maps->channels, sum_want);
    run_anyhow(relu_gradient_launch(count, out, d), state);
    assert_same_bits(d, d_want, count);
    run_anyhow(bias_gradient_launch(maps, d, parts), state);
    assert_same_bits(parts, parts_want, sums);
    run_anyhow(sum_pictures_launch(maps->pictures, maps->channels, parts, sum), state);
    assert_same_bits(sum, sum_want, maps->channels);
    guarded_free(out, count);
    guarded_free(d, count);
    guarded_free(d_want, count);
    guarded_free(parts, sums);
    guarded_free(parts_want, sums);
    guarded_free(sum, maps->channels);
    guarded_free(sum_want, maps->channels);
}

START_TEST(bias_relu_gradient)
{
    for_many_shapes(check_bias_relu_gradient);
}
END_TEST

/* Many pictures: more terms than are fetched ahead at once. */
START_TEST(sums_over_many_pictures)
{
    uint64_t state = test_seed() | 1;
    for (size_t pictures = 0; pictures < 70; pictures++) {
        const size_t count = random_bits(&state) % 100 + 1;
        float *parts = guarded_random(pictures * count, &state);
        float *got = guarded_random(count, &state);
        float *want = guarded_copy(got, count);
        float plain = want[0];
        for (size_t n = 0; n < pictures; n++) {
            plain = plain + parts[n * count];
        }
        sum_pictures_host(parts, pictures, count, want);
        ck_assert(want[0] == plain);
        run_anyhow(sum_pictures_launch(pictures, count, parts, got), &state);
        assert_same_bits(got, want, count);
        guarded_free(parts, pictures * count);
        guarded_free(got, count);
        guarded_free(want, count);
    }
}
END_TEST

struct norm {
    float *in, *out, *inverse, *d;
};

static void norm_twin(const struct maps *maps, const struct norm *a)
{
    float *scratch = guarded_new(2 * maps->channels);
    for (size_t n = 0; n < maps->pictures; n++) {
        const size_t at = n * maps->positions * maps->channels;
        float *inverse = a->inverse + n * maps->channels;
        channel_norm_host(a->in + at, maps->positions, maps->channels, a->out + at, inverse,
                          scratch);
        channel_norm_gradient_host(a->out + at, inverse, maps->positions, maps->channels, a->d + at,
                                   scratch);
    }
    guarded_free(scratch, 2 * maps->channels);
}

static void norm_kernels(const struct maps *maps, const struct norm *a, uint64_t *state)
{
    const size_t sums = maps->pictures * maps->channels;
    float *means = guarded_new(sums);
    float *along = guarded_new(sums);
    run_anyhow(channel_norm_moments_launch(maps, a->in, means, a->inverse), state);
    run_anyhow(channel_norm_launch(maps, a->in, means, a->inverse, a->out), state);
    run_anyhow(channel_norm_gradient_means_launch(maps, a->out, a->d, means, along), state);
    run_anyhow(channel_norm_gradient_launch(maps, a->out, a->inverse, means, along, a->d), state);
    guarded_free(means, sums);
    guarded_free(along, sums);
}

static void check_channel_norm(const struct maps *maps, uint64_t *state)
{
    const size_t count = elements(maps);
    const size_t sums = maps->pictures * maps->channels;
    struct norm want = {.in = batch_random(count, state),
                        .out = guarded_new(count),
                        .inverse = guarded_new(sums),
                        .d = batch_random(count, state)};
    struct norm got = {.in = want.in,
                       .out = guarded_new(count),
                       .inverse = guarded_new(sums),
                       .d = guarded_copy(want.d, count)};
    struct norm in_place = {.in = guarded_copy(want.in, count),
                            .inverse = guarded_new(sums),
                            .d = guarded_copy(want.d, count)};
    in_place.out = in_place.in;
    norm_twin(maps, &want);
    norm_kernels(maps, &got, state);
    norm_kernels(maps, &in_place, state);
    assert_same_bits(got.inverse, want.inverse, sums);
    assert_same_bits(got.out, want.out, count);
    assert_same_bits(got.d, want.d, count);
    assert_same_bits(in_place.out, want.out, count);
    assert_same_bits(in_place.d, want.d, count);
    guarded_free(want.in, count);
    guarded_free(want.out, count);
    guarded_free(want.inverse, sums);
    guarded_free(want.d, count);
    guarded_free(got.out, count);
    guarded_free(got.inverse, sums);
    guarded_free(got.d, count);
    guarded_free(in_place.in, count);
    guarded_free(in_place.inverse, sums);
    guarded_free(in_place.d, count);
}

START_TEST(channel_norm_and_its_gradient)
{
    for_many_shapes(check_channel_norm);
}
END_TEST

static void check_mean_pool(const struct maps *maps, uint64_t *state)
{
    const size_t count = elements(maps);
    const size_t sums = maps->pictures * maps->channels;
    const size_t picture = maps->positions * maps->channels;
    float *in = batch_random(count, state);
    float *got = guarded_new(sums);
    float *want = guarded_new(sums);
    float *d_got = guarded_new(count);
    float *d_want = guarded_new(count);
    for (size_t n = 0; n < maps->pictures; n++) {
        mean_pool_host(in + n * picture, maps->positions, maps->channels,
                       want + n * maps->channels);
        mean_pool_gradient_host(want + n * maps->channels, maps->positions, maps->channels,
                                d_want + n * picture);
    }
    run_anyhow(mean_pool_launch(maps, in, got), state);
    assert_same_bits(got, want, sums);
    run_anyhow(mean_pool_gradient_launch(maps, got, d_got), state);
    assert_same_bits(d_got, d_want, count);
    guarded_free(in, count);
    guarded_free(got, sums);
    guarded_free(want, sums);
    guarded_free(d_got, count);
    guarded_free(d_want, count);
}

START_TEST(mean_pool_and_its_gradient)
{
    for_many_shapes(check_mean_pool);
}
END_TEST

START_TEST(sgd_with_momentum)
{
    uint64_t state = test_seed() | 1;
    const struct sgd sgd = {.scale = 1.0F / 3, .momentum = 0.9F, .learning_rate = 0.05F};
    for (uint32_t i = 0; i < 100; i++) {
        const size_t count = i < 70 ? i + 1 : random_bits(&state) % 5000 + 1;
        float *parameters = batch_random(count, &state);
        float *velocity = batch_random(count, &state);
        float *gradient = batch_random(count, &state);
        float *parameters_want = guarded_copy(parameters, count);
        float *velocity_want = guarded_copy(velocity, count);
        sgd_host(&sgd, parameters_want, velocity_want, gradient, count);
        cuda_shim_set_order(i % CUDA_SHIM_ORDERS, random_bits(&state));
        run_anyhow(sgd_launch(&sgd, parameters, velocity, gradient, count), &state);
        assert_same_bits(parameters, parameters_want, count);
        assert_same_bits(velocity, velocity_want, count);
        guarded_free(parameters, count);
        guarded_free(velocity, count);
        guarded_free(gradient, count);
        guarded_free(parameters_want, count);
        guarded_free(velocity_want, count);
    }
}
END_TEST

START_TEST(nothing_is_no_launch)
{
    const struct maps none = {.pictures = 0, .positions = 4, .channels = 3};
    const struct sgd sgd = {0};
    ck_assert(bias_relu_launch(&none, NULL, NULL, NULL).empty);
    ck_assert(mean_pool_launch(&none, NULL, NULL).empty);
    ck_assert(sgd_launch(&sgd, NULL, NULL, NULL, 0).empty);
    ck_assert(sum_pictures_launch(3, 0, NULL, NULL).empty);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("elementwise_kernels");
    TCase *tc = tcase_create("elementwise_kernels");
    tcase_add_test(tc, bias_relu);
    tcase_add_test(tc, bias_relu_gradient);
    tcase_add_test(tc, sums_over_many_pictures);
    tcase_add_test(tc, channel_norm_and_its_gradient);
    tcase_add_test(tc, mean_pool_and_its_gradient);
    tcase_add_test(tc, sgd_with_momentum);
    tcase_add_test(tc, nothing_is_no_launch);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
