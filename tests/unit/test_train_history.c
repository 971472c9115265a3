/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_history.h"

#include "support/random.h"
#include "support/suite.h"

enum { EPOCHS = 5 };

static double random_double(struct random_state *random)
{
    return (double)random_u64(random) / 3.0;
}

/* No byte is alike, so that a field in another's place shows. */
static void fill(struct random_state *random, struct report_epoch *epoch)
{
    *epoch = (struct report_epoch){.epoch = (uint32_t)random_u64(random),
                                   .steps = random_u64(random),
                                   .loss = random_double(random),
                                   .evaluated = random_in(random, 0, 1) == 1,
                                   .accuracy = random_double(random),
                                   .eval_digest = random_u64(random),
                                   .images_per_s = random_double(random),
                                   .wait_share = random_double(random),
                                   .wait_p50_ms = random_double(random),
                                   .wait_p99_ms = random_double(random),
                                   .digest = random_u64(random),
                                   .bad_samples = random_u64(random)};
}

static void check(const struct report_epoch *got, const struct report_epoch *want)
{
    ck_assert_uint_eq(got->epoch, want->epoch);
    ck_assert_uint_eq(got->steps, want->steps);
    ck_assert(got->loss == want->loss);
    ck_assert(got->evaluated == want->evaluated);
    ck_assert(got->accuracy == want->accuracy);
    ck_assert_uint_eq(got->eval_digest, want->eval_digest);
    ck_assert(got->images_per_s == want->images_per_s);
    ck_assert(got->wait_share == want->wait_share);
    ck_assert(got->wait_p50_ms == want->wait_p50_ms);
    ck_assert(got->wait_p99_ms == want->wait_p99_ms);
    ck_assert_uint_eq(got->digest, want->digest);
    ck_assert_uint_eq(got->bad_samples, want->bad_samples);
}

START_TEST(what_was_kept_comes_back)
{
    struct random_state random = {random_seed()};
    struct report_epoch entries[EPOCHS];
    const struct report report = {.epoch_count = (uint32_t)_i, .epochs = entries};
    const struct train_total partial = {.loss = 1.25, .samples = 77, .bad_samples = 3};
    uint8_t bytes[1024];
    struct report back = {0};
    struct train_total total;
    struct err err = {0};
    for (int i = 0; i < EPOCHS; i++) {
        fill(&random, &entries[i]);
    }
    const size_t count = history_bytes((uint32_t)_i);
    ck_assert_uint_le(count, sizeof(bytes));
    memset(bytes, 0xa5, sizeof(bytes));
    history_encode(&report, &partial, bytes);
    for (size_t i = count; i < sizeof(bytes); i++) {
        ck_assert_uint_eq(bytes[i], 0xa5);
    }
    ck_assert_msg(history_decode(bytes, count, 2, &back, &total, &err) == OK, "%s", err.message);
    ck_assert(total.loss == partial.loss);
    ck_assert_uint_eq(total.samples, partial.samples);
    ck_assert_uint_eq(total.bad_samples, partial.bad_samples);
    ck_assert_uint_eq(back.epoch_count, (uint32_t)_i);
    for (int i = 0; i < _i; i++) {
        check(&back.epochs[i], &entries[i]);
    }
    free(back.epochs);
}
END_TEST

START_TEST(another_length_is_refused)
{
    uint8_t bytes[1024] = {0};
    struct report back = {0};
    struct train_total total;
    struct err err = {0};
    for (size_t count = 0; count < 512; count++) {
        const bool whole = count == history_bytes(0) || count == history_bytes(1) ||
                           count == history_bytes(2) || count == history_bytes(3) ||
                           count == history_bytes(4) || count == history_bytes(5);
        ck_assert_int_eq(history_decode(bytes, count, 0, &back, &total, &err),
                         whole ? OK : ERR_DATA);
    }
    free(back.epochs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("train_history");
    TCase *tc = tcase_create("train_history");
    tcase_add_loop_test(tc, what_was_kept_comes_back, 0, EPOCHS + 1);
    tcase_add_test(tc, another_length_is_refused);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
