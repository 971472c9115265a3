/* SPDX-License-Identifier: Apache-2.0 */
/* The convolution and its two derivatives against loops written from kernels.h: equal bits. */
#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "support/suite.h"

/* Index of input element (y, x, c), or -1 in the padding. */
static ptrdiff_t input_at(const struct conv *s, size_t position, size_t ky, size_t kx, size_t c)
{
    const size_t columns = conv_side(s, s->width);
    const ptrdiff_t pad = (ptrdiff_t)(s->kernel / 2);
    const ptrdiff_t y = (ptrdiff_t)(position / columns * s->stride + ky) - pad;
    const ptrdiff_t x = (ptrdiff_t)(position % columns * s->stride + kx) - pad;
    if (y < 0 || x < 0 || y >= (ptrdiff_t)s->height || x >= (ptrdiff_t)s->width) {
        return -1;
    }
    const ptrdiff_t pixel = y * (ptrdiff_t)s->width + x;
    return s->planar ? (ptrdiff_t)(c * s->height * s->width) + pixel
                     : pixel * (ptrdiff_t)s->channels + (ptrdiff_t)c;
}

static size_t weight_at(const struct conv *s, size_t ky, size_t kx, size_t c)
{
    return ((ky * s->kernel + kx) * s->channels + c) * s->filters;
}

typedef void (*visit_fn)(const struct conv *s, size_t p, ptrdiff_t input, size_t weight,
                         void *data);

/* Every (position, ky, kx, channel), in order. */
static void for_each_tap(const struct conv *s, visit_fn visit, void *data)
{
    const size_t positions = conv_side(s, s->height) * conv_side(s, s->width);
    for (size_t p = 0; p < positions; p++) {
        for (size_t ky = 0; ky < s->kernel; ky++) {
            for (size_t kx = 0; kx < s->kernel; kx++) {
                for (size_t c = 0; c < s->channels; c++) {
                    visit(s, p, input_at(s, p, ky, kx, c), weight_at(s, ky, kx, c), data);
                }
            }
        }
    }
}

struct arrays {
    float *in, *weights, *out, *d_out, *d_weights, *d_in;
};

static void visit_forward(const struct conv *s, size_t p, ptrdiff_t input, size_t weight,
                          void *data)
{
    const struct arrays *a = data;
    for (size_t f = 0; f < s->filters; f++) {
        const float product = (input < 0 ? 0 : a->in[input]) * a->weights[weight + f];
        a->out[p * s->filters + f] = a->out[p * s->filters + f] + product;
    }
}

static void visit_weights(const struct conv *s, size_t p, ptrdiff_t input, size_t weight,
                          void *data)
{
    const struct arrays *a = data;
    for (size_t f = 0; f < s->filters; f++) {
        const float product = (input < 0 ? 0 : a->in[input]) * a->d_out[p * s->filters + f];
        a->d_weights[weight + f] = a->d_weights[weight + f] + product;
    }
}

static void visit_input(const struct conv *s, size_t p, ptrdiff_t input, size_t weight, void *data)
{
    const struct arrays *a = data;
    float sum = 0;
    for (size_t f = 0; f < s->filters; f++) {
        const float product = a->d_out[p * s->filters + f] * a->weights[weight + f];
        sum = sum + product;
    }
    if (input >= 0) {
        a->d_in[input] = a->d_in[input] + sum;
    }
}

static void check_shape(const struct conv *s, uint64_t *state)
{
    const size_t inputs = s->height * s->width * s->channels;
    const size_t positions = conv_side(s, s->height) * conv_side(s, s->width);
    const size_t outputs = positions * s->filters;
    struct arrays want = {
        .in = guarded_random(inputs, state),
        .weights = guarded_random(conv_weights(s), state),
        .out = guarded_new(outputs),
        .d_out = guarded_random(outputs, state),
        .d_weights = guarded_random(conv_weights(s), state),
        .d_in = guarded_new(inputs),
    };
    struct arrays got = want;
    got.out = guarded_new(outputs);
    got.d_weights = guarded_copy(want.d_weights, conv_weights(s));
    got.d_in = guarded_new(inputs);
    float *scratch = guarded_new(conv_scratch(s));

    memset(want.out, 0, outputs * sizeof(float));
    for_each_tap(s, visit_forward, &want);
    conv_host(s, want.in, want.weights, got.out, scratch);
    assert_floats_equal(got.out, want.out, outputs);

    for_each_tap(s, visit_weights, &want);
    conv_weights_gradient_host(s, want.in, want.d_out, got.d_weights, scratch);
    assert_floats_equal(got.d_weights, want.d_weights, conv_weights(s));

    if (!s->planar) {
        memset(want.d_in, 0, inputs * sizeof(float));
        for_each_tap(s, visit_input, &want);
        conv_input_gradient_host(s, want.weights, want.d_out, got.d_in, scratch);
        assert_floats_equal(got.d_in, want.d_in, inputs);
    }

    guarded_free(scratch, conv_scratch(s));
    guarded_free(got.out, outputs);
    guarded_free(got.d_weights, conv_weights(s));
    guarded_free(got.d_in, inputs);
    guarded_free(want.in, inputs);
    guarded_free(want.weights, conv_weights(s));
    guarded_free(want.out, outputs);
    guarded_free(want.d_out, outputs);
    guarded_free(want.d_weights, conv_weights(s));
    guarded_free(want.d_in, inputs);
}

START_TEST(equals_the_loops_of_its_definition)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t i = 0; i < 300; i++) {
        const struct conv shape = {
            .height = random_bits(&state) % 24 + 1,
            .width = random_bits(&state) % 24 + 1,
            .channels = random_bits(&state) % 5 + 1,
            .kernel = 2 * (random_bits(&state) % 4) + 1,
            .stride = random_bits(&state) % 3 + 1,
            .filters = random_bits(&state) % 19 + 1,
            .planar = i & 1,
        };
        check_shape(&shape, &state);
    }
}
END_TEST

START_TEST(sides_are_rounded_up)
{
    const struct conv conv = {.kernel = 3, .stride = 2};
    ck_assert_uint_eq(conv_side(&conv, 1), 1);
    ck_assert_uint_eq(conv_side(&conv, 7), 4);
    ck_assert_uint_eq(conv_side(&conv, 8), 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conv");
    TCase *tc = tcase_create("conv");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, equals_the_loops_of_its_definition);
    tcase_add_test(tc, sides_are_rounded_up);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
