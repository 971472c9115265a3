/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of batches against the plan: good ones pass, and every way to be wrong is seen. */
#include "consumer/part.h"

#include <string.h>

#include "common/hash.h"
#include "fakes/batch_fake.h"
#include "support/suite.h"

enum { ROWS_MAX = 64 };

static struct layout layout;
static struct plan plan;
static struct batch_fake fake;
static uint8_t *batch;
static uint32_t attempts[ROWS_MAX];
static struct part_notes notes = {.attempts = attempts};
static struct err err;

/* 3 ranks of `rows`; 995 samples, so that the last batches are partial or empty. */
static void begin(uint32_t rows, uint32_t side, uint64_t bad_every)
{
    ck_assert_int_eq(layout_init(rows, side, side, 3, &layout, &err), OK);
    const struct plan_options options = {.stream = "train",
                                         .seed = 5,
                                         .samples = 995,
                                         .global_batch = 3 * (uint64_t)rows,
                                         .world = 3,
                                         .shuffle = SHUFFLE_FULL,
                                         .last = LAST_PARTIAL};
    ck_assert_int_eq(plan_init(&options, &plan, &err), OK);
    fake = (struct batch_fake){.plan = &plan, .layout = &layout, .rank = 1, .bad_every = bad_every};
    batch = malloc(layout.bytes);
    ck_assert_ptr_nonnull(batch);
    part_notes_clear(&notes, &layout);
}

static void end(void)
{
    free(batch);
}

static enum status check(const struct msg_data *data)
{
    const struct part_context context = {.plan = &plan, .layout = &layout, .rank = 1};
    return part_check(&context, data, batch + data->offset, &notes, &err);
}

static enum status check_part(uint32_t epoch, uint64_t step, uint32_t part)
{
    struct msg_data data;
    batch_fake_part(&fake, epoch, step, part, batch, &data);
    return check(&data);
}

static void expect_wrong(const struct msg_data *data, const char *words)
{
    uint32_t before[ROWS_MAX];
    memcpy(before, attempts, sizeof(before));
    ck_assert_int_eq(check(data), ERR_PEER_WRONG);
    ck_assert_msg(strstr(err.message, words) != NULL, "'%s' lacks '%s'", err.message, words);
    ck_assert_int_eq(memcmp(before, attempts, sizeof(before)), 0);
}

/* Sides whose ids straddle parts (267 * 267 * 3 is odd), one with several parts a sample, one part.
 */
static const struct {
    uint32_t rows, side;
} SHAPES[] = {{8, 32}, {13, 267}, {3, 700}, {64, 200}, {1, 1}};

START_TEST(good_parts_pass_and_the_notes_count_substitutes)
{
    for (uint64_t bad_every = 0; bad_every <= 20; bad_every += 10) {
        begin(SHAPES[_i].rows, SHAPES[_i].side, bad_every);
        for (uint64_t step = 0; step<plan.steps; step += plan.steps> 9 ? plan.steps / 9 : 1) {
            batch_fake_fill(&fake, 3, step, batch);
            part_notes_clear(&notes, &layout);
            uint32_t expected = 0;
            uint64_t first = 0;
            uint64_t sample = 0;
            const uint32_t count = plan_batch(&plan, step, 1, &first);
            for (uint32_t row = 0; row < count; row++) {
                expected += batch_fake_attempt(&fake, 3, first + row, &sample) > 0;
            }
            for (uint32_t part = layout.part_count; part-- > 0;) {
                ck_assert_msg(check_part(3, step, part) == OK, "%s", err.message);
            }
            ck_assert_uint_eq(part_notes_substituted(&notes, &layout), expected);
        }
        end();
    }
}
END_TEST

START_TEST(every_byte_of_every_id_is_checked)
{
    begin(SHAPES[_i].rows, SHAPES[_i].side, 0);
    const uint64_t step = plan.steps - 1; /* real rows and padding */
    batch_fake_fill(&fake, 0, step, batch);
    for (uint64_t at = layout.sample_id_offset; at < layout.sample_id_offset + 8 * layout.rows;
         at++) {
        const uint32_t part = (uint32_t)(at / layout.part_bytes);
        batch[at] ^= 0x10;
        struct msg_data data;
        batch_fake_part(&fake, 0, step, part, batch, &data);
        expect_wrong(&data, "does not hold sample");
        batch[at] ^= 0x10;
    }
    end();
}
END_TEST

START_TEST(a_batch_of_another_step_or_rank_is_seen)
{
    begin(8, 32, 0);
    struct msg_data data;
    batch_fake_fill(&fake, 0, 1, batch);
    batch_fake_part(&fake, 0, 1, 0, batch, &data);
    ck_assert_int_eq(check(&data), OK);
    data.step = 2;
    expect_wrong(&data, "does not hold sample");
    data.step = 1;
    data.epoch = 1;
    expect_wrong(&data, "does not hold sample");
    fake.rank = 2;
    batch_fake_fill(&fake, 0, 1, batch);
    batch_fake_part(&fake, 0, 1, 0, batch, &data);
    expect_wrong(&data, "does not hold sample");
    end();
}
END_TEST

START_TEST(substitutions_follow_the_chain)
{
    begin(8, 32, 4);
    struct msg_data good;
    uint64_t step = 0;
    do {
        batch_fake_fill(&fake, 0, step, batch);
        batch_fake_part(&fake, 0, step, 0, batch, &good);
        step++;
    } while (good.substitution_count < 2);
    ck_assert_int_eq(check(&good), OK);
    part_notes_clear(&notes, &layout);

    struct msg_data data = good;
    data.substitutions[0].taken++;
    expect_wrong(&data, "of the chain is");
    data = good;
    data.substitutions[0].attempt++;
    expect_wrong(&data, "of the chain is");
    data = good;
    data.substitutions[0].attempt = 0;
    data.substitutions[0].taken = data.substitutions[0].bad;
    expect_wrong(&data, "of the chain is");
    data = good;
    data.substitutions[0].bad++;
    expect_wrong(&data, "the plan has sample");
    data = good;
    data.substitutions[0].row = layout.rows;
    expect_wrong(&data, "does not hold");
    data = good;
    data.substitutions[1] = data.substitutions[0];
    expect_wrong(&data, "two substitutions");
    data = good;
    data.substitution_count--;
    expect_wrong(&data, "does not hold sample");
    end();
}
END_TEST

START_TEST(padding_rows_have_no_substitutes)
{
    begin(8, 32, 0);
    uint64_t first = 0;
    const uint64_t step = plan.steps - 1;
    ck_assert_uint_lt(plan_batch(&plan, step, 1, &first), layout.rows);
    struct msg_data data;
    batch_fake_fill(&fake, 0, step, batch);
    batch_fake_part(&fake, 0, step, 0, batch, &data);
    data.substitution_count = 1;
    data.substitutions[0] = (struct substitution){.row = layout.rows - 1, .attempt = 1};
    expect_wrong(&data, "does not hold");
    end();
}
END_TEST

/* Two leases that disagree on one row would mix two samples in it. */
START_TEST(parts_that_disagree_on_a_row_are_seen)
{
    begin(3, 700, 2); /* several parts a sample: 1,470,000 bytes */
    struct msg_data data;
    uint64_t step = 0;
    do {
        batch_fake_fill(&fake, 0, step, batch);
        batch_fake_part(&fake, 0, step, 0, batch, &data);
        step++;
    } while (data.substitution_count != 1);
    ck_assert_uint_eq(data.substitutions[0].row, 0);
    ck_assert_int_eq(check(&data), OK);
    batch_fake_part(&fake, 0, step - 1, 1, batch, &data);
    data.substitution_count = 0;
    expect_wrong(&data, "another part of it");
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("part");
    TCase *tc = tcase_create("part");
    const int shapes = (int)ARRAY_LEN(SHAPES);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, good_parts_pass_and_the_notes_count_substitutes, 0, shapes);
    tcase_add_loop_test(tc, every_byte_of_every_id_is_checked, 0, shapes);
    tcase_add_test(tc, a_batch_of_another_step_or_rank_is_seen);
    tcase_add_test(tc, substitutions_follow_the_chain);
    tcase_add_test(tc, padding_rows_have_no_substitutes);
    tcase_add_test(tc, parts_that_disagree_on_a_row_are_seen);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
