/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a message frame: a writer and a reader that check every length, and the envelope that
 * all frames share (docs/PROTOCOL.md, "The envelope"). What the fields of a message are is not
 * known here: see msg.h. Pure; bytes are moved one by one, so no alignment and no byte order of the
 * machine matters.
 */
#ifndef HEADRACE_COMMON_WIRE_H
#define HEADRACE_COMMON_WIRE_H

#include "common/err.h"

enum {
    WIRE_VERSION = 1,
    WIRE_HEADER_BYTES = 24, /* magic, version, type, length, reserved, session */
    WIRE_TRAILER_BYTES = 8, /* checksum of all before it */
};

/* ---- writing: running out of room, or a value out of its range, is a mistake of ours (CHECK) ----
 */

struct wire_writer {
    uint8_t *bytes; /* borrowed */
    size_t capacity;
    size_t count; /* written so far */
};

/* Begins a frame in bytes[capacity] with its header. */
void wire_begin(struct wire_writer *w, void *bytes, size_t capacity, uint16_t type,
                uint64_t session);
/* Fills in length and checksum; returns the frame's length. */
size_t wire_end(struct wire_writer *w);

void wire_put8(struct wire_writer *w, uint8_t value);
void wire_put16(struct wire_writer *w, uint16_t value);
void wire_put32(struct wire_writer *w, uint32_t value);
void wire_put64(struct wire_writer *w, uint64_t value);
void wire_put_bytes(struct wire_writer *w, const void *bytes, size_t count);
/* As put32 and put64, for a field whose values lie in min..max. */
void wire_put32_in(struct wire_writer *w, uint32_t value, uint32_t min, uint32_t max);
void wire_put64_in(struct wire_writer *w, uint64_t value, uint64_t min, uint64_t max);

/* ---- reading: the first fault is kept, later calls return 0; wire_close reports it ---- */

struct wire_reader {
    const uint8_t *bytes; /* borrowed */
    size_t count;
    size_t at;
    const char *what; /* the message's name, for errors; the caller's, after wire_open */
    struct err *err;
    enum status status;
};

/*
 * Checks the envelope of a frame and stands at its payload. ERR_PEER_WRONG: too short, another
 * magic, version or length, reserved bits set, or a checksum that does not hold.
 */
MUST_USE enum status wire_open(struct wire_reader *r, const void *bytes, size_t count,
                               uint16_t *type_out, uint64_t *session_out, struct err *err);
/* OK when every field held and nothing is left over. */
MUST_USE enum status wire_close(struct wire_reader *r);

/* The version of a frame with an intact envelope, also when it is not ours; 0: no such frame. */
uint16_t wire_version(const void *bytes, size_t count);

/* field names the value in errors. A value outside min..max is a fault. */
uint8_t wire_get8(struct wire_reader *r, const char *field);
uint16_t wire_get16(struct wire_reader *r, const char *field);
uint32_t wire_get32(struct wire_reader *r, const char *field);
uint64_t wire_get64(struct wire_reader *r, const char *field);
uint32_t wire_get32_in(struct wire_reader *r, const char *field, uint32_t min, uint32_t max);
uint64_t wire_get64_in(struct wire_reader *r, const char *field, uint64_t min, uint64_t max);
/* count bytes of the frame, borrowed; NULL after a fault. */
const uint8_t *wire_get_bytes(struct wire_reader *r, const char *field, size_t count);
/* A fault that only the message's own rules know. Names the message, then the formatted text. */
void wire_fault(struct wire_reader *r, const char *format, ...) PRINTF(2, 3);

/*
 * Texts: a 32-bit count of bytes stands among the fixed fields, the bytes at the end of the
 * payload. wire_put_text writes those bytes, cut at a character boundary to what capacity allows
 * with its NUL; wire_text_bytes says how many that will be. wire_get_text reads count of them into
 * text[capacity], adds the NUL and makes the text printable.
 */
uint32_t wire_text_bytes(const char *text, size_t capacity);
void wire_put_text(struct wire_writer *w, const char *text, size_t capacity);
void wire_get_text(struct wire_reader *r, const char *field, size_t count, char *text,
                   size_t capacity);

/*
 * Replaces by '?', in place, each byte that is neither part of a well-formed UTF-8 sequence nor
 * printable: control characters (C0, DEL, C1) and the marks that turn the direction of text. True:
 * nothing was replaced.
 */
bool wire_make_printable(char *text, size_t count);

#endif
