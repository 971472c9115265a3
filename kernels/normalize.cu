/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes to the numbers that a network takes: one pass over memory, at the speed of memory. A block
 * brings a run of pixels into shared memory, 16 bytes a load, and writes it from there, 16 bytes a
 * store and neighbouring threads to neighbouring addresses, plane by plane. Rows may begin
 * anywhere: what lies before the first and after the last whole vector goes one by one.
 *
 * Parameters (launch.h): a row has `columns` pixels of 3 bytes; strides of the input are bytes,
 * those of the output elements. scale and bias are finite, so no NaN arises.
 */
#include "kernels/tile.h"

enum { F32, F16, BF16 };

struct affine {
    float scale, bias;
};

/* Round to nearest, ties to even. */
static __device__ __forceinline__ unsigned f16_bits(float value)
{
#ifdef __CUDA_ARCH__
    unsigned short bits; /* one instruction, for a dozen would not keep up with memory */
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned all = __float_as_uint(value);
    const unsigned sign = all >> 16 & 0x8000U;
    const unsigned size = all & 0x7fffffffU;
    if (size < 0x38800000U) { /* below 2^-14: a sum whose last place is that of a half's there */
        return sign | (__float_as_uint(__uint_as_float(size) + 0.5F) - 0x3f000000U);
    }
    const unsigned rounded = (size - 0x38000000U + 0xfffU + (size >> 13 & 1U)) >> 13;
    return sign | (rounded > 0x7c00U ? 0x7c00U : rounded);
#endif
}

static __device__ __forceinline__ unsigned bf16_bits(float value)
{
    const unsigned all = __float_as_uint(value);
    return (all + 0x7fffU + (all >> 16 & 1U)) >> 16;
}

template <int TYPE> static __device__ __forceinline__ unsigned encode(float value)
{
    return TYPE == F32 ? __float_as_uint(value) : TYPE == F16 ? f16_bits(value) : bf16_bits(value);
}

/* The output's elements, as integers of their size. */
template <int TYPE> struct stored {
    using bits = unsigned short;
};
template <> struct stored<F32> {
    using bits = unsigned;
};

/* Brings `count` bytes into shared memory; returns where they begin there: as far from a multiple
 * of 16 as they were. */
static __device__ const unsigned char *bring(const unsigned char *from, unsigned count,
                                             unsigned char *shared)
{
    const unsigned skew = (unsigned)((unsigned long long)from & 15U);
    unsigned char *to = shared + skew;
    unsigned head = (16U - skew) & 15U;
    head = head < count ? head : count;
    const unsigned vectors = (count - head) / 16U;
    const uint4 *wide = reinterpret_cast<const uint4 *>(from + head);
    uint4 *wide_to = reinterpret_cast<uint4 *>(to + head);
    for (unsigned i = threadIdx.x; i < vectors; i += blockDim.x) {
        wide_to[i] = wide[i];
    }
    for (unsigned i = threadIdx.x; i < head; i += blockDim.x) {
        to[i] = from[i];
    }
    for (unsigned i = head + 16U * vectors + threadIdx.x; i < count; i += blockDim.x) {
        to[i] = from[i];
    }
    return to;
}

/* Where a run of elements comes from. Packed: all three channels follow one another, and the first
 * byte is a pixel's; else every third byte is ours, and channels[0]. */
template <int TYPE, bool PACKED> struct run {
    const unsigned char *bytes;
    const affine *channels;

    __device__ __forceinline__ affine channel(unsigned c) const
    {
        return c == 0 ? channels[0] : c == 1 ? channels[1] : channels[2];
    }

    __device__ __forceinline__ unsigned element(unsigned i, affine with) const
    {
        return encode<TYPE>((float)bytes[PACKED ? i : 3U * i] * with.scale + with.bias);
    }

    __device__ __forceinline__ unsigned element(unsigned i) const
    {
        return element(i, PACKED ? channel(i % 3U) : channels[0]);
    }

    /* 16 bytes of elements. */
    __device__ __forceinline__ uint4 vector(unsigned first) const
    {
        affine turned[3] = {channels[0], channels[0], channels[0]};
        if (PACKED) {
            const unsigned c = first % 3U;
            turned[0] = channel(c);
            turned[1] = channel(c == 2 ? 0 : c + 1);
            turned[2] = channel(c == 0 ? 2 : c - 1);
        }
        unsigned words[4];
#pragma unroll
        for (unsigned w = 0; w < 4U; w++) {
            if (TYPE == F32) {
                words[w] = element(first + w, turned[w % 3U]);
            } else {
                const unsigned low = element(first + 2U * w, turned[2U * w % 3U]);
                const unsigned high = element(first + 2U * w + 1U, turned[(2U * w + 1U) % 3U]);
                words[w] = low | high << 16;
            }
        }
        return uint4{words[0], words[1], words[2], words[3]};
    }
};

/* Writes `count` neighbouring elements. */
template <int TYPE, bool PACKED>
static __device__ void write_run(const run<TYPE, PACKED> &from, unsigned count,
                                 typename stored<TYPE>::bits *out)
{
    const unsigned size = sizeof(*out);
    const unsigned per_vector = 16U / size;
    unsigned head = ((16U - (unsigned)((unsigned long long)out & 15U)) & 15U) / size;
    head = head < count ? head : count;
    const unsigned vectors = (count - head) / per_vector;
    uint4 *wide = reinterpret_cast<uint4 *>(out + head);
    for (unsigned i = threadIdx.x; i < vectors; i += blockDim.x) {
        wide[i] = from.vector(head + i * per_vector);
    }
    for (unsigned i = threadIdx.x; i < head; i += blockDim.x) {
        out[i] = from.element(i);
    }
    for (unsigned i = head + vectors * per_vector + threadIdx.x; i < count; i += blockDim.x) {
        out[i] = from.element(i);
    }
}

struct strides {
    unsigned long long in_row, in_picture, out_row, out_plane, out_picture;
};

/* Any grid does all the work; x: tiles of a row, y: rows, z: pictures. */
template <int TYPE, bool PACKED>
static __device__ __forceinline__ void normalize(const unsigned char *in, void *out_bytes,
                                                 unsigned pictures, unsigned rows, unsigned columns,
                                                 const strides &s, const affine *channels)
{
    SHARED_ARRAY(uint4, shared);
    typename stored<TYPE>::bits *out = static_cast<typename stored<TYPE>::bits *>(out_bytes);
    const unsigned tile = blockDim.x * NORMALIZE_PIXELS;
    const unsigned tiles = (columns + tile - 1) / tile;
    for (unsigned z = blockIdx.z; z < pictures; z += gridDim.z) {
        for (unsigned y = blockIdx.y; y < rows; y += gridDim.y) {
            const unsigned char *in_row = in + z * s.in_picture + y * s.in_row;
            for (unsigned x = blockIdx.x; x < tiles; x += gridDim.x) {
                const unsigned first = x * tile;
                const unsigned count = columns - first < tile ? columns - first : tile;
                const unsigned char *bytes = bring(in_row + 3ULL * first, 3U * count,
                                                   reinterpret_cast<unsigned char *>(shared));
                __syncthreads();
                typename stored<TYPE>::bits *to = out + z * s.out_picture + y * s.out_row;
                if (PACKED) {
                    write_run(run<TYPE, true>{bytes, channels}, 3U * count, to + 3ULL * first);
                } else {
                    for (unsigned c = 0; c < 3U; c++) {
                        write_run(run<TYPE, false>{bytes + c, channels + c}, count,
                                  to + c * s.out_plane + first);
                    }
                }
                __syncthreads(); /* before the next tile is brought */
            }
        }
    }
}

#define NORMALIZE(name, type, packed)                                                             \
    extern "C" __global__ void __launch_bounds__(NORMALIZE_THREADS, NORMALIZE_RESIDENT) name(     \
        const unsigned char *in, void *out, unsigned pictures, unsigned rows, unsigned columns,   \
        unsigned long long in_row, unsigned long long in_picture, unsigned long long out_row,     \
        unsigned long long out_plane, unsigned long long out_picture, float scale0, float scale1, \
        float scale2, float bias0, float bias1, float bias2)                                      \
    {                                                                                             \
        const strides s = {in_row, in_picture, out_row, out_plane, out_picture};                  \
        const affine channels[3] = {{scale0, bias0}, {scale1, bias1}, {scale2, bias2}};           \
        normalize<type, packed>(in, out, pictures, rows, columns, s, channels);                   \
    }

NORMALIZE(normalize_f32_nchw, F32, false)
NORMALIZE(normalize_f32_nhwc, F32, true)
NORMALIZE(normalize_f16_nchw, F16, false)
NORMALIZE(normalize_f16_nhwc, F16, true)
NORMALIZE(normalize_bf16_nchw, BF16, false)
NORMALIZE(normalize_bf16_nhwc, BF16, true)
