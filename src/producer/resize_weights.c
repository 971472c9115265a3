/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed-point weights of a triangle filter, as Pillow documents it: support 1 when enlarging,
 * in/out when shrinking; weights outside the picture are left out and the rest normalised. The few
 * floating-point operations are IEEE's exact ones, so every CPU computes the same weights.
 */
#include "producer/resize_weights.h"

#include <stdlib.h>

struct window {
    double center, support, inverse; /* of the support */
    uint32_t min, end;               /* inputs min..end-1 */
};

static struct window window_of(uint32_t in, uint32_t out, uint32_t i)
{
    const double scale = (double)in / out;
    struct window w = {.center = (i + 0.5) * scale, .support = scale > 1.0 ? scale : 1.0};
    w.inverse = 1.0 / w.support;
    const double low = w.center - w.support + 0.5;
    const double high = w.center + w.support + 0.5;
    w.min = low > 0.0 ? (uint32_t)low : 0;
    w.end = high < in ? (uint32_t)high : in;
    return w;
}

static double triangle(const struct window *w, uint32_t input)
{
    const double distance = (input - w->center + 0.5) * w->inverse;
    const double weight = distance < 0.0 ? 1.0 + distance : 1.0 - distance;
    return weight > 0.0 ? weight : 0.0;
}

static double sum_of(const struct window *w, double *largest)
{
    double sum = 0.0;
    *largest = 0.0;
    for (uint32_t i = w->min; i < w->end; i++) {
        const double weight = triangle(w, i);
        sum += weight;
        *largest = weight > *largest ? weight : *largest;
    }
    return sum;
}

/* Rounds the running sum, not each weight: the weights then sum to exactly 2^bits, and an error
 * never adds up. */
static void quantise(const struct window *w, uint32_t bits, int16_t *weight)
{
    double largest = 0.0;
    const double scale = (double)(1U << bits) / sum_of(w, &largest);
    double sum = 0.0;
    int32_t before = 0;
    for (uint32_t i = w->min; i < w->end; i++) {
        sum += triangle(w, i);
        const int32_t now = i + 1 == w->end ? 1 << bits : (int32_t)(sum * scale + 0.5);
        weight[i - w->min] = (int16_t)(now - before);
        before = now;
    }
}

void resize_span(const struct resize_axis *axis, uint32_t *first_out, uint32_t *count_out)
{
    const struct window first = window_of(axis->in, axis->out, axis->first);
    const struct window last = window_of(axis->in, axis->out, axis->first + axis->count - 1);
    const uint32_t begin = first.min & ~1U; /* the kernels take inputs in pairs */
    *first_out = begin;
    *count_out = last.end - begin;
}

/* Most pairs that an output needs, and the most bits at which the largest weight stays below
 * 2^15. */
static void measure(struct resize_weights *table, uint32_t bits_max)
{
    double largest = 0.0;
    table->pairs = 1;
    for (uint32_t i = 0; i < table->out; i++) {
        const struct window w = window_of(table->in, table->out, i);
        double peak = 0.0;
        const double share = sum_of(&w, &peak);
        largest = peak / share > largest ? peak / share : largest;
        const uint32_t start = w.min / table->align * table->align;
        const uint32_t pairs = (w.end - start + 1) / 2;
        table->pairs = pairs > table->pairs ? pairs : table->pairs;
    }
    table->bits = 14;
    /* Rounding the running sum adds less than 1 to a weight. */
    while (table->bits < bits_max && largest * (double)(2U << table->bits) < 32766.0) {
        table->bits++;
    }
}

size_t resize_weights_bytes(uint32_t in, uint32_t out)
{
    const size_t taps = 2 * ((size_t)in / out + 3);
    return out * (taps * sizeof(int16_t) + sizeof(uint16_t));
}

static enum status reserve(struct resize_weights *table, struct err *err)
{
    const size_t weights = (size_t)table->out * 2 * table->pairs;
    const size_t bytes = weights * sizeof(int16_t) + table->out * sizeof(uint16_t);
    if (bytes > table->bytes) {
        int16_t *fresh = malloc(bytes);
        if (fresh == NULL) {
            return err_set(err, ERR_RESOURCE, "no memory for %zu bytes of resampling weights",
                           bytes);
        }
        free(table->weight);
        table->weight = fresh;
        table->bytes = bytes;
    }
    table->start = (uint16_t *)table->weight + weights;
    return OK;
}

enum status resize_weights_fill(struct resize_weights *table, uint32_t in, uint32_t out,
                                uint32_t align, uint32_t bits_max, struct err *err)
{
    table->in = in;
    table->out = out;
    table->align = align;
    measure(table, bits_max);
    const enum status status = reserve(table, err);
    if (status != OK) {
        table->in = 0;
        return status;
    }
    const uint32_t taps = 2 * table->pairs;
    for (uint32_t i = 0; i < out; i++) {
        const struct window w = window_of(in, out, i);
        const uint32_t start = w.min / align * align;
        int16_t *weight = table->weight + (size_t)i * taps;
        for (uint32_t k = 0; k < taps; k++) {
            weight[k] = 0;
        }
        quantise(&w, table->bits, weight + (w.min - start));
        table->start[i] = (uint16_t)start;
    }
    return OK;
}

void resize_weights_fini(struct resize_weights *table)
{
    free(table->weight);
    *table = (struct resize_weights){0};
}
