/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference trainer on the fake CUDA against the one on the host: the same job gives the same
 * losses within the bound of docs/GPU.md, states move both ways, and what fails is told.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "consumer/kernel_images.h"
#include "consumer/trainer.h"
#include "support/cuda_fakes.h"
#include "support/ports.h"
#include "support/random.h"
#include "support/suite.h"

enum { SIDE = 12, GLOBAL = 8, STEPS = 6, EPOCHS = 4, CLASSES = 3, WORLD_MAX = 2 };
enum { PICTURE_BYTES = SIDE * SIDE * 3 };

/* docs/GPU.md: of an epoch's mean loss, relative. */
#define LOSS_BOUND 1e-3

/* As a build with HEADRACE_CUDA=fake embeds them: what the fake takes for an image. */
#define IMAGE(name)                                                 \
    {                                                               \
#name, 0, true, (const uint8_t *)#name, (const uint8_t *)"" \
    }
static const struct kernel_image TABLE[] = {
    IMAGE(bias_relu), IMAGE(channel_norm),
    IMAGE(conv),      IMAGE(gemm),
    IMAGE(mean_pool), IMAGE(normalize),
    IMAGE(sgd),       IMAGE(softmax_loss),
    IMAGE(sums),      {NULL, 0, false, NULL, NULL},
};
static const struct kernel_images IMAGES = {"names only", TABLE};

static struct config config;
static uint8_t images[STEPS][GLOBAL * PICTURE_BYTES];
static int64_t labels[STEPS][GLOBAL];

/* Noise under bright lines whose direction and distance tell the label. */
static void draw(uint8_t *picture, int64_t label)
{
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            if ((label & 1 ? x : y) % (label & 2 ? 4 : 2) == 0) {
                memset(picture + (y * SIDE + x) * 3, 200, 3);
            }
        }
    }
}

static void setup(void)
{
    /* The same data in every run: a rounding that puts a value on the other side of a ReLU's corner
     * grows, and with so few pictures some data pass any bound. */
    struct random_state random = {1};
    cuda_fakes_configure(&config);
    ck_assert_int_eq(setenv("HR_FAKE_CUDA_LATENCY_US", "300", 1), 0);
    config.learning_rate = 0.05;
    config.momentum = 0.9;
    config.seed = 11;
    config.starve_timeout_s = 60;
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < sizeof(images[step]); i++) {
            images[step][i] = (uint8_t)(random_u64(&random) >> 58);
        }
        for (size_t row = 0; row < GLOBAL; row++) {
            labels[step][row] = (int64_t)(random_u64(&random) % CLASSES);
            draw(images[step] + row * PICTURE_BYTES, labels[step][row]);
        }
    }
}

/* ---- a rank, with its batch on the GPU if it has one ---- */

struct rank {
    uint32_t rank, world;
    bool on_gpu;
    uint32_t rows; /* of a batch that is whole */
    const struct coll_peer *peers;
    struct device *device;
    struct layout layout;
    const struct kernel_images *images;
    const struct coll_ops *coll_ops;
    struct coll *coll;
    struct trainer *trainer;
    uint8_t *pinned, *memory; /* layout.bytes */
    struct device_event *copied, *done;
    struct err err;
    double losses[EPOCHS]; /* sums over its own rows */
    uint64_t corrects[EPOCHS];
    uint8_t *state; /* at the end */
};

static enum status join_ranks(struct rank *r)
{
    const struct coll_options options = {.rank = r->rank,
                                         .size = r->world,
                                         .peers = r->peers,
                                         .job = 9,
                                         .deadline_ns = clock_now_ns() + 60 * NS_PER_S};
    r->coll_ops = r->world == 1 ? &coll_local : &coll_ring;
    return r->coll_ops->init(&options, &r->coll, &r->err);
}

/* One after the other, as ranks are processes: the loader's own locks are not seen by the thread
 * sanitizer. */
static enum status open_gpu(struct rank *r)
{
    static pthread_mutex_t loader = PTHREAD_MUTEX_INITIALIZER;
    const struct device_options options = {.config = &config, .ordinal = r->rank};
    CHECK(pthread_mutex_lock(&loader) == 0);
    const enum status status = device_cuda.open(&options, &r->device, &r->err);
    CHECK(pthread_mutex_unlock(&loader) == 0);
    return status;
}

static enum status open_device(struct rank *r)
{
    if (!r->on_gpu) {
        return OK;
    }
    TRY(open_gpu(r));
    TRY(device_cuda.alloc_pinned(r->device, r->layout.bytes, (void **)&r->pinned, &r->err));
    TRY(device_cuda.alloc_device(r->device, r->layout.bytes, (void **)&r->memory, &r->err));
    TRY(device_cuda.event_new(r->device, &r->copied, &r->err));
    return device_cuda.event_new(r->device, &r->done, &r->err);
}

static enum status rank_open(struct rank *r)
{
    r->rows = GLOBAL / r->world;
    TRY(layout_init(r->rows, SIDE, SIDE, 3, &r->layout, &r->err));
    TRY(join_ranks(r));
    TRY(open_device(r));
    const struct trainer_options options = {.config = &config,
                                            .layout = &r->layout,
                                            .classes = CLASSES,
                                            .world = r->world,
                                            .steps = STEPS * (uint64_t)EPOCHS,
                                            .coll_ops = r->coll_ops,
                                            .coll = r->coll,
                                            .device = r->device,
                                            .images = r->images == NULL ? &IMAGES : r->images};
    return trainer_reference.open(&options, &r->trainer, &r->err);
}

static void rank_close(struct rank *r)
{
    if (r->trainer != NULL) {
        trainer_reference.close(&r->trainer);
    }
    if (r->device != NULL) {
        device_cuda.event_free(r->device, &r->copied);
        device_cuda.event_free(r->device, &r->done);
        device_cuda.free_pinned(r->device, r->pinned, r->layout.bytes);
        device_cuda.free_device(r->device, r->memory);
        device_cuda.close(&r->device);
    }
    if (r->coll != NULL) {
        r->coll_ops->free(&r->coll);
    }
    free(r->state);
    r->state = NULL;
}

/* As the feed lends it: the copy is queued, and may still be in flight. */
static enum status lend(struct rank *r, int step, uint32_t count, struct trainer_batch *out)
{
    const size_t first = r->rank * (size_t)r->rows;
    *out = (struct trainer_batch){.images = images[step] + first * PICTURE_BYTES,
                                  .labels = labels[step] + first,
                                  .count = count};
    if (!r->on_gpu) {
        return OK;
    }
    /* The batch before may not be overwritten, here or there, until its reader is done with it. */
    TRY(device_cuda.wait(r->device, r->done, clock_now_ns() + 60 * NS_PER_S, &r->err));
    memcpy(r->pinned + r->layout.image_offset, out->images, r->rows * (size_t)PICTURE_BYTES);
    memcpy(r->pinned + r->layout.label_offset, out->labels, r->rows * sizeof(*out->labels));
    TRY(device_cuda.copy_async(r->device, r->memory, r->pinned, r->layout.bytes, &r->err));
    TRY(device_cuda.record(r->device, r->copied, &r->err));
    out->device_images = r->memory + r->layout.image_offset;
    out->device_labels = (const int64_t *)(r->memory + r->layout.label_offset);
    out->copied = r->copied;
    out->done = r->done;
    return OK;
}

static enum status step(struct rank *r, int number, uint32_t count, struct trainer_result *out)
{
    struct trainer_batch batch;
    TRY(lend(r, number, count, &batch));
    return trainer_reference.step(r->trainer, &batch, out, &r->err);
}

static enum status train(struct rank *r, int first_epoch, int end)
{
    for (int epoch = first_epoch; epoch < end; epoch++) {
        for (int i = 0; i < STEPS; i++) {
            struct trainer_result result;
            /* The last batch of an epoch is partial: rank 1 of two has none of it. */
            const uint32_t real = i == STEPS - 1 ? GLOBAL / 2 - 1 : GLOBAL;
            const uint32_t first = r->rank * r->rows;
            const uint32_t left = real > first ? real - first : 0;
            TRY(step(r, i, left < r->rows ? left : r->rows, &result));
            r->losses[epoch] += result.loss;
        }
        for (int i = 0; i < STEPS; i++) {
            struct trainer_batch batch;
            struct trainer_result result;
            TRY(lend(r, i, r->rows, &batch));
            TRY(trainer_reference.evaluate(r->trainer, &batch, &result, &r->err));
            r->corrects[epoch] += result.correct;
        }
    }
    return OK;
}

static enum status keep_state(struct rank *r)
{
    r->state = malloc(trainer_reference.state_bytes(r->trainer));
    ck_assert_ptr_nonnull(r->state);
    return trainer_reference.save(r->trainer, r->state, &r->err);
}

static void *run_rank(void *context)
{
    struct rank *r = context;
    enum status status = rank_open(r);
    if (status == OK) {
        status = train(r, 0, EPOCHS);
    }
    if (status == OK) {
        status = keep_state(r);
    }
    r->err.status = status;
    return NULL;
}

static void run_world(uint32_t world, bool on_gpu, struct rank ranks[WORLD_MAX])
{
    struct coll_peer peers[WORLD_MAX];
    pthread_t threads[WORLD_MAX];
    uint16_t ports[WORLD_MAX];
    ports_pick("127.0.0.1", world, ports);
    for (uint32_t i = 0; i < world; i++) {
        peers[i] = (struct coll_peer){"127.0.0.1", ports[i]};
    }
    for (uint32_t i = 0; i < world; i++) {
        ranks[i] = (struct rank){.rank = i, .world = world, .on_gpu = on_gpu, .peers = peers};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < world; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_msg(ranks[i].err.status == OK, "rank %u: %s", i, ranks[i].err.message);
    }
}

static void assert_near(double got, double want, const char *what, int epoch)
{
    ck_assert_msg(fabs(got - want) <= LOSS_BOUND * fabs(want), "%s of epoch %d: %.9g, wanted %.9g",
                  what, epoch, got, want);
}

/* ---- the tests ---- */

static void compare(uint32_t world)
{
    struct rank host[WORLD_MAX];
    struct rank gpu[WORLD_MAX];
    run_world(world, false, host);
    run_world(world, true, gpu);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double losses[2] = {0};
        uint64_t corrects[2] = {0};
        for (uint32_t i = 0; i < world; i++) {
            losses[0] += host[i].losses[epoch];
            losses[1] += gpu[i].losses[epoch];
            corrects[0] += host[i].corrects[epoch];
            corrects[1] += gpu[i].corrects[epoch];
        }
        assert_near(losses[1], losses[0], "loss", epoch);
        /* A row between two classes may fall to either. */
        const int64_t more = (int64_t)corrects[1] - (int64_t)corrects[0];
        ck_assert_msg(more >= -1 && more <= 1, "epoch %d: %lld more correct", epoch,
                      (long long)more);
    }
    /* It learned something, or the comparison would say little. */
    ck_assert(host[0].losses[EPOCHS - 1] < host[0].losses[0] * 0.9);
    const size_t bytes = trainer_reference.state_bytes(gpu[0].trainer);
    for (uint32_t i = 1; i < world; i++) {
        ck_assert_int_eq(memcmp(gpu[0].state, gpu[i].state, bytes), 0);
    }
    for (uint32_t i = 0; i < world; i++) {
        rank_close(&host[i]);
        rank_close(&gpu[i]);
    }
}

START_TEST(a_rank_on_a_gpu_learns_what_the_host_learns)
{
    compare(1);
}
END_TEST

START_TEST(two_ranks_on_gpus_learn_what_two_hosts_learn)
{
    compare(2);
}
END_TEST

static struct rank opened(bool on_gpu)
{
    struct rank r = {.world = 1, .on_gpu = on_gpu};
    ck_assert_msg(rank_open(&r) == OK, "%s", r.err.message);
    return r;
}

/* Of one trainer's state in another; the bytes come back unchanged. */
static void move_state(struct rank *from, struct rank *to)
{
    const size_t bytes = trainer_reference.state_bytes(from->trainer);
    ck_assert_uint_eq(trainer_reference.state_bytes(to->trainer), bytes);
    ck_assert_int_eq(keep_state(from), OK);
    ck_assert_int_eq(trainer_reference.load(to->trainer, from->state, bytes, &to->err), OK);
    ck_assert_int_eq(keep_state(to), OK);
    ck_assert_int_eq(memcmp(from->state, to->state, bytes), 0);
    free(to->state);
    to->state = NULL;
}

START_TEST(a_checkpoint_moves_between_host_and_gpu)
{
    struct rank whole = opened(false);
    struct rank before = opened(false);
    struct rank gpu = opened(true);
    struct rank after = opened(false);
    ck_assert_int_eq(train(&whole, 0, EPOCHS), OK);
    ck_assert_int_eq(train(&before, 0, 1), OK);
    move_state(&before, &gpu);
    struct trainer_result loss[2];
    ck_assert_int_eq(step(&before, 0, GLOBAL, &loss[0]), OK);
    ck_assert_int_eq(step(&gpu, 0, GLOBAL, &loss[1]), OK);
    ck_assert(loss[0].loss == loss[1].loss); /* the same parameters: the same bits */
    ck_assert_int_eq(trainer_reference.load(gpu.trainer, before.state,
                                            trainer_reference.state_bytes(gpu.trainer), &gpu.err),
                     OK);
    ck_assert_int_eq(train(&gpu, 1, 3), OK);
    move_state(&gpu, &after);
    ck_assert_int_eq(train(&after, 3, EPOCHS), OK);
    assert_near(gpu.losses[1], whole.losses[1], "loss", 1);
    assert_near(gpu.losses[2], whole.losses[2], "loss", 2);
    assert_near(after.losses[3], whole.losses[3], "loss", 3);
    rank_close(&whole);
    rank_close(&before);
    rank_close(&gpu);
    rank_close(&after);
}
END_TEST

/* Momentum alone moves the parameters then. */
START_TEST(a_batch_without_rows_is_a_step_all_the_same)
{
    struct rank gpu = opened(true);
    struct trainer_result first, none, again;
    ck_assert_int_eq(step(&gpu, 0, GLOBAL, &first), OK);
    ck_assert_int_eq(step(&gpu, 0, 0, &none), OK);
    ck_assert_uint_eq(none.count, 0);
    ck_assert(none.loss == 0);
    ck_assert_int_eq(step(&gpu, 0, GLOBAL, &again), OK);
    ck_assert_uint_eq(again.count, GLOBAL);
    rank_close(&gpu);
}
END_TEST

static const struct {
    const char *fail, *words;
} FAILURES[] = {
    {"cuModuleLoadData:3:719", "cuModuleLoadData of conv: cudaErrorLaunchFailure"},
    {"cuModuleGetFunction:1:719", "cuModuleGetFunction of normalize_f32_nchw in step 0"},
    {"cuLaunchKernel:2:719", "cuLaunchKernel of conv_16 in step 0"},
    {"cuLaunchKernel:50:719", " in step 1: cudaErrorLaunchFailure"},
    {"cudaMemsetAsync:2:719", "cudaMemsetAsync in step 1"},
    {"cudaStreamWaitEvent:2:719", "cudaStreamWaitEvent in step 1"},
    {"cudaMalloc:2:2", "cudaMalloc: no "},
    /* A kernel that fails while it runs is found where the CPU next looks. */
    {"kernel:5:700", "step 0"},
};

static enum status two_steps(struct rank *r)
{
    struct trainer_result result;
    TRY(rank_open(r));
    TRY(step(r, 0, GLOBAL, &result));
    return step(r, 1, GLOBAL, &result);
}

START_TEST(a_failure_names_call_kernel_and_step)
{
    struct rank r = {.world = 1, .on_gpu = true};
    ck_assert_int_eq(setenv("HR_FAKE_CUDA_FAIL", FAILURES[_i].fail, 1), 0);
    const bool is_room = strstr(FAILURES[_i].fail, "cudaMalloc") != NULL;
    ck_assert_int_eq(two_steps(&r), is_room ? ERR_RESOURCE : ERR_DEVICE);
    ck_assert_msg(strstr(r.err.message, FAILURES[_i].words) != NULL, "'%s' lacks '%s'",
                  r.err.message, FAILURES[_i].words);
    rank_close(&r);
}
END_TEST

START_TEST(a_binary_without_kernels_for_the_card_says_so)
{
    static const struct kernel_image none[] = {{NULL, 0, false, NULL, NULL}};
    static const struct kernel_images empty = {"", none};
    struct rank r = {.world = 1, .on_gpu = true, .images = &empty};
    ck_assert_int_eq(rank_open(&r), ERR_DEVICE);
    ck_assert_msg(strstr(r.err.message, "built without") != NULL, "%s", r.err.message);
    rank_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer_cuda");
    TCase *tc = tcase_create("trainer_cuda");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, a_rank_on_a_gpu_learns_what_the_host_learns);
    tcase_add_test(tc, two_ranks_on_gpus_learn_what_two_hosts_learn);
    tcase_add_test(tc, a_checkpoint_moves_between_host_and_gpu);
    tcase_add_test(tc, a_batch_without_rows_is_a_step_all_the_same);
    tcase_add_loop_test(tc, a_failure_names_call_kernel_and_step, 0, (int)ARRAY_LEN(FAILURES));
    tcase_add_test(tc, a_binary_without_kernels_for_the_card_says_so);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
