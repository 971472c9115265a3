/* SPDX-License-Identifier: Apache-2.0 */
#include "common/shuffle.h"

#include <math.h>
#include <string.h>

#include "support/suite.h"

/* Check writes to a file at every assertion: hot loops count, and assert once. */

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

START_TEST(every_small_size_is_a_permutation)
{
    const uint64_t key = test_seed();
    static uint8_t seen[2000];
    for (uint64_t n = 1; n <= sizeof(seen); n++) {
        memset(seen, 0, sizeof(seen));
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t image = shuffle_full(key, (uint32_t)n, SHUFFLE_USE_ORDER, n, i);
            if (image >= n || seen[image] != 0) {
                ck_abort_msg("n = %" PRIu64 ": %" PRIu64 " is hit twice or outside", n, image);
            }
            seen[image] = 1;
        }
    }
}
END_TEST

/* A random function would have half a collision among 2^20 of 2^40 values, so what is asked for are
 * runs of neighbours, where a faulty network collides. */
START_TEST(a_huge_size_has_no_collision)
{
    const uint64_t key = test_seed();
    enum { COUNT = 1 << 20, RUN = 256 };
    static const uint64_t SIZES[] = {UINT64_C(1) << 40, (UINT64_C(1) << 40) + 1, INT64_MAX};
    uint64_t *images = calloc(COUNT, sizeof(*images));
    ck_assert_ptr_nonnull(images);
    for (size_t s = 0; s < ARRAY_LEN(SIZES); s++) {
        const uint64_t n = SIZES[s];
        for (uint64_t i = 0; i < COUNT; i++) {
            const uint64_t value = i / RUN * (n / (COUNT / RUN)) + i % RUN;
            images[i] = shuffle_full(key, 7, SHUFFLE_USE_ORDER, n, value);
        }
        qsort(images, COUNT, sizeof(*images), compare_u64);
        uint32_t collisions = 0;
        for (size_t i = 1; i < COUNT; i++) {
            collisions += images[i - 1] == images[i];
        }
        ck_assert_uint_eq(collisions, 0);
        ck_assert_uint_lt(images[COUNT - 1], n);
    }
    free(images);
}
END_TEST

/*
 * Pearson's statistic over equally likely cells, as standard deviations away from its mean
 * (Wilson-Hilferty: the cube root of chi-square is nearly normal).
 */
static double chi_square_sigmas(const uint32_t *cells, size_t cell_count, uint64_t total)
{
    const double expected = (double)total / (double)cell_count;
    double chi = 0;
    for (size_t i = 0; i < cell_count; i++) {
        chi += (cells[i] - expected) * (cells[i] - expected) / expected;
    }
    const double freedom = (double)cell_count - 1;
    const double variance = 2 / (9 * freedom);
    return (cbrt(chi / freedom) - (1 - variance)) / sqrt(variance);
}

/* One failure in 10^7 runs of a test: an even distribution is further than this from the mean on
 * either side. */
static const double SIGMAS_MAX = 5.3;

enum { SLICES = 32 };

static size_t slice(uint64_t value, uint64_t n)
{
    return (size_t)((unsigned __int128)value * SLICES / n);
}

/* Where neighbours go: pairs of one epoch of a huge data set, and one pair an epoch of small ones,
 * so that the pairs are independent of each other. */
START_TEST(neighbours_go_apart_evenly)
{
    const uint64_t key = test_seed();
    static const struct {
        uint64_t n;
        bool one_epoch;
    } CASES[] = {
        {(UINT64_C(1) << 30) + 1, true}, {UINT64_C(1) << 40, true}, {4096, false}, {100000, false}};
    enum { PAIRS = 200000 };
    for (size_t c = 0; c < ARRAY_LEN(CASES); c++) {
        const uint64_t n = CASES[c].n;
        static uint32_t cells[SLICES * SLICES];
        memset(cells, 0, sizeof(cells));
        for (uint32_t i = 0; i < PAIRS; i++) {
            const uint32_t epoch = CASES[c].one_epoch ? 3 : i;
            const uint64_t at = CASES[c].one_epoch ? 2 * (uint64_t)i : i % (n - 1);
            const uint64_t a = shuffle_full(key, epoch, SHUFFLE_USE_ORDER, n, at);
            const uint64_t b = shuffle_full(key, epoch, SHUFFLE_USE_ORDER, n, at + 1);
            cells[slice(a, n) * SLICES + slice(b, n)]++;
        }
        const double sigmas = chi_square_sigmas(cells, ARRAY_LEN(cells), PAIRS);
        ck_assert_msg(fabs(sigmas) < SIGMAS_MAX, "n = %" PRIu64 ": %.2f sigmas", n, sigmas);
    }
}
END_TEST

START_TEST(one_position_is_even_over_epochs)
{
    const uint64_t key = test_seed();
    static const uint64_t SIZES[] = {2, 3, 4, 5, 7, 16, 17, 32};
    enum { EPOCHS = 40000 };
    for (size_t s = 0; s < ARRAY_LEN(SIZES); s++) {
        const uint64_t n = SIZES[s];
        const uint64_t positions[] = {0, n / 2, n - 1};
        for (size_t p = 0; p < ARRAY_LEN(positions); p++) {
            uint32_t cells[SLICES] = {0};
            for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
                cells[shuffle_full(key, epoch, SHUFFLE_USE_ORDER, n, positions[p])]++;
            }
            const double sigmas = chi_square_sigmas(cells, n, EPOCHS);
            ck_assert_msg(fabs(sigmas) < SIGMAS_MAX,
                          "n = %" PRIu64 ", position %" PRIu64 ": %.2f sigmas", n, positions[p],
                          sigmas);
        }
    }
    uint32_t cells[SLICES] = {0};
    const uint64_t n = 1281167; /* ImageNet-1k */
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        cells[slice(shuffle_full(key, epoch, SHUFFLE_USE_ORDER, n, 12345), n)]++;
    }
    ck_assert_double_le(fabs(chi_square_sigmas(cells, SLICES, EPOCHS)), SIGMAS_MAX);
}
END_TEST

/* Two random permutations agree in one place on average, whatever their size, and the number of
 * such places has variance 1. */
static double agreements(uint64_t key_step, uint32_t epoch_step, enum shuffle_use second,
                         uint64_t n, uint32_t rounds)
{
    uint64_t total = 0;
    const uint64_t first_key = test_seed();
    for (uint32_t r = 0; r < rounds; r++) {
        const uint64_t key = first_key + r * UINT64_C(0x9E3779B97F4A7C15);
        for (uint64_t i = 0; i < n; i++) {
            total += shuffle_full(key, r, SHUFFLE_USE_ORDER, n, i) ==
                     shuffle_full(key + key_step, r + epoch_step, second, n, i);
        }
    }
    return ((double)total - rounds) / sqrt(rounds);
}

START_TEST(two_orders_agree_no_more_than_chance)
{
    enum { ROUNDS = 300 };
    static const uint64_t SIZES[] = {256, 1000};
    for (size_t s = 0; s < ARRAY_LEN(SIZES); s++) {
        const uint64_t n = SIZES[s];
        ck_assert_double_le(fabs(agreements(1, 0, SHUFFLE_USE_ORDER, n, ROUNDS)), SIGMAS_MAX);
        ck_assert_double_le(fabs(agreements(UINT64_C(1) << 63, 0, SHUFFLE_USE_ORDER, n, ROUNDS)),
                            SIGMAS_MAX);
        ck_assert_double_le(fabs(agreements(0, 1, SHUFFLE_USE_ORDER, n, ROUNDS)), SIGMAS_MAX);
        ck_assert_double_le(fabs(agreements(0, 0, SHUFFLE_USE_SUBSTITUTE, n, ROUNDS)), SIGMAS_MAX);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shuffle");
    TCase *tc = tcase_create("shuffle");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_small_size_is_a_permutation);
    tcase_add_test(tc, a_huge_size_has_no_collision);
    tcase_add_test(tc, neighbours_go_apart_evenly);
    tcase_add_test(tc, one_position_is_even_over_epochs);
    tcase_add_test(tc, two_orders_agree_no_more_than_chance);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
