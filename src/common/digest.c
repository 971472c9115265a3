/* SPDX-License-Identifier: Apache-2.0 */
/* The stream digest. See digest.h. */
#include "common/digest.h"

#include <string.h>

#include "common/hash.h"

uint64_t digest_name(const char *stream)
{
    return hash64(stream, strlen(stream));
}

uint64_t digest_sample(uint64_t name, uint64_t epoch, uint64_t position, uint64_t sample_id,
                       uint64_t label, const void *pixels, size_t bytes)
{
    const uint64_t fields[] = {name, epoch, position, sample_id, label, hash64(pixels, bytes)};
    uint8_t record[8 * ARRAY_LEN(fields)];
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        hash_put64(record + 8 * i, fields[i]);
    }
    return hash64(record, sizeof(record));
}

uint64_t digest_batch(uint64_t name, uint64_t epoch, uint64_t first, uint32_t count,
                      const struct layout *layout, const void *batch)
{
    CHECK(count <= layout->rows);
    const uint8_t *base = batch;
    uint64_t sum = 0;
    for (uint64_t row = 0; row < count; row++) {
        const uint64_t sample_id = hash_get64(base + layout->sample_id_offset + 8 * row);
        const uint64_t label = hash_get64(base + layout->label_offset + 8 * row);
        sum += digest_sample(name, epoch, first + row, sample_id, label,
                             base + layout->image_offset + row * layout->sample_bytes,
                             layout->sample_bytes);
    }
    return sum;
}
