/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resampler: finds or makes both axes' weights, then goes through the output in blocks of a few
 * rows, each first vertically, then horizontally, so that what lies between the passes stays in the
 * first-level cache. Pixels are touched only in the kernels.
 *
 * Why the result is within 1 of Pillow's. Pillow rounds to 8 bits after each pass, so it is off the
 * exact value by at most 0.5 + 0.5. Ours rounds once to F >= 4 bits of fraction (2^-5 at most) and
 * once to 8 bits (0.5), and its weights are off by less than 2^-bits each, which moves a value by
 * less than 255 * taps / 2^bits: 0.06 a pass at ordinary factors, and below 0.45 in both together
 * up to a factor of about 400. Two integers whose exact values are less than 2 apart differ by at
 * most 1.
 */
#include "producer/resize.h"

#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "producer/resize_kernels.h"

enum {
    TABLES = 512,                /* of weights kept for an axis, by length */
    TABLE_BYTES_MAX = 16 * 1024, /* of one that is kept; larger ones are made each time */
    FRACTION_BITS = 7,           /* between the passes; 255 * 2^7 fits 16 bits with a sign */
    VERTICAL_BITS_MAX = 22,      /* 255 * 2^22 fits 31 bits */
    HORIZONTAL_BITS_MAX = 19,    /* with the fraction: see fraction_bits() */
    SUM_BITS_MAX = 23,           /* 255 * 2^23 and its rounding still fit 31 bits */
    ALIGN_BYTES = RESIZE_VECTOR_BYTES,
};

struct axis_tables {
    struct resize_weights kept[TABLES];
    struct resize_weights large;
};

struct resizer {
    const struct resize_kernels *kernels;
    struct axis_tables x, y;
    uint8_t *scratch;
    size_t scratch_bytes;
    const uint8_t **taps; /* row pointers of one output row */
    size_t taps_count;
};

static const struct resize_kernels *kernels_of(enum cpu_level level)
{
#if defined(__x86_64__)
    static const struct resize_kernels *const KERNELS[CPU_LEVELS] = {
        [CPU_SCALAR] = &resize_scalar,
        [CPU_SSE2] = &resize_sse2,
        [CPU_AVX2] = &resize_avx2,
        [CPU_AVX512] = &resize_avx512,
    };
    return KERNELS[level];
#else
    return &resize_scalar;
#endif
}

enum status resizer_new(enum cpu_level level, struct resizer **out, struct err *err)
{
    CHECK(cpu_supports(level));
    struct resizer *resizer = calloc(1, sizeof(*resizer));
    if (resizer == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a resampler");
    }
    resizer->kernels = kernels_of(level);
    *out = resizer;
    return OK;
}

static void tables_fini(struct axis_tables *tables)
{
    for (size_t i = 0; i < TABLES; i++) {
        resize_weights_fini(&tables->kept[i]);
    }
    resize_weights_fini(&tables->large);
}

void resizer_free(struct resizer **resizer)
{
    if (*resizer == NULL) {
        return;
    }
    tables_fini(&(*resizer)->x);
    tables_fini(&(*resizer)->y);
    free((*resizer)->scratch);
    free((void *)(*resizer)->taps);
    free(*resizer);
    *resizer = NULL;
}

static enum status get_weights(struct axis_tables *tables, const struct resize_axis *axis,
                               uint32_t align, uint32_t bits_max, const struct resize_weights **out,
                               struct err *err)
{
    const bool keep = resize_weights_bytes(axis->in, axis->out) <= TABLE_BYTES_MAX;
    struct resize_weights *table =
        keep ? &tables->kept[(axis->in + axis->out * 61) % TABLES] : &tables->large;
    if (table->in != axis->in || table->out != axis->out) {
        TRY(resize_weights_fill(table, axis->in, axis->out, align, bits_max, err));
    }
    *out = table;
    return OK;
}

/* As many as fit 16 bits, and with the weights' bits 31. */
static uint32_t fraction_bits(const struct resize_weights *x)
{
    const uint32_t room = SUM_BITS_MAX - x->bits;
    return room < FRACTION_BITS ? room : FRACTION_BITS;
}

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

/* Where the scratch memory's pieces lie. */
struct scratch {
    size_t pitch; /* values from row to row: an odd number of cache lines, against conflicts */
    size_t pairs_at, quads_at, bytes;
};

static struct scratch scratch_layout(uint32_t rows, uint32_t columns, uint32_t taps, uint32_t count)
{
    struct scratch s = {.pitch = round_up((size_t)columns * 3, RESIZE_VECTOR_BYTES) + 32};
    s.pairs_at = round_up(rows * s.pitch * sizeof(int16_t), ALIGN_BYTES);
    /* Whole vectors of 16 columns, and what an output's taps may reach behind the last column. */
    const size_t pair_columns = round_up((size_t)columns + taps, 16) + 16;
    s.quads_at = s.pairs_at + pair_columns * 3 * rows * sizeof(int16_t);
    s.quads_at = round_up(s.quads_at, ALIGN_BYTES);
    s.bytes = s.quads_at + round_up(round_up(count, 4) * 3, 16) * rows;
    return s;
}

static enum status reserve_scratch(struct resizer *resizer, size_t bytes, struct err *err)
{
    if (bytes <= resizer->scratch_bytes) {
        return OK;
    }
    const size_t rounded = round_up(bytes, ALIGN_BYTES);
    uint8_t *fresh = aligned_alloc(ALIGN_BYTES, rounded);
    if (fresh == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %zu bytes of resampler rows", rounded);
    }
    memset(fresh, 0, rounded);
    free(resizer->scratch);
    resizer->scratch = fresh;
    resizer->scratch_bytes = rounded;
    return OK;
}

static enum status reserve_taps(struct resizer *resizer, size_t count, struct err *err)
{
    if (count <= resizer->taps_count) {
        return OK;
    }
    const uint8_t **fresh = (const uint8_t **)malloc(count * sizeof(*fresh));
    if (fresh == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %zu row pointers", count);
    }
    free((void *)resizer->taps);
    resizer->taps = fresh;
    resizer->taps_count = count;
    return OK;
}

/* The vertical pass of one output row. origin and rows: the span that the job's pixels hold. */
static void run_row(struct resizer *resizer, const struct resize_job *job,
                    const struct resize_weights *y, uint32_t output, uint32_t origin, uint32_t rows,
                    uint32_t values, uint32_t shift, int16_t *out)
{
    const uint32_t taps = 2 * y->pairs;
    const uint32_t start = y->start[output] - origin;
    for (uint32_t k = 0; k < taps; k++) {
        /* Rows past the span have weight 0. */
        const uint32_t row = start + k < rows ? start + k : rows - 1;
        resizer->taps[k] = job->pixels + row * job->stride_bytes;
    }
    resizer->kernels->vertical(resizer->taps, y->weight + (size_t)output * taps, y->pairs, values,
                               shift, out);
}

enum status resizer_run(struct resizer *resizer, const struct resize_job *job, struct err *err)
{
    const struct resize_weights *x = NULL;
    const struct resize_weights *y = NULL;
    TRY(get_weights(&resizer->x, &job->x, 2, HORIZONTAL_BITS_MAX, &x, err));
    TRY(get_weights(&resizer->y, &job->y, 1, VERTICAL_BITS_MAX, &y, err));
    uint32_t left = 0;
    uint32_t columns = 0;
    uint32_t top = 0;
    uint32_t rows = 0;
    resize_span(&job->x, &left, &columns);
    resize_span(&job->y, &top, &rows);
    const uint32_t block_rows = resizer->kernels->rows;
    const struct scratch s = scratch_layout(block_rows, columns, 2 * x->pairs, job->x.count);
    TRY(reserve_scratch(resizer, s.bytes, err));
    TRY(reserve_taps(resizer, (size_t)y->pairs * 2, err));
    int16_t *between = (int16_t *)resizer->scratch;
    struct resize_block block = {
        .rows = between,
        .pitch = s.pitch,
        .columns = columns,
        .shift = x->bits + fraction_bits(x),
        .weights = x,
        .origin = left,
        .first = job->x.first,
        .count = job->x.count,
        .mirror = job->mirror,
        .out_stride_bytes = job->out_stride_bytes,
        .pairs = (int16_t *)(resizer->scratch + s.pairs_at),
        .quads = resizer->scratch + s.quads_at,
    };
    for (uint32_t i = 0; i < job->y.count; i += block_rows) {
        block.out = job->out + i * job->out_stride_bytes;
        block.out_rows = job->y.count - i < block_rows ? job->y.count - i : block_rows;
        for (uint32_t r = 0; r < block.out_rows; r++) {
            run_row(resizer, job, y, job->y.first + i + r, top, rows, columns * 3,
                    y->bits - fraction_bits(x), between + r * s.pitch);
        }
        resizer->kernels->horizontal(&block);
    }
    return OK;
}
