/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/batch.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/suite.h"

static int wake_fd;
static struct batch_pool *pool;

static void setup(void)
{
    wake_fd = eventfd(0, EFD_NONBLOCK);
    ck_assert_int_ge(wake_fd, 0);
    struct err err = {0};
    ck_assert_int_eq(batch_pool_new(3, 5000, wake_fd, &pool, &err), OK);
}

static void teardown(void)
{
    batch_pool_free(&pool);
    ck_assert_ptr_null(pool);
    close(wake_fd);
}

START_TEST(a_pool_gives_each_batch_once)
{
    struct batch *taken[3];
    for (int i = 0; i < 3; i++) {
        taken[i] = batch_get(pool);
        ck_assert_ptr_nonnull(taken[i]);
        ck_assert_uint_eq((uintptr_t)taken[i]->bytes % 4096, 0);
        for (int j = 0; j < i; j++) {
            ck_assert_ptr_ne(taken[i]->bytes, taken[j]->bytes);
        }
    }
    ck_assert_ptr_null(batch_get(pool));
    batch_unref(taken[1]);
    ck_assert_ptr_eq(batch_get(pool), taken[1]);
    for (int i = 0; i < 3; i++) {
        batch_unref(taken[i]);
    }
}
END_TEST

START_TEST(a_batch_comes_back_with_its_last_reference_and_wakes)
{
    eventfd_t count = 0;
    struct batch *batch = batch_get(pool);
    batch_ref(batch);
    batch_unref(batch);
    ck_assert_int_eq(eventfd_read(wake_fd, &count), -1);
    ck_assert_uint_eq(batch_pool_in_use(pool), 1);
    batch_release(batch->bytes, batch);
    ck_assert_int_eq(eventfd_read(wake_fd, &count), 0);
    ck_assert_uint_eq(batch_pool_in_use(pool), 0);
}
END_TEST

static void *give_back(void *batch)
{
    for (int i = 0; i < 10000; i++) {
        batch_unref(batch);
    }
    return NULL;
}

START_TEST(references_are_counted_across_threads)
{
    struct batch *batch = batch_get(pool);
    for (int i = 0; i < 20000; i++) {
        batch_ref(batch);
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, give_back, batch), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_eq(batch_pool_in_use(pool), 1);
    batch_unref(batch);
    ck_assert_uint_eq(batch_pool_in_use(pool), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *tc = tcase_create("batch");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_pool_gives_each_batch_once);
    tcase_add_test(tc, a_batch_comes_back_with_its_last_reference_and_wakes);
    tcase_add_test(tc, references_are_counted_across_threads);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
