/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of conv.cu, run on the fake GPU over batches, against their twins: equal bits. */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/on_shim.h"
#include "support/suite.h"

/* Of one picture. */
struct sizes {
    size_t in, out, weights, scratch;
};

static struct sizes sizes_of(const struct conv *conv)
{
    return (struct sizes){
        .in = conv->height * conv->width * conv->channels,
        .out = conv_side(conv, conv->height) * conv_side(conv, conv->width) * conv->filters,
        .weights = conv_weights(conv),
        .scratch = conv_scratch(conv),
    };
}

/* Now and then with an infinity, which makes NaN of the zeros that take part. */
static float *numbers_new(size_t count, uint64_t *state)
{
    float *values = guarded_random(count, state);
    if (count > 0 && random_bits(state) % 4 == 0) {
        values[random_bits(state) % count] = INFINITY;
    }
    return values;
}

/* In the grid of the launch, or in one block. */
static void run_anyhow(struct launch launch, uint64_t *state)
{
    cuda_shim_set_order(random_bits(state) % CUDA_SHIM_ORDERS, random_bits(state));
    if (random_bits(state) % 3 == 0) {
        launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    }
    run_on_shim(&launch);
}

static void check_forward(const struct conv *conv, size_t pictures, uint64_t *state)
{
    const struct sizes size = sizes_of(conv);
    float *in = numbers_new(pictures * size.in, state);
    float *weights = numbers_new(size.weights, state);
    float *got = guarded_new(pictures * size.out);
    float *want = guarded_new(pictures * size.out);
    float *scratch = guarded_new(size.scratch);
    for (size_t n = 0; n < pictures; n++) {
        conv_host(conv, in + n * size.in, weights, want + n * size.out, scratch);
    }
    run_anyhow(conv_launch(conv, pictures, in, weights, got), state);
    assert_same_bits(got, want, pictures * size.out);
    guarded_free(in, pictures * size.in);
    guarded_free(weights, size.weights);
    guarded_free(got, pictures * size.out);
    guarded_free(want, pictures * size.out);
    guarded_free(scratch, size.scratch);
}

static void check_weights_gradient(const struct conv *conv, size_t pictures, uint64_t *state)
{
    const struct sizes size = sizes_of(conv);
    float *in = numbers_new(pictures * size.in, state);
    float *d_out = numbers_new(pictures * size.out, state);
    float *got = guarded_new(pictures * size.weights);
    float *want = guarded_new(pictures * size.weights);
    float *scratch = guarded_new(size.scratch);
    memset(want, 0, pictures * size.weights * sizeof(float));
    for (size_t n = 0; n < pictures; n++) {
        conv_weights_gradient_host(conv, in + n * size.in, d_out + n * size.out,
                                   want + n * size.weights, scratch);
    }
    run_anyhow(conv_weights_gradient_launch(conv, pictures, in, d_out, got), state);
    assert_same_bits(got, want, pictures * size.weights);
    guarded_free(in, pictures * size.in);
    guarded_free(d_out, pictures * size.out);
    guarded_free(got, pictures * size.weights);
    guarded_free(want, pictures * size.weights);
    guarded_free(scratch, size.scratch);
}

static void check_input_gradient(const struct conv *conv, size_t pictures, uint64_t *state)
{
    const struct sizes size = sizes_of(conv);
    float *weights = numbers_new(size.weights, state);
    float *d_out = numbers_new(pictures * size.out, state);
    float *got = guarded_new(pictures * size.in);
    float *want = guarded_new(pictures * size.in);
    float *scratch = guarded_new(size.scratch);
    for (size_t n = 0; n < pictures; n++) {
        conv_input_gradient_host(conv, weights, d_out + n * size.out, want + n * size.in, scratch);
    }
    run_anyhow(conv_input_gradient_launch(conv, pictures, weights, d_out, got), state);
    assert_same_bits(got, want, pictures * size.in);
    guarded_free(weights, size.weights);
    guarded_free(d_out, pictures * size.out);
    guarded_free(got, pictures * size.in);
    guarded_free(want, pictures * size.in);
    guarded_free(scratch, size.scratch);
}

static void check(const struct conv *conv, size_t pictures, uint64_t *state)
{
    check_forward(conv, pictures, state);
    check_weights_gradient(conv, pictures, state);
    if (!conv->planar) {
        check_input_gradient(conv, pictures, state);
    }
}

START_TEST(small_shapes)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t i = 0; i < 500; i++) {
        const struct conv conv = {
            .height = random_bits(&state) % 14 + 1,
            .width = random_bits(&state) % 14 + 1,
            .channels = random_bits(&state) % 5 + 1,
            .kernel = 2 * (random_bits(&state) % 4) + 1,
            .stride = random_bits(&state) % 3 + 1,
            .filters = random_bits(&state) % 19 + 1,
            .planar = i & 1,
        };
        check(&conv, random_bits(&state) % 3 + 1, &state);
    }
}
END_TEST

/* Wide enough for tiles of 64 columns, and for several of them. */
START_TEST(many_channels_and_filters)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t i = 0; i < 60; i++) {
        const struct conv conv = {
            .height = random_bits(&state) % 9 + 1,
            .width = random_bits(&state) % 9 + 1,
            .channels = random_bits(&state) % 80 + 1,
            .kernel = 2 * (random_bits(&state) % 2) + 1,
            .stride = random_bits(&state) % 2 + 1,
            .filters = random_bits(&state) % 80 + 1,
            .planar = i % 4 == 0,
        };
        check(&conv, random_bits(&state) % 2 + 1, &state);
    }
}
END_TEST

/* The layers of the reference trainer's network. */
START_TEST(layers_of_the_network)
{
    static const struct conv LAYERS[] = {
        {31, 34, 3, 5, 2, 16, true},
        {16, 17, 16, 3, 2, 32, false},
        {8, 9, 32, 3, 2, 64, false},
    };
    uint64_t state = test_seed() | 1;
    for (size_t i = 0; i < ARRAY_LEN(LAYERS); i++) {
        check(&LAYERS[i], 2, &state);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conv_kernel");
    TCase *tc = tcase_create("conv_kernel");
    tcase_add_test(tc, small_shapes);
    tcase_add_test(tc, many_channels_and_filters);
    tcase_add_test(tc, layers_of_the_network);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
