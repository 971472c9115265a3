/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of normalize.cu, run on the fake GPU, against their twin: equal bits. */
#include <math.h>

#include "kernels/guarded.h"
#include "kernels/on_shim.h"
#include "support/suite.h"

static const float MEAN[3] = {0.485F, 0.456F, 0.406F};
static const float STD[3] = {0.229F, 0.224F, 0.225F};

static size_t element_bytes(enum normalize_type type)
{
    return type == NORMALIZE_F32 ? 4 : 2;
}

/* Where pictures lie in their buffers. */
struct buffers {
    size_t in_skew, in_bytes, out_skew, out_bytes;
};

/* With gaps between rows, planes and pictures, if gap > 0: each of random size up to it. */
static struct normalize shape_new(size_t pictures, size_t height, size_t width,
                                  enum normalize_type type, bool nhwc, size_t gap, uint64_t *state)
{
    struct normalize n = normalize_dense(pictures, height, width, type, nhwc);
    normalize_factors(&n, MEAN, STD);
    if (gap > 0) {
        n.in_row += random_bits(state) % gap;
        n.in_picture = n.in_row * height + random_bits(state) % gap;
        n.out_row += random_bits(state) % gap;
        n.out_plane = n.out_row * height + random_bits(state) % gap;
        n.out_picture = (nhwc ? 1 : 3) * n.out_plane + random_bits(state) % gap;
    }
    return n;
}

/* Exactly what the last pixel of the last row needs. */
static struct buffers buffers_of(const struct normalize *n, uint64_t *state)
{
    const size_t rows = n->height - 1;
    const size_t pictures = n->pictures - 1;
    const size_t row = n->nhwc ? 3 * n->width : n->width;
    struct buffers b = {.in_skew = random_bits(state) % 16,
                        .out_skew = random_bits(state) % 8 * element_bytes(n->type)};
    b.in_bytes = b.in_skew + pictures * n->in_picture + rows * n->in_row + 3 * n->width;
    b.out_bytes = b.out_skew + (pictures * n->out_picture + (n->nhwc ? 0 : 2 * n->out_plane) +
                                rows * n->out_row + row) *
                                   element_bytes(n->type);
    return b;
}

static void assert_bytes_equal(const uint8_t *got, const uint8_t *want, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != want[i]) {
            ck_abort_msg("byte %zu: %02x, wanted %02x", i, got[i], want[i]);
        }
    }
}

/* In every order; and, unless grid is NULL, in that grid. Gaps are compared too. */
static void check(const struct normalize *n, const uint32_t *grid, uint64_t *state)
{
    const struct buffers b = buffers_of(n, state);
    uint8_t *in = guarded_bytes_new(b.in_bytes);
    uint8_t *want = guarded_bytes_new(b.out_bytes);
    for (size_t i = 0; i < b.in_bytes; i++) {
        in[i] = (uint8_t)random_bits(state);
    }
    normalize_into_host(n, in + b.in_skew, want + b.out_skew);
    for (uint32_t order = 0; order < CUDA_SHIM_ORDERS; order++) {
        uint8_t *got = guarded_bytes_new(b.out_bytes);
        struct launch launch = normalize_launch(n, in + b.in_skew, got + b.out_skew);
        if (grid != NULL) {
            memcpy(launch.grid, grid, sizeof(launch.grid));
        }
        cuda_shim_set_order(order, random_bits(state));
        run_on_shim(&launch);
        assert_bytes_equal(got, want, b.out_bytes);
        guarded_bytes_free(got, b.out_bytes);
    }
    guarded_bytes_free(in, b.in_bytes);
    guarded_bytes_free(want, b.out_bytes);
}

/* One entry of each type and layout. */
enum { KINDS = 6 };

START_TEST(every_small_width)
{
    uint64_t state = test_seed() | 1;
    for (size_t width = 1; width <= 70; width++) {
        for (size_t gap = 0; gap <= 40; gap += 20) {
            const size_t height = 1 + random_bits(&state) % 5;
            const size_t pictures = 1 + random_bits(&state) % 3;
            const struct normalize n =
                shape_new(pictures, height, width, (uint32_t)_i / 2, _i % 2 == 1, gap, &state);
            check(&n, NULL, &state);
        }
    }
}
END_TEST

/* Around whole tiles, and of several. */
START_TEST(rows_of_several_tiles)
{
    static const size_t WIDTHS[] = {511, 512, 513, 1024, 1025, 2047, 2048, 2049, 4100, 7001};
    uint64_t state = test_seed() | 1;
    for (size_t i = 0; i < ARRAY_LEN(WIDTHS); i++) {
        for (size_t gap = 0; gap <= 40; gap += 40) {
            const struct normalize n =
                shape_new(2, 2, WIDTHS[i], (uint32_t)_i / 2, _i % 2 == 1, gap, &state);
            check(&n, NULL, &state);
        }
    }
}
END_TEST

START_TEST(any_grid_does_all_the_work)
{
    static const uint32_t GRIDS[][3] = {{1, 1, 1}, {2, 1, 3}, {3, 2, 1}, {9, 9, 9}};
    uint64_t state = test_seed() | 1;
    for (size_t i = 0; i < ARRAY_LEN(GRIDS); i++) {
        const struct normalize n = shape_new(4, 3, 6000, (uint32_t)_i / 2, _i % 2 == 1, 30, &state);
        check(&n, GRIDS[i], &state);
    }
}
END_TEST

/* All bytes in all channels, by factors of all magnitudes. */
START_TEST(every_byte_with_many_factors)
{
    uint64_t state = test_seed() | 1;
    uint8_t in[3 * 256];
    uint8_t want[sizeof(in) * 4], got[sizeof(in) * 4];
    for (size_t i = 0; i < sizeof(in); i++) {
        in[i] = (uint8_t)(i / 3);
    }
    for (uint32_t round = 0; round < 300; round++) {
        struct normalize n = normalize_dense(1, 16, 16, (uint32_t)_i / 2, _i % 2 == 1);
        for (int c = 0; c < 3; c++) {
            n.scale[c] = ldexpf(random_float(&state), (int)(random_bits(&state) % 60) - 40);
            n.bias[c] = ldexpf(random_float(&state), (int)(random_bits(&state) % 60) - 40);
        }
        memset(want, 0, sizeof(want));
        memset(got, 0, sizeof(got));
        normalize_into_host(&n, in, want);
        struct launch launch = normalize_launch(&n, in, got);
        run_on_shim(&launch);
        assert_bytes_equal(got, want, sizeof(in) * element_bytes(n.type));
    }
}
END_TEST

/* The kernel's element for any number, as the bias of a scale of 0. */
static void kernel_bits(enum normalize_type type, const float values[3], uint16_t out[3])
{
    static const uint8_t PIXEL[3] = {255, 0, 1};
    struct normalize n = normalize_dense(1, 1, 1, type, true);
    memcpy(n.bias, values, sizeof(n.bias));
    struct launch launch = normalize_launch(&n, PIXEL, out);
    run_on_shim(&launch);
}

/* Of every two neighbours among a type's numbers: the first, what lies half-way, and its
 * neighbours among the floats, are rounded as the twin does (whose own test is test_normalize). */
static void check_rounding(enum normalize_type type, uint16_t (*twin)(float),
                           float (*value_of)(uint16_t), uint16_t infinity)
{
    for (uint32_t bits = 0; bits < infinity; bits++) {
        const float low = value_of((uint16_t)bits);
        const float high = value_of((uint16_t)(bits + 1));
        const float middle = low + (high - low) / 2;
        const float below[3] = {low, nextafterf(middle, 0), middle};
        const float above[3] = {-middle, nextafterf(middle, INFINITY),
                                -nextafterf(middle, INFINITY)};
        uint16_t got[6];
        kernel_bits(type, below, got);
        kernel_bits(type, above, got + 3);
        for (int i = 0; i < 6; i++) {
            const float value = i < 3 ? below[i] : above[i - 3];
            const uint16_t want = twin(value);
            if (got[i] != want && value != 0) { /* 0 * scale + -0 is 0 */
                ck_abort_msg("%a: %04x, wanted %04x", (double)value, got[i], want);
            }
        }
    }
}

/* The largest's neighbour would be 2^16, were it not infinity. */
static float value_of_f16(uint16_t bits)
{
    const int exponent = bits >> 10;
    const int significand = bits & 0x3ff;
    return exponent == 0 ? ldexpf((float)significand, -24)
                         : ldexpf((float)(significand + 1024), exponent - 25);
}

/* As above: 2^128 is no float, so the largest pair ends at the largest float. */
static float value_of_bf16(uint16_t bits)
{
    const uint32_t wide = bits == 0x7f80 ? 0x7f7fffff : (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

START_TEST(float16_is_rounded_everywhere)
{
    check_rounding(NORMALIZE_F16, float16_bits, value_of_f16, 0x7c00);
}
END_TEST

START_TEST(bfloat16_is_rounded_everywhere)
{
    check_rounding(NORMALIZE_BF16, bfloat16_bits, value_of_bf16, 0x7f80);
}
END_TEST

START_TEST(no_pictures_is_no_launch)
{
    const struct normalize n = normalize_dense(0, 3, 5, NORMALIZE_F32, false);
    ck_assert(normalize_launch(&n, NULL, NULL).empty);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("normalize_kernel");
    TCase *tc = tcase_create("normalize_kernel");
    tcase_add_loop_test(tc, every_small_width, 0, KINDS);
    tcase_add_loop_test(tc, rows_of_several_tiles, 0, KINDS);
    tcase_add_loop_test(tc, any_grid_does_all_the_work, 0, KINDS);
    tcase_add_loop_test(tc, every_byte_with_many_factors, 0, KINDS);
    tcase_add_test(tc, float16_is_rounded_everywhere);
    tcase_add_test(tc, bfloat16_is_rounded_everywhere);
    tcase_add_test(tc, no_pictures_is_no_launch);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
