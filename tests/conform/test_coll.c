/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every collective must do (consumer/coll.h), tried with every number of ranks it knows; and
 * what only the ring has: peers that die, lie, disagree or are strangers. Ranks are threads here,
 * links are real; nccl runs over the fake one (what only it has: test_coll_nccl.c).
 */
#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "consumer/coll.h"
#include "support/coll_rig.h"
#include "support/ports.h"
#include "support/suite.h"

enum { RANKS_MAX_HERE = 5, DEADLINE_S = 60 };

struct world {
    const struct coll_ops *ops;
    uint32_t size;
    struct coll_peer peers[RANKS_MAX_HERE];
    char address[32];
    struct coll_rig rig; /* nccl's */
};

struct rank {
    const struct world *world;
    uint32_t rank;
    uint64_t job;
    int64_t init_ns; /* time for init */
    void (*body)(struct rank *rank, struct coll *coll);
    void *context;
    enum status init_status;
    struct err err;
};

static int64_t in_s(double seconds)
{
    return clock_now_ns() + (int64_t)(seconds * NS_PER_S);
}

static struct world make_world(const struct coll_ops *ops, uint32_t size)
{
    struct world world = {.ops = ops, .size = size};
    uint8_t block[2];
    ck_assert_int_eq(getrandom(block, sizeof(block), 0), sizeof(block));
    snprintf(world.address, sizeof(world.address), "127.%u.%u.1", 1 + block[0] % 250U, block[1]);
    if (ops == &coll_nccl) {
        struct err err = {0};
        ck_assert_msg(coll_rig_open(coll_rig_store(), &world.rig, &err) == OK, "%s", err.message);
    }
    return world;
}

static void choose_ports(struct world *world)
{
    uint16_t ports[RANKS_MAX_HERE];
    ports_pick(world->address, world->size, ports);
    for (uint32_t r = 0; r < world->size; r++) {
        world->peers[r] = (struct coll_peer){.address = world->address, .port = ports[r]};
    }
}

static void *run_rank(void *context)
{
    struct rank *self = context;
    struct coll *coll = NULL;
    const struct coll_gpu gpu = {
        .cuda = &self->world->rig.cuda, .nccl = &self->world->rig.nccl, .device = (int)self->rank};
    const struct coll_options options = {.rank = self->rank,
                                         .size = self->world->size,
                                         .peers = self->world->peers,
                                         .job = self->job,
                                         .deadline_ns = clock_now_ns() + self->init_ns,
                                         .store = &self->world->rig.store,
                                         .host = "algo-1",
                                         .gpu = &gpu};
    self->init_status = self->world->ops->init(&options, &coll, &self->err);
    if (self->init_status == OK) {
        self->body(self, coll);
        self->world->ops->free(&coll);
        ck_assert_ptr_null(coll);
    }
    return NULL;
}

/* Runs body on every rank of the world, each a thread. */
static void run_world(struct world *world, void (*body)(struct rank *, struct coll *),
                      void *context)
{
    struct rank ranks[RANKS_MAX_HERE];
    pthread_t threads[RANKS_MAX_HERE];
    choose_ports(world);
    for (uint32_t r = 0; r < world->size; r++) {
        ranks[r] = (struct rank){.world = world,
                                 .rank = r,
                                 .job = 7,
                                 .init_ns = DEADLINE_S * NS_PER_S,
                                 .body = body,
                                 .context = context};
        ck_assert_int_eq(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < world->size; r++) {
        pthread_join(threads[r], NULL);
        ck_assert_msg(ranks[r].init_status == OK, "rank %u: %s", r, ranks[r].err.message);
    }
}

/* Every collective with every size it knows, up to five. */
static const struct world_kind {
    const struct coll_ops *ops;
    uint32_t size;
} WORLDS[] = {{&coll_local, 1}, {&coll_ring, 2}, {&coll_ring, 3}, {&coll_ring, 4}, {&coll_ring, 5},
              {&coll_nccl, 1},  {&coll_nccl, 2}, {&coll_nccl, 3}, {&coll_nccl, 4}, {&coll_nccl, 5}};

static void for_every_world(void (*body)(struct rank *, struct coll *), void *context)
{
    for (size_t i = 0; i < ARRAY_LEN(WORLDS); i++) {
        struct world world = make_world(WORLDS[i].ops, WORLDS[i].size);
        run_world(&world, body, context);
    }
}

/* ---- what every collective does ---- */

/* Values whose sum in floats depends on the order. */
static float value_of(uint32_t rank, size_t i)
{
    return (float)(((i * 2654435761U) ^ (rank * 40503U)) % 100003U) * 1.0009765F +
           1.0F / (float)(1 + rank + i % 97);
}

static const size_t COUNTS[] = {0, 1, 2, 3, 4, 5, 17, 1000, 65537, (1 << 20) + 3};

struct results {
    pthread_mutex_t lock;
    float *first[ARRAY_LEN(COUNTS)]; /* of whoever came first: all must equal it */
};

static void sum_everything(struct rank *self, struct coll *coll)
{
    struct results *results = self->context;
    struct err err = {0};
    for (size_t c = 0; c < ARRAY_LEN(COUNTS); c++) {
        const size_t count = COUNTS[c];
        float *values = malloc((count + 1) * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            values[i] = value_of(self->rank, i);
        }
        values[count] = 12345.0F;
        ck_assert_msg(self->world->ops->allreduce(coll, values, count, in_s(DEADLINE_S), &err) ==
                          OK,
                      "%s", err.message);
        ck_assert(values[count] == 12345.0F);
        double worst = 0;
        for (size_t i = 0; i < count; i++) {
            double wanted = 0;
            for (uint32_t r = 0; r < self->world->size; r++) {
                wanted += value_of(r, i);
            }
            worst = fmax(worst, fabs(values[i] - wanted) / wanted);
        }
        ck_assert(worst <= 1e-6);
        pthread_mutex_lock(&results->lock);
        if (results->first[c] == NULL) {
            results->first[c] = values;
            values = NULL;
        } else if (self->world->ops != &coll_nccl) { /* which promises no bits */
            ck_assert_int_eq(memcmp(values, results->first[c], count * sizeof(float)), 0);
        }
        pthread_mutex_unlock(&results->lock);
        free(values);
    }
}

START_TEST(sums_are_right_and_the_same_bits_on_every_rank_and_in_every_run)
{
    for (size_t i = 0; i < ARRAY_LEN(WORLDS); i++) {
        struct results results = {.lock = PTHREAD_MUTEX_INITIALIZER};
        for (int run = 0; run < 2; run++) {
            struct world world = make_world(WORLDS[i].ops, WORLDS[i].size);
            run_world(&world, sum_everything, &results);
        }
        for (size_t c = 0; c < ARRAY_LEN(COUNTS); c++) {
            free(results.first[c]);
        }
    }
}
END_TEST

static void broadcast_everything(struct rank *self, struct coll *coll)
{
    struct err err = {0};
    const size_t count = 700001;
    uint8_t *bytes = malloc(count + 1);
    uint8_t *wanted = malloc(count);
    for (uint32_t root = 0; root < self->world->size; root++) {
        for (size_t i = 0; i < count; i++) {
            wanted[i] = (uint8_t)(i * 7 + root);
            bytes[i] = self->rank == root ? wanted[i] : 0xEE;
        }
        bytes[count] = 0x55;
        ck_assert_msg(
            self->world->ops->broadcast(coll, bytes, count, root, in_s(DEADLINE_S), &err) == OK,
            "%s", err.message);
        ck_assert_int_eq(memcmp(bytes, wanted, count), 0);
        ck_assert_uint_eq(bytes[count], 0x55);
    }
    free(bytes);
    free(wanted);
}

START_TEST(a_broadcast_reaches_every_rank_from_every_root)
{
    for_every_world(broadcast_everything, NULL);
}
END_TEST

struct gate {
    _Atomic uint32_t entered;
};

static void cross_barriers(struct rank *self, struct coll *coll)
{
    struct gate *gate = self->context;
    struct err err = {0};
    for (uint32_t round = 1; round <= 20; round++) {
        gate->entered++;
        ck_assert_msg(self->world->ops->barrier(coll, in_s(DEADLINE_S), &err) == OK, "%s",
                      err.message);
        ck_assert_uint_ge(gate->entered, round * self->world->size);
        ck_assert_int_eq(self->world->ops->barrier(coll, in_s(DEADLINE_S), &err), OK);
    }
}

START_TEST(nobody_leaves_a_barrier_before_all_have_come)
{
    for (size_t i = 0; i < ARRAY_LEN(WORLDS); i++) {
        struct gate gate = {0};
        struct world world = make_world(WORLDS[i].ops, WORLDS[i].size);
        run_world(&world, cross_barriers, &gate);
    }
}
END_TEST

static void abort_then_call(struct rank *self, struct coll *coll)
{
    struct err err = {0};
    float value = 1.0F;
    self->world->ops->abort(coll);
    ck_assert_int_eq(self->world->ops->allreduce(coll, &value, 1, in_s(DEADLINE_S), &err),
                     ERR_CANCELLED);
}

START_TEST(a_call_after_abort_is_cancelled)
{
    for_every_world(abort_then_call, NULL);
}
END_TEST

/* ---- what the ring does beside ---- */

static void *abort_later(void *coll)
{
    const struct timespec pause = {.tv_nsec = 50 * NS_PER_MS};
    nanosleep(&pause, NULL);
    coll_ring.abort(coll);
    return NULL;
}

static void wait_in_vain(struct rank *self, struct coll *coll)
{
    struct err err = {0};
    float value = 1.0F;
    pthread_t aborter;
    if (self->rank == 0) {
        while (*(_Atomic bool *)self->context == false) {
            const struct timespec pause = {.tv_nsec = NS_PER_MS};
            nanosleep(&pause, NULL);
        }
        return;
    }
    ck_assert_int_eq(pthread_create(&aborter, NULL, abort_later, coll), 0);
    ck_assert_int_eq(coll_ring.allreduce(coll, &value, 1, in_s(DEADLINE_S), &err), ERR_CANCELLED);
    pthread_join(aborter, NULL);
    *(_Atomic bool *)self->context = true;
}

START_TEST(abort_from_another_thread_ends_a_call_in_progress)
{
    _Atomic bool over = false;
    struct world world = make_world(&coll_ring, 2);
    run_world(&world, wait_in_vain, &over);
}
END_TEST

static void leave_or_sum(struct rank *self, struct coll *coll)
{
    struct err err = {0};
    float values[100] = {0};
    if (self->rank == 1) {
        return; /* its links close with it */
    }
    ck_assert_int_eq(coll_ring.allreduce(coll, values, 100, in_s(DEADLINE_S), &err), ERR_PEER_GONE);
    ck_assert_msg(strstr(err.message, "rank ") != NULL, "%s", err.message);
    ck_assert_int_eq(coll_ring.barrier(coll, in_s(DEADLINE_S), &err), ERR_MISUSE);
}

START_TEST(a_dead_rank_is_known_at_once_and_named)
{
    struct world world = make_world(&coll_ring, 3);
    run_world(&world, leave_or_sum, NULL);
}
END_TEST

static void sleep_or_sum(struct rank *self, struct coll *coll)
{
    struct err err = {0};
    float value = 1.0F;
    if (self->rank == 1) {
        while (*(_Atomic bool *)self->context == false) {
            const struct timespec pause = {.tv_nsec = NS_PER_MS};
            nanosleep(&pause, NULL);
        }
        return;
    }
    ck_assert_int_eq(coll_ring.allreduce(coll, &value, 1, in_s(0.2), &err), ERR_TIMEOUT);
    ck_assert_msg(strstr(err.message, "rank 1") != NULL, "%s", err.message);
    *(_Atomic bool *)self->context = true;
}

START_TEST(a_deadline_names_the_rank_that_was_waited_for)
{
    _Atomic bool over = false;
    struct world world = make_world(&coll_ring, 2);
    run_world(&world, sleep_or_sum, &over);
}
END_TEST

static void disagree(struct rank *self, struct coll *coll)
{
    struct err err = {0};
    float values[8] = {0};
    const enum status status =
        coll_ring.allreduce(coll, values, self->rank == 0 ? 8 : 7, in_s(DEADLINE_S), &err);
    ck_assert_int_eq(status, ERR_PEER_WRONG);
    ck_assert_msg(strstr(err.message, "allreduce of 8") != NULL &&
                      strstr(err.message, "allreduce of 7") != NULL,
                  "%s", err.message);
}

START_TEST(ranks_that_disagree_about_a_call_find_out)
{
    struct world world = make_world(&coll_ring, 2);
    run_world(&world, disagree, NULL);
}
END_TEST

/* Strangers that connect, say nothing or nonsense, and leave, while the ring is being made. */
struct stranger {
    const struct world *world;
    _Atomic bool stop;
};

static void *disturb(void *context)
{
    struct stranger *self = context;
    uint8_t junk[64];
    memset(junk, 'x', sizeof(junk));
    for (int i = 0; !self->stop; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons(self->world->peers[i % 3].port)};
        inet_pton(AF_INET, self->world->address, &to.sin_addr);
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 && i % 2 == 0) {
            (void)send(fd, junk, (size_t)(1 + i % 60), MSG_NOSIGNAL);
        }
        close(fd);
    }
    return NULL;
}

static void one_sum(struct rank *self, struct coll *coll)
{
    struct err err = {0};
    float value = 1.0F;
    ck_assert_msg(coll_ring.allreduce(coll, &value, 1, in_s(DEADLINE_S), &err) == OK, "%s",
                  err.message);
    ck_assert(value == 3.0F);
}

START_TEST(strangers_do_not_disturb_the_making_of_a_ring)
{
    struct world world = make_world(&coll_ring, 3);
    struct rank ranks[3];
    pthread_t threads[3];
    pthread_t noise;
    choose_ports(&world);
    struct stranger stranger = {.world = &world};
    ck_assert_int_eq(pthread_create(&noise, NULL, disturb, &stranger), 0);
    for (uint32_t r = 0; r < 3; r++) {
        ranks[r] = (struct rank){
            .world = &world, .rank = r, .init_ns = DEADLINE_S * NS_PER_S, .body = one_sum};
        ck_assert_int_eq(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
        const struct timespec pause = {.tv_nsec = 100 * NS_PER_MS};
        nanosleep(&pause, NULL); /* so that the strangers meet half a ring */
    }
    for (uint32_t r = 0; r < 3; r++) {
        pthread_join(threads[r], NULL);
        ck_assert_msg(ranks[r].init_status == OK, "%s", ranks[r].err.message);
    }
    stranger.stop = true;
    pthread_join(noise, NULL);
}
END_TEST

START_TEST(a_rank_of_another_job_or_none_is_waited_for_until_the_deadline)
{
    struct world world = make_world(&coll_ring, 2);
    struct rank ranks[2];
    pthread_t threads[2];
    choose_ports(&world);
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r] = (struct rank){
            .world = &world, .rank = r, .job = 7 + r, .init_ns = NS_PER_S / 4, .body = one_sum};
        ck_assert_int_eq(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        pthread_join(threads[r], NULL);
        ck_assert_int_eq(ranks[r].init_status, ERR_TIMEOUT);
        ck_assert_msg(strstr(ranks[r].err.message, r == 0 ? "rank 1" : "rank 0") != NULL, "%s",
                      ranks[r].err.message);
    }
}
END_TEST

START_TEST(an_address_off_the_loopback_interface_wants_insecure)
{
    struct coll *coll = NULL;
    struct err err = {0};
    const struct coll_peer peers[] = {{"192.0.2.1", 17402}, {"192.0.2.2", 17402}};
    const struct coll_options options = {.size = 2, .peers = peers, .deadline_ns = in_s(1)};
    ck_assert_int_eq(coll_ring.init(&options, &coll, &err), ERR_CONFIG);
    ck_assert_msg(strstr(err.message, "--insecure") != NULL, "%s", err.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll");
    TCase *tc = tcase_create("every collective");
    tcase_add_test(tc, sums_are_right_and_the_same_bits_on_every_rank_and_in_every_run);
    tcase_add_test(tc, a_broadcast_reaches_every_rank_from_every_root);
    tcase_add_test(tc, nobody_leaves_a_barrier_before_all_have_come);
    tcase_add_test(tc, a_call_after_abort_is_cancelled);
    suite_add_tcase(suite, tc);
    tc = tcase_create("ring");
    tcase_add_test(tc, abort_from_another_thread_ends_a_call_in_progress);
    tcase_add_test(tc, a_dead_rank_is_known_at_once_and_named);
    tcase_add_test(tc, a_deadline_names_the_rank_that_was_waited_for);
    tcase_add_test(tc, ranks_that_disagree_about_a_call_find_out);
    tcase_add_test(tc, strangers_do_not_disturb_the_making_of_a_ring);
    tcase_add_test(tc, a_rank_of_another_job_or_none_is_waited_for_until_the_deadline);
    tcase_add_test(tc, an_address_off_the_loopback_interface_wants_insecure);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
