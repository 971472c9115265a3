/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in the table of unicode.def, whose rows are in rising order. */
#include "common/unicode.h"

#define UPPER(first, last, step, delta)
#define UPPER_MANY(point, a, b, c)
#define UNPRINTABLE(first, last)

#undef UPPER
#define UPPER(first, last, step, delta) {first, last, step, delta},
static const struct {
    uint32_t first, last;
    uint32_t step;
    int32_t delta;
} UPPERS[] = {
#include "common/unicode.def"
};
#undef UPPER
#define UPPER(first, last, step, delta)

#undef UPPER_MANY
#define UPPER_MANY(point, a, b, c) {point, {a, b, c}},
static const struct {
    uint32_t point;
    uint32_t upper[UPPER_POINTS_MAX];
} UPPERS_MANY[] = {
#include "common/unicode.def"
};
#undef UPPER_MANY
#define UPPER_MANY(point, a, b, c)

#undef UNPRINTABLE
#define UNPRINTABLE(first, last) {first, last},
static const struct {
    uint32_t first, last;
} UNPRINTABLES[] = {
#include "common/unicode.def"
};

size_t unicode_upper(uint32_t point, uint32_t out[UPPER_POINTS_MAX])
{
    for (size_t i = 0; i < ARRAY_LEN(UPPERS) && UPPERS[i].first <= point; i++) {
        if (point <= UPPERS[i].last && (point - UPPERS[i].first) % UPPERS[i].step == 0) {
            out[0] = (uint32_t)((int32_t)point + UPPERS[i].delta);
            return 1;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(UPPERS_MANY) && UPPERS_MANY[i].point <= point; i++) {
        if (point == UPPERS_MANY[i].point) {
            size_t count = 0;
            while (count < UPPER_POINTS_MAX && UPPERS_MANY[i].upper[count] != 0) {
                out[count] = UPPERS_MANY[i].upper[count];
                count++;
            }
            return count;
        }
    }
    out[0] = point;
    return 1;
}

bool unicode_is_printable(uint32_t point)
{
    size_t low = 0;
    size_t high = ARRAY_LEN(UNPRINTABLES);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (point > UNPRINTABLES[middle].last) {
            low = middle + 1;
        } else if (point < UNPRINTABLES[middle].first) {
            high = middle;
        } else {
            return false;
        }
    }
    return true;
}
