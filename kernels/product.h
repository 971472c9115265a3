/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiled matrix product, for .cu files only: what gemm.cu and conv.cu have in common. Every
 * element of the result is one thread's sum, its terms added in ascending order, as in the twins:
 * tiles change where operands come from, never the sum.
 *
 *                    COLUMNS
 *                  |  B tile |  PRODUCT_TERMS      a thread: 4 rows x 4 columns in registers
 *     --+----------+---------+
 *       |  A tile  |         |
 *       |          |    C    |  PRODUCT_ROWS
 *     --+----------+---------+
 *
 * B is a matrix with strides. A is whatever has
 *     row, term               a row's and a term's coordinates: at most 16 bytes each, worked out
 *                             once and kept in shared memory
 *     row_at(i), term_at(k)
 *     get(row, term)          the element
 *     along_terms             whether neighbouring terms, rather than rows, are neighbours in
 * memory
 */
#ifndef HEADRACE_KERNELS_PRODUCT_H
#define HEADRACE_KERNELS_PRODUCT_H

#include "kernels/tile.h"

struct strided {
    const float *data;
    unsigned long long row, column;
};

/* Extents of the whole product, and where the block's part of it begins. */
struct extents {
    unsigned m, n, k;
    unsigned m0, n0;
};

template <unsigned COLUMNS, class A> struct product {
    static constexpr unsigned THREADS = PRODUCT_THREADS(COLUMNS);
    static constexpr unsigned A_LINE = PRODUCT_ROWS + 4U;
    static constexpr unsigned B_LINE = COLUMNS + 4U;

    float *a_tile, *b_tile;
    typename A::row *rows;
    typename A::term *terms;
    unsigned row0, column0; /* of this thread's 4 x 4, in the tile */
    float sum[4][4];

    __device__ __forceinline__ explicit product(float4 *shared)
    {
        static_assert(sizeof(*rows) <= 16 && sizeof(*terms) <= 16, "PRODUCT_SHARED_BYTES");
        a_tile = reinterpret_cast<float *>(shared);
        b_tile = a_tile + PRODUCT_TERMS * A_LINE;
        float *rest = b_tile + PRODUCT_TERMS * B_LINE;
        rows = reinterpret_cast<typename A::row *>(rest);
        terms = reinterpret_cast<typename A::term *>(rest + PRODUCT_ROWS * 4U);
        row0 = threadIdx.x / (COLUMNS / 4U) * 4U;
        column0 = threadIdx.x % (COLUMNS / 4U) * 4U;
    }

    /* Before anything else with a new m0. */
    __device__ __forceinline__ void begin_rows(const A &a, const extents &e)
    {
        __syncthreads(); /* the rows before may still be in use */
        for (unsigned i = threadIdx.x; i < PRODUCT_ROWS && e.m0 + i < e.m; i += THREADS) {
            rows[i] = a.row_at(e.m0 + i);
        }
    }

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (unsigned i = 0; i < 4U; i++) {
#pragma unroll
            for (unsigned j = 0; j < 4U; j++) {
                sum[i][j] = 0;
            }
        }
    }

    __device__ __forceinline__ void load_a(const A &a, const extents &e, unsigned count)
    {
#pragma unroll 4
        for (unsigned at = 0; at < PRODUCT_ROWS * PRODUCT_TERMS; at += THREADS) {
            const unsigned index = at + threadIdx.x;
            const unsigned i = a.along_terms ? index / PRODUCT_TERMS : index % PRODUCT_ROWS;
            const unsigned k = a.along_terms ? index % PRODUCT_TERMS : index / PRODUCT_ROWS;
            const bool is_inside = e.m0 + i < e.m && k < count;
            a_tile[k * A_LINE + i] = is_inside ? a.get(rows[i], terms[k]) : 0;
        }
    }

    __device__ __forceinline__ void load_b(const strided &b, const extents &e, unsigned k0,
                                           unsigned count)
    {
#pragma unroll
        for (unsigned at = 0; at < COLUMNS * PRODUCT_TERMS; at += THREADS) {
            const unsigned index = at + threadIdx.x;
            const unsigned j = b.column == 1 ? index % COLUMNS : index / PRODUCT_TERMS;
            const unsigned k = b.column == 1 ? index / COLUMNS : index % PRODUCT_TERMS;
            const bool is_inside = e.n0 + j < e.n && k < count;
            b_tile[k * B_LINE + j] =
                is_inside ? b.data[(k0 + k) * b.row + (e.n0 + j) * b.column] : 0;
        }
    }

    __device__ __forceinline__ void add_term(unsigned k)
    {
        const float4 a = *reinterpret_cast<const float4 *>(a_tile + k * A_LINE + row0);
        const float4 b = *reinterpret_cast<const float4 *>(b_tile + k * B_LINE + column0);
        const float as[4] = {a.x, a.y, a.z, a.w};
        const float bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (unsigned i = 0; i < 4U; i++) {
#pragma unroll
            for (unsigned j = 0; j < 4U; j++) {
                sum[i][j] += as[i] * bs[j];
            }
        }
    }

    /* Adds all of the terms to the sums. */
    __device__ __forceinline__ void add(const A &a, const strided &b, const extents &e)
    {
        for (unsigned k0 = 0; k0 < e.k; k0 += PRODUCT_TERMS) {
            const unsigned count = e.k - k0 < PRODUCT_TERMS ? e.k - k0 : PRODUCT_TERMS;
            if (threadIdx.x < count) {
                terms[threadIdx.x] = a.term_at(k0 + threadIdx.x);
            }
            __syncthreads(); /* also: the tiles before have been used */
            load_a(a, e, count);
            load_b(b, e, k0, count);
            __syncthreads();
            if (count == PRODUCT_TERMS) {
#pragma unroll 4
                for (unsigned k = 0; k < PRODUCT_TERMS; k++) {
                    add_term(k);
                }
            } else {
                for (unsigned k = 0; k < count; k++) {
                    add_term(k);
                }
            }
        }
    }

    /* The sums begin at start[i * start_row + j]. */
    __device__ __forceinline__ void read(const extents &e, const float *start,
                                         unsigned long long start_row)
    {
#pragma unroll
        for (unsigned i = 0; i < 4U; i++) {
#pragma unroll
            for (unsigned j = 0; j < 4U; j++) {
                const unsigned row = e.m0 + row0 + i;
                const unsigned column = e.n0 + column0 + j;
                sum[i][j] = row < e.m && column < e.n ? start[row * start_row + column] : 0;
            }
        }
    }

    __device__ __forceinline__ void write(const extents &e, float *out,
                                          unsigned long long out_row) const
    {
#pragma unroll
        for (unsigned i = 0; i < 4U; i++) {
#pragma unroll
            for (unsigned j = 0; j < 4U; j++) {
                const unsigned row = e.m0 + row0 + i;
                const unsigned column = e.n0 + column0 + j;
                if (row < e.m && column < e.n) {
                    out[row * out_row + column] = sum[i][j];
                }
            }
        }
    }
};

#endif
