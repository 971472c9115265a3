/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each kernel is launched: its name, its parameters in order, and grid, block and shared memory
 * as a pure function of the shapes. Shared by the real launcher and by the tests that run kernels
 * on the host; nothing here knows CUDA.
 *
 * Pointers are device addresses of dense arrays, unless strides are given, aligned to their
 * elements; they may not overlap unless it is said. Every function below aborts (CHECK) for shapes
 * over the kernels' limits: LAUNCH_SIDE_MAX in every dimension and LAUNCH_ELEMENTS_MAX in an array.
 * A kernel whose launch has `empty` set has nothing to do and may not be launched.
 *
 * What a kernel computes is its twin's business (kernels.h), to the bit. All are to be built
 * without contraction of multiplications and additions (--fmad=false), and with IEEE division,
 * square root and subnormals, which are the compiler's defaults.
 */
#ifndef HEADRACE_KERNELS_LAUNCH_H
#define HEADRACE_KERNELS_LAUNCH_H

#include "kernels/kernels.h"

enum { LAUNCH_PARAMS_MAX = 16 };
#define LAUNCH_SIDE_MAX     ((size_t)1 << 31)
#define LAUNCH_ELEMENTS_MAX ((size_t)1 << 48)

union launch_value {
    const void *pointer;
    uint64_t u64;
    uint32_t u32;
    float f32;
};

struct launch {
    const char *kernel;
    uint32_t grid[3], block[3], shared_bytes;
    bool empty;
    uint32_t params; /* how many */
    union launch_value values[LAUNCH_PARAMS_MAX];
};

/* The addresses of the parameters, as cuLaunchKernel wants them; they live as long as *launch. */
void launch_params(struct launch *launch, void *params[LAUNCH_PARAMS_MAX]);

/*
 * normalize_{f32,f16,bf16}_{nchw,nhwc}: const uint8_t *in, void *out, u32 pictures, rows, columns,
 * u64 in_row, in_picture, out_row, out_plane, out_picture, f32 scale[0..2], bias[0..2].
 */
struct launch normalize_launch(const struct normalize *normalize, const uint8_t *in, void *out);

#endif
