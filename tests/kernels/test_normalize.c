/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "support/suite.h"

static const float MEAN[3] = {0.485F, 0.456F, 0.406F};
static const float STD[3] = {0.229F, 0.224F, 0.225F};

static void check_size(size_t count, size_t height, size_t width, uint64_t *state)
{
    const size_t values = count * height * width * 3;
    uint8_t *in = malloc(values);
    ck_assert_ptr_nonnull(in);
    for (size_t i = 0; i < values; i++) {
        in[i] = (uint8_t)random_bits(state);
    }
    float *got = guarded_new(values);
    float *want = guarded_new(values);
    for (size_t n = 0; n < count; n++) {
        for (size_t c = 0; c < 3; c++) {
            const float scale = (float)(1.0 / (255.0 * STD[c]));
            const float bias = (float)(-(double)MEAN[c] / STD[c]);
            for (size_t p = 0; p < height * width; p++) {
                const float scaled = (float)in[(n * height * width + p) * 3 + c] * scale;
                want[(n * 3 + c) * height * width + p] = scaled + bias;
            }
        }
    }
    normalize_host(in, got, count, height, width, MEAN, STD);
    assert_floats_equal(got, want, values);
    free(in);
    guarded_free(got, values);
    guarded_free(want, values);
}

START_TEST(equals_a_restatement_at_every_odd_size)
{
    uint64_t state = test_seed() | 1;
    for (size_t height = 1; height <= 33; height += 2) {
        for (size_t width = 1; width <= 33; width += 2) {
            check_size(1, height, width, &state);
            check_size(3, height, width, &state);
        }
    }
}
END_TEST

START_TEST(is_the_textbook_formula_within_rounding)
{
    uint8_t in[256 * 3];
    float out[256 * 3];
    for (size_t i = 0; i < sizeof(in); i++) {
        in[i] = (uint8_t)(i / 3);
    }
    normalize_host(in, out, 1, 16, 16, MEAN, STD);
    for (size_t c = 0; c < 3; c++) {
        for (size_t v = 0; v < 256; v++) {
            const double want = ((double)v / 255 - MEAN[c]) / STD[c];
            ck_assert(fabs(out[c * 256 + v] - want) < 1e-6);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("normalize");
    TCase *tc = tcase_create("normalize");
    tcase_add_test(tc, equals_a_restatement_at_every_odd_size);
    tcase_add_test(tc, is_the_textbook_formula_within_rounding);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
