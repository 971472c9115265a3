/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of gemm.cu, run on the fake GPU, against their twin: equal bits. */
#include "kernels/guarded.h"
#include "kernels/on_shim.h"
#include "support/suite.h"

/* A matrix of one of four layouts: rows or columns adjacent, with or without gaps. */
struct matrix {
    float *data;
    size_t row, column, count;
};

static struct matrix matrix_new(size_t rows, size_t columns, uint64_t *state)
{
    const size_t gap = random_bits(state) % 2 * (random_bits(state) % 5);
    struct matrix m = {.row = columns + gap, .column = 1};
    if (random_bits(state) % 2 == 0) {
        m = (struct matrix){.row = 1, .column = rows + gap};
    }
    m.count = rows == 0 || columns == 0 ? 0 : (rows - 1) * m.row + (columns - 1) * m.column + 1;
    m.data = guarded_random(m.count, state);
    return m;
}

/* What the sums begin with. */
enum start { ZERO, ACCUMULATE, FIRST_ROW, STARTS };

static void check(size_t m, size_t n, size_t k, enum start start, uint64_t *state)
{
    const struct matrix a = matrix_new(m, k, state);
    const struct matrix b = matrix_new(k, n, state);
    const size_t c_row = n + random_bits(state) % 3;
    const size_t c_count = (m - 1) * c_row + n;
    float *want = guarded_random(c_count, state);
    float *got = guarded_copy(want, c_count);
    float *first_row = guarded_random(n, state);
    struct gemm gemm = {m,      n,     k,        a.data, a.row, a.column,
                        b.data, b.row, b.column, got,    c_row, start == ACCUMULATE};
    struct launch launch = gemm_launch(&gemm, start == FIRST_ROW ? first_row : NULL);
    if (random_bits(state) % 2 == 0) {
        launch.grid[0] = launch.grid[1] = 1;
    }
    run_on_shim(&launch);
    for (size_t i = 0; start == FIRST_ROW && i < m; i++) {
        memcpy(want + i * c_row, first_row, n * sizeof(float));
    }
    gemm.c = want;
    gemm.accumulate = start != ZERO;
    gemm_host(&gemm);
    assert_same_bits(got, want, c_count);
    guarded_free(a.data, a.count);
    guarded_free(b.data, b.count);
    guarded_free(want, c_count);
    guarded_free(got, c_count);
    guarded_free(first_row, n);
}

START_TEST(small_shapes)
{
    uint64_t state = test_seed() | 1;
    for (uint32_t i = 0; i < 1000; i++) {
        cuda_shim_set_order(i % CUDA_SHIM_ORDERS, random_bits(&state));
        check(random_bits(&state) % 20 + 1, random_bits(&state) % 40 + 1, random_bits(&state) % 40,
              random_bits(&state) % STARTS, &state);
    }
}
END_TEST

/* Around the tiles' sides, where an edge begins or just does not. */
START_TEST(around_tiles)
{
    static const size_t M[] = {63, 64, 65, 128, 150};
    static const size_t N[] = {15, 16, 17, 32, 33, 63, 64, 65, 130};
    static const size_t K[] = {0, 1, 15, 16, 17, 48, 70};
    uint64_t state = test_seed() | 1;
    for (size_t i = 0; i < ARRAY_LEN(M); i++) {
        for (size_t j = 0; j < ARRAY_LEN(N); j++) {
            const size_t k = K[random_bits(&state) % ARRAY_LEN(K)];
            cuda_shim_set_order(random_bits(&state) % CUDA_SHIM_ORDERS, random_bits(&state));
            check(M[i], N[j], k, random_bits(&state) % STARTS, &state);
        }
    }
}
END_TEST

/* Nothing is added beyond the last term, not even a zero. */
START_TEST(a_zero_keeps_its_sign)
{
    const float a[3] = {-1, -1, -1};
    const float b[3] = {0, 0, 0};
    float c = -0.0F;
    const struct gemm gemm = {1, 1, 3, a, 3, 1, b, 1, 1, &c, 1, true};
    struct launch launch = gemm_launch(&gemm, NULL);
    run_on_shim(&launch);
    ck_assert_uint_eq(float_bits(c), float_bits(-0.0F));
}
END_TEST

START_TEST(both_widths_are_used)
{
    const struct gemm narrow = {.m = 1, .n = 32, .k = 1};
    const struct gemm wide = {.m = 1, .n = 33, .k = 1};
    ck_assert_str_eq(gemm_launch(&narrow, NULL).kernel, "gemm_16");
    ck_assert_str_eq(gemm_launch(&wide, NULL).kernel, "gemm_64");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_kernel");
    TCase *tc = tcase_create("gemm_kernel");
    tcase_add_test(tc, small_shapes);
    tcase_add_test(tc, around_tiles);
    tcase_add_test(tc, a_zero_keeps_its_sign);
    tcase_add_test(tc, both_widths_are_used);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
