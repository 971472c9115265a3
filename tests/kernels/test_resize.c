/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resampler at one CPU level, named as the program's argument: random shapes, windows, strides
 * and mirroring, between guard bytes, on worst-case pixels. Every level must equal the scalar one
 * byte for byte; the scalar one must be within 1 of Pillow's.
 */
#include <stdio.h>
#include <string.h>

#include "producer/resize.h"
#include "support/pillow.h"
#include "support/random.h"
#include "support/suite.h"

enum {
    GUARD = 80,
    GUARD_BYTE = 0xa5,
    SOURCE_PAD = 64,
    EXIT_SKIPPED = 77,
};

static enum cpu_level level_under_test;

/* A source and a job over it. */
struct trial {
    struct picture source; /* with SOURCE_PAD bytes behind it */
    struct resize_job job;
    uint8_t *out; /* between guards, GUARD bytes of them also at each row's end */
    size_t out_bytes;
};

static struct resizer *resizer_at(enum cpu_level level)
{
    struct err err = {0};
    struct resizer *resizer = NULL;
    ck_assert_msg(resizer_new(level, &resizer, &err) == OK, "%s", err.message);
    return resizer;
}

/* Noise of whole range, of two values (the worst for a filter), or smooth. */
static struct picture source_new(struct random_state *random, uint32_t width, uint32_t height)
{
    const size_t bytes = (size_t)width * height * 3;
    struct picture p = {width, height, malloc(bytes + SOURCE_PAD)};
    ck_assert_ptr_nonnull(p.pixels);
    const uint64_t kind = random_u64(random) % 3;
    for (size_t i = 0; i < bytes + SOURCE_PAD; i++) {
        const uint64_t value = random_u64(random);
        p.pixels[i] = (uint8_t)(kind == 0 ? value : kind == 1 ? (value % 2) * 255 : i / 3);
    }
    return p;
}

static struct resize_axis axis_new(struct random_state *random, uint32_t in, uint32_t out)
{
    const uint32_t first = (uint32_t)random_in(random, 0, out - 1);
    const uint32_t count = (uint32_t)random_in(random, 1, out - first);
    const bool whole = random_u64(random) % 2 == 0;
    return (struct resize_axis){in, out, whole ? 0 : first, whole ? out : count};
}

static void set_pixels(struct trial *t)
{
    uint32_t x = 0;
    uint32_t y = 0;
    uint32_t unused = 0;
    resize_span(&t->job.x, &x, &unused);
    resize_span(&t->job.y, &y, &unused);
    t->job.stride_bytes = (size_t)t->source.width * 3;
    t->job.pixels = t->source.pixels + y * t->job.stride_bytes + (size_t)x * 3;
}

static void set_out(struct trial *t)
{
    const size_t stride = (size_t)t->job.x.count * 3 + GUARD;
    t->out_bytes = GUARD + t->job.y.count * stride;
    t->out = malloc(t->out_bytes);
    ck_assert_ptr_nonnull(t->out);
    memset(t->out, GUARD_BYTE, t->out_bytes);
    t->job.out = t->out + GUARD;
    t->job.out_stride_bytes = stride;
}

static struct trial trial_new(struct random_state *random, uint32_t in_max, uint32_t out_max)
{
    const uint32_t in_width = (uint32_t)random_in(random, 1, in_max);
    const uint32_t in_height = (uint32_t)random_in(random, 1, in_max);
    struct trial t = {.source = source_new(random, in_width, in_height)};
    t.job.x = axis_new(random, in_width, (uint32_t)random_in(random, 1, out_max));
    t.job.y = axis_new(random, in_height, (uint32_t)random_in(random, 1, out_max));
    t.job.mirror = random_u64(random) % 2 == 0;
    set_pixels(&t);
    set_out(&t);
    return t;
}

static void trial_free(struct trial *t)
{
    picture_free(&t->source);
    free(t->out);
}

static void run(struct resizer *resizer, const struct resize_job *job)
{
    struct err err = {0};
    ck_assert_msg(resizer_run(resizer, job, &err) == OK, "%s", err.message);
}

static void print_shape(const struct trial *t, char text[160])
{
    const struct resize_axis *x = &t->job.x;
    const struct resize_axis *y = &t->job.y;
    snprintf(text, 160, "%u->%u (%u+%u) x %u->%u (%u+%u)%s", x->in, x->out, x->first, x->count,
             y->in, y->out, y->first, y->count, t->job.mirror ? ", mirrored" : "");
}

static bool is_guard(const uint8_t *bytes)
{
    size_t i = 0;
    while (i < GUARD && bytes[i] == GUARD_BYTE) {
        i++;
    }
    return i == GUARD;
}

static void assert_guards(const struct trial *t)
{
    bool intact = is_guard(t->out);
    for (uint32_t y = 0; y < t->job.y.count; y++) {
        const uint8_t *row = t->job.out + y * t->job.out_stride_bytes;
        intact = intact && is_guard(row + (size_t)t->job.x.count * 3);
    }
    ck_assert_msg(intact, "written past a row's end");
}

static void assert_levels_equal(struct random_state *random, int trials, uint32_t in_max,
                                uint32_t out_max)
{
    struct resizer *scalar = resizer_at(CPU_SCALAR);
    struct resizer *resizer = resizer_at(level_under_test);
    for (int i = 0; i < trials; i++) {
        struct trial t = trial_new(random, in_max, out_max);
        char shape[160];
        print_shape(&t, shape);
        run(resizer, &t.job);
        assert_guards(&t);
        uint8_t *got = t.out;
        set_out(&t);
        run(scalar, &t.job);
        ck_assert_msg(memcmp(got, t.out, t.out_bytes) == 0, "%s", shape);
        free(got);
        trial_free(&t);
    }
    resizer_free(&resizer);
    resizer_free(&scalar);
}

START_TEST(equals_scalar)
{
    struct random_state random = {random_seed()};
    assert_levels_equal(&random, 400, 60, 60);
    assert_levels_equal(&random, 40, 500, 260);
    assert_levels_equal(&random, 8, 2000, 12);
}
END_TEST

static void assert_near_pillow(struct trial *t)
{
    const struct resize_axis *x = &t->job.x;
    const struct resize_axis *y = &t->job.y;
    struct picture want = pillow_resize(&t->source, 0, 0, x->in, y->in, x->out, y->out);
    char shape[160];
    print_shape(t, shape);
    for (uint32_t row = 0; row < y->count; row++) {
        for (uint32_t i = 0; i < x->count; i++) {
            const uint32_t column = t->job.mirror ? x->count - 1 - i : i;
            const uint8_t *a = t->job.out + row * t->job.out_stride_bytes + (size_t)column * 3;
            const uint8_t *b = want.pixels + ((size_t)(y->first + row) * x->out + x->first + i) * 3;
            for (int c = 0; c < 3; c++) {
                if (a[c] - b[c] < -1 || a[c] - b[c] > 1) {
                    ck_abort_msg("%s: (%u, %u): %d, wanted %d", shape, i, row, a[c], b[c]);
                }
            }
        }
    }
    picture_free(&want);
}

START_TEST(within_one_of_pillow)
{
    struct random_state random = {random_seed()};
    struct resizer *resizer = resizer_at(level_under_test);
    for (int i = 0; i < 150; i++) {
        const uint32_t limits[][2] = {{40, 40}, {300, 150}, {1000, 3}};
        const uint32_t *limit = limits[i % 3];
        struct trial t = trial_new(&random, limit[0], limit[1]);
        run(resizer, &t.job);
        assert_near_pillow(&t);
        trial_free(&t);
    }
    resizer_free(&resizer);
}
END_TEST

/* Nothing to do must change nothing, and a flat picture stays flat, whatever the rounding. */
START_TEST(keeps_what_is_there)
{
    struct random_state random = {random_seed()};
    struct resizer *resizer = resizer_at(level_under_test);
    for (uint32_t size = 1; size < 80; size++) {
        struct trial t = {.source = source_new(&random, size, size)};
        t.job.x = t.job.y = (struct resize_axis){size, size, 0, size};
        set_pixels(&t);
        set_out(&t);
        run(resizer, &t.job);
        for (uint32_t y = 0; y < size; y++) {
            ck_assert_mem_eq(t.job.out + y * t.job.out_stride_bytes,
                             t.source.pixels + (size_t)y * size * 3, (size_t)size * 3);
        }
        free(t.out);
        const uint8_t value = (uint8_t)(255 - size);
        memset(t.source.pixels, value, (size_t)size * size * 3);
        t.job.x = t.job.y = (struct resize_axis){size, 37, 0, 37};
        set_out(&t);
        run(resizer, &t.job);
        const uint8_t *last = t.job.out + 36 * t.job.out_stride_bytes;
        ck_assert_uint_eq(last[0], value);
        ck_assert_mem_eq(last, last + 1, (size_t)37 * 3 - 1);
        trial_free(&t);
    }
    resizer_free(&resizer);
}
END_TEST

/* The longest sides: the offsets and the tables must not overflow. */
START_TEST(longest_sides)
{
    struct random_state random = {random_seed()};
    const uint32_t lengths[][2] = {{65500, 1}, {65500, 224}, {1, 65500}, {3, 4096}};
    struct resizer *scalar = resizer_at(CPU_SCALAR);
    struct resizer *resizer = resizer_at(level_under_test);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        for (int turned = 0; turned < 2; turned++) {
            const uint32_t in = lengths[i][0];
            const struct resize_axis longest = {in, lengths[i][1], 0, lengths[i][1]};
            const struct resize_axis shortest = {5, 3, 0, 3};
            struct trial t = {.source = turned == 0 ? source_new(&random, in, 5)
                                                    : source_new(&random, 5, in)};
            t.job.x = turned == 0 ? longest : shortest;
            t.job.y = turned == 0 ? shortest : longest;
            set_pixels(&t);
            set_out(&t);
            run(resizer, &t.job);
            assert_guards(&t);
            uint8_t *got = t.out;
            set_out(&t);
            run(scalar, &t.job);
            ck_assert_mem_eq(got, t.out, t.out_bytes);
            free(got);
            trial_free(&t);
        }
    }
    resizer_free(&resizer);
    resizer_free(&scalar);
}
END_TEST

static bool find_level(const char *name)
{
    for (int i = 0; i < CPU_LEVELS; i++) {
        if (strcmp(name, cpu_level_name((enum cpu_level)i)) == 0) {
            level_under_test = (enum cpu_level)i;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc != 2 || !find_level(argv[1])) {
        fprintf(stderr, "usage: %s scalar|sse2|avx2|avx512\n", argv[0]);
        return EXIT_FAILURE;
    }
    if (!cpu_supports(level_under_test)) {
        printf("skipped: this CPU has no %s\n", argv[1]);
        return EXIT_SKIPPED;
    }
    Suite *suite = suite_create("resize");
    TCase *tc = tcase_create(argv[1]);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, equals_scalar);
    if (level_under_test == CPU_SCALAR) {
        tcase_add_test(tc, within_one_of_pillow);
    }
    tcase_add_test(tc, keeps_what_is_there);
    tcase_add_test(tc, longest_sides);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
