/* SPDX-License-Identifier: Apache-2.0 */
#include "common/queue.h"

#include <poll.h>
#include <pthread.h>

#include "common/clock.h"
#include "support/suite.h"

enum { WAIT_S = 30 };

static int64_t soon(void)
{
    return clock_now_ns() + WAIT_S * NS_PER_S;
}

static bool readable(const struct queue *queue)
{
    struct pollfd item = {.fd = queue_fd(queue), .events = POLLIN};
    return poll(&item, 1, 0) == 1;
}

START_TEST(items_come_out_in_order_and_the_bound_holds)
{
    struct err err = {0};
    struct queue *queue = NULL;
    ck_assert_int_eq(queue_new(sizeof(int), 3, &queue, &err), OK);
    int got = 0;
    for (int round = 0; round < 5; round++) {
        ck_assert(!readable(queue));
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(queue_push(queue, &i), OK);
            ck_assert(readable(queue));
        }
        ck_assert_int_eq(queue_push(queue, &got), ERR_AGAIN);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(queue_pop(queue, 0, &got), OK);
            ck_assert_int_eq(got, i);
        }
    }
    ck_assert_int_eq(queue_pop(queue, 0, &got), ERR_TIMEOUT);
    queue_free(&queue);
    ck_assert_ptr_null(queue);
    queue_free(&queue);
}
END_TEST

START_TEST(closing_lets_readers_drain)
{
    struct err err = {0};
    struct queue *queue = NULL;
    ck_assert_int_eq(queue_new(sizeof(int), 3, &queue, &err), OK);
    int item = 7;
    ck_assert_int_eq(queue_push(queue, &item), OK);
    queue_close(queue);
    queue_close(queue);
    ck_assert_int_eq(queue_push(queue, &item), ERR_CANCELLED);
    item = 0;
    ck_assert(readable(queue));
    ck_assert_int_eq(queue_pop(queue, soon(), &item), OK);
    ck_assert_int_eq(item, 7);
    ck_assert(readable(queue));
    ck_assert_int_eq(queue_pop(queue, soon(), &item), ERR_CANCELLED);
    queue_free(&queue);
}
END_TEST

START_TEST(a_size_that_does_not_fit_is_refused)
{
    struct err err = {0};
    struct queue *queue = NULL;
    ck_assert_int_eq(queue_new(SIZE_MAX / 2, 3, &queue, &err), ERR_RESOURCE);
    ck_assert_ptr_null(queue);
}
END_TEST

enum { ITEMS = 20000, WRITERS = 2 };

struct item {
    int writer, number;
};

struct writer {
    struct queue *queue;
    int number;
};

static void *write_items(void *context)
{
    const struct writer *writer = context;
    for (int i = 0; i < ITEMS;) {
        const struct item item = {writer->number, i};
        const enum status status = queue_push(writer->queue, &item);
        ck_assert(status == OK || status == ERR_AGAIN);
        i += status == OK;
        if (status == ERR_AGAIN) {
            sched_yield();
        }
    }
    return NULL;
}

START_TEST(threads_lose_and_repeat_nothing)
{
    struct err err = {0};
    struct queue *queue = NULL;
    ck_assert_int_eq(queue_new(sizeof(struct item), 8, &queue, &err), OK);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = (struct writer){queue, w};
        ck_assert_int_eq(pthread_create(&threads[w], NULL, write_items, &writers[w]), 0);
    }
    int next[WRITERS] = {0};
    for (int i = 0; i < ITEMS * WRITERS; i++) {
        struct item item;
        ck_assert_int_eq(queue_pop(queue, soon(), &item), OK);
        ck_assert_int_eq(item.number, next[item.writer]);
        next[item.writer]++;
    }
    for (int w = 0; w < WRITERS; w++) {
        ck_assert_int_eq(pthread_join(threads[w], NULL), 0);
    }
    ck_assert(!readable(queue));
    queue_free(&queue);
}
END_TEST

static void *close_queue(void *context)
{
    queue_close(context);
    return NULL;
}

START_TEST(closing_wakes_a_waiting_reader)
{
    struct err err = {0};
    struct queue *queue = NULL;
    ck_assert_int_eq(queue_new(sizeof(int), 1, &queue, &err), OK);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, close_queue, queue), 0);
    int item = 0;
    ck_assert_int_eq(queue_pop(queue, soon(), &item), ERR_CANCELLED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    queue_free(&queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tc = tcase_create("queue");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, items_come_out_in_order_and_the_bound_holds);
    tcase_add_test(tc, closing_lets_readers_drain);
    tcase_add_test(tc, a_size_that_does_not_fit_is_refused);
    tcase_add_test(tc, threads_lose_and_repeat_nothing);
    tcase_add_test(tc, closing_wakes_a_waiting_reader);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
