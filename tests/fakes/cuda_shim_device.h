/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language of a .cu file, as host C++ (see cuda_shim.h): just the words that kernels/ uses.
 * Include it before the .cu.
 */
#ifndef HEADRACE_TESTS_FAKES_CUDA_SHIM_DEVICE_H
#define HEADRACE_TESTS_FAKES_CUDA_SHIM_DEVICE_H

#include <math.h>
#include <string.h>

#include <utility>

#include "fakes/cuda_shim_thread.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (cuda_shim_self.thread)
#define blockIdx  (cuda_shim_self.block)
#define blockDim  (cuda_shim_self.block_size)
#define gridDim   (cuda_shim_self.grid_size)

#define __syncthreads() cuda_shim_barrier(__LINE__)

/* On the device: extern __shared__ type name[]. */
#define SHARED_ARRAY(type, name) type *const name = static_cast<type *>(cuda_shim_self.shared)

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

static inline unsigned __float_as_uint(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float __uint_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* A row of a kernel table: name and source, number and sizes of the parameters, and a function that
 * takes each from its address. */
template <auto KERNEL> struct cuda_shim_call;
template <class... P, void (*KERNEL)(P...)> struct cuda_shim_call<KERNEL> {
    static constexpr unsigned parameters = sizeof...(P);
    static constexpr unsigned char sizes[] = {sizeof(P)...};

    template <std::size_t... I> static void unpack(void *const *params, std::index_sequence<I...>)
    {
        KERNEL(*static_cast<P *>(params[I])...);
    }

    static void run(void *const *params)
    {
        unpack(params, std::make_index_sequence<sizeof...(P)>());
    }
};
#define CUDA_SHIM_KERNEL(source, name)                                                       \
    {                                                                                        \
#name, #source, cuda_shim_call < name> ::parameters, cuda_shim_call < name> ::sizes, \
            cuda_shim_call < name> ::run                                                     \
    }

#endif
