/* SPDX-License-Identifier: Apache-2.0 */
/* Every level of the matrix product against the three loops that kernels.h describes: equal bits.
 */
#include "kernels/gemm_level.h"
#include "kernels/guarded.h"
#include "support/suite.h"

static void gemm_naive(const struct gemm *g)
{
    for (size_t i = 0; i < g->m; i++) {
        for (size_t j = 0; j < g->n; j++) {
            float sum = g->accumulate ? g->c[i * g->c_row + j] : 0;
            for (size_t k = 0; k < g->k; k++) {
                const float product =
                    g->a[i * g->a_row + k * g->a_column] * g->b[k * g->b_row + j * g->b_column];
                sum = sum + product;
            }
            g->c[i * g->c_row + j] = sum;
        }
    }
}

struct shape {
    size_t m, n, k;
    bool a_transposed, b_transposed, accumulate;
    size_t gap; /* of every row in memory */
};

static void check_shape(gemm_fn run, const struct shape *s, uint64_t *state)
{
    const size_t a_rows = s->a_transposed ? s->k : s->m;
    const size_t b_rows = s->b_transposed ? s->n : s->k;
    const size_t a_width = (s->a_transposed ? s->m : s->k) + s->gap;
    const size_t b_width = (s->b_transposed ? s->k : s->n) + s->gap;
    const size_t c_width = s->n + s->gap;
    float *a = guarded_random(a_rows * a_width, state);
    float *b = guarded_random(b_rows * b_width, state);
    float *got = guarded_random(s->m * c_width, state);
    float *want = guarded_copy(got, s->m * c_width);
    struct gemm gemm = {
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .a = a,
        .a_row = s->a_transposed ? 1 : a_width,
        .a_column = s->a_transposed ? a_width : 1,
        .b = b,
        .b_row = s->b_transposed ? 1 : b_width,
        .b_column = s->b_transposed ? b_width : 1,
        .c = want,
        .c_row = c_width,
        .accumulate = s->accumulate,
    };
    gemm_naive(&gemm);
    gemm.c = got;
    run(&gemm);
    assert_floats_equal(got, want, s->m * c_width); /* the gaps too: they stay as they were */
    guarded_free(a, a_rows * a_width);
    guarded_free(b, b_rows * b_width);
    guarded_free(got, s->m * c_width);
    guarded_free(want, s->m * c_width);
}

START_TEST(every_level_equals_the_three_loops)
{
    uint64_t state = test_seed() | 1;
    for (size_t level = 0; GEMM_LEVELS[level].name != NULL; level++) {
        if (!GEMM_LEVELS[level].usable()) {
            printf("skipped: this CPU has no %s\n", GEMM_LEVELS[level].name);
            continue;
        }
        for (uint32_t i = 0; i < 2000; i++) {
            const struct shape shape = {
                .m = random_bits(&state) % 20 + 1,
                .n = random_bits(&state) % 40 + 1,
                .k = random_bits(&state) % 30,
                .a_transposed = i & 1,
                .b_transposed = i & 2,
                .accumulate = i & 4,
                .gap = i & 8 ? random_bits(&state) % 5 : 0,
            };
            check_shape(GEMM_LEVELS[level].run, &shape, &state);
        }
        for (uint32_t i = 0; i < 8; i++) { /* past the block of k */
            const struct shape shape = {.m = 13,
                                        .n = 37,
                                        .k = 255 + i * 100,
                                        .a_transposed = i & 1,
                                        .b_transposed = i & 2,
                                        .accumulate = i & 4};
            check_shape(GEMM_LEVELS[level].run, &shape, &state);
        }
    }
}
END_TEST

START_TEST(the_order_of_a_sum_shows_in_its_bits)
{
    /* (1 + 2^30) - 2^30 = 0 in floats, 1 + (2^30 - 2^30) = 1: what the other test relies on. */
    const float a[3] = {1, 1, 1};
    const float b[3] = {1, 0x1p30F, -0x1p30F};
    float c[1];
    gemm_host(&(struct gemm){.m = 1,
                             .n = 1,
                             .k = 3,
                             .a = a,
                             .a_row = 3,
                             .a_column = 1,
                             .b = b,
                             .b_row = 1,
                             .b_column = 1,
                             .c = c,
                             .c_row = 1});
    ck_assert(c[0] == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm");
    TCase *tc = tcase_create("gemm");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_level_equals_the_three_loops);
    tcase_add_test(tc, the_order_of_a_sum_shows_in_its_bits);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
