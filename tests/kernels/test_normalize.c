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

/* A type by its definition: the number that bits below infinity's stand for. */
struct narrow {
    uint16_t (*bits_of)(float value);
    uint32_t infinity;
    int fraction_bits, exponent_bias;
};
static const struct narrow NARROW[] = {
    {float16_bits, 0x7c00, 10, 15},
    {bfloat16_bits, 0x7f80, 7, 127},
};

static double narrow_value(const struct narrow *n, uint32_t bits)
{
    const uint32_t one = UINT32_C(1) << n->fraction_bits;
    const int exponent = (int)(bits >> n->fraction_bits);
    const double fraction = bits & (one - 1);
    return exponent == 0 ? ldexp(fraction, 1 - n->exponent_bias - n->fraction_bits)
                         : ldexp(fraction + one, exponent - n->exponent_bias - n->fraction_bits);
}

static void check_narrow(const struct narrow *n, double size, uint32_t want)
{
    const float value = (float)size;
    const uint32_t sign = 0x8000;
    if (n->bits_of(value) != want || n->bits_of(-value) != (sign | want)) {
        ck_abort_msg("%a: %04x, wanted %04x", size, n->bits_of(value), want);
    }
}

/* Rounding rises, so it is right everywhere if it is right around every half-way point. What would
 * follow the largest number counts as infinity. */
START_TEST(narrow_types_round_to_nearest_even)
{
    const struct narrow *n = &NARROW[_i];
    for (uint32_t bits = 0; bits < n->infinity; bits++) {
        const double low = narrow_value(n, bits);
        const double middle = (low + narrow_value(n, bits + 1)) / 2;
        ck_assert((double)(float)middle == middle);
        check_narrow(n, low, bits);
        check_narrow(n, nextafterf((float)middle, 0), bits);
        check_narrow(n, middle, bits + bits % 2);
        check_narrow(n, nextafterf((float)middle, INFINITY), bits + 1);
    }
    check_narrow(n, INFINITY, n->infinity);
    check_narrow(n, 3e38, n == &NARROW[0] ? n->infinity : 0x7f62);
    ck_assert_uint_gt(n->bits_of(NAN) & 0x7fff, n->infinity);
}
END_TEST

static void check_strides(struct normalize n, uint64_t *state)
{
    normalize_factors(&n, MEAN, STD);
    const size_t in_bytes = n.pictures * n.in_picture;
    const size_t elements = n.pictures * n.out_picture;
    uint8_t *in = malloc(in_bytes);
    ck_assert_ptr_nonnull(in);
    for (size_t i = 0; i < in_bytes; i++) {
        in[i] = (uint8_t)random_bits(state);
    }
    const size_t element = n.type == NORMALIZE_F32 ? 4 : 2;
    uint8_t *got = guarded_bytes_new(elements * element);
    uint8_t *want = guarded_bytes_new(elements * element);
    normalize_into_host(&n, in, got);
    for (size_t i = 0; i < n.pictures * n.height * n.width * 3; i++) {
        const size_t c = i % 3;
        const size_t x = i / 3 % n.width;
        const size_t y = i / 3 / n.width % n.height;
        const size_t picture = i / 3 / n.width / n.height;
        const uint8_t byte = in[picture * n.in_picture + y * n.in_row + 3 * x + c];
        const float scaled = (float)byte * n.scale[c];
        const float value = scaled + n.bias[c];
        const size_t at =
            picture * n.out_picture + y * n.out_row + (n.nhwc ? 3 * x + c : c * n.out_plane + x);
        const uint16_t bits = n.type == NORMALIZE_F16 ? float16_bits(value) : bfloat16_bits(value);
        memcpy(want + at * element, element == 4 ? (const void *)&value : &bits, element);
    }
    ck_assert_mem_eq(got, want, elements * element);
    free(in);
    guarded_bytes_free(got, elements * element);
    guarded_bytes_free(want, elements * element);
}

/* Gaps stay as they were. */
START_TEST(every_type_and_layout_with_gaps)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t i = 0; i < 600; i++) {
        struct normalize n =
            normalize_dense(random_bits(&state) % 3 + 1, random_bits(&state) % 9 + 1,
                            random_bits(&state) % 9 + 1, i % 3, i % 2 == 1);
        n.in_row += random_bits(&state) % 5;
        n.in_picture = n.in_row * n.height + random_bits(&state) % 5;
        n.out_row += random_bits(&state) % 5;
        n.out_plane = n.out_row * n.height + random_bits(&state) % 5;
        n.out_picture = (n.nhwc ? 1 : 3) * n.out_plane + random_bits(&state) % 5;
        check_strides(n, &state);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("normalize");
    TCase *tc = tcase_create("normalize");
    tcase_add_test(tc, equals_a_restatement_at_every_odd_size);
    tcase_add_test(tc, is_the_textbook_formula_within_rounding);
    tcase_add_loop_test(tc, narrow_types_round_to_nearest_even, 0, (int)ARRAY_LEN(NARROW));
    tcase_add_test(tc, every_type_and_layout_with_gaps);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
