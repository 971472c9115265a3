/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The envelope, and the reader and writer. Invariant: count <= capacity in a writer, at <= count in
 * a reader; a reader with a fault never moves again.
 */
#include "common/wire.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/hash.h"

/* "HRW1" in the frame's first four bytes. */
#define WIRE_MAGIC UINT32_C(0x31575248)

enum { LENGTH_AT = 8 };

static void store(uint8_t *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t load(const uint8_t *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)in[i] << (8 * i);
    }
    return value;
}

/* ---- writer ---- */

static void put(struct wire_writer *w, uint64_t value, size_t bytes)
{
    CHECK(bytes <= w->capacity - w->count);
    store(w->bytes + w->count, value, bytes);
    w->count += bytes;
}

void wire_put8(struct wire_writer *w, uint8_t value)
{
    put(w, value, 1);
}

void wire_put16(struct wire_writer *w, uint16_t value)
{
    put(w, value, 2);
}

void wire_put32(struct wire_writer *w, uint32_t value)
{
    put(w, value, 4);
}

void wire_put64(struct wire_writer *w, uint64_t value)
{
    put(w, value, 8);
}

void wire_put32_in(struct wire_writer *w, uint32_t value, uint32_t min, uint32_t max)
{
    CHECK(value >= min && value <= max);
    put(w, value, 4);
}

void wire_put64_in(struct wire_writer *w, uint64_t value, uint64_t min, uint64_t max)
{
    CHECK(value >= min && value <= max);
    put(w, value, 8);
}

void wire_put_bytes(struct wire_writer *w, const void *bytes, size_t count)
{
    CHECK(count <= w->capacity - w->count);
    if (count > 0) {
        memcpy(w->bytes + w->count, bytes, count);
    }
    w->count += count;
}

void wire_begin(struct wire_writer *w, void *bytes, size_t capacity, uint16_t type,
                uint64_t session)
{
    *w = (struct wire_writer){.bytes = bytes, .capacity = capacity};
    wire_put32(w, WIRE_MAGIC);
    wire_put16(w, WIRE_VERSION);
    wire_put16(w, type);
    wire_put32(w, 0); /* the length: known in wire_end */
    wire_put32(w, 0);
    wire_put64(w, session);
}

size_t wire_end(struct wire_writer *w)
{
    const size_t length = w->count + WIRE_TRAILER_BYTES;
    CHECK(length <= UINT32_MAX);
    store(w->bytes + LENGTH_AT, length, 4);
    wire_put64(w, hash64(w->bytes, w->count));
    return w->count;
}

/* ---- reader ---- */

void wire_fault(struct wire_reader *r, const char *format, ...)
{
    if (r->status != OK) {
        return;
    }
    char text[ERR_MESSAGE_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    r->status = err_set(r->err, ERR_PEER_WRONG, "%s: %s", r->what, text);
}

const uint8_t *wire_get_bytes(struct wire_reader *r, const char *field, size_t count)
{
    if (r->status != OK) {
        return NULL;
    }
    if (count > r->count - r->at) {
        wire_fault(r, "%s: %zu bytes at offset %zu, but the payload ends at %zu", field, count,
                   r->at, r->count);
        return NULL;
    }
    const uint8_t *bytes = r->bytes + r->at;
    r->at += count;
    return bytes;
}

static uint64_t get(struct wire_reader *r, const char *field, size_t bytes)
{
    const uint8_t *in = wire_get_bytes(r, field, bytes);
    return in == NULL ? 0 : load(in, bytes);
}

uint8_t wire_get8(struct wire_reader *r, const char *field)
{
    return (uint8_t)get(r, field, 1);
}

uint16_t wire_get16(struct wire_reader *r, const char *field)
{
    return (uint16_t)get(r, field, 2);
}

uint32_t wire_get32(struct wire_reader *r, const char *field)
{
    return (uint32_t)get(r, field, 4);
}

uint64_t wire_get64(struct wire_reader *r, const char *field)
{
    return get(r, field, 8);
}

static uint64_t get_in(struct wire_reader *r, const char *field, size_t bytes, uint64_t min,
                       uint64_t max)
{
    const uint64_t value = get(r, field, bytes);
    if (r->status != OK) {
        return 0;
    }
    if (value < min || value > max) {
        wire_fault(r, "%s: got %" PRIu64 ", allowed %" PRIu64 " to %" PRIu64, field, value, min,
                   max);
        return 0;
    }
    return value;
}

uint32_t wire_get32_in(struct wire_reader *r, const char *field, uint32_t min, uint32_t max)
{
    return (uint32_t)get_in(r, field, 4, min, max);
}

uint64_t wire_get64_in(struct wire_reader *r, const char *field, uint64_t min, uint64_t max)
{
    return get_in(r, field, 8, min, max);
}

static bool envelope_holds(const uint8_t *bytes, size_t count)
{
    const size_t min = WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES;
    return count >= min && load(bytes, 4) == WIRE_MAGIC && load(bytes + LENGTH_AT, 4) == count &&
           load(bytes + count - WIRE_TRAILER_BYTES, WIRE_TRAILER_BYTES) ==
               hash64(bytes, count - WIRE_TRAILER_BYTES);
}

uint16_t wire_version(const void *bytes, size_t count)
{
    return envelope_holds(bytes, count) ? (uint16_t)load((const uint8_t *)bytes + 4, 2) : 0;
}

enum status wire_open(struct wire_reader *r, const void *bytes, size_t count, uint16_t *type_out,
                      uint64_t *session_out, struct err *err)
{
    const size_t min = WIRE_HEADER_BYTES + WIRE_TRAILER_BYTES;
    if (count < min) {
        return err_set(err, ERR_PEER_WRONG, "frame: %zu bytes, a frame has at least %zu", count,
                       min);
    }
    *r = (struct wire_reader){
        .bytes = bytes, .count = count - WIRE_TRAILER_BYTES, .what = "frame", .err = err};
    const uint32_t magic = wire_get32(r, "magic");
    const uint16_t version = wire_get16(r, "version");
    const uint16_t type = wire_get16(r, "type");
    const uint32_t length = wire_get32(r, "length");
    const uint32_t reserved = wire_get32(r, "reserved");
    const uint64_t session = wire_get64(r, "session");
    if (magic != WIRE_MAGIC) {
        wire_fault(r, "magic: got %08" PRIx32 ", wanted %08" PRIx32, magic, WIRE_MAGIC);
    } else if (length != count) {
        wire_fault(r, "length: the header says %" PRIu32 " bytes, %zu came", length, count);
    } else if (!envelope_holds(bytes, count)) {
        wire_fault(r, "checksum does not hold (%zu bytes)", count);
    } else if (version != WIRE_VERSION) {
        wire_fault(r,
                   "version: the peer speaks %u, this program speaks %d; use the same release "
                   "on all hosts",
                   version, WIRE_VERSION);
    } else if (reserved != 0) {
        wire_fault(r, "reserved: got %08" PRIx32 ", wanted 0", reserved);
    }
    TRY(r->status);
    *type_out = type;
    *session_out = session;
    return OK;
}

enum status wire_close(struct wire_reader *r)
{
    if (r->at != r->count) {
        wire_fault(r, "%zu bytes too many after the last field", r->count - r->at);
    }
    return r->status;
}

/* ---- texts ---- */

/* Bytes of the well-formed UTF-8 sequence at in that stands for a printable character; 0: none. */
static size_t printable_at(const uint8_t *in, size_t count)
{
    if (in[0] < 0x80) {
        return in[0] >= 0x20 && in[0] != 0x7F;
    }
    const size_t bytes = in[0] >= 0xF0 ? 4 : in[0] >= 0xE0 ? 3 : 2;
    if (in[0] < 0xC2 || in[0] > 0xF4 || bytes > count) {
        return 0;
    }
    uint32_t rune = in[0] & (0x7FU >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((in[i] & 0xC0) != 0x80) {
            return 0;
        }
        rune = rune << 6 | (in[i] & 0x3FU);
    }
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool well_formed =
        rune >= LEAST[bytes] && rune <= 0x10FFFF && (rune < 0xD800 || rune > 0xDFFF);
    const bool control = rune < 0xA0;
    const bool separator_or_direction = rune == 0x200E || rune == 0x200F ||
                                        (rune >= 0x2028 && rune <= 0x202E) ||
                                        (rune >= 0x2066 && rune <= 0x2069);
    return well_formed && !control && !separator_or_direction ? bytes : 0;
}

bool wire_make_printable(char *text, size_t count)
{
    bool unchanged = true;
    for (size_t at = 0; at < count;) {
        const size_t bytes = printable_at((const uint8_t *)text + at, count - at);
        if (bytes == 0) {
            text[at] = '?';
            unchanged = false;
        }
        at += bytes == 0 ? 1 : bytes;
    }
    return unchanged;
}

uint32_t wire_text_bytes(const char *text, size_t capacity)
{
    size_t count = strnlen(text, capacity);
    if (count == capacity) {
        count = capacity - 1;
        while (count > 0 && ((uint8_t)text[count] & 0xC0) == 0x80) {
            count--;
        }
    }
    return (uint32_t)count;
}

void wire_put_text(struct wire_writer *w, const char *text, size_t capacity)
{
    wire_put_bytes(w, text, wire_text_bytes(text, capacity));
}

void wire_get_text(struct wire_reader *r, const char *field, size_t count, char *text,
                   size_t capacity)
{
    if (count >= capacity) {
        wire_fault(r, "%s: %zu bytes, allowed up to %zu", field, count, capacity - 1);
    }
    const uint8_t *bytes = wire_get_bytes(r, field, count);
    if (bytes == NULL) {
        return;
    }
    memcpy(text, bytes, count);
    text[count] = '\0';
    wire_make_printable(text, count);
}
