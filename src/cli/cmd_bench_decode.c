/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace bench decode: how fast this machine turns files into samples, with the producer's own
 * index, reading and sample maker, but without orders, parts and sockets. Each thread takes the
 * next picture, reads it, and makes its sample in a row of its own batch.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/cmd_bench.h"
#include "common/clock.h"
#include "common/index.h"
#include "common/json.h"
#include "common/thread.h"
#include "producer/cpu.h"
#include "producer/sample.h"
#include "producer/sample_file.h"

enum {
    BATCH_ROWS = 64,
    ROUNDS_DEFAULT = 5,
    ROUNDS_MAX = 100,
    THREADS_MAX = 1024,
    REASON_BYTES = 512,
};

static const char PIPELINE[] = "[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\",\"size\":224},"
                               "{\"op\":\"horizontal_flip\",\"p\":0.5}]";

struct options {
    const char *folder;
    uint32_t threads, rounds;
    bool json;
};

/* What is known of a picture; written only by the thread that has it in this round. */
struct picture {
    bool bad;
    char *reason; /* of a bad one */
};

struct bench {
    struct options options;
    struct pipeline pipeline;
    struct index *index;
    int folder_fd;
    uint64_t count;
    struct picture *pictures;
    struct worker *workers;
    uint32_t round;         /* the epoch of its crops */
    _Atomic(uint64_t) next; /* picture to take */
    _Atomic(bool) stopping; /* a worker failed */
};

struct worker {
    struct bench *bench;
    pthread_t thread;
    struct sample_maker *maker;
    uint8_t *batch;
    uint8_t *file;
    size_t file_bytes;
    uint32_t row;
    /* of this round */
    uint64_t good;
    uint64_t read_ns, decode_ns, augment_ns;
    struct err err;
};

/* One round, or the median of each field over all rounds. */
struct result {
    double images_per_s, cpu_s_per_1000_images;
    double read_us, decode_us, augment_us; /* of a picture, on one thread */
};

/* ---- a round ---- */

static enum status grow_file(struct worker *worker, size_t bytes, struct err *err)
{
    if (bytes <= worker->file_bytes) {
        return OK;
    }
    uint8_t *fresh = malloc(bytes);
    if (fresh == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a file of %zu bytes", bytes);
    }
    free(worker->file);
    worker->file = fresh;
    worker->file_bytes = bytes;
    return OK;
}

static enum status make_sample(struct worker *worker, uint64_t sample, struct err *err)
{
    const struct bench *bench = worker->bench;
    const struct pipeline *pipeline = &bench->pipeline;
    const size_t sample_bytes = (size_t)pipeline->height * pipeline->width * pipeline->channels;
    struct index_entry entry;
    index_get(bench->index, sample, &entry);
    if (entry.bytes > FILE_BYTES_MAX) {
        return err_set(err, ERR_DATA, "a file of more than %d bytes", (int)FILE_BYTES_MAX);
    }
    const int64_t begin_ns = clock_now_ns();
    TRY(grow_file(worker, (size_t)entry.bytes, err));
    TRY(sample_file_read(bench->folder_fd, &entry, worker->file, err));
    const int64_t read_ns = clock_now_ns() - begin_ns;
    const struct rng_at at = {.key = 1, .position = sample, .epoch = bench->round};
    struct sample_times times;
    TRY(sample_make(worker->maker, worker->file, (size_t)entry.bytes, &at,
                    worker->batch + worker->row * sample_bytes, &times, err));
    worker->row = (worker->row + 1) % BATCH_ROWS;
    worker->good++;
    worker->read_ns += (uint64_t)read_ns;
    worker->decode_ns += times.decode_ns;
    worker->augment_ns += times.augment_ns;
    return OK;
}

static void note_bad(struct picture *picture, const char *reason)
{
    picture->bad = true;
    picture->reason = strdup(reason);
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct bench *bench = worker->bench;
    while (!atomic_load(&bench->stopping)) {
        const uint64_t sample = atomic_fetch_add(&bench->next, 1);
        if (sample >= bench->count) {
            return NULL;
        }
        if (bench->pictures[sample].bad) {
            continue;
        }
        const enum status status = make_sample(worker, sample, &worker->err);
        if (status == ERR_DATA) {
            note_bad(&bench->pictures[sample], worker->err.message);
        } else if (status != OK) {
            atomic_store(&bench->stopping, true);
        }
    }
    return NULL;
}

static enum status start_workers(struct bench *bench, struct err *err)
{
    atomic_store(&bench->next, 0);
    for (uint32_t i = 0; i < bench->options.threads; i++) {
        struct worker *worker = &bench->workers[i];
        worker->good = worker->read_ns = worker->decode_ns = worker->augment_ns = 0;
        worker->err.status = OK;
        const enum status status = thread_start("decode", run_worker, worker, &worker->thread, err);
        if (status == OK) {
            continue;
        }
        atomic_store(&bench->stopping, true);
        while (i-- > 0) {
            (void)pthread_join(bench->workers[i].thread, NULL);
        }
        return status;
    }
    return OK;
}

static enum status run_round(struct bench *bench, struct result *out, struct err *err)
{
    const int64_t begin_ns = clock_now_ns();
    const int64_t cpu_begin_ns = clock_process_cpu_ns();
    TRY(start_workers(bench, err));
    uint64_t good = 0;
    double read_ns = 0.0;
    double decode_ns = 0.0;
    double augment_ns = 0.0;
    const struct err *failed = NULL;
    for (uint32_t i = 0; i < bench->options.threads; i++) {
        struct worker *worker = &bench->workers[i];
        (void)pthread_join(worker->thread, NULL);
        good += worker->good;
        read_ns += (double)worker->read_ns;
        decode_ns += (double)worker->decode_ns;
        augment_ns += (double)worker->augment_ns;
        if (worker->err.status != OK && worker->err.status != ERR_DATA) {
            failed = &worker->err;
        }
    }
    if (failed != NULL) {
        *err = *failed;
        return err->status;
    }
    if (good == 0) {
        return err_set(err, ERR_DATA, "%s: none of %llu pictures could be decoded",
                       bench->options.folder, (unsigned long long)bench->count);
    }
    const double images = (double)good;
    out->images_per_s = images / ((double)(clock_now_ns() - begin_ns) / NS_PER_S);
    out->cpu_s_per_1000_images =
        (double)(clock_process_cpu_ns() - cpu_begin_ns) / NS_PER_S / images * 1000.0;
    out->read_us = read_ns / images / 1000.0;
    out->decode_us = decode_ns / images / 1000.0;
    out->augment_us = augment_ns / images / 1000.0;
    return OK;
}

/* Says each bad picture once, when it has been found. */
static uint64_t report_bad(struct bench *bench)
{
    uint64_t bad = 0;
    for (uint64_t i = 0; i < bench->count; i++) {
        struct picture *picture = &bench->pictures[i];
        bad += picture->bad;
        if (picture->reason != NULL) {
            struct index_entry entry;
            index_get(bench->index, i, &entry);
            fprintf(stderr, "headrace bench: %s: %s\n", entry.path, picture->reason);
            free(picture->reason);
            picture->reason = NULL;
        }
    }
    return bad;
}

/* ---- the whole ---- */

/* The median of one field of the results. */
static double median_at(const struct result *results, uint32_t count, size_t offset)
{
    double values[ROUNDS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&values[i], (const char *)&results[i] + offset, sizeof(double));
    }
    return bench_median(values, count);
}

#define MEDIAN(results, count, field) median_at((results), (count), offsetof(struct result, field))

static void print_text(const struct bench *bench, const struct result *r, uint64_t bad)
{
    const uint32_t threads = bench->options.threads;
    printf("%llu pictures, %llu bad, %u thread%s, median of %u rounds\n"
           "  images/s                %10.1f\n"
           "  images/s per core       %10.1f\n"
           "  CPU s per 1,000 images  %10.3f\n"
           "  of one picture, us: read %.1f, decode %.1f, augment %.1f\n",
           (unsigned long long)bench->count, (unsigned long long)bad, threads,
           threads == 1 ? "" : "s", bench->options.rounds, r->images_per_s,
           r->images_per_s / threads, r->cpu_s_per_1000_images, r->read_us, r->decode_us,
           r->augment_us);
}

static void print_json(const struct bench *bench, const struct result *r, uint64_t bad,
                       const char *level)
{
    char versions[256];
    const uint64_t fingerprint = sample_fingerprint(versions);
    printf("{\"bench\": \"decode\", \"images_per_s\": %.1f, \"images_per_s_per_core\": %.1f, "
           "\"cpu_s_per_1000_images\": %.4f, \"read_us\": %.2f, \"decode_us\": %.2f, "
           "\"augment_us\": %.2f, \"threads\": %u, \"rounds\": %u, \"images\": %llu, "
           "\"bad_images\": %llu, \"cpu\": \"%s\", \"fingerprint\": \"%016llx\", \"versions\": ",
           r->images_per_s, r->images_per_s / bench->options.threads, r->cpu_s_per_1000_images,
           r->read_us, r->decode_us, r->augment_us, bench->options.threads, bench->options.rounds,
           (unsigned long long)bench->count, (unsigned long long)bad, level,
           (unsigned long long)fingerprint);
    json_write_quoted(stdout, versions);
    printf("}\n");
}

static enum status measure(struct bench *bench, struct err *err)
{
    enum cpu_level level = CPU_SCALAR;
    TRY(cpu_level_get(&level, err));
    const uint32_t rounds = bench->options.rounds;
    struct result results[ROUNDS_MAX];
    uint64_t bad = 0;
    for (uint32_t i = 0; i < rounds + 1; i++) {
        struct result *result = &results[i == 0 ? 0 : i - 1]; /* the first one only warms up */
        bench->round = i;
        TRY(run_round(bench, result, err));
        bad = report_bad(bench);
    }
    const struct result median = {
        .images_per_s = MEDIAN(results, rounds, images_per_s),
        .cpu_s_per_1000_images = MEDIAN(results, rounds, cpu_s_per_1000_images),
        .read_us = MEDIAN(results, rounds, read_us),
        .decode_us = MEDIAN(results, rounds, decode_us),
        .augment_us = MEDIAN(results, rounds, augment_us),
    };
    if (bench->options.json) {
        print_json(bench, &median, bad, cpu_level_name(level));
    } else {
        print_text(bench, &median, bad);
    }
    return OK;
}

static enum status open_data(struct bench *bench, struct err *err)
{
    char root[PATH_BYTES_MAX];
    if (realpath(bench->options.folder, root) == NULL) {
        return err_errno(err, ERR_MISSING, "%s", bench->options.folder);
    }
    const struct index_options options = {.data_root = root, .data = root};
    TRY(index_open(&options, &bench->index, err));
    bench->folder_fd = open(index_folder(bench->index), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (bench->folder_fd < 0) {
        return err_errno(err, ERR_IO, "%s", index_folder(bench->index));
    }
    bench->count = index_samples(bench->index);
    bench->pictures = calloc(bench->count, sizeof(*bench->pictures));
    if (bench->pictures == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a list of %llu pictures",
                       (unsigned long long)bench->count);
    }
    return OK;
}

static enum status make_workers(struct bench *bench, struct err *err)
{
    const struct pipeline *pipeline = &bench->pipeline;
    const size_t sample_bytes = (size_t)pipeline->height * pipeline->width * pipeline->channels;
    bench->workers = calloc(bench->options.threads, sizeof(*bench->workers));
    if (bench->workers == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %u threads", bench->options.threads);
    }
    for (uint32_t i = 0; i < bench->options.threads; i++) {
        struct worker *worker = &bench->workers[i];
        worker->bench = bench;
        worker->batch = malloc(BATCH_ROWS * sample_bytes);
        if (worker->batch == NULL) {
            return err_set(err, ERR_RESOURCE, "no memory for a batch of %d pictures", BATCH_ROWS);
        }
        TRY(sample_maker_new(pipeline, &worker->maker, err));
    }
    return OK;
}

static void fini(struct bench *bench)
{
    for (uint32_t i = 0; bench->workers != NULL && i < bench->options.threads; i++) {
        sample_maker_free(&bench->workers[i].maker);
        free(bench->workers[i].batch);
        free(bench->workers[i].file);
    }
    free(bench->workers);
    for (uint64_t i = 0; bench->pictures != NULL && i < bench->count; i++) {
        free(bench->pictures[i].reason);
    }
    free(bench->pictures);
    if (bench->folder_fd >= 0) {
        close(bench->folder_fd);
    }
    index_free(&bench->index);
}

static enum status run(struct bench *bench, struct err *err)
{
    TRY(pipeline_parse(PIPELINE, &bench->pipeline, err));
    TRY(open_data(bench, err));
    TRY(make_workers(bench, err));
    return measure(bench, err);
}

/* ---- the command line ---- */

static enum status parse(int argc, char **argv, struct options *out, struct err *err)
{
    *out = (struct options){.threads = thread_cores(), .rounds = ROUNDS_DEFAULT};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--json") == 0) {
            out->json = true;
        } else if (strcmp(word, "--threads") == 0) {
            TRY(bench_number(word, argv[++i], THREADS_MAX, &out->threads, err));
        } else if (strcmp(word, "--rounds") == 0) {
            TRY(bench_number(word, argv[++i], ROUNDS_MAX, &out->rounds, err));
        } else if (word[0] == '-' || out->folder != NULL) {
            return err_set(err, ERR_USAGE,
                           "decode: unexpected '%s'; it takes DIR, --threads N, --rounds R and "
                           "--json",
                           word);
        } else {
            out->folder = word;
        }
    }
    return out->folder != NULL ? OK : err_set(err, ERR_USAGE, "decode: which folder?");
}

int bench_decode(int argc, char **argv)
{
    struct err err = {0};
    struct bench bench = {.folder_fd = -1};
    enum status status = parse(argc, argv, &bench.options, &err);
    if (status == OK) {
        status = run(&bench, &err);
    }
    fini(&bench);
    return status == OK ? EXIT_OK : cmd_fail("bench", &err);
}
