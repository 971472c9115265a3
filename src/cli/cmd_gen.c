/* SPDX-License-Identifier: Apache-2.0 */
/* headrace gen: a data set of pictures to try everything with, the same for the same options. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/gen_class.h"
#include "cli/gen_folder.h"
#include "cli/gen_jpeg.h"
#include "common/clock.h"
#include "common/option.h"
#include "common/thread.h"

static const char USAGE[] =
    "usage: headrace gen DIR [--classes N] [--images N] [--seed N]\n"
    "\n"
    "Draws JPEG pictures in the manner of photographs, of varied size, quality and chroma\n"
    "sampling, into one folder per class: four fifths below DIR/train, the rest below DIR/test.\n"
    "The class is the outline and the pattern of an object at any place, of any colour and turn.\n"
    "The same options give the same files on every CPU. A data set that is there already is left\n"
    "alone, an interrupted one is finished; nothing else is ever written over.\n"
    "\n"
    "  --classes N  2 to 64 (default: 8)\n"
    "  --images N   in all, at least 5 a class, at most 10000000 (default: 2000)\n"
    "  --seed N     0 to 9007199254740991 (default: 1)\n"
    "\n"
    "Exit codes: 0 ok, 64 usage, or DIR holds something else; 66 DIR's parent is missing, 71 no\n"
    "memory or threads, 74 it cannot be written.\n";

enum { IMAGES_MAX = 10000000, SPLIT_PARTS = 5, THREADS_MAX = 64 };

static const int64_t SEED_MAX = INT64_C(9007199254740991); /* as of the option seed */

/* ---- arguments ---- */

struct arguments {
    const char *dir;
    int64_t classes, images, seed;
};

struct number_option {
    const char *name;
    size_t offset;
    int64_t min, max;
};

static const struct number_option NUMBERS[] = {
    {"--classes", offsetof(struct arguments, classes), 2, GEN_CLASSES_MAX},
    {"--images", offsetof(struct arguments, images), 1, IMAGES_MAX},
    {"--seed", offsetof(struct arguments, seed), 0, SEED_MAX},
};

static enum status parse_number(const struct number_option *option, const char *text,
                                struct arguments *out, struct err *err)
{
    char *end;
    errno = 0;
    const long long value = text != NULL ? strtoll(text, &end, 10) : 0;
    if (text == NULL || *text == '\0' || *end != '\0' || errno != 0 || value < option->min ||
        value > option->max) {
        return err_set(err, ERR_USAGE,
                       "%s: found '%s', expected an integer from %" PRId64 " to %" PRId64,
                       option->name, text != NULL ? text : "nothing", option->min, option->max);
    }
    memcpy((char *)out + option->offset, &(int64_t){value}, sizeof(int64_t));
    return OK;
}

/* The option that the word names, as "--name" or "--name=value"; its value is the rest or NULL. */
static const struct number_option *find_option(const char *word, const char **value_out)
{
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        const size_t length = strlen(NUMBERS[i].name);
        if (strncmp(word, NUMBERS[i].name, length) == 0 &&
            (word[length] == '\0' || word[length] == '=')) {
            *value_out = word[length] == '=' ? word + length + 1 : NULL;
            return &NUMBERS[i];
        }
    }
    return NULL;
}

static enum status parse(int argc, char **argv, struct arguments *out, struct err *err)
{
    struct arguments a = {.classes = 8, .images = 2000, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        const struct number_option *option = find_option(argv[i], &value);
        if (option != NULL) {
            if (value == NULL && i + 1 < argc) {
                value = argv[++i];
            }
            TRY(parse_number(option, value, &a, err));
        } else if (argv[i][0] == '-') {
            char nearest[16];
            choice_nearest("--classes|--images|--seed", argv[i], nearest, sizeof(nearest));
            return err_set(err, ERR_USAGE, "unknown option '%s'; did you mean %s?", argv[i],
                           nearest);
        } else if (a.dir != NULL) {
            return err_set(err, ERR_USAGE, "one folder at a time, got '%s' and '%s'", a.dir,
                           argv[i]);
        } else {
            a.dir = argv[i];
        }
    }
    if (a.dir == NULL) {
        return err_set(err, ERR_USAGE, "which folder? usage: headrace gen DIR");
    }
    if (a.images < SPLIT_PARTS * a.classes) {
        return err_set(err, ERR_USAGE,
                       "--images: %" PRId64 " are too few for %" PRId64 " classes, wanted at least "
                       "%" PRId64 " (5 a class, so that each has a test picture)",
                       a.images, a.classes, SPLIT_PARTS * a.classes);
    }
    *out = a;
    return OK;
}

/* ---- work ---- */

struct work {
    struct gen_plan plan;
    uint32_t train; /* pictures 0..train-1 of the plan are for training, the rest are the test's */
    struct gen_folder folder;
    struct noise *noise;
    _Atomic(uint32_t) next;  /* picture to take */
    _Atomic(bool) stopping;  /* a worker failed */
    _Atomic(uint64_t) bytes; /* written */
};

struct worker {
    struct work *work;
    pthread_t thread;
    uint8_t pixels[GEN_PIXEL_BYTES_MAX];
    uint8_t jpeg[GEN_JPEG_BYTES_MAX];
    struct err err;
};

static enum status make_picture(struct worker *worker, uint32_t picture)
{
    struct work *work = worker->work;
    const bool is_test = picture >= work->train;
    const uint32_t number = is_test ? picture - work->train : picture;
    const struct gen_id id = {
        .seed = work->plan.seed,
        .split = is_test,
        .number = number,
        .class = number % work->plan.classes,
    };
    struct gen_format format;
    size_t bytes;
    gen_picture(work->noise, &id, worker->pixels, &format);
    TRY(gen_jpeg(worker->pixels, &format, worker->jpeg, &bytes, &worker->err));
    TRY(gen_folder_write(&work->folder, id.split, id.class, number, worker->jpeg, bytes,
                         &worker->err));
    atomic_fetch_add(&work->bytes, bytes);
    return OK;
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct work *work = worker->work;
    while (!atomic_load(&work->stopping)) {
        const uint32_t picture = atomic_fetch_add(&work->next, 1);
        if (picture >= work->plan.images) {
            break;
        }
        if (make_picture(worker, picture) != OK) {
            atomic_store(&work->stopping, true);
        }
    }
    return NULL;
}

static uint32_t thread_count(void)
{
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    const int cores = CPU_COUNT(&set);
    return cores < THREADS_MAX ? (uint32_t)cores : THREADS_MAX;
}

static enum status run_workers(struct work *work, struct err *err)
{
    const uint32_t wanted = thread_count();
    struct worker *workers = calloc(wanted, sizeof(*workers));
    if (workers == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %" PRIu32 " threads", wanted);
    }
    enum status status = OK;
    uint32_t started = 0;
    while (started < wanted && status == OK) {
        struct worker *worker = &workers[started];
        worker->work = work;
        status = thread_start("gen", run_worker, worker, &worker->thread, err);
        started += status == OK;
    }
    if (status != OK) {
        atomic_store(&work->stopping, true);
    }
    for (uint32_t i = 0; i < started; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        if (status == OK && workers[i].err.status != OK) {
            *err = workers[i].err;
            status = err->status;
        }
    }
    free(workers);
    return status;
}

static enum status generate(struct work *work, struct err *err)
{
    TRY(noise_new(work->plan.seed, &work->noise, err));
    TRY(gen_folder_make_classes(&work->folder, work->plan.classes, err));
    TRY(run_workers(work, err));
    return gen_folder_finish(&work->folder, &work->plan, err);
}

static int run(int argc, char **argv)
{
    struct err err = {0};
    struct arguments a;
    if (parse(argc, argv, &a, &err) != OK) {
        return cmd_fail("gen", &err);
    }
    struct work work = {
        .plan = {.classes = (uint32_t)a.classes,
                 .images = (uint32_t)a.images,
                 .seed = (uint64_t)a.seed},
        .train = (uint32_t)(a.images - a.images / SPLIT_PARTS),
    };
    if (gen_folder_open(a.dir, &work.plan, &work.folder, &err) != OK) {
        return cmd_fail("gen", &err);
    }
    const int64_t begin_ns = clock_now_ns();
    const bool was_there = work.folder.complete;
    const enum status status = was_there ? OK : generate(&work, &err);
    gen_folder_close(&work.folder);
    free(work.noise);
    if (status != OK) {
        return cmd_fail("gen", &err);
    }
    printf("%s: %" PRIu32 " pictures of %" PRIu32 " classes, %" PRIu32 " for training and %" PRIu32
           " for testing",
           a.dir, work.plan.images, work.plan.classes, work.train, work.plan.images - work.train);
    if (was_there) {
        printf("; they were there already\n");
    } else {
        printf("; %.1f MB in %.1f s\n", (double)atomic_load(&work.bytes) / 1e6,
               (double)(clock_now_ns() - begin_ns) / (double)NS_PER_S);
    }
    return EXIT_OK;
}

const struct cmd cmd_gen = {
    .name = "gen",
    .summary = "draw a data set of pictures to try everything with",
    .run = run,
    .usage = USAGE,
};
