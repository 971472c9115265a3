/* SPDX-License-Identifier: Apache-2.0 */
/* The fake GPU itself: it runs every thread, and it finds the mistakes that it claims to find. */
#include <pthread.h>
#include <string.h>

#include "fakes/cuda_shim.h"
#include "support/suite.h"

extern const struct cuda_shim_kernel TOYS[]; /* cuda_shim_toys.cu */

static enum status run(const char *name, unsigned blocks, unsigned threads, size_t shared_bytes,
                       void *const *params, struct err *err)
{
    const struct cuda_shim_kernel *toy = TOYS;
    while (strcmp(toy->name, name) != 0) {
        toy++;
    }
    return cuda_shim_run(toy, (unsigned[]){blocks, 1, 1}, (unsigned[]){threads, 1, 1}, shared_bytes,
                         params, err);
}

enum { BLOCKS = 5, THREADS = 256 };

/* The sums by a kernel of the blocks' numbers; whether they are right. */
static bool sums_right(const char *name)
{
    unsigned in[BLOCKS * THREADS], out[BLOCKS] = {0};
    unsigned want[BLOCKS] = {0};
    for (unsigned i = 0; i < BLOCKS * THREADS; i++) {
        in[i] = i * i + 1;
        want[i / THREADS] += in[i];
    }
    const unsigned *in_address = in;
    unsigned *out_address = out;
    struct err err;
    ck_assert_int_eq(run(name, BLOCKS, THREADS, sizeof(in) / BLOCKS,
                         (void *[]){&in_address, &out_address}, &err),
                     OK);
    return memcmp(out, want, sizeof(out)) == 0;
}

START_TEST(barriers_hold_in_every_order)
{
    const uint64_t seed = test_seed();
    for (uint32_t order = 0; order < CUDA_SHIM_ORDERS; order++) {
        for (uint64_t i = 0; i < 20; i++) {
            cuda_shim_set_order(order, seed + i);
            ck_assert(sums_right("toy_sum"));
        }
    }
}
END_TEST

/* Thread 0 first: it adds what the others have not written yet. */
START_TEST(a_missing_barrier_shows_in_some_order)
{
    const uint64_t seed = test_seed();
    cuda_shim_set_order(CUDA_SHIM_FORWARD, seed);
    ck_assert(!sums_right("toy_race"));
    cuda_shim_set_order(CUDA_SHIM_SHUFFLED, seed);
    ck_assert(!sums_right("toy_race"));
}
END_TEST

START_TEST(every_thread_of_every_block_runs_once)
{
    const unsigned grid[3] = {3, 4, 2}, block[3] = {5, 2, 7};
    unsigned char counts[3 * 4 * 2 * 5 * 2 * 7];
    unsigned long long size = sizeof(counts);
    unsigned char *address = counts;
    for (uint32_t order = 0; order < CUDA_SHIM_ORDERS; order++) {
        cuda_shim_set_order(order, test_seed());
        memset(counts, 0, sizeof(counts));
        struct err err;
        ck_assert_str_eq(TOYS[2].name, "toy_index");
        ck_assert_uint_eq(TOYS[2].parameters, 2);
        ck_assert_int_eq(cuda_shim_run(&TOYS[2], grid, block, 0, (void *[]){&address, &size}, &err),
                         OK);
        for (size_t i = 0; i < sizeof(counts); i++) {
            ck_assert_uint_eq(counts[i], 1);
        }
    }
}
END_TEST

static void check_divergence(const char *name, const char *text)
{
    for (uint32_t order = 0; order < CUDA_SHIM_ORDERS; order++) {
        for (unsigned some = 1; some < 32; some++) {
            cuda_shim_set_order(order, some);
            struct err err;
            ck_assert_int_eq(run(name, 2, 32, 0, (void *[]){&some}, &err), ERR_DEVICE);
            ck_assert_msg(strstr(err.message, text) != NULL, "%s", err.message);
        }
        unsigned all = 32;
        struct err err;
        ck_assert_int_eq(run(name, 2, 32, 0, (void *[]){&all}, &err), OK);
        ck_assert(sums_right("toy_sum"));
    }
}

START_TEST(threads_that_leave_before_a_barrier_are_found)
{
    check_divergence("toy_some_leave", "have ended");
}
END_TEST

START_TEST(threads_at_different_barriers_are_found)
{
    check_divergence("toy_two_barriers", "barriers differ");
}
END_TEST

START_TEST(shared_memory_is_fresh_for_every_block)
{
    unsigned out[3] = {0};
    unsigned *address = out;
    struct err err;
    ck_assert_int_eq(run("toy_leftover", 3, 1, sizeof(unsigned), (void *[]){&address}, &err), OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(out[i], 0xFFFFFFFF);
    }
}
END_TEST

START_TEST(sizes_that_no_device_takes_are_refused)
{
    static const struct {
        unsigned grid[3], block[3];
        size_t shared_bytes;
    } WRONG[] = {
        {{0, 1, 1}, {1, 1, 1}, 0},          {{1, 1, 0}, {1, 1, 1}, 0},
        {{1, 1, 1}, {1, 0, 1}, 0},          {{1, 1, 1}, {1025, 1, 1}, 0},
        {{1, 1, 1}, {32, 33, 1}, 0},        {{1, 1, 1}, {1, 1, 65}, 0},
        {{1, 65536, 1}, {1, 1, 1}, 0},      {{1, 1, 65536}, {1, 1, 1}, 0},
        {{0x80000000, 1, 1}, {1, 1, 1}, 0}, {{1, 1, 1}, {1, 1, 1}, 48 * 1024 + 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
        unsigned zero = 0;
        struct err err;
        ck_assert_int_eq(cuda_shim_run(&TOYS[3], WRONG[i].grid, WRONG[i].block,
                                       WRONG[i].shared_bytes, (void *[]){&zero}, &err),
                         ERR_DEVICE);
    }
}
END_TEST

START_TEST(unknown_names_are_refused)
{
    struct err err;
    ck_assert_int_eq(cuda_shim_launch("no_such_kernel", (unsigned[]){1, 1, 1},
                                      (unsigned[]){1, 1, 1}, 0, NULL, &err),
                     ERR_MISUSE);
    ck_assert_ptr_null(cuda_shim_find("no_such_kernel"));
    ck_assert_ptr_nonnull(cuda_shim_find("normalize_f32_nchw"));
}
END_TEST

static void *run_sums(void *data)
{
    bool *right = data;
    for (int i = 0; i < 50 && *right; i++) {
        *right = sums_right("toy_sum");
    }
    return NULL;
}

START_TEST(launches_from_several_threads_take_turns)
{
    pthread_t threads[4];
    bool right[4] = {true, true, true, true};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_sums, &right[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert(right[i]);
    }
}
END_TEST

#ifdef __SANITIZE_ADDRESS__
/* The sanitizer ends the process. */
START_TEST(reading_past_shared_memory_is_found)
{
    unsigned at = 4;
    unsigned out;
    unsigned *address = &out;
    struct err err;
    ck_assert_int_eq(
        run("toy_overflow", 1, 4, 4 * sizeof(unsigned), (void *[]){&at, &address}, &err), OK);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("cuda_shim");
    TCase *tc = tcase_create("cuda_shim");
    tcase_add_test(tc, barriers_hold_in_every_order);
    tcase_add_test(tc, a_missing_barrier_shows_in_some_order);
    tcase_add_test(tc, every_thread_of_every_block_runs_once);
    tcase_add_test(tc, threads_that_leave_before_a_barrier_are_found);
    tcase_add_test(tc, threads_at_different_barriers_are_found);
    tcase_add_test(tc, shared_memory_is_fresh_for_every_block);
    tcase_add_test(tc, sizes_that_no_device_takes_are_refused);
    tcase_add_test(tc, unknown_names_are_refused);
    tcase_add_test(tc, launches_from_several_threads_take_turns);
#ifdef __SANITIZE_ADDRESS__
    tcase_add_exit_test(tc, reading_past_shared_memory_is_found, 1);
#endif
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
