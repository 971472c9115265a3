/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest round trip of a double, by trying precisions upwards: 17 digits always suffice. */
#include "common/float_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 17 };

/* value = 0.DIGITS * 10^point */
struct decimal {
    char digits[DIGITS_MAX + 1];
    int point;
};

static double decimal_value(const struct decimal *decimal)
{
    char text[FLOAT_TEXT_BYTES];
    snprintf(text, sizeof(text), "0.%se%d", decimal->digits, decimal->point);
    return strtod(text, NULL);
}

/* The next decimal of as many digits, away from zero. */
static struct decimal decimal_above(struct decimal decimal)
{
    size_t i = strlen(decimal.digits);
    while (i > 0 && decimal.digits[i - 1] == '9') {
        decimal.digits[--i] = '0';
    }
    if (i > 0) {
        decimal.digits[i - 1]++;
        return decimal;
    }
    decimal.digits[0] = '1';
    decimal.point++;
    return decimal;
}

/*
 * The nearest decimal of some precision is tried first. Above a power of two the gap to the next
 * double is twice as wide as below it, so that the neighbour above may read back equal where the
 * nearest one does not (2^-44 is 5.684341886080802e-14).
 */
static struct decimal shortest(double magnitude)
{
    struct decimal decimal;
    for (int precision = 1;; precision++) {
        char text[FLOAT_TEXT_BYTES];
        snprintf(text, sizeof(text), "%.*e", precision - 1, magnitude);
        char *exponent = strchr(text, 'e');
        decimal.point = (int)strtol(exponent + 1, NULL, 10) + 1;
        decimal.digits[0] = text[0];
        decimal.digits[1] = '\0';
        if (precision > 1) {
            snprintf(decimal.digits + 1, sizeof(decimal.digits) - 1, "%.*s", precision - 1,
                     text + 2);
        }
        if (precision == DIGITS_MAX || decimal_value(&decimal) == magnitude) {
            return decimal;
        }
        const struct decimal above = decimal_above(decimal);
        if (decimal_value(&above) == magnitude) {
            return above;
        }
    }
}

static void write_exponent_form(const struct decimal *decimal, char *out, size_t size)
{
    const bool has_fraction = decimal->digits[1] != '\0';
    snprintf(out, size, "%c%s%se%+03d", decimal->digits[0], has_fraction ? "." : "",
             decimal->digits + 1, decimal->point - 1);
}

static void write_fixed_form(const struct decimal *decimal, char *out, size_t size)
{
    const int count = (int)strlen(decimal->digits);
    if (decimal->point <= 0) {
        snprintf(out, size, "0.%.*s%s", -decimal->point, "000", decimal->digits);
        return;
    }
    if (decimal->point >= count) {
        snprintf(out, size, "%s%.*s.0", decimal->digits, decimal->point - count,
                 "0000000000000000");
        return;
    }
    snprintf(out, size, "%.*s.%s", decimal->point, decimal->digits,
             decimal->digits + decimal->point);
}

void float_text(double value, char out[FLOAT_TEXT_BYTES])
{
    if (isnan(value)) {
        snprintf(out, FLOAT_TEXT_BYTES, "nan");
        return;
    }
    const size_t sign = signbit(value) ? 1 : 0;
    out[0] = '-';
    char *target = out + sign;
    const size_t size = FLOAT_TEXT_BYTES - sign;
    if (isinf(value) || value == 0) {
        snprintf(target, size, "%s", value == 0 ? "0.0" : "inf");
        return;
    }
    const struct decimal decimal = shortest(fabs(value));
    if (decimal.point <= -4 || decimal.point > 16) {
        write_exponent_form(&decimal, target, size);
    } else {
        write_fixed_form(&decimal, target, size);
    }
}
