/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PNG decoder over any bytes, twice: as they come, and with the chunks' checksums made to hold,
 * so that what lies behind them is reached.
 */
#include "fuzz/fuzz_image.h"

enum { SIGNATURE_BYTES = 8, CHUNK_BYTES = 12 };

/* CRC-32 as PNG defines it. */
static uint32_t crc32_of(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
        }
    }
    return ~crc;
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void seal(uint8_t *bytes, size_t count)
{
    size_t at = SIGNATURE_BYTES;
    while (count >= CHUNK_BYTES && at <= count - CHUNK_BYTES) {
        const size_t length = get32(bytes + at);
        if (length > count - CHUNK_BYTES - at) {
            return;
        }
        const uint32_t crc = crc32_of(bytes + at + 4, length + 4);
        for (size_t i = 0; i < 4; i++) {
            bytes[at + 8 + length + i] = (uint8_t)(crc >> (24 - 8 * i));
        }
        at += CHUNK_BYTES + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    fuzz_image(bytes, count);
    uint8_t *sealed = malloc(count + 1);
    CHECK(sealed != NULL);
    memcpy(sealed, bytes, count);
    seal(sealed, count);
    fuzz_image(sealed, count);
    free(sealed);
    return 0;
}
