/* SPDX-License-Identifier: Apache-2.0 */
#include "common/digest.h"

#include <string.h>

#include "common/hash.h"
#include "common/rng.h"
#include "support/suite.h"

enum { SAMPLES = 103, SIDE = 9, CHANNELS = 3, LABELS = 7 };

static void put64(uint8_t *at, uint64_t value)
{
    hash_put64(at, value);
}

/* What a producer would send: the pixels are a function of the sample id. */
static void fill_batch(const struct plan *plan, const struct layout *layout, uint32_t epoch,
                       uint64_t first, uint32_t count, uint8_t *batch)
{
    memset(batch, 0, layout->bytes);
    memset(batch + layout->label_offset, 0xFF, layout->bytes - layout->label_offset);
    for (uint32_t row = 0; row < count; row++) {
        const uint64_t id = plan_sample(plan, epoch, first + row);
        const struct rng_at at = {.key = id};
        uint8_t *pixels = batch + (size_t)row * layout->sample_bytes;
        for (uint32_t i = 0; i < layout->sample_bytes; i++) {
            pixels[i] = (uint8_t)rng_draw(&at, 0, i);
        }
        put64(batch + layout->label_offset + 8 * row, id % LABELS);
        put64(batch + layout->sample_id_offset + 8 * row, id);
    }
}

/* Changes one batch before it is added. */
typedef void (*harm_fn)(const struct layout *layout, uint8_t *batch);

struct damage {
    uint64_t step;
    harm_fn harm;
    bool twice, skip;
};

/* The digest of an epoch over all ranks, with one thing done to rank 0's batch of a step. */
static uint64_t epoch_digest(uint32_t world, enum last_kind last, const struct damage *damage)
{
    const struct plan_options options = {.stream = "train",
                                         .seed = 5,
                                         .samples = SAMPLES,
                                         .global_batch = 24,
                                         .world = world,
                                         .shuffle = SHUFFLE_FULL,
                                         .last = last};
    struct plan plan;
    struct layout layout;
    ck_assert_int_eq(plan_init(&options, &plan, NULL), OK);
    ck_assert_int_eq(layout_init((uint32_t)plan.rank_batch, SIDE, SIDE, CHANNELS, &layout, NULL),
                     OK);
    uint8_t *batch = calloc(1, layout.bytes);
    ck_assert_ptr_nonnull(batch);
    const uint64_t name = digest_name("train");
    uint64_t sum = 0;
    for (uint64_t step = 0; step < plan.steps; step++) {
        for (uint32_t rank = 0; rank < world; rank++) {
            uint64_t first;
            const uint32_t count = plan_batch(&plan, step, rank, &first);
            fill_batch(&plan, &layout, 2, first, count, batch);
            const bool here = damage != NULL && damage->step == step && rank == 0;
            if (here && damage->harm != NULL) {
                damage->harm(&layout, batch);
            }
            const uint64_t digest = digest_batch(name, 2, first, count, &layout, batch);
            sum += here && damage->skip ? 0 : digest;
            sum += here && damage->twice ? digest : 0;
        }
    }
    free(batch);
    return sum;
}

START_TEST(split_over_ranks_does_not_matter)
{
    static const uint32_t WORLDS[] = {2, 3, 4, 6, 8, 12, 24};
    for (int last = LAST_DROP; last <= LAST_PARTIAL; last++) {
        const uint64_t one = epoch_digest(1, (enum last_kind)last, NULL);
        for (size_t i = 0; i < ARRAY_LEN(WORLDS); i++) {
            ck_assert_uint_eq(epoch_digest(WORLDS[i], (enum last_kind)last, NULL), one);
        }
    }
    ck_assert_uint_ne(epoch_digest(1, LAST_DROP, NULL), epoch_digest(1, LAST_PARTIAL, NULL));
}
END_TEST

static void flip_first_bit(const struct layout *layout, uint8_t *batch)
{
    batch[0] ^= 1;
}

static void flip_last_pixel(const struct layout *layout, uint8_t *batch)
{
    batch[(size_t)layout->rows * layout->sample_bytes - 1] ^= 0x80;
}

static void swap64(uint8_t *a, uint8_t *b)
{
    uint8_t saved[8];
    ck_assert_mem_ne(a, b, 8);
    memcpy(saved, a, 8);
    memcpy(a, b, 8);
    memcpy(b, saved, 8);
}

/* Two different labels: rows 0 and the first whose label is another. */
static void swap_labels(const struct layout *layout, uint8_t *batch)
{
    uint8_t *labels = batch + layout->label_offset;
    uint32_t other = 1;
    while (memcmp(labels, labels + (size_t)8 * other, 8) == 0) {
        other++;
        ck_assert_uint_lt(other, layout->rows);
    }
    swap64(labels, labels + (size_t)8 * other);
}

static void swap_ids(const struct layout *layout, uint8_t *batch)
{
    swap64(batch + layout->sample_id_offset, batch + layout->sample_id_offset + 8);
}

static void swap_pictures(const struct layout *layout, uint8_t *batch)
{
    for (uint32_t i = 0; i < layout->sample_bytes; i++) {
        const uint8_t saved = batch[i];
        batch[i] = batch[layout->sample_bytes + i];
        batch[layout->sample_bytes + i] = saved;
    }
}

static void touch_padding(const struct layout *layout, uint8_t *batch)
{
    batch[layout->label_offset - 1] ^= 1;
}

START_TEST(every_damage_changes_it)
{
    const uint64_t good = epoch_digest(2, LAST_DROP, NULL);
    static const struct damage DAMAGES[] = {
        {.step = 1, .harm = flip_first_bit}, {.step = 3, .harm = flip_last_pixel},
        {.step = 0, .harm = swap_labels},    {.step = 2, .harm = swap_ids},
        {.step = 2, .harm = swap_pictures},  {.step = 1, .twice = true},
        {.step = 1, .skip = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(DAMAGES); i++) {
        ck_assert_msg(epoch_digest(2, LAST_DROP, &DAMAGES[i]) != good, "damage %zu is not seen", i);
    }
    const struct damage padding = {.step = 1, .harm = touch_padding};
    ck_assert_uint_eq(epoch_digest(2, LAST_DROP, &padding), good);
}
END_TEST

/* DESIGN 2: six little-endian 64-bit fields. */
START_TEST(a_sample_is_hashed_as_documented)
{
    uint8_t fields[48];
    put64(fields, hash64("eval", 4));
    put64(fields + 8, 3);
    put64(fields + 16, UINT64_C(0x0102030405060708));
    put64(fields + 24, 9);
    put64(fields + 32, UINT64_MAX); /* label -1 */
    put64(fields + 40, hash64("pixels", 6));
    ck_assert_uint_eq(digest_sample(digest_name("eval"), 3, UINT64_C(0x0102030405060708), 9,
                                    UINT64_MAX, "pixels", 6),
                      hash64(fields, sizeof(fields)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digest");
    TCase *tc = tcase_create("digest");
    tcase_add_test(tc, split_over_ranks_does_not_matter);
    tcase_add_test(tc, every_damage_changes_it);
    tcase_add_test(tc, a_sample_is_hashed_as_documented);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
