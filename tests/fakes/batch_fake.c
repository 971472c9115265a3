/* SPDX-License-Identifier: Apache-2.0 */
#include "fakes/batch_fake.h"

#include <string.h>

#include "common/hash.h"

static bool is_bad(const struct batch_fake *fake, uint64_t sample)
{
    return fake->bad_every != 0 && sample % fake->bad_every == 0;
}

uint32_t batch_fake_attempt(const struct batch_fake *fake, uint32_t epoch, uint64_t position,
                            uint64_t *sample_out)
{
    uint32_t attempt = 0;
    *sample_out = plan_sample(fake->plan, epoch, position);
    while (is_bad(fake, *sample_out)) {
        attempt++;
        *sample_out = plan_substitute(fake->plan, epoch, position, attempt);
    }
    return attempt;
}

/* A run of one value for every so many bytes. */
enum { RUN_BYTES = 4096 };

static void fill_sample(uint64_t sample, uint8_t *out, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += RUN_BYTES) {
        const uint32_t left = bytes - at;
        const int value = (int)((sample * 31 + at / RUN_BYTES * 7 + 1) & 0xFF);
        memset(out + at, value, left < RUN_BYTES ? left : RUN_BYTES);
    }
}

void batch_fake_fill(const struct batch_fake *fake, uint32_t epoch, uint64_t step, uint8_t *out)
{
    const struct layout *layout = fake->layout;
    uint64_t first = 0;
    const uint32_t count = plan_batch(fake->plan, step, fake->rank, &first);
    memset(out, 0, layout->bytes);
    for (uint32_t row = 0; row < layout->rows; row++) {
        uint64_t sample = UINT64_MAX;
        uint64_t label = UINT64_MAX;
        if (row < count) {
            batch_fake_attempt(fake, epoch, first + row, &sample);
            label = sample % BATCH_FAKE_CLASSES;
            fill_sample(sample, out + (uint64_t)row * layout->sample_bytes, layout->sample_bytes);
        }
        hash_put64(out + layout->label_offset + 8 * (uint64_t)row, label);
        hash_put64(out + layout->sample_id_offset + 8 * (uint64_t)row, sample);
    }
}

void batch_fake_part(const struct batch_fake *fake, uint32_t epoch, uint64_t step, uint32_t part,
                     const uint8_t *batch, struct msg_data *out)
{
    const struct layout *layout = fake->layout;
    *out = (struct msg_data){.epoch = epoch,
                             .step = step,
                             .part = part,
                             .part_count = layout->part_count,
                             .offset = layout_part_offset(layout, part),
                             .length = layout_part_length(layout, part)};
    const struct hash128 sum = hash128(batch + out->offset, out->length);
    out->sum_low = sum.low;
    out->sum_high = sum.high;
    uint64_t first = 0;
    uint32_t row = 0;
    uint32_t rows = 0;
    const uint32_t count = plan_batch(fake->plan, step, fake->rank, &first);
    layout_part_rows(layout, part, &row, &rows);
    for (const uint32_t end = row + rows; row < end && row < count; row++) {
        uint64_t taken = 0;
        const uint32_t attempt = batch_fake_attempt(fake, epoch, first + row, &taken);
        if (attempt > 0 && out->substitution_count < SUBST_MAX) {
            out->substitutions[out->substitution_count++] =
                (struct substitution){.row = row,
                                      .attempt = attempt,
                                      .bad = plan_sample(fake->plan, epoch, first + row),
                                      .taken = taken};
        }
    }
}

bool batch_fake_holds(const struct batch_fake *fake, uint32_t epoch, uint64_t step,
                      const uint8_t *batch, uint8_t *scratch)
{
    batch_fake_fill(fake, epoch, step, scratch);
    return memcmp(batch, scratch, fake->layout->bytes) == 0;
}
