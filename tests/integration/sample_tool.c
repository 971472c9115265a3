/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's picture code as a program, for tests in other languages. Writes raw RGB to OUT and
 * numbers to stdout; exit code 65 and a reason on stderr for bad data.
 *
 *   sample_tool decode FILE OUT                         prints width and height
 *   sample_tool oracle FILE X Y WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT OUT
 *                                                       the tests' own restatement of Pillow
 *   sample_tool make FILE PIPELINE POSITION OUT         prints the first stage: crop (x, y, width,
 *                                                       height), scaled (width, height), window (x,
 *                                                       y, width, height), mirror
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer/op.h"
#include "producer/sample.h"
#include "support/pillow.h"

enum { FILE_BYTES = 1 << 26 };

static uint8_t *bytes;
static size_t count;

static _Noreturn void fail(const char *what, const struct err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    exit(err->status == OK ? EXIT_FAILURE : status_exit_code(err->status));
}

static void must(enum status status, const char *what, const struct err *err)
{
    if (status != OK) {
        fail(what, err);
    }
}

static void read_input(const char *path)
{
    FILE *file = fopen(path, "rbe");
    bytes = malloc(FILE_BYTES);
    if (file == NULL || bytes == NULL) {
        fail(path, &(struct err){.message = "cannot be read"});
    }
    count = fread(bytes, 1, FILE_BYTES, file);
    fclose(file);
}

static void write_output(const char *path, const struct picture *picture)
{
    FILE *file = fopen(path, "wbe");
    const size_t size = (size_t)picture->width * picture->height * 3;
    if (file == NULL || fwrite(picture->pixels, 1, size, file) != size || fclose(file) != 0) {
        fail(path, &(struct err){.message = "cannot be written"});
    }
}

static struct picture decode(const char *path)
{
    struct err err = {0};
    struct image_decoder *decoder = NULL;
    struct image_size size;
    struct image_view view;
    read_input(path);
    must(image_decoder_new(&decoder, &err), path, &err);
    must(image_open(decoder, bytes, count, &size, &err), path, &err);
    const struct image_rect all = {0, 0, size.width, size.height};
    must(image_read(decoder, &all, &view, &err), path, &err);
    struct picture picture = picture_new(size.width, size.height, 0);
    for (size_t y = 0; y < size.height; y++) {
        memcpy(picture.pixels + y * size.width * 3, view.pixels + y * view.stride_bytes,
               (size_t)size.width * 3);
    }
    image_decoder_free(&decoder);
    return picture;
}

static void run_decode(char **words)
{
    struct picture picture = decode(words[0]);
    printf("%u %u\n", picture.width, picture.height);
    write_output(words[1], &picture);
    picture_free(&picture);
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static void run_oracle(char **words)
{
    struct picture source = decode(words[0]);
    struct picture out =
        pillow_resize(&source, number(words[1]), number(words[2]), number(words[3]),
                      number(words[4]), number(words[5]), number(words[6]));
    write_output(words[7], &out);
    picture_free(&out);
    picture_free(&source);
}

static void print_stage(const struct pipeline *pipeline, const struct rng_at *at,
                        const struct image_size *size)
{
    struct err err = {0};
    struct geometry g;
    must(op_apply_all(pipeline, at, size, &g, &err), "pipeline", &err);
    const struct stage *s = &g.stages[0];
    printf("%u %u %u %u %u %u %lld %lld %u %u %d\n", s->crop.x, s->crop.y, s->crop.width,
           s->crop.height, s->scaled.width, s->scaled.height, (long long)s->x, (long long)s->y,
           s->width, s->height, s->mirror);
}

static void run_make(char **words)
{
    struct err err = {0};
    struct pipeline pipeline;
    struct sample_maker *maker = NULL;
    struct picture source = decode(words[0]);
    must(pipeline_parse(words[1], &pipeline, &err), "pipeline", &err);
    must(sample_maker_new(&pipeline, &maker, &err), "maker", &err);
    const struct rng_at at = {.key = 1, .position = number(words[2])};
    struct picture out = picture_new(pipeline.width, pipeline.height, 0);
    must(sample_make(maker, bytes, count, &at, out.pixels, NULL, &err), words[0], &err);
    const struct image_size size = {source.width, source.height};
    print_stage(&pipeline, &at, &size);
    write_output(words[3], &out);
    picture_free(&out);
    picture_free(&source);
    sample_maker_free(&maker);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int words;
        void (*run)(char **words);
    } MODES[] = {{"decode", 2, run_decode}, {"oracle", 8, run_oracle}, {"make", 4, run_make}};
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(MODES); i++) {
        if (strcmp(argv[1], MODES[i].name) == 0 && argc == MODES[i].words + 2) {
            MODES[i].run(argv + 2);
            free(bytes);
            return EXIT_SUCCESS;
        }
    }
    fprintf(stderr, "usage: see the top of sample_tool.c\n");
    return EXIT_USAGE;
}
