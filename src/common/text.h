/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text inside the program: UTF-8 that ends with NUL and can hold, besides, everything that a text
 * of JSON can hold: a lone surrogate as its three bytes, and U+0000 as C0 80. So no text is cut at
 * a NUL, and bytewise order is the order of code points (but for U+0000). Pure.
 */
#ifndef HEADRACE_COMMON_TEXT_H
#define HEADRACE_COMMON_TEXT_H

#include "common/base.h"

enum { POINT_BYTES_MAX = 4 };

/* The code point at *at, which is moved behind it; -1 for bytes that are no code point (*at stays).
 * *at < end. */
int32_t text_decode(const char **at, const char *end);

/* Writes 1 to 4 bytes and returns how many; point <= 0x10FFFF. */
size_t text_encode(char out[POINT_BYTES_MAX], uint32_t point);

bool text_is_surrogate(int32_t point);

/* Below, at or above 0, in the order of code points, as Python sorts. */
int text_compare(const char *a, const char *b);

/* The natural order of names: numbers inside by value (algo-2 before algo-10), the rest bytewise; 0
 * for equal texts only. */
int text_compare_natural(const char *a, const char *b);

/* Number of code points; every byte that is none counts as one. */
size_t text_length(const char *text);

/*
 * Between texts and the bytes of the system (paths, environment), as Python's surrogateescape: a
 * byte that is no UTF-8 is the surrogate U+DC00 + byte. text_from_bytes cuts where out is full;
 * three times the bytes and a NUL always suffice. text_to_bytes works in place; false: the text
 * holds a U+0000 or another surrogate, which no bytes stand for.
 */
void text_from_bytes(const char *bytes, char *out, size_t size);
MUST_USE bool text_to_bytes(char *text);

/* The edit distance (insert, delete, replace) that picks the name to suggest for a misspelt one;
 * names are cut at 63 bytes. */
uint32_t text_distance(const char *a, const char *b);

#endif
