/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the pictures of `headrace gen` are good for: the reference trainer learns them with
 * examples/demo.json as it stands (order, crops, epochs and learning rate), linear classifiers on
 * colours and thumbnails do not, and shuffled labels teach nothing. One rank, without the feed.
 */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>

#include "common/config.h"
#include "common/index.h"
#include "consumer/trainer.h"
#include "producer/sample.h"
#include "producer/sample_file.h"
#include "support/random.h"
#include "support/suite.h"
#include "support/tree.h"

enum { CLASSES = 8, THREADS = 2, SKIPPED = 77 };

/* ---- the data set ---- */

struct set {
    struct index *index;
    int fd;
    uint64_t count;
    int64_t *labels;
    uint8_t **files;
    uint64_t *bytes;
};

static struct tree tree;
static struct config config;
static struct set train, test;

static void generate(void)
{
    const char *binary = getenv("HR_BINARY");
    const char *folder = tree_path(&tree, "data");
    ck_assert_ptr_nonnull(binary);
    fflush(NULL);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        execl(binary, "headrace", "gen", folder, "--classes", "8", "--images", "2000", "--seed",
              "1", (char *)NULL);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static void set_open(struct set *set, const char *name)
{
    struct err err = {0};
    const char *root = tree_path(&tree, "data");
    const struct index_options options = {.data_root = root, .data = name};
    ck_assert_msg(index_open(&options, &set->index, &err) == OK, "%s", err.message);
    ck_assert_uint_eq(index_classes(set->index), CLASSES);
    set->fd = open(index_folder(set->index), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    set->count = index_samples(set->index);
    set->labels = calloc(set->count, sizeof(*set->labels));
    set->files = calloc(set->count, sizeof(*set->files));
    set->bytes = calloc(set->count, sizeof(*set->bytes));
    for (uint64_t i = 0; i < set->count; i++) {
        struct index_entry entry;
        index_get(set->index, i, &entry);
        set->labels[i] = entry.label;
        set->bytes[i] = entry.bytes;
        set->files[i] = malloc(entry.bytes);
        ck_assert_msg(sample_file_read(set->fd, &entry, set->files[i], &err) == OK, "%s",
                      err.message);
    }
}

static void set_close(struct set *set)
{
    for (uint64_t i = 0; i < set->count; i++) {
        free(set->files[i]);
    }
    free(set->files);
    free(set->bytes);
    free(set->labels);
    close(set->fd);
    index_free(&set->index);
}

static void load_config(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/examples/demo.json", getenv("HR_SOURCE_DIR"));
    char program[] = "test";
    char *argv[] = {program, NULL};
    char *nothing[] = {NULL};
    const struct config_sources sources = {
        .argc = 1, .argv = argv, .environ_list = nothing, .config_path = path};
    int rest;
    struct err err = {0};
    ck_assert_msg(config_load(&sources, &config, &rest, &err) == OK, "%s", err.message);
}

static void setup(void)
{
    tree = tree_make();
    load_config();
    generate();
    set_open(&train, "train");
    set_open(&test, "test");
}

static void teardown(void)
{
    set_close(&train);
    set_close(&test);
    config_fini(&config);
    tree_remove(&tree);
}

/* ---- decoding by several threads ---- */

struct job {
    const struct set *set;
    const struct pipeline *pipeline;
    const struct plan *plan; /* NULL: in the order of ids */
    uint32_t epoch, thread;
    uint8_t *pixels;  /* out, by position */
    int64_t *labels;  /* out */
    uint64_t decoded; /* out */
};

static void *run_job(void *context)
{
    struct job *job = context;
    const struct pipeline *pipeline = job->pipeline;
    const size_t size = (size_t)pipeline->height * pipeline->width * 3;
    struct sample_maker *maker = NULL;
    struct err err = {0};
    if (sample_maker_new(pipeline, &maker, &err) != OK) {
        return NULL;
    }
    for (uint64_t p = job->thread; p < job->set->count; p += THREADS) {
        const uint64_t id = job->plan != NULL ? plan_sample(job->plan, job->epoch, p) : p;
        const struct rng_at at = {
            .key = job->plan != NULL ? job->plan->key : 0, .position = p, .epoch = job->epoch};
        const enum status status = sample_make(maker, job->set->files[id], job->set->bytes[id], &at,
                                               job->pixels + p * size, NULL, &err);
        job->decoded += status == OK;
        job->labels[p] = job->set->labels[id];
    }
    sample_maker_free(&maker);
    return NULL;
}

static void decode(const struct set *set, const struct pipeline *pipeline, const struct plan *plan,
                   uint32_t epoch, uint8_t *pixels, int64_t *labels)
{
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    uint64_t decoded = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){set, pipeline, plan, epoch, i, pixels, labels, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        decoded += jobs[i].decoded;
    }
    ck_assert_uint_eq(decoded, set->count);
}

/* ---- the reference trainer ---- */

struct learner {
    const struct stream_config *stream, *eval;
    struct layout layout;
    struct plan plan;
    struct coll *coll;
    struct trainer *trainer;
    size_t picture_bytes;
    uint8_t *pixels, *test_pixels;
    int64_t *labels, *test_labels;
};

static void learner_init(struct learner *l)
{
    struct err err = {0};
    l->stream = config_stream(&config, "train");
    l->eval = config_stream(&config, "eval");
    const struct pipeline *pipeline = &l->stream->pipeline;
    l->picture_bytes = (size_t)pipeline->height * pipeline->width * 3;
    ck_assert_int_eq(layout_init((uint32_t)config.global_batch, pipeline->height, pipeline->width,
                                 3, &l->layout, &err),
                     OK);
    const struct plan_options plan_options = {
        .stream = l->stream->name,
        .seed = (uint64_t)config.seed,
        .samples = train.count,
        .global_batch = (uint64_t)config.global_batch,
        .world = 1,
        .shuffle = l->stream->shuffle,
        .last = l->stream->last,
    };
    ck_assert_int_eq(plan_init(&plan_options, &l->plan, &err), OK);
    ck_assert_int_eq(coll_local.init(&(struct coll_options){.rank = 0, .size = 1}, &l->coll, &err),
                     OK);
    const struct trainer_options options = {
        .config = &config,
        .layout = &l->layout,
        .classes = CLASSES,
        .world = 1,
        .steps = l->plan.steps * (uint64_t)config.epochs,
        .coll_ops = &coll_local,
        .coll = l->coll,
    };
    ck_assert_int_eq(trainer_reference.open(&options, &l->trainer, &err), OK);
    l->pixels = malloc(train.count * l->picture_bytes);
    l->labels = calloc(train.count, sizeof(int64_t));
    l->test_pixels = malloc(test.count * l->picture_bytes);
    l->test_labels = calloc(test.count, sizeof(int64_t));
    decode(&test, &l->eval->pipeline, NULL, 0, l->test_pixels, l->test_labels);
}

static void learner_fini(struct learner *l)
{
    trainer_reference.close(&l->trainer);
    coll_local.free(&l->coll);
    free(l->pixels);
    free(l->labels);
    free(l->test_pixels);
    free(l->test_labels);
}

static double learn_epoch(struct learner *l)
{
    struct err err = {0};
    double loss = 0;
    for (uint64_t step = 0; step < l->plan.steps; step++) {
        uint64_t first;
        const uint32_t count = plan_batch(&l->plan, step, 0, &first);
        const struct trainer_batch batch = {.images = l->pixels + first * l->picture_bytes,
                                            .labels = l->labels + first,
                                            .count = count};
        struct trainer_result result;
        ck_assert_msg(trainer_reference.step(l->trainer, &batch, &result, &err) == OK, "%s",
                      err.message);
        loss += result.loss / (double)(l->plan.steps * count);
    }
    return loss;
}

static double accuracy(struct learner *l)
{
    struct err err = {0};
    const struct trainer_batch batch = {
        .images = l->test_pixels, .labels = l->test_labels, .count = (uint32_t)test.count};
    struct trainer_result result;
    ck_assert_int_eq(trainer_reference.evaluate(l->trainer, &batch, &result, &err), OK);
    return (double)result.correct / (double)result.count;
}

START_TEST(the_reference_trainer_learns_the_demo)
{
    struct learner l;
    learner_init(&l);
    double reached = 0;
    for (uint32_t epoch = 0; epoch < (uint32_t)config.epochs; epoch++) {
        decode(&train, &l.stream->pipeline, &l.plan, epoch, l.pixels, l.labels);
        const double loss = learn_epoch(&l);
        reached = accuracy(&l);
        printf("epoch %u: loss %.4f, accuracy %.4f\n", epoch, loss, reached);
    }
    ck_assert_msg(reached >= 0.95, "accuracy %.4f, wanted 0.95", reached);
    learner_fini(&l);
}
END_TEST

/* The labels of the pictures in memory stay shuffled the same way, so they can be learnt by heart;
 * on held-out pictures that is worth nothing. */
START_TEST(shuffled_labels_teach_nothing)
{
    struct random_state random = {random_seed()};
    struct learner l;
    learner_init(&l);
    decode(&train, &l.stream->pipeline, &l.plan, 0, l.pixels, l.labels);
    for (uint64_t i = train.count - 1; i > 0; i--) {
        const uint64_t other = random_u64(&random) % (i + 1);
        const int64_t label = l.labels[i];
        l.labels[i] = l.labels[other];
        l.labels[other] = label;
    }
    for (uint32_t epoch = 0; epoch < (uint32_t)config.epochs; epoch++) {
        learn_epoch(&l);
    }
    const double reached = accuracy(&l);
    printf("shuffled labels: accuracy %.4f\n", reached);
    /* 400 draws at 1/8 have a standard deviation of 1.7 %: this is six of them, and more. */
    ck_assert_msg(reached < 0.25, "accuracy %.4f with shuffled labels", reached);
    learner_fini(&l);
}
END_TEST

/* ---- linear classifiers ---- */

struct features {
    size_t count, width; /* of a row; the last is 1 */
    double *values;      /* owned */
    const int64_t *labels;
};

enum { THUMBNAIL = 8, THUMBNAIL_VALUES = THUMBNAIL * THUMBNAIL * 3 };

static uint8_t *thumbnails_of(const struct set *set, int64_t *labels)
{
    struct pipeline pipeline;
    struct err err = {0};
    ck_assert_int_eq(
        pipeline_parse("[{\"op\":\"decode\"},{\"op\":\"resize\",\"size\":[8,8]}]", &pipeline, &err),
        OK);
    uint8_t *pixels = malloc(set->count * THUMBNAIL_VALUES);
    decode(set, &pipeline, NULL, 0, pixels, labels);
    return pixels;
}

/* The means of a thumbnail's cells, each cell x cell pixels. */
static struct features features_of(const struct set *set, const uint8_t *pixels, size_t cell)
{
    struct features f = {.count = set->count, .labels = set->labels};
    const size_t cells = THUMBNAIL / cell; /* a side */
    f.width = cells * cells * 3 + 1;
    f.values = calloc(f.count * f.width, sizeof(double));
    for (size_t i = 0; i < f.count; i++) {
        double *row = f.values + i * f.width;
        for (size_t v = 0; v < THUMBNAIL_VALUES; v++) {
            const size_t x = v / 3 % THUMBNAIL / cell;
            const size_t y = v / 3 / THUMBNAIL / cell;
            const double value = pixels[i * THUMBNAIL_VALUES + v] / 127.5 - 1;
            row[(y * cells + x) * 3 + v % 3] += value / (double)(cell * cell);
        }
        row[f.width - 1] = 1;
    }
    return f;
}

static void score(const struct features *f, size_t row, const double *weights, double *out)
{
    for (size_t c = 0; c < CLASSES; c++) {
        out[c] = 0;
        for (size_t v = 0; v < f->width; v++) {
            out[c] += f->values[row * f->width + v] * weights[c * f->width + v];
        }
    }
}

static double linear_accuracy(const struct features *f, const double *weights)
{
    size_t correct = 0;
    for (size_t i = 0; i < f->count; i++) {
        double scores[CLASSES];
        size_t best = 0;
        score(f, i, weights, scores);
        for (size_t c = 1; c < CLASSES; c++) {
            best = scores[c] > scores[best] ? c : best;
        }
        correct += (int64_t)best == f->labels[i];
    }
    return (double)correct / (double)f->count;
}

/* Softmax regression by gradient descent, picture by picture. */
static void linear_epoch(const struct features *f, double rate, double *weights)
{
    for (size_t n = 0; n < f->count; n++) {
        const size_t i = n * 7919 % f->count; /* a prime: every picture once, classes mixed */
        double scores[CLASSES], sum = 0;
        score(f, i, weights, scores);
        for (size_t c = 0; c < CLASSES; c++) {
            scores[c] = exp(scores[c]);
            sum += scores[c];
        }
        for (size_t c = 0; c < CLASSES; c++) {
            const double error = scores[c] / sum - ((int64_t)c == f->labels[i]);
            for (size_t v = 0; v < f->width; v++) {
                weights[c * f->width + v] -= rate * error * f->values[i * f->width + v];
            }
        }
    }
}

/* The best over all epochs: more than an honest judge would grant. */
static double linear_best(const uint8_t *thumbnails, const uint8_t *test_thumbnails, size_t cell,
                          double *fitted_out)
{
    struct features on = features_of(&train, thumbnails, cell);
    struct features held_out = features_of(&test, test_thumbnails, cell);
    double *weights = calloc(CLASSES * on.width, sizeof(double));
    double best = 0;
    *fitted_out = 0;
    for (int epoch = 0; epoch < 60; epoch++) {
        linear_epoch(&on, 0.02 / (1 + epoch / 10.0), weights);
        best = fmax(best, linear_accuracy(&held_out, weights));
        *fitted_out = fmax(*fitted_out, linear_accuracy(&on, weights));
    }
    free(weights);
    free(on.values);
    free(held_out.values);
    return best;
}

START_TEST(linear_classifiers_stay_far_below)
{
    double colour_fit, thumbnail_fit;
    int64_t *labels = calloc(train.count + test.count, sizeof(int64_t));
    uint8_t *thumbnails = thumbnails_of(&train, labels);
    uint8_t *test_thumbnails = thumbnails_of(&test, labels);
    const double colour = linear_best(thumbnails, test_thumbnails, THUMBNAIL, &colour_fit);
    const double thumbnail = linear_best(thumbnails, test_thumbnails, 1, &thumbnail_fit);
    free(labels);
    free(thumbnails);
    free(test_thumbnails);
    printf("mean colour: accuracy %.4f (on training pictures %.4f)\n", colour, colour_fit);
    printf("8x8 thumbnail: accuracy %.4f (on training pictures %.4f)\n", thumbnail, thumbnail_fit);
    ck_assert_msg(colour < 0.5, "mean colour: %.4f", colour);
    ck_assert_msg(thumbnail < 0.5, "8x8 thumbnail: %.4f", thumbnail);
    /* They do fit what they see: the claim is not owed to a classifier that cannot learn. */
    ck_assert_double_gt(thumbnail_fit, 0.3);
}
END_TEST

int main(void)
{
    const char *sanitize = getenv("HR_SANITIZE");
    if (sanitize != NULL && sanitize[0] != '\0') {
        printf("skipped: minutes under a sanitizer; its parts have tests of their own\n");
        return SKIPPED;
    }
    Suite *suite = suite_create("learn");
    TCase *tc = tcase_create("learn");
    tcase_set_timeout(tc, 400);
    tcase_add_unchecked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_reference_trainer_learns_the_demo);
    tcase_add_test(tc, shuffled_labels_teach_nothing);
    tcase_add_test(tc, linear_classifiers_stay_far_below);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
