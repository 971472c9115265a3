/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix product at one level: compiled once per level, with GEMM_NAME and GEMM_LANES (floats
 * of a vector). A tile of 6 rows and 2 vectors of C stays in registers (12 sums: enough to hide the
 * latency of an addition, and with operands within 16 registers) while k runs; a vector holds
 * neighbouring columns, so that every sum keeps its order and all levels give the same bits.
 *
 *             j0      j0+COLUMNS
 *              |  B    |          B is read where it lies if its columns are adjacent,
 *     i0  -----+-------+          else a panel of at most K_BLOCK x COLUMNS is packed
 *     A        |C tile |          first; a narrower last panel is packed with zeros.
 *     i0+6 ----+-------+
 */
#include <string.h>

#include "kernels/gemm_level.h"

enum { ROWS = 6, VECTORS = 2, COLUMNS = VECTORS * GEMM_LANES, K_BLOCK = 256 };

typedef float vector
    __attribute__((vector_size(GEMM_LANES * sizeof(float)), aligned(4), may_alias));

struct tile {
    size_t k;
    const float *a;
    size_t a_row, a_column;
    const float *b;
    size_t b_row;
    float *c;
    size_t c_row;
    bool accumulate;
};

void GEMM_NAME(const struct gemm *gemm);

/* rows is a constant at every call, so that the sums become registers. */
static inline __attribute__((always_inline)) void tile_rows(const struct tile *t, const int rows)
{
    vector sum[ROWS][VECTORS];
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < VECTORS; v++) {
            const float *c = t->c + (size_t)i * t->c_row + (size_t)v * GEMM_LANES;
            sum[i][v] = t->accumulate ? *(const vector *)c : (vector){0};
        }
    }
    const float *a = t->a;
    const float *b = t->b;
    for (size_t k = 0; k < t->k; k++) {
        const vector b0 = *(const vector *)b;
        const vector b1 = *(const vector *)(b + GEMM_LANES);
        for (int i = 0; i < rows; i++) {
            const float factor = a[(size_t)i * t->a_row];
            sum[i][0] += factor * b0;
            sum[i][1] += factor * b1;
        }
        a += t->a_column;
        b += t->b_row;
    }
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < VECTORS; v++) {
            *(vector *)(t->c + (size_t)i * t->c_row + (size_t)v * GEMM_LANES) = sum[i][v];
        }
    }
}

static void tile_run(const struct tile *t, size_t rows)
{
    switch (rows) {
    case 1:
        tile_rows(t, 1);
        break;
    case 2:
        tile_rows(t, 2);
        break;
    case 3:
        tile_rows(t, 3);
        break;
    case 4:
        tile_rows(t, 4);
        break;
    case 5:
        tile_rows(t, 5);
        break;
    default:
        tile_rows(t, ROWS);
        break;
    }
}

/* A tile narrower than COLUMNS works on a copy of its part of C. */
static void tile_run_narrow(const struct tile *t, size_t rows, size_t columns)
{
    float c[ROWS * COLUMNS] = {0};
    struct tile copy = *t;
    copy.c = c;
    copy.c_row = COLUMNS;
    for (size_t i = 0; t->accumulate && i < rows; i++) {
        memcpy(c + i * COLUMNS, t->c + i * t->c_row, columns * sizeof(float));
    }
    tile_run(&copy, rows);
    for (size_t i = 0; i < rows; i++) {
        memcpy(t->c + i * t->c_row, c + i * COLUMNS, columns * sizeof(float));
    }
}

static void pack(const struct gemm *g, size_t k0, size_t k_count, size_t j0, size_t columns,
                 float *panel)
{
    for (size_t k = 0; k < k_count; k++) {
        const float *b = g->b + (k0 + k) * g->b_row + j0 * g->b_column;
        for (size_t j = 0; j < columns; j++) {
            panel[k * COLUMNS + j] = b[j * g->b_column];
        }
        for (size_t j = columns; j < COLUMNS; j++) {
            panel[k * COLUMNS + j] = 0;
        }
    }
}

/* All of C's rows at the columns [j0, j0 + columns) and the terms [k0, k0 + k_count). */
static void panel_run(const struct gemm *g, size_t k0, size_t k_count, size_t j0, size_t columns)
{
    float panel[K_BLOCK * COLUMNS];
    struct tile t = {
        .k = k_count,
        .a_row = g->a_row,
        .a_column = g->a_column,
        .c_row = g->c_row,
        .accumulate = g->accumulate || k0 > 0,
    };
    if (columns == COLUMNS && g->b_column == 1) {
        t.b = g->b + k0 * g->b_row + j0;
        t.b_row = g->b_row;
    } else {
        pack(g, k0, k_count, j0, columns, panel);
        t.b = panel;
        t.b_row = COLUMNS;
    }
    for (size_t i = 0; i < g->m; i += ROWS) {
        const size_t rows = g->m - i < ROWS ? g->m - i : ROWS;
        t.a = g->a + i * g->a_row + k0 * g->a_column;
        t.c = g->c + i * g->c_row + j0;
        if (columns == COLUMNS) {
            tile_run(&t, rows);
        } else {
            tile_run_narrow(&t, rows, columns);
        }
    }
}

void GEMM_NAME(const struct gemm *gemm)
{
    size_t k0 = 0;
    do { /* once also for k = 0, which clears or keeps C */
        const size_t k_count = gemm->k - k0 < K_BLOCK ? gemm->k - k0 : K_BLOCK;
        for (size_t j = 0; j < gemm->n; j += COLUMNS) {
            const size_t columns = gemm->n - j < COLUMNS ? gemm->n - j : COLUMNS;
            panel_run(gemm, k0, k_count, j, columns);
        }
        k0 += k_count;
    } while (k0 < gemm->k);
}
