/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainers on several ranks that sum over the ring, each a thread here: equal on all ranks and
 * in every run, and the mean over the global batch whatever its split.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "consumer/trainer.h"
#include "support/ports.h"
#include "support/random.h"
#include "support/suite.h"

enum { SIDE = 10, GLOBAL = 12, STEPS = 6, RANKS = 3, CLASSES = 3, PICTURE_BYTES = SIDE * SIDE * 3 };

/* The last step's batch is partial: so many of its rows are real. */
enum { LAST_ROWS = 7 };

static struct config config;
static struct layout layout;
static uint8_t images[STEPS][GLOBAL * PICTURE_BYTES];
static int64_t labels[STEPS][GLOBAL];

static void setup(void)
{
    struct random_state random = {random_seed()};
    struct err err = {0};
    ck_assert_int_eq(layout_init(GLOBAL, SIDE, SIDE, 3, &layout, &err), OK);
    config.learning_rate = 0.05;
    config.momentum = 0.9;
    config.seed = 3;
    config.grad_mb = 0.3;
    config.starve_timeout_s = 20;
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < sizeof(images[step]); i++) {
            images[step][i] = (uint8_t)random_u64(&random);
        }
        for (size_t i = 0; i < GLOBAL; i++) {
            labels[step][i] = (int64_t)(random_u64(&random) % CLASSES);
        }
    }
}

struct rank {
    const struct trainer_ops *ops;
    const struct coll_peer *peers;
    uint32_t rank, world;
    struct err err; /* of the first failure */
    double loss;    /* of the last step, over its rows */
    uint64_t count; /* rows trained on */
    size_t state_bytes;
    uint8_t *state; /* at the end */
};

static enum status train(struct rank *self, const struct coll_ops *coll_ops, struct coll *coll)
{
    const struct trainer_options options = {
        .config = &config,
        .layout = &layout,
        .classes = CLASSES,
        .world = self->world,
        .steps = STEPS + 1,
        .coll_ops = coll_ops,
        .coll = coll,
    };
    struct trainer *trainer = NULL;
    TRY(self->ops->open(&options, &trainer, &self->err));
    enum status status = OK;
    const uint32_t share = GLOBAL / self->world;
    const uint32_t first = self->rank * share;
    for (int step = 0; step < STEPS && status == OK; step++) {
        const uint32_t real = step == STEPS - 1 ? LAST_ROWS : GLOBAL;
        const uint32_t left = real > first ? real - first : 0;
        const struct trainer_batch batch = {.images = images[step] + first * PICTURE_BYTES,
                                            .labels = labels[step] + first,
                                            .count = left < share ? left : share};
        struct trainer_result result = {0};
        status = self->ops->step(trainer, &batch, &result, &self->err);
        self->loss = result.loss;
        self->count += result.count;
    }
    self->state_bytes = self->ops->state_bytes(trainer);
    self->state = malloc(self->state_bytes);
    ck_assert_int_eq(self->ops->save(trainer, self->state, NULL), OK);
    self->ops->close(&trainer);
    return status;
}

static void *run_rank(void *context)
{
    struct rank *self = context;
    const struct coll_ops *ops = self->world == 1 ? &coll_local : &coll_ring;
    const struct coll_options options = {.rank = self->rank,
                                         .size = self->world,
                                         .peers = self->peers,
                                         .job = 9,
                                         .deadline_ns = clock_now_ns() + 60 * NS_PER_S};
    struct coll *coll = NULL;
    if (ops->init(&options, &coll, &self->err) == OK) {
        self->err.status = train(self, ops, coll);
        ops->free(&coll);
    }
    return NULL;
}

static void run_world(const struct trainer_ops *ops, uint32_t world, struct rank ranks[RANKS])
{
    struct coll_peer peers[RANKS];
    pthread_t threads[RANKS];
    uint16_t ports[RANKS];
    ports_pick("127.0.0.1", world, ports);
    for (uint32_t r = 0; r < world; r++) {
        peers[r] = (struct coll_peer){"127.0.0.1", ports[r]};
    }
    for (uint32_t r = 0; r < world; r++) {
        ranks[r] = (struct rank){.ops = ops, .peers = peers, .rank = r, .world = world};
        ck_assert_int_eq(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < world; r++) {
        ck_assert_int_eq(pthread_join(threads[r], NULL), 0);
        ck_assert_msg(ranks[r].err.status == OK, "rank %u: %s", r, ranks[r].err.message);
    }
}

static void world_free(struct rank ranks[RANKS], uint32_t world)
{
    for (uint32_t r = 0; r < world; r++) {
        free(ranks[r].state);
    }
}

START_TEST(ranks_and_runs_are_equal_to_the_bit)
{
    for (uint32_t world = 2; world <= RANKS; world++) {
        struct rank once[RANKS], again[RANKS];
        run_world(&trainer_reference, world, once);
        run_world(&trainer_reference, world, again);
        for (uint32_t r = 0; r < world; r++) {
            ck_assert_uint_eq(once[r].state_bytes, once[0].state_bytes);
            ck_assert_int_eq(memcmp(once[r].state, once[0].state, once[0].state_bytes), 0);
            ck_assert_int_eq(memcmp(once[r].state, again[r].state, once[0].state_bytes), 0);
            ck_assert(once[r].loss == again[r].loss);
        }
        world_free(once, world);
        world_free(again, world);
    }
}
END_TEST

/* Rounding differs with the split, nothing else does; also where a rank has fewer rows than
 * another, or none. */
START_TEST(the_split_of_a_global_batch_does_not_matter)
{
    struct rank alone[RANKS], many[RANKS];
    run_world(&trainer_reference, 1, alone);
    for (uint32_t world = 2; world <= RANKS; world++) {
        run_world(&trainer_reference, world, many);
        double loss = 0;
        uint64_t count = 0;
        for (uint32_t r = 0; r < world; r++) {
            loss += many[r].loss;
            count += many[r].count;
        }
        ck_assert_uint_eq(count, (STEPS - 1) * GLOBAL + LAST_ROWS);
        ck_assert_uint_eq(alone[0].count, count);
        ck_assert_msg(fabs(loss - alone[0].loss) < 1e-3 * alone[0].loss, "%.9g, alone %.9g", loss,
                      alone[0].loss);
        world_free(many, world);
    }
    world_free(alone, 1);
}
END_TEST

START_TEST(the_synthetic_gradient_is_summed_and_checked)
{
    struct rank ranks[RANKS];
    run_world(&trainer_synthetic, RANKS, ranks);
    world_free(ranks, RANKS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer_ranks");
    TCase *tc = tcase_create("trainer_ranks");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, ranks_and_runs_are_equal_to_the_bit);
    tcase_add_test(tc, the_split_of_a_global_batch_does_not_matter);
    tcase_add_test(tc, the_synthetic_gradient_is_summed_and_checked);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
