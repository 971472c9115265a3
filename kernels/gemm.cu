/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix product for operands with any strides. x: tiles of rows, y: tiles
 * of columns. */
#include "kernels/product.h"

struct left {
    struct row {
        unsigned long long offset;
    };
    struct term {
        unsigned long long offset;
    };
    strided a;
    bool along_terms;

    __device__ __forceinline__ row row_at(unsigned i) const
    {
        return row{i * a.row};
    }

    __device__ __forceinline__ term term_at(unsigned k) const
    {
        return term{k * a.column};
    }

    __device__ __forceinline__ float get(const row &at, const term &k) const
    {
        return a.data[at.offset + k.offset];
    }
};

/* start: null for 0, else where the sums begin, start_row floats from row to
 * row; it may be c. */
template <unsigned COLUMNS>
static __device__ __forceinline__ void gemm(unsigned m, unsigned n, unsigned k, const left &a,
                                            const strided &b, float *c, unsigned long long c_row,
                                            const float *start, unsigned long long start_row)
{
    SHARED_ARRAY(float4, shared);
    product<COLUMNS, left> own(shared);
    for (unsigned long long m0 = (unsigned long long)blockIdx.x * PRODUCT_ROWS; m0 < m;
         m0 += (unsigned long long)gridDim.x * PRODUCT_ROWS) {
        for (unsigned long long n0 = (unsigned long long)blockIdx.y * COLUMNS; n0 < n;
             n0 += (unsigned long long)gridDim.y * COLUMNS) {
            const extents e = {m, n, k, (unsigned)m0, (unsigned)n0};
            own.begin_rows(a, e);
            if (start != nullptr) {
                own.read(e, start, start_row);
            } else {
                own.clear();
            }
            own.add(a, b, e);
            own.write(e, c, c_row);
        }
    }
}

#define GEMM(name, columns)                                                                        \
    extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS(columns),                         \
                                                 512 / PRODUCT_THREADS(columns))                   \
        name(unsigned m, unsigned n, unsigned k, const float *a, unsigned long long a_row,         \
             unsigned long long a_column, const float *b, unsigned long long b_row,                \
             unsigned long long b_column, float *c, unsigned long long c_row, const float *start,  \
             unsigned long long start_row)                                                         \
    {                                                                                              \
        gemm<columns>(m, n, k, left{{a, a_row, a_column}, a_column == 1}, {b, b_row, b_column}, c, \
                      c_row, start, start_row);                                                    \
    }

GEMM(gemm_16, 16)
GEMM(gemm_64, 64)
