/* SPDX-License-Identifier: Apache-2.0 */
/* Code points, their order, and the distance between two names. */
#include "common/text.h"

#include <string.h>

#include "common/limits.h"

bool text_is_surrogate(int32_t point)
{
    return point >= 0xD800 && point <= 0xDFFF;
}

/* The length that a lead byte announces; 0: no lead byte. */
static size_t lead_bytes(unsigned char lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xC0 && lead < 0xE0) {
        return 2;
    }
    if (lead >= 0xE0 && lead < 0xF0) {
        return 3;
    }
    return lead >= 0xF0 && lead < 0xF8 ? 4 : 0;
}

int32_t text_decode(const char **at, const char *end)
{
    static const int32_t MIN[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)*at;
    const size_t count = lead_bytes(bytes[0]);
    if (count == 0 || count > (size_t)(end - *at)) {
        return -1;
    }
    int32_t point = count == 1 ? bytes[0] : bytes[0] & (0x7F >> count);
    for (size_t i = 1; i < count; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return -1;
        }
        point = point << 6 | (bytes[i] & 0x3F);
    }
    const bool is_long_nul = count == 2 && point == 0;
    if ((point < MIN[count] && !is_long_nul) || point > 0x10FFFF) {
        return -1;
    }
    *at += count;
    return point;
}

size_t text_encode(char out[POINT_BYTES_MAX], uint32_t point)
{
    CHECK(point <= 0x10FFFF);
    if (point != 0 && point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xC0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xE0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (point & 0x3F));
    return 4;
}

/* The next unit for comparing: a code point, or a stray byte as it is. */
static int32_t next_unit(const char **at, const char *end)
{
    const int32_t point = text_decode(at, end);
    if (point >= 0) {
        return point;
    }
    (*at)++;
    return (unsigned char)(*at)[-1];
}

int text_compare(const char *a, const char *b)
{
    const char *a_end = a + strlen(a);
    const char *b_end = b + strlen(b);
    while (a < a_end && b < b_end) {
        const int32_t from_a = next_unit(&a, a_end);
        const int32_t from_b = next_unit(&b, b_end);
        if (from_a != from_b) {
            return from_a < from_b ? -1 : 1;
        }
    }
    return (a < a_end) - (b < b_end);
}

static size_t digit_run(const char *text)
{
    return strspn(text, "0123456789");
}

/* By value, of any length; the runs are skipped. */
static int compare_numbers(const char **a, const char **b)
{
    const size_t a_len = digit_run(*a);
    const size_t b_len = digit_run(*b);
    const char *a_digits = *a + strspn(*a, "0");
    const char *b_digits = *b + strspn(*b, "0");
    *a += a_len;
    *b += b_len;
    const size_t a_count = (size_t)(*a - a_digits);
    const size_t b_count = (size_t)(*b - b_digits);
    if (a_count != b_count) {
        return a_count < b_count ? -1 : 1;
    }
    return memcmp(a_digits, b_digits, a_count);
}

int text_compare_natural(const char *a, const char *b)
{
    const char *a_start = a;
    const char *b_start = b;
    while (*a != '\0' && *b != '\0') {
        int order = 0;
        if (digit_run(a) > 0 && digit_run(b) > 0) {
            order = compare_numbers(&a, &b);
        } else {
            order = (unsigned char)*a++ - (unsigned char)*b++;
        }
        if (order != 0) {
            return order;
        }
    }
    if (*a != *b) {
        return *a == '\0' ? -1 : 1;
    }
    return strcmp(a_start, b_start); /* 01 and 1 */
}

size_t text_length(const char *text)
{
    const char *end = text + strlen(text);
    size_t count = 0;
    while (text < end) {
        (void)next_unit(&text, end);
        count++;
    }
    return count;
}

/* As the system's bytes have it: neither a surrogate nor a long NUL is UTF-8. */
static int32_t decode_strict(const char **at, const char *end)
{
    const char *first = *at;
    const int32_t point = text_decode(at, end);
    if (point > 0 && !text_is_surrogate(point)) {
        return point;
    }
    *at = first;
    return -1;
}

void text_from_bytes(const char *bytes, char *out, size_t size)
{
    const char *end = bytes + strlen(bytes);
    size_t len = 0;
    while (bytes < end) {
        char encoded[POINT_BYTES_MAX];
        int32_t point = decode_strict(&bytes, end);
        if (point < 0) {
            point = 0xDC00 | (unsigned char)*bytes++;
        }
        const size_t count = text_encode(encoded, (uint32_t)point);
        if (len + count >= size) {
            break;
        }
        memcpy(out + len, encoded, count);
        len += count;
    }
    out[len] = '\0';
}

bool text_to_bytes(char *text)
{
    const char *at = text;
    const char *end = text + strlen(text);
    char *target = text;
    while (at < end) {
        const char *first = at;
        const int32_t point = text_decode(&at, end);
        const bool is_byte = point >= 0xDC80 && point <= 0xDCFF;
        if (point <= 0 || (text_is_surrogate(point) && !is_byte)) {
            return false;
        }
        if (is_byte) {
            *target++ = (char)(point & 0xFF);
            continue;
        }
        memmove(target, first, (size_t)(at - first));
        target += at - first;
    }
    *target = '\0';
    return true;
}

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t low = a < b ? a : b;
    return low < c ? low : c;
}

uint32_t text_distance(const char *a, const char *b)
{
    const size_t a_len = strnlen(a, NAME_BYTES_MAX - 1);
    const size_t b_len = strnlen(b, NAME_BYTES_MAX - 1);
    uint32_t row[NAME_BYTES_MAX];
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = (uint32_t)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_len; j++) {
            const uint32_t replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = min3(row[j] + 1, row[j - 1] + 1, replace);
        }
    }
    return row[b_len];
}
