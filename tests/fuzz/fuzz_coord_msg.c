/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coord_msg_decode over any bytes, twice: as they come, and with the envelope made to hold, so that
 * the payload's own checks are reached. What is decoded must encode to the same message again.
 */
#include <string.h>

#include "common/coord_msg.h"
#include "common/wire.h"
#include "fuzz/fuzz.h"
#include "fuzz/fuzz_seal.h"

static void decode(const uint8_t *frame, size_t count)
{
    static struct coord_msg msg;
    static uint8_t again[COORD_MSG_BYTES_MAX];
    struct err err = {0};
    if (coord_msg_decode(frame, count, &msg, &err) != OK) {
        CHECK(err.status == ERR_PEER_WRONG && err.message[0] != '\0');
        return;
    }
    /* Texts may have been mended, so only the length is the same for sure; a second time all is. */
    static struct coord_msg second;
    static uint8_t third[COORD_MSG_BYTES_MAX];
    const size_t encoded = coord_msg_encode(&msg, again);
    CHECK(encoded == count);
    CHECK(coord_msg_decode(again, encoded, &second, &err) == OK);
    CHECK(coord_msg_encode(&second, third) == encoded && memcmp(again, third, encoded) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    decode(bytes, count);
    static uint8_t frame[COORD_MSG_BYTES_MAX];
    if (count >= WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES && count <= sizeof(frame)) {
        memcpy(frame, bytes, count);
        fuzz_seal(frame, count);
        decode(frame, count);
    }
    return 0;
}
