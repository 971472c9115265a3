/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes around any bytes, so that a fuzzer comes past length and checksum. */
#ifndef HEADRACE_TESTS_FUZZ_FUZZ_SEAL_H
#define HEADRACE_TESTS_FUZZ_FUZZ_SEAL_H

#include <string.h>

#include "common/hash.h"
#include "common/wire.h"

/* Writes magic, version, length and checksum of a frame of count bytes, at least header and
 * trailer.
 */
static inline void fuzz_seal(uint8_t *frame, size_t count)
{
    static const uint8_t MAGIC_AND_VERSION[] = {'H', 'R', 'W', '1', WIRE_VERSION, 0};
    memcpy(frame, MAGIC_AND_VERSION, sizeof(MAGIC_AND_VERSION));
    for (size_t i = 0; i < 4; i++) {
        frame[8 + i] = (uint8_t)(count >> (8 * i));
    }
    hash_put64(frame + count - WIRE_TRAILER_BYTES, hash64(frame, count - WIRE_TRAILER_BYTES));
}

#endif
