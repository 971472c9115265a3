/* SPDX-License-Identifier: Apache-2.0 */
/*
 * msg_decode over any bytes, twice: as they come, and with the envelope made to hold, so that the
 * payload's own checks are reached. What is decoded must encode to the same message again.
 */
#include <string.h>

#include "common/wire.h"
#include "fuzz/fuzz.h"
#include "fuzz/fuzz_seal.h"
#include "support/random_msg.h"

static void decode(const uint8_t *frame, size_t count)
{
    struct msg msg;
    struct err err = {0};
    if (msg_decode(frame, count, &msg, &err) != OK) {
        CHECK(err.status == ERR_PEER_WRONG && err.message[0] != '\0');
        return;
    }
    uint8_t again[MSG_BYTES_MAX];
    struct msg second;
    const size_t encoded = msg_encode(&msg, again);
    CHECK(encoded == count);
    CHECK(msg_decode(again, encoded, &second, &err) == OK && msg_equal(&msg, &second));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    decode(bytes, count);
    uint8_t frame[MSG_BYTES_MAX];
    if (count >= WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES && count <= sizeof(frame)) {
        memcpy(frame, bytes, count);
        fuzz_seal(frame, count);
        decode(frame, count);
    }
    return 0;
}
