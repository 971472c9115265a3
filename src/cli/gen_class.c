/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns are stripes and checkers at four widths. Their measure is the picture and not the
 * object, so that width tells classes apart although objects differ in size; each is 1.7 times the
 * next, wide enough for a crop's change of scale. The narrowest has a period of 3.5 pixels when
 * the shorter side becomes 64.
 */
#include "cli/gen_class.h"

#include <math.h>
#include <stdio.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double size_of(double x)
{
    return x < 0 ? -x : x;
}

/* ---- outlines: they fit into the unit circle ---- */

static const double SIN_60 = 0.8660254037844386;

static double disc(double x, double y)
{
    return 1 - sqrt(x * x + y * y);
}

static double square(double x, double y)
{
    return 0.7 - larger(size_of(x), size_of(y));
}

/* How far beyond the middle, towards the nearest side of a triangle with a flat top. */
static double towards_side(double x, double y)
{
    return larger(y, SIN_60 * size_of(x) - 0.5 * y);
}

static double triangle(double x, double y)
{
    return 0.5 - towards_side(x, y);
}

static double hexagon(double x, double y)
{
    return 0.86 - larger(size_of(x), 0.5 * size_of(x) + SIN_60 * size_of(y));
}

static double ellipse(double x, double y)
{
    return (1 - sqrt(x * x + 2.4 * y * y)) * 0.7;
}

static double cross(double x, double y)
{
    const double across = smaller(0.9 - size_of(x), 0.42 - size_of(y));
    const double down = smaller(0.42 - size_of(x), 0.9 - size_of(y));
    return larger(across, down);
}

static double star(double x, double y)
{
    return 0.5 - smaller(towards_side(x, y), towards_side(x, -y));
}

static double half_disc(double x, double y)
{
    return smaller(disc(x, y + 0.4) - 0.1, y + 0.4);
}

typedef double (*outline_fn)(double x, double y);

static const struct {
    const char *name;
    outline_fn distance;
} OUTLINES[] = {
    {"disc", disc},       {"square", square}, {"triangle", triangle}, {"hexagon", hexagon},
    {"ellipse", ellipse}, {"cross", cross},   {"star", star},         {"half_disc", half_disc},
};

/* ---- patterns ---- */

static const struct {
    const char *name;
    double period;
    bool checkered; /* else striped */
} PATTERNS[] = {
    {"thin_striped", 0.055, false},  {"broad_checkered", 0.26, true},
    {"broad_striped", 0.26, false},  {"thin_checkered", 0.055, true},
    {"striped", 0.092, false},       {"thick_checkered", 0.155, true},
    {"thick_striped", 0.155, false}, {"checkered", 0.092, true},
};

_Static_assert(ARRAY_LEN(PATTERNS) * ARRAY_LEN(OUTLINES) == GEN_CLASSES_MAX, "every pair once");

/* A zigzag of period 1 between -1 and 1. */
static double zigzag(double x)
{
    const double part = x - floor(x);
    return part < 0.5 ? 4 * part - 1 : 3 - 4 * part;
}

/* The first eight classes differ in both, all of them in at least one. */
static uint32_t pattern_of(uint32_t class)
{
    return class % ARRAY_LEN(PATTERNS);
}

static uint32_t outline_of(uint32_t class)
{
    return (class + class / ARRAY_LEN(PATTERNS)) % ARRAY_LEN(OUTLINES);
}

void gen_class_name(uint32_t class, char name[GEN_NAME_BYTES])
{
    CHECK(class < GEN_CLASSES_MAX);
    snprintf(name, GEN_NAME_BYTES, "%s_%s", PATTERNS[pattern_of(class)].name,
             OUTLINES[outline_of(class)].name);
}

double gen_class_outline(uint32_t class, double x, double y)
{
    return OUTLINES[outline_of(class)].distance(x, y);
}

double gen_class_pattern(uint32_t class, double x, double y)
{
    const double period = PATTERNS[pattern_of(class)].period;
    const double across = zigzag(x / period);
    const double height =
        PATTERNS[pattern_of(class)].checkered ? across * zigzag(y / period) : across;
    return height * period / 4;
}
