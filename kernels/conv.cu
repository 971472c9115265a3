/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The convolution and its two derivatives as tiled products over a batch, with
 * the patches read where they lie. A *tap* is a (ky, kx, channel) of the
 * filters.
 *
 *   forward           positions of all pictures x taps, times taps x filters
 *   weights gradient  taps x positions, times positions x filters, for every
 * picture alone input gradient    for every tap of the (ky, kx) that reach a
 * pixel: positions x filters, times filters x channels, each summed by itself
 * and then added, in the order of the positions that saw the pixel
 */
#include "kernels/product.h"

struct shape {
    unsigned pictures, height, width, channels, kernel, stride, filters;
    bool planar;
    unsigned out_height, out_width;

    __device__ __forceinline__ unsigned positions() const
    {
        return out_height * out_width;
    }

    __device__ __forceinline__ unsigned taps() const
    {
        return kernel * kernel * channels;
    }
};

/* Where a position's patch begins: may be outside. */
struct corner {
    unsigned long long picture; /* offset of its picture */
    int y, x;
};

struct tap {
    int y, x;
    unsigned channel;
};

static __device__ __forceinline__ corner corner_at(const shape &s, unsigned picture,
                                                   unsigned position)
{
    const unsigned columns = s.out_width;
    const int padding = (int)(s.kernel / 2);
    return corner{(unsigned long long)picture * s.height * s.width * s.channels,
                  (int)(position / columns * s.stride) - padding,
                  (int)(position % columns * s.stride) - padding};
}

static __device__ __forceinline__ tap tap_at(const shape &s, unsigned index)
{
    const unsigned place = index / s.channels;
    return tap{(int)(place / s.kernel), (int)(place % s.kernel), index % s.channels};
}

/* The input under a tap; 0 in the padding. */
static __device__ __forceinline__ float input_at(const shape &s, const float *in, const corner &c,
                                                 const tap &t)
{
    const unsigned y = (unsigned)(c.y + t.y); /* huge if negative */
    const unsigned x = (unsigned)(c.x + t.x);
    if (y >= s.height || x >= s.width) {
        return 0;
    }
    return in[c.picture + (s.planar ? (t.channel * s.height + y) * s.width + x
                                    : (y * s.width + x) * s.channels + t.channel)];
}

struct patches {
    using row = corner;
    using term = tap;
    const shape &s;
    const float *in;
    static constexpr bool along_terms = true;

    __device__ __forceinline__ row row_at(unsigned i) const
    {
        const unsigned positions = s.positions();
        return corner_at(s, i / positions, i % positions);
    }

    __device__ __forceinline__ term term_at(unsigned k) const
    {
        return tap_at(s, k);
    }

    __device__ __forceinline__ float get(const row &at, const term &k) const
    {
        return input_at(s, in, at, k);
    }
};

/* x: tiles of positions, y: tiles of filters. */
template <unsigned COLUMNS>
static __device__ __forceinline__ void forward(const shape &s, const float *in,
                                               const float *weights, float *out)
{
    SHARED_ARRAY(float4, shared);
    product<COLUMNS, patches> own(shared);
    const patches a = {s, in};
    const strided b = {weights, s.filters, 1};
    const unsigned m = s.pictures * s.positions();
    for (unsigned long long m0 = (unsigned long long)blockIdx.x * PRODUCT_ROWS; m0 < m;
         m0 += (unsigned long long)gridDim.x * PRODUCT_ROWS) {
        for (unsigned n0 = blockIdx.y * COLUMNS; n0 < s.filters; n0 += gridDim.y * COLUMNS) {
            const extents e = {m, s.filters, s.taps(), (unsigned)m0, n0};
            own.begin_rows(a, e);
            own.clear();
            own.add(a, b, e);
            own.write(e, out, s.filters);
        }
    }
}

/* The patches of one picture the other way round. */
struct patches_across {
    using row = tap;
    using term = corner;
    const shape &s;
    const float *in;
    unsigned picture;
    static constexpr bool along_terms = false;

    __device__ __forceinline__ row row_at(unsigned i) const
    {
        return tap_at(s, i);
    }

    __device__ __forceinline__ term term_at(unsigned k) const
    {
        return corner_at(s, picture, k);
    }

    __device__ __forceinline__ float get(const row &at, const term &k) const
    {
        return input_at(s, in, k, at);
    }
};

/* x: tiles of taps, y: tiles of filters, z: pictures. */
template <unsigned COLUMNS>
static __device__ __forceinline__ void weights_gradient(const shape &s, const float *in,
                                                        const float *d_out, float *parts)
{
    SHARED_ARRAY(float4, shared);
    product<COLUMNS, patches_across> own(shared);
    const unsigned m = s.taps();
    for (unsigned picture = blockIdx.z; picture < s.pictures; picture += gridDim.z) {
        const patches_across a = {s, in, picture};
        const unsigned long long outputs = (unsigned long long)s.positions() * s.filters;
        const strided b = {d_out + picture * outputs, s.filters, 1};
        float *part = parts + (unsigned long long)picture * m * s.filters;
        for (unsigned m0 = blockIdx.x * PRODUCT_ROWS; m0 < m; m0 += gridDim.x * PRODUCT_ROWS) {
            for (unsigned n0 = blockIdx.y * COLUMNS; n0 < s.filters; n0 += gridDim.y * COLUMNS) {
                const extents e = {m, s.filters, s.positions(), m0, n0};
                own.begin_rows(a, e);
                own.clear();
                own.add(a, b, e);
                own.write(e, part, s.filters);
            }
        }
    }
}

/*
 * The pixels (y, x) with y = first_y + stride * row, x = first_x + stride *
 * column are reached by the same taps, each from the position (row + shift_y,
 * column + shift_x), if there is one.
 */
struct seen {
    struct row {
        unsigned picture;
        int y, x;
    };
    struct term {
        unsigned filter;
    };
    const shape &s;
    const float *d_out;
    unsigned rows, columns;
    int shift_y, shift_x;
    static constexpr bool along_terms = true;

    __device__ __forceinline__ row row_at(unsigned i) const
    {
        const unsigned line = i / columns;
        return row{line / rows, (int)(line % rows), (int)(i % columns)};
    }

    __device__ __forceinline__ term term_at(unsigned k) const
    {
        return term{k};
    }

    __device__ __forceinline__ bool has_position(const row &at) const
    {
        return (unsigned)(at.y + shift_y) < s.out_height &&
               (unsigned)(at.x + shift_x) < s.out_width;
    }

    __device__ __forceinline__ float get(const row &at, const term &k) const
    {
        if (!has_position(at)) {
            return 0;
        }
        const unsigned position =
            (unsigned)(at.y + shift_y) * s.out_width + (unsigned)(at.x + shift_x);
        return d_out[((unsigned long long)at.picture * s.positions() + position) * s.filters +
                     k.filter];
    }
};

/* One tile of the pixels of one class (first_y, first_x). */
template <unsigned COLUMNS>
static __device__ __forceinline__ void input_tile(const shape &s, seen &a, const float *weights,
                                                  float *d_in, int first_y, int first_x,
                                                  const extents &e, float4 *shared)
{
    product<COLUMNS, seen> own(shared);
    const int padding = (int)(s.kernel / 2);
    const int stride = (int)s.stride;
    float total[4][4] = {};
    own.begin_rows(a, e);
    for (int ky = (int)s.kernel - 1; ky >= 0; ky--) {
        if ((first_y + padding - ky) % stride != 0) {
            continue;
        }
        for (int kx = (int)s.kernel - 1; kx >= 0; kx--) {
            if ((first_x + padding - kx) % stride != 0) {
                continue;
            }
            a.shift_y = (first_y + padding - ky) / stride;
            a.shift_x = (first_x + padding - kx) / stride;
            const unsigned place = ((unsigned)ky * s.kernel + (unsigned)kx) * s.channels;
            const strided b = {weights + (unsigned long long)place * s.filters, 1, s.filters};
            own.clear();
            own.add(a, b, e);
#pragma unroll
            for (unsigned i = 0; i < 4U; i++) {
                if (e.m0 + own.row0 + i < e.m && a.has_position(own.rows[own.row0 + i])) {
#pragma unroll
                    for (unsigned j = 0; j < 4U; j++) {
                        total[i][j] += own.sum[i][j];
                    }
                }
            }
        }
    }
#pragma unroll
    for (unsigned i = 0; i < 4U; i++) {
        if (e.m0 + own.row0 + i < e.m) {
            const seen::row at = a.row_at(e.m0 + own.row0 + i);
            const unsigned y = (unsigned)(first_y + at.y * stride);
            const unsigned x = (unsigned)(first_x + at.x * stride);
            const unsigned long long pixel =
                ((unsigned long long)at.picture * s.height + y) * s.width + x;
#pragma unroll
            for (unsigned j = 0; j < 4U; j++) {
                const unsigned channel = e.n0 + own.column0 + j;
                if (channel < e.n) {
                    d_in[pixel * s.channels + channel] = total[i][j];
                }
            }
        }
    }
}

/* x: tiles of pixels, y: tiles of channels, z: the classes of pixels. */
template <unsigned COLUMNS>
static __device__ __forceinline__ void input_gradient(const shape &s, const float *weights,
                                                      const float *d_out, float *d_in)
{
    SHARED_ARRAY(float4, shared);
    for (unsigned z = blockIdx.z; z < s.stride * s.stride; z += gridDim.z) {
        const unsigned first_y = z / s.stride;
        const unsigned first_x = z % s.stride;
        if (first_y >= s.height || first_x >= s.width) {
            continue;
        }
        seen a = {s,
                  d_out,
                  (s.height - first_y - 1) / s.stride + 1,
                  (s.width - first_x - 1) / s.stride + 1,
                  0,
                  0};
        const unsigned m = s.pictures * a.rows * a.columns;
        for (unsigned long long m0 = (unsigned long long)blockIdx.x * PRODUCT_ROWS; m0 < m;
             m0 += (unsigned long long)gridDim.x * PRODUCT_ROWS) {
            for (unsigned n0 = blockIdx.y * COLUMNS; n0 < s.channels; n0 += gridDim.y * COLUMNS) {
                const extents e = {m, s.channels, s.filters, (unsigned)m0, n0};
                input_tile<COLUMNS>(s, a, weights, d_in, (int)first_y, (int)first_x, e, shared);
            }
        }
    }
}

/* resident: threads of a processor that registers must be enough for. */
#define CONV(name, columns, body, resident)                                                        \
    extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS(columns),                         \
                                                 (resident) / PRODUCT_THREADS(columns))            \
        name(const float *first, const float *second, float *out, unsigned pictures,               \
             unsigned height, unsigned width, unsigned channels, unsigned kernel, unsigned stride, \
             unsigned filters, unsigned planar)                                                    \
    {                                                                                              \
        const shape s = {pictures,                                                                 \
                         height,                                                                   \
                         width,                                                                    \
                         channels,                                                                 \
                         kernel,                                                                   \
                         stride,                                                                   \
                         filters,                                                                  \
                         planar != 0,                                                              \
                         (height - 1) / stride + 1,                                                \
                         (width - 1) / stride + 1};                                                \
        body<columns>(s, first, second, out);                                                      \
    }

CONV(conv_16, 16, forward, 512)
CONV(conv_64, 64, forward, 512)
CONV(conv_weights_gradient_16, 16, weights_gradient, 512)
CONV(conv_weights_gradient_64, 64, weights_gradient, 512)
CONV(conv_input_gradient_16, 16, input_gradient, 384)
CONV(conv_input_gradient_64, 64, input_gradient, 384)
