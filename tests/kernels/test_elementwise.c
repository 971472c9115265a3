/* SPDX-License-Identifier: Apache-2.0 */
/* ReLU, mean pooling and SGD against restatements: equal bits. */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "support/suite.h"

START_TEST(relu_and_its_gradient)
{
    uint64_t state = test_seed() | 1;
    for (size_t count = 0; count < 70; count++) {
        float *values = guarded_random(count, &state);
        float *want = guarded_copy(values, count);
        float *d_values = guarded_random(count, &state);
        float *d_want = guarded_copy(d_values, count);
        for (size_t i = 0; i < count; i++) {
            if (want[i] <= 0) {
                want[i] = 0;
                d_want[i] = 0;
            }
        }
        relu_host(values, count);
        relu_gradient_host(values, d_values, count);
        assert_floats_equal(values, want, count);
        assert_floats_equal(d_values, d_want, count);
        guarded_free(values, count);
        guarded_free(want, count);
        guarded_free(d_values, count);
        guarded_free(d_want, count);
    }
}
END_TEST

START_TEST(relu_keeps_a_nan)
{
    float values[2] = {NAN, -1};
    relu_host(values, 2);
    ck_assert(isnan(values[0]));
    ck_assert(values[1] == 0);
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
        for (size_t p = 0; p < positions; p++) {
            ck_assert(d_in[p * channels + c] == out[c] * share);
        }
    }
    guarded_free(in, positions * channels);
    guarded_free(d_in, positions * channels);
    guarded_free(out, channels);
}

START_TEST(mean_pool_and_its_gradient)
{
    uint64_t state = test_seed() | 1;
    for (size_t positions = 1; positions < 40; positions += 3) {
        for (size_t channels = 1; channels < 40; channels++) {
            check_pool(positions, channels, &state);
        }
    }
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
    tcase_add_test(tc, relu_and_its_gradient);
    tcase_add_test(tc, relu_keeps_a_nan);
    tcase_add_test(tc, mean_pool_and_its_gradient);
    tcase_add_test(tc, sgd_with_momentum);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
