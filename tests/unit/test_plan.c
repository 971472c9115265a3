/* SPDX-License-Identifier: Apache-2.0 */
#include "common/plan.h"

#include <string.h>

#include "common/hash.h"
#include "common/rng.h"
#include "support/suite.h"

static struct plan_options options(uint64_t samples, uint64_t global_batch, uint32_t world,
                                   enum last_kind last)
{
    return (struct plan_options){.stream = "train",
                                 .seed = 1,
                                 .samples = samples,
                                 .global_batch = global_batch,
                                 .world = world,
                                 .shuffle = SHUFFLE_FULL,
                                 .last = last};
}

static struct plan make(const struct plan_options *o)
{
    struct plan plan;
    struct err err = {0};
    ck_assert_msg(plan_init(o, &plan, &err) == OK, "%s", err.message);
    return plan;
}

static void expect_error(struct plan_options o, enum status status, const char *text)
{
    struct plan plan;
    struct err err = {0};
    ck_assert_int_eq(plan_init(&o, &plan, &err), status);
    ck_assert_msg(strstr(err.message, text) != NULL, "'%s' is not in '%s'", text, err.message);
}

/* Every position that an epoch owes is given to exactly one (step, rank, row), in order. */
static void check_epoch(uint64_t samples, uint32_t batch, uint32_t world, enum last_kind last)
{
    const struct plan_options o = options(samples, (uint64_t)batch * world, world, last);
    const struct plan plan = make(&o);
    const uint64_t owed =
        last == LAST_PARTIAL ? samples : samples / o.global_batch * o.global_batch;
    uint64_t next = 0;
    uint64_t wrong = 0; /* Check writes a file at every assertion, so hot loops count */
    for (uint64_t step = 0; step < plan.steps; step++) {
        for (uint32_t rank = 0; rank < world; rank++) {
            uint64_t first;
            const uint32_t count = plan_batch(&plan, step, rank, &first);
            wrong += first != step * o.global_batch + (uint64_t)rank * batch;
            wrong += count > batch || (count > 0 && first != next);
            next += count;
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(next, owed);
    ck_assert_uint_le(plan.steps * o.global_batch,
                      samples + (last == LAST_PARTIAL ? o.global_batch - 1 : 0));
}

START_TEST(all_positions_once_and_equal_steps_for_any_split)
{
    for (uint64_t samples = 1; samples <= 130; samples++) {
        for (uint32_t batch = 1; batch <= 9; batch++) {
            for (uint32_t world = 1; world <= 7; world++) {
                check_epoch(samples, batch, world, LAST_DROP);
                check_epoch(samples, batch, world, LAST_PARTIAL);
            }
        }
    }
}
END_TEST

START_TEST(random_splits_too)
{
    const struct rng_at at = {.key = test_seed()};
    for (uint32_t i = 0; i < 2000; i++) {
        const uint64_t samples = 1 + rng_below(&at, 0, i, 200000);
        const uint32_t batch = 1 + rng_below(&at, 1, i, 500);
        const uint32_t world = 1 + rng_below(&at, 2, i, 64);
        check_epoch(samples, batch, world, (i & 1) != 0 ? LAST_DROP : LAST_PARTIAL);
    }
}
END_TEST

START_TEST(fewer_samples_than_a_global_batch)
{
    const struct plan_options drop = options(5, 8, 2, LAST_DROP);
    ck_assert_uint_eq(make(&drop).steps, 0);
    const struct plan_options partial = options(3, 8, 2, LAST_PARTIAL);
    const struct plan plan = make(&partial);
    ck_assert_uint_eq(plan.steps, 1);
    uint64_t first;
    ck_assert_uint_eq(plan_batch(&plan, 0, 0, &first), 3);
    ck_assert_uint_eq(plan_batch(&plan, 0, 1, &first), 0);
    ck_assert_uint_eq(first, 4);
}
END_TEST

/* The sample ids of a global batch, in order of rank and row. */
static void global_batch(const struct plan *plan, uint32_t epoch, uint64_t step, uint64_t *ids)
{
    size_t at = 0;
    for (uint32_t rank = 0; rank < plan->world; rank++) {
        uint64_t first;
        const uint32_t count = plan_batch(plan, step, rank, &first);
        for (uint32_t row = 0; row < count; row++) {
            ids[at++] = plan_sample(plan, epoch, first + row);
        }
    }
}

START_TEST(another_world_size_sees_the_same_global_batches)
{
    enum { G = 48 };
    static const uint32_t WORLDS[] = {2, 3, 4, 6, 8, 12, 16, 24, 48};
    for (int last = LAST_DROP; last <= LAST_PARTIAL; last++) {
        const struct plan_options alone = options(1000, G, 1, (enum last_kind)last);
        const struct plan one = make(&alone);
        for (size_t w = 0; w < ARRAY_LEN(WORLDS); w++) {
            const struct plan_options o = options(1000, G, WORLDS[w], (enum last_kind)last);
            const struct plan many = make(&o);
            ck_assert_uint_eq(many.steps, one.steps);
            ck_assert_uint_eq(plan_digest(&many), plan_digest(&one));
            for (uint64_t step = 0; step < one.steps; step++) {
                uint64_t a[G] = {0}, b[G] = {0};
                global_batch(&one, 2, step, a);
                global_batch(&many, 2, step, b);
                ck_assert_mem_eq(a, b, sizeof(a));
            }
        }
    }
}
END_TEST

START_TEST(order_depends_on_seed_stream_and_epoch)
{
    struct plan_options o = options(100000, 10, 1, LAST_DROP);
    const struct plan base = make(&o);
    o.seed = 2;
    const struct plan seed = make(&o);
    o.seed = 1;
    o.stream = "train2";
    const struct plan stream = make(&o);
    uint32_t same_seed = 0, same_stream = 0, same_epoch = 0;
    for (uint64_t position = 0; position < 1000; position++) {
        const uint64_t id = plan_sample(&base, 0, position);
        same_seed += id == plan_sample(&seed, 0, position);
        same_stream += id == plan_sample(&stream, 0, position);
        same_epoch += id == plan_sample(&base, 1, position);
    }
    ck_assert_uint_le(same_seed, 3);
    ck_assert_uint_le(same_stream, 3);
    ck_assert_uint_le(same_epoch, 3);
    ck_assert_uint_ne(plan_digest(&base), plan_digest(&seed));
    ck_assert_uint_ne(plan_digest(&base), plan_digest(&stream));
}
END_TEST

/* Checkpoints and digests rely on the order: it may not change unseen. The numbers come from an
 * independent restatement of DESIGN 7 in Python. */
START_TEST(key_and_order_are_fixed_for_ever)
{
    const struct plan_options o = options(1281167, 256, 8, LAST_DROP);
    const struct plan plan = make(&o);
    ck_assert_uint_eq(plan.key, hash64("\1\0\0\0\0\0\0\0train", 13));
    ck_assert_uint_eq(plan_sample(&plan, 0, 0), 985952);
    ck_assert_uint_eq(plan_sample(&plan, 0, 1), 934216);
    ck_assert_uint_eq(plan_sample(&plan, 89, 1281166), 1085166);
    ck_assert_uint_eq(plan_substitute(&plan, 0, 0, 1), 227156);
    ck_assert_uint_eq(plan_digest(&plan), UINT64_C(0xa4790d40d7469257));
}
END_TEST

START_TEST(without_shuffling_samples_come_in_order)
{
    struct plan_options o = options(1000, 10, 2, LAST_DROP);
    const struct plan full = make(&o);
    o.shuffle = SHUFFLE_NONE;
    const struct plan plan = make(&o);
    for (uint64_t position = 0; position < 1000; position++) {
        ck_assert_uint_eq(plan_sample(&plan, 5, position), position);
    }
    ck_assert_uint_ne(plan_digest(&plan), plan_digest(&full));
}
END_TEST

START_TEST(substitutes_are_all_samples_in_another_order)
{
    static const uint64_t SIZES[] = {1, 2, 10, 257};
    for (size_t s = 0; s < ARRAY_LEN(SIZES); s++) {
        const uint64_t n = SIZES[s];
        for (int shuffle = SHUFFLE_NONE; shuffle <= SHUFFLE_FULL; shuffle++) {
            struct plan_options o = options(n, 1, 1, LAST_DROP);
            o.shuffle = (enum shuffle_kind)shuffle;
            const struct plan plan = make(&o);
            ck_assert_uint_eq(plan_substitute(&plan, 4, n - 1, 0), plan_sample(&plan, 4, n - 1));
            uint32_t times[257] = {0};
            for (uint32_t attempt = 1; attempt <= 2 * n; attempt++) {
                const uint64_t id = plan_substitute(&plan, 4, n - 1, attempt);
                ck_assert_uint_lt(id, n);
                times[id]++;
            }
            for (uint64_t id = 0; id < n; id++) {
                ck_assert_uint_eq(times[id], 2);
            }
        }
    }
}
END_TEST

START_TEST(the_largest_data_set_works)
{
    const struct plan_options o = options(INT64_MAX, UINT32_MAX, 1, LAST_PARTIAL);
    const struct plan plan = make(&o);
    uint64_t first;
    const uint32_t count = plan_batch(&plan, plan.steps - 1, 0, &first);
    ck_assert_uint_eq(first + count, INT64_MAX);
    ck_assert_uint_lt(plan_sample(&plan, UINT32_MAX, INT64_MAX - 1), INT64_MAX);
    ck_assert_uint_lt(plan_substitute(&plan, 0, INT64_MAX - 1, UINT32_MAX), INT64_MAX);
}
END_TEST

START_TEST(bad_options_are_named)
{
    expect_error(options(100, 256, 3, LAST_DROP), ERR_CONFIG,
                 "stream train: global_batch is 256 and there are 3 ranks: set global_batch to a "
                 "multiple of 3, for instance 258");
    expect_error(options(0, 256, 2, LAST_DROP), ERR_DATA, "no samples");
    expect_error(options((uint64_t)INT64_MAX + 1, 256, 2, LAST_DROP), ERR_DATA,
                 "9223372036854775808");
    expect_error(options(100, 0, 2, LAST_DROP), ERR_CONFIG, "global_batch is 0");
    expect_error(options(100, UINT64_C(1) << 32, 2, LAST_DROP), ERR_CONFIG, "4294967296");
    expect_error(options(100, 256, 0, LAST_DROP), ERR_CONFIG, "0 ranks");
    struct plan_options window = options(100, 256, 2, LAST_DROP);
    window.shuffle = SHUFFLE_WINDOW;
    expect_error(window, ERR_CONFIG, "window");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tc = tcase_create("plan");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, all_positions_once_and_equal_steps_for_any_split);
    tcase_add_test(tc, random_splits_too);
    tcase_add_test(tc, fewer_samples_than_a_global_batch);
    tcase_add_test(tc, another_world_size_sees_the_same_global_batches);
    tcase_add_test(tc, order_depends_on_seed_stream_and_epoch);
    tcase_add_test(tc, key_and_order_are_fixed_for_ever);
    tcase_add_test(tc, without_shuffling_samples_come_in_order);
    tcase_add_test(tc, substitutes_are_all_samples_in_another_order);
    tcase_add_test(tc, the_largest_data_set_works);
    tcase_add_test(tc, bad_options_are_named);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
