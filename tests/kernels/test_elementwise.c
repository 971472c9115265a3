/* SPDX-License-Identifier: Apache-2.0 */
/* Bias with ReLU, channel norm, mean pooling and SGD against restatements: equal bits. */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "support/suite.h"

typedef void (*check_fn)(size_t positions, size_t channels, uint64_t *state);

static void for_many_shapes(check_fn check)
{
    uint64_t state = test_seed() | 1;
    for (size_t positions = 1; positions < 40; positions += 3) {
        for (size_t channels = 1; channels < 40; channels++) {
            check(positions, channels, &state);
        }
    }
}

static void check_bias_relu(size_t positions, size_t channels, uint64_t *state)
{
    const size_t count = positions * channels;
    float *in = guarded_random(count, state);
    float *bias = guarded_random(channels, state);
    float *out = guarded_new(count);
    float *d = guarded_random(count, state);
    float *d_bias = guarded_random(channels, state);
    float *want = guarded_copy(in, count);
    float *d_want = guarded_copy(d, count);
    float *d_bias_want = guarded_copy(d_bias, channels);
    for (size_t i = 0; i < count; i++) {
        const size_t c = i % channels;
        want[i] = in[i] + bias[c];
        if (want[i] <= 0) {
            want[i] = 0;
            d_want[i] = 0;
        }
        d_bias_want[c] = d_bias_want[c] + d_want[i];
    }
    bias_relu_host(in, bias, positions, channels, out);
    bias_relu_gradient_host(out, positions, channels, d, d_bias);
    assert_floats_equal(out, want, count);
    assert_floats_equal(d, d_want, count);
    assert_floats_equal(d_bias, d_bias_want, channels);
    bias_relu_host(in, bias, positions, channels, in);
    assert_floats_equal(in, want, count);
    guarded_free(in, count);
    guarded_free(bias, channels);
    guarded_free(out, count);
    guarded_free(d, count);
    guarded_free(d_bias, channels);
    guarded_free(want, count);
    guarded_free(d_want, count);
    guarded_free(d_bias_want, channels);
}

START_TEST(bias_relu_and_its_gradient)
{
    for_many_shapes(check_bias_relu);
}
END_TEST

START_TEST(relu_keeps_a_nan)
{
    const float bias[1] = {1};
    float values[2] = {NAN, -2};
    bias_relu_host(values, bias, 2, 1, values);
    ck_assert(isnan(values[0]));
    ck_assert(values[1] == 0);
}
END_TEST

/* One channel of channel_norm and of its gradient, a sum at a time. */
static void norm_one(const float *in, float *d, size_t positions, size_t step, float *out,
                     float *inverse)
{
    const float share = 1.0F / (float)positions;
    float sum = 0, squares = 0, d_sum = 0, d_along = 0;
    for (size_t p = 0; p < positions; p++) {
        sum = sum + in[p * step];
    }
    for (size_t p = 0; p < positions; p++) {
        const float distance = in[p * step] - sum * share;
        const float square = distance * distance;
        squares = squares + square;
    }
    *inverse = 1.0F / sqrtf(squares * share + CHANNEL_NORM_FLOOR);
    for (size_t p = 0; p < positions; p++) {
        const float distance = in[p * step] - sum * share;
        out[p * step] = distance * *inverse;
        const float product = d[p * step] * out[p * step];
        d_sum = d_sum + d[p * step];
        d_along = d_along + product;
    }
    for (size_t p = 0; p < positions; p++) {
        const float along = out[p * step] * (d_along * share);
        const float rest = d[p * step] - d_sum * share;
        d[p * step] = (rest - along) * *inverse;
    }
}

static void check_norm(size_t positions, size_t channels, uint64_t *state)
{
    const size_t count = positions * channels;
    float *in = guarded_random(count, state);
    float *d = guarded_random(count, state);
    float *d_want = guarded_copy(d, count);
    float *out = guarded_new(count);
    float *want = guarded_new(count);
    float *inverse = guarded_new(channels);
    float *scratch = guarded_new(2 * channels);
    channel_norm_host(in, positions, channels, out, inverse, scratch);
    channel_norm_gradient_host(out, inverse, positions, channels, d, scratch);
    for (size_t c = 0; c < channels; c++) {
        float inverse_want;
        norm_one(in + c, d_want + c, positions, channels, want + c, &inverse_want);
        ck_assert(inverse[c] == inverse_want);
    }
    assert_floats_equal(out, want, count);
    assert_floats_equal(d, d_want, count);
    channel_norm_host(in, positions, channels, in, inverse, scratch);
    assert_floats_equal(in, want, count);
    guarded_free(in, count);
    guarded_free(d, count);
    guarded_free(d_want, count);
    guarded_free(out, count);
    guarded_free(want, count);
    guarded_free(inverse, channels);
    guarded_free(scratch, 2 * channels);
}

START_TEST(channel_norm_and_its_gradient)
{
    for_many_shapes(check_norm);
}
END_TEST

static void check_pool(size_t positions, size_t channels, uint64_t *state)
{
    float *in = guarded_random(positions * channels, state);
    float *d_in = guarded_new(positions * channels);
    float *out = guarded_new(channels);
    mean_pool_host(in, positions, channels, out);
    mean_pool_gradient_host(out, positions, channels, d_in);
    const float share = 1.0F / (float)positions;
    for (size_t c = 0; c < channels; c++) {
        float sum = 0;
        for (size_t p = 0; p < positions; p++) {
            sum = sum + in[p * channels + c];
        }
        ck_assert(out[c] == sum * share);
        bool equal = true;
        for (size_t p = 0; p < positions; p++) {
            equal = equal && d_in[p * channels + c] == out[c] * share;
        }
        ck_assert(equal);
    }
    guarded_free(in, positions * channels);
    guarded_free(d_in, positions * channels);
    guarded_free(out, channels);
}

START_TEST(mean_pool_and_its_gradient)
{
    for_many_shapes(check_pool);
}
END_TEST

START_TEST(sgd_with_momentum)
{
    uint64_t state = test_seed() | 1;
    const struct sgd sgd = {.scale = 1.0F / 3, .momentum = 0.9F, .learning_rate = 0.05F};
    for (size_t count = 0; count < 70; count++) {
        float *parameters = guarded_random(count, &state);
        float *velocity = guarded_random(count, &state);
        float *gradient = guarded_random(count, &state);
        float *parameters_want = guarded_copy(parameters, count);
        float *velocity_want = guarded_copy(velocity, count);
        for (size_t i = 0; i < count; i++) {
            const float kept = sgd.momentum * velocity_want[i];
            const float added = gradient[i] * sgd.scale;
            velocity_want[i] = kept + added;
            const float moved = sgd.learning_rate * velocity_want[i];
            parameters_want[i] = parameters_want[i] - moved;
        }
        sgd_host(&sgd, parameters, velocity, gradient, count);
        assert_floats_equal(parameters, parameters_want, count);
        assert_floats_equal(velocity, velocity_want, count);
        guarded_free(parameters, count);
        guarded_free(velocity, count);
        guarded_free(gradient, count);
        guarded_free(parameters_want, count);
        guarded_free(velocity_want, count);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("elementwise");
    TCase *tc = tcase_create("elementwise");
    tcase_add_test(tc, bias_relu_and_its_gradient);
    tcase_add_test(tc, relu_keeps_a_nan);
    tcase_add_test(tc, channel_norm_and_its_gradient);
    tcase_add_test(tc, mean_pool_and_its_gradient);
    tcase_add_test(tc, sgd_with_momentum);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
