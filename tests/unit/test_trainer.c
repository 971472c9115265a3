/* SPDX-License-Identifier: Apache-2.0 */
#include "consumer/trainer.h"

#include <string.h>

#include "common/clock.h"
#include "support/suite.h"

enum { SIDE = 12, ROWS = 8, CLASSES = 4, PICTURE_BYTES = SIDE * SIDE * 3 };

static struct config config;
static struct layout layout;
static uint8_t images[ROWS * PICTURE_BYTES];
static int64_t labels[ROWS];
static const struct trainer_batch BATCH = {.images = images, .labels = labels, .count = ROWS};

static struct coll *local_coll(void)
{
    struct coll *coll = NULL;
    struct err err = {0};
    const struct coll_options options = {.rank = 0, .size = 1};
    ck_assert_int_eq(coll_local.init(&options, &coll, &err), OK);
    return coll;
}

/* Noise under bright lines whose direction and distance tell the label. */
static void setup(void)
{
    struct err err = {0};
    ck_assert_int_eq(layout_init(ROWS, SIDE, SIDE, 3, &layout, &err), OK);
    memset(&config, 0, sizeof(config));
    config.learning_rate = 0.05;
    config.momentum = 0.9;
    config.seed = 11;
    config.starve_timeout_s = 1;
    uint64_t state = test_seed() | 1;
    for (size_t i = 0; i < sizeof(images); i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        images[i] = (uint8_t)(state >> 58);
    }
    for (int row = 0; row < ROWS; row++) {
        labels[row] = row % CLASSES;
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                if ((labels[row] & 1 ? x : y) % (labels[row] & 2 ? 4 : 2) == 0) {
                    memset(images + row * PICTURE_BYTES + (y * SIDE + x) * 3, 200, 3);
                }
            }
        }
    }
}

static struct trainer *trainer_new(const struct trainer_ops *ops, struct coll *coll, uint64_t steps)
{
    struct trainer *trainer = NULL;
    struct err err = {0};
    const struct trainer_options options = {
        .config = &config,
        .layout = &layout,
        .classes = CLASSES,
        .world = 1,
        .steps = steps,
        .coll_ops = &coll_local,
        .coll = coll,
    };
    ck_assert_msg(ops->open(&options, &trainer, &err) == OK, "%s", err.message);
    return trainer;
}

static struct trainer_result step(const struct trainer_ops *ops, struct trainer *trainer)
{
    struct trainer_result result;
    struct err err = {0};
    ck_assert_msg(ops->step(trainer, &BATCH, &result, &err) == OK, "%s", err.message);
    return result;
}

START_TEST(reference_learns)
{
    struct coll *coll = local_coll();
    struct trainer *trainer = trainer_new(&trainer_reference, coll, 0);
    const struct trainer_result first = step(&trainer_reference, trainer);
    ck_assert_uint_eq(first.count, ROWS);
    for (int i = 0; i < 300; i++) {
        step(&trainer_reference, trainer);
    }
    struct trainer_result last;
    struct err err = {0};
    ck_assert_int_eq(trainer_reference.evaluate(trainer, &BATCH, &last, &err), OK);
    ck_assert_uint_eq(last.count, ROWS);
    ck_assert_uint_eq(last.correct, ROWS);
    ck_assert(last.loss < first.loss / 4);
    trainer_reference.close(&trainer);
    coll_local.free(&coll);
}
END_TEST

START_TEST(runs_are_equal_and_resume_continues_bit_for_bit)
{
    struct coll *coll = local_coll();
    struct trainer *a = trainer_new(&trainer_reference, coll, 40);
    struct trainer *b = trainer_new(&trainer_reference, coll, 40);
    for (int i = 0; i < 20; i++) {
        ck_assert(step(&trainer_reference, a).loss == step(&trainer_reference, b).loss);
    }
    const size_t bytes = trainer_reference.state_bytes(a);
    void *state = malloc(bytes);
    ck_assert_int_eq(trainer_reference.save(a, state, NULL), OK);
    struct trainer *resumed = trainer_new(&trainer_reference, coll, 40);
    struct err err = {0};
    ck_assert_int_eq(trainer_reference.load(resumed, state, bytes, &err), OK);
    for (int i = 0; i < 20; i++) {
        ck_assert(step(&trainer_reference, a).loss == step(&trainer_reference, resumed).loss);
    }
    /* The learning rate has come down to 0. */
    const double before = step(&trainer_reference, a).loss;
    ck_assert(step(&trainer_reference, a).loss == before);
    free(state);
    trainer_reference.close(&a);
    trainer_reference.close(&b);
    trainer_reference.close(&resumed);
    coll_local.free(&coll);
}
END_TEST

START_TEST(foreign_states_are_refused)
{
    struct coll *coll = local_coll();
    struct trainer *trainer = trainer_new(&trainer_reference, coll, 0);
    const size_t bytes = trainer_reference.state_bytes(trainer);
    uint8_t *state = malloc(bytes);
    ck_assert_int_eq(trainer_reference.save(trainer, state, NULL), OK);
    struct err err = {0};
    ck_assert_int_eq(trainer_reference.load(trainer, state, bytes - 4, &err), ERR_DATA);
    for (size_t i = 0; i < 24; i += 8) { /* magic, classes, parameters */
        state[i] ^= 1;
        ck_assert_int_eq(trainer_reference.load(trainer, state, bytes, &err), ERR_DATA);
        state[i] ^= 1;
    }
    ck_assert_int_eq(trainer_reference.load(trainer, state, bytes, &err), OK);
    free(state);
    trainer_reference.close(&trainer);
    coll_local.free(&coll);
}
END_TEST

START_TEST(missing_and_impossible_labels_are_bad_data)
{
    struct coll *coll = local_coll();
    struct trainer *trainer = trainer_new(&trainer_reference, coll, 0);
    static const int64_t WRONG[] = {-1, CLASSES, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
        struct trainer_result result;
        struct err err = {0};
        labels[3] = WRONG[i];
        ck_assert_int_eq(trainer_reference.step(trainer, &BATCH, &result, &err), ERR_DATA);
        ck_assert_int_eq(trainer_reference.evaluate(trainer, &BATCH, &result, &err), ERR_DATA);
        ck_assert_ptr_nonnull(strstr(err.message, "row 3"));
        ck_assert_int_eq(strstr(err.message, "no labels") != NULL, WRONG[i] == -1);
    }
    trainer_reference.close(&trainer);

    struct err err = {0};
    const struct trainer_options options = {.config = &config,
                                            .layout = &layout,
                                            .classes = 0,
                                            .world = 1,
                                            .coll_ops = &coll_local,
                                            .coll = coll};
    ck_assert_int_eq(trainer_reference.open(&options, &trainer, &err), ERR_DATA);
    coll_local.free(&coll);
}
END_TEST

START_TEST(a_batch_without_rows_changes_nothing)
{
    struct coll *coll = local_coll();
    struct trainer *trainer = trainer_new(&trainer_reference, coll, 0);
    step(&trainer_reference, trainer); /* velocity is not 0 now */
    const struct trainer_batch empty = {.images = images, .labels = labels};
    struct trainer_result before, none, after;
    struct err err = {0};
    ck_assert_int_eq(trainer_reference.evaluate(trainer, &BATCH, &before, &err), OK);
    ck_assert_int_eq(trainer_reference.step(trainer, &empty, &none, &err), OK);
    ck_assert_int_eq(trainer_reference.evaluate(trainer, &BATCH, &after, &err), OK);
    ck_assert_uint_eq(none.count, 0);
    ck_assert(before.loss == after.loss);
    trainer_reference.close(&trainer);
    coll_local.free(&coll);
}
END_TEST

START_TEST(divergence_is_said)
{
    config.learning_rate = 1e30;
    struct coll *coll = local_coll();
    struct trainer *trainer = trainer_new(&trainer_reference, coll, 0);
    struct trainer_result result;
    struct err err = {0};
    enum status status = OK;
    for (int i = 0; i < 200 && status == OK; i++) {
        status = trainer_reference.step(trainer, &BATCH, &result, &err);
    }
    ck_assert_int_eq(status, ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.message, "learning_rate"));
    trainer_reference.close(&trainer);
    coll_local.free(&coll);
}
END_TEST

START_TEST(synthetic_takes_its_time_and_no_labels)
{
    config.step_ms = 20;
    config.grad_mb = 1;
    struct coll *coll = local_coll();
    struct trainer *trainer = trainer_new(&trainer_synthetic, coll, 0);
    memset(labels, 0xff, sizeof(labels));
    const int64_t begin_ns = clock_now_ns();
    const int64_t cpu_ns = clock_thread_cpu_ns();
    const struct trainer_result result = step(&trainer_synthetic, trainer);
    ck_assert_int_ge(clock_now_ns() - begin_ns, 20 * NS_PER_MS);
    ck_assert_int_lt(clock_thread_cpu_ns() - cpu_ns, 15 * NS_PER_MS);
    ck_assert_uint_eq(result.count, ROWS);

    uint64_t state = 0;
    struct err err = {0};
    ck_assert_uint_eq(trainer_synthetic.state_bytes(trainer), sizeof(state));
    ck_assert_int_eq(trainer_synthetic.save(trainer, &state, NULL), OK);
    ck_assert_uint_eq(state, 1);
    ck_assert_int_eq(trainer_synthetic.load(trainer, &state, 8, &err), OK);
    ck_assert_int_eq(trainer_synthetic.load(trainer, &state, 7, &err), ERR_DATA);
    trainer_synthetic.close(&trainer);
    coll_local.free(&coll);
}
END_TEST

static enum status wrong_allreduce(struct coll *coll, float *values, size_t count,
                                   int64_t deadline_ns, struct err *err)
{
    values[count / 2] += 1;
    return OK;
}

START_TEST(synthetic_sees_a_wrong_sum)
{
    config.grad_mb = 0.01;
    struct coll_ops wrong = coll_local;
    wrong.allreduce = wrong_allreduce;
    struct coll *coll = local_coll();
    const struct trainer_options options = {
        .config = &config, .layout = &layout, .world = 1, .coll_ops = &wrong, .coll = coll};
    struct trainer *trainer = NULL;
    struct err err = {0};
    struct trainer_result result;
    ck_assert_int_eq(trainer_synthetic.open(&options, &trainer, &err), OK);
    ck_assert_int_eq(trainer_synthetic.step(trainer, &BATCH, &result, &err), ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(err.message, "value 1250"));
    trainer_synthetic.close(&trainer);
    coll_local.free(&coll);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer");
    TCase *tc = tcase_create("trainer");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, reference_learns);
    tcase_add_test(tc, runs_are_equal_and_resume_continues_bit_for_bit);
    tcase_add_test(tc, foreign_states_are_refused);
    tcase_add_test(tc, missing_and_impossible_labels_are_bad_data);
    tcase_add_test(tc, a_batch_without_rows_changes_nothing);
    tcase_add_test(tc, divergence_is_said);
    tcase_add_test(tc, synthetic_takes_its_time_and_no_labels);
    tcase_add_test(tc, synthetic_sees_a_wrong_sum);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
