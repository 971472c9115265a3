/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder on real photographs, those in the folder that HR_IMAGES names: rectangles equal the
 * whole decode, and all CPU levels make the same sample. Skipped, visibly, without photographs.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "producer/cpu.h"
#include "producer/image.h"
#include "producer/sample.h"
#include "support/picture.h"
#include "support/random.h"
#include "support/suite.h"

enum { EXIT_SKIPPED = 77, FILE_BYTES = 1 << 24, RECTS = 6, SIDE = 224 };

static struct dirent **entries;
static int entry_count;
static char folder[4096];

static bool is_jpeg(const uint8_t *bytes, size_t count)
{
    return count > 3 && bytes[0] == 0xff && bytes[1] == 0xd8;
}

static size_t read_file(const char *name, uint8_t *out)
{
    char path[8192];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rbe");
    ck_assert_msg(file != NULL, "%s", path);
    const size_t count = fread(out, 1, FILE_BYTES, file);
    fclose(file);
    return count;
}

static void check_rects(struct image_decoder *decoder, struct random_state *random,
                        const char *name, const uint8_t *bytes, size_t count)
{
    struct picture whole = picture_of_jpeg(bytes, count);
    ck_assert_msg(whole.pixels != NULL, "%s", name);
    for (int i = 0; i < RECTS; i++) {
        struct err err = {0};
        struct image_size size;
        struct image_view view;
        ck_assert_msg(image_open(decoder, bytes, count, &size, &err) == OK, "%s: %s", name,
                      err.message);
        struct image_rect r = {.x = (uint32_t)random_in(random, 0, size.width - 1),
                               .y = (uint32_t)random_in(random, 0, size.height - 1)};
        r.width = (uint32_t)random_in(random, 1, size.width - r.x);
        r.height = (uint32_t)random_in(random, 1, size.height - r.y);
        ck_assert_msg(image_read(decoder, &r, &view, &err) == OK, "%s: %s", name, err.message);
        for (uint32_t y = 0; y < r.height; y++) {
            const uint8_t *want = whole.pixels + ((size_t)(r.y + y) * whole.width + r.x) * 3;
            if (memcmp(view.pixels + y * view.stride_bytes, want, (size_t)r.width * 3) != 0) {
                ck_abort_msg("%s: row %u of %ux%u at (%u, %u)", name, y, r.width, r.height, r.x,
                             r.y);
            }
        }
    }
    picture_free(&whole);
}

START_TEST(rectangles_equal_whole_decodes)
{
    struct random_state random = {random_seed()};
    struct image_decoder *decoder = NULL;
    struct err err = {0};
    ck_assert(image_decoder_new(&decoder, &err) == OK);
    uint8_t *bytes = malloc(FILE_BYTES);
    ck_assert_ptr_nonnull(bytes);
    int checked = 0;
    for (int i = 0; i < entry_count; i++) {
        const size_t count = read_file(entries[i]->d_name, bytes);
        if (is_jpeg(bytes, count)) {
            check_rects(decoder, &random, entries[i]->d_name, bytes, count);
            checked++;
        }
    }
    printf("%d photographs, %d rectangles of each\n", checked, RECTS);
    ck_assert_int_gt(checked, 0);
    free(bytes);
    image_decoder_free(&decoder);
}
END_TEST

static struct sample_maker *maker_at(enum cpu_level level)
{
    struct pipeline pipeline = {
        .op_count = 3, .height = SIDE, .width = SIDE, .channels = 3, .ops = {{.kind = OP_DECODE}}};
    pipeline.ops[1] = (struct op){.kind = OP_RANDOM_RESIZED_CROP,
                                  .height = SIDE,
                                  .width = SIDE,
                                  .scale = {0.08, 1.0},
                                  .ratio = {3.0 / 4.0, 4.0 / 3.0}};
    pipeline.ops[2] = (struct op){.kind = OP_HORIZONTAL_FLIP, .p = 0.5};
    struct sample_maker *maker = NULL;
    struct err err = {0};
    setenv("HEADRACE_CPU", cpu_level_name(level), 1);
    ck_assert_msg(sample_maker_new(&pipeline, &maker, &err) == OK, "%s", err.message);
    return maker;
}

START_TEST(levels_make_the_same_samples)
{
    static uint8_t want[SIDE * SIDE * 3];
    static uint8_t got[SIDE * SIDE * 3];
    struct random_state random = {random_seed()};
    uint8_t *bytes = malloc(FILE_BYTES);
    ck_assert_ptr_nonnull(bytes);
    struct sample_maker *scalar = maker_at(CPU_SCALAR);
    for (int level = CPU_SCALAR + 1; level < CPU_LEVELS; level++) {
        if (!cpu_supports((enum cpu_level)level)) {
            printf("skipped: this CPU has no %s\n", cpu_level_name((enum cpu_level)level));
            continue;
        }
        struct sample_maker *maker = maker_at((enum cpu_level)level);
        for (int i = 0; i < entry_count; i += 4) {
            struct err err = {0};
            const struct rng_at at = {random_u64(&random), random_u64(&random), 1};
            const size_t count = read_file(entries[i]->d_name, bytes);
            if (!is_jpeg(bytes, count)) {
                continue;
            }
            ck_assert_msg(sample_make(scalar, bytes, count, &at, want, NULL, &err) == OK, "%s",
                          err.message);
            ck_assert_msg(sample_make(maker, bytes, count, &at, got, NULL, &err) == OK, "%s",
                          err.message);
            ck_assert_msg(memcmp(want, got, sizeof(want)) == 0, "%s", entries[i]->d_name);
        }
        sample_maker_free(&maker);
    }
    sample_maker_free(&scalar);
    free(bytes);
}
END_TEST

static int is_visible(const struct dirent *entry)
{
    return entry->d_type == DT_REG && entry->d_name[0] != '.';
}

static bool find_photographs(void)
{
    const char *given = getenv("HR_IMAGES");
    const char *source = getenv("HR_SOURCE_DIR");
    if (given != NULL) {
        snprintf(folder, sizeof(folder), "%s", given);
    } else {
        snprintf(folder, sizeof(folder), "%s/../shared/images", source != NULL ? source : ".");
    }
    entry_count = scandir(folder, &entries, is_visible, alphasort);
    return entry_count > 0;
}

int main(void)
{
    if (!find_photographs()) {
        printf("skipped: no photographs in %s; set HR_IMAGES to a folder of them\n", folder);
        return EXIT_SKIPPED;
    }
    Suite *suite = suite_create("photographs");
    TCase *tc = tcase_create("photographs");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, rectangles_equal_whole_decodes);
    tcase_add_test(tc, levels_make_the_same_samples);
    suite_add_tcase(suite, tc);
    const int code = suite_main(suite);
    for (int i = 0; i < entry_count; i++) {
        free(entries[i]);
    }
    free(entries);
    return code;
}
