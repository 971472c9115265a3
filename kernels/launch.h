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

/* What the layers of a network hand on: pictures x positions x channels. */
struct maps {
    size_t pictures, positions, channels;
};

/*
 * Sums. A sum over a batch has two steps, each in one fixed order: over a picture's positions, then
 * over pictures. So a gradient differs from the host's, which adds every position of every picture
 * to one sum, in its last bits, and is the same in every run and on every card.
 *
 * channel_sums: const f32 *in, f32 *out, u32 pictures, positions, channels, f32 factor.
 * out[n][c] = (0 + sum over p of in[n][p][c]) * factor.
 *
 * sum_pictures: const f32 *parts, f32 *sum, u32 pictures, u64 count.
 * sum_pictures_host.
 */
struct launch mean_pool_launch(const struct maps *maps, const float *in, float *out);
struct launch bias_gradient_launch(const struct maps *maps, const float *d, float *parts);
struct launch sum_pictures_launch(size_t pictures, size_t count, const float *parts, float *sum);

/* mean_pool_gradient: const f32 *d_out, f32 *d_in, u32 pictures, positions, channels, f32 share. */
struct launch mean_pool_gradient_launch(const struct maps *maps, const float *d_out, float *d_in);

/* bias_relu: const f32 *in, const f32 *bias, f32 *out, u32 pictures, positions, channels. in may be
 * out. */
struct launch bias_relu_launch(const struct maps *maps, const float *in, const float *bias,
                               float *out);
/* relu_gradient: const f32 *out, f32 *d, u64 count. In place: d becomes 0 where out is 0. */
struct launch relu_gradient_launch(size_t count, const float *out, float *d);

/*
 * channel_norm_host, in two launches. means and inverses: pictures x channels.
 * channel_norm_moments: const f32 *in, f32 *means, f32 *inverses, u32 pictures, positions,
 * channels, f32 share, f32 floor. channel_norm: const f32 *in, const f32 *means, const f32
 * *inverses, f32 *out, u32 pictures, positions, channels. in may be out.
 */
struct launch channel_norm_moments_launch(const struct maps *maps, const float *in, float *means,
                                          float *inverses);
struct launch channel_norm_launch(const struct maps *maps, const float *in, const float *means,
                                  const float *inverses, float *out);

/*
 * channel_norm_gradient_host, in two launches. d_means and along_means: pictures x channels.
 * channel_norm_gradient_means: const f32 *out, const f32 *d, f32 *d_means, f32 *along_means,
 * u32 pictures, positions, channels, f32 share.
 * channel_norm_gradient: const f32 *out, const f32 *inverses, const f32 *d_means,
 * const f32 *along_means, f32 *d, u32 pictures, positions, channels. In place.
 */
struct launch channel_norm_gradient_means_launch(const struct maps *maps, const float *out,
                                                 const float *d, float *d_means,
                                                 float *along_means);
struct launch channel_norm_gradient_launch(const struct maps *maps, const float *out,
                                           const float *inverses, const float *d_means,
                                           const float *along_means, float *d);

/*
 * softmax_loss: const f32 *logits, const i64 *labels, f32 *losses, u32 *corrects, f32 *d_logits
 * (null: not wanted), u32 pictures, classes. corrects: 1 or 0. A label that is no class makes the
 * loss NaN.
 */
struct softmax_arrays {
    const float *logits;
    const int64_t *labels;
    float *losses;
    uint32_t *corrects;
    float *d_logits;
};
struct launch softmax_loss_launch(size_t pictures, size_t classes,
                                  const struct softmax_arrays *arrays);

/* sgd: f32 *parameters, f32 *velocity, const f32 *gradient, u64 count, f32 scale, momentum,
 * learning_rate. */
struct launch sgd_launch(const struct sgd *sgd, float *parameters, float *velocity,
                         const float *gradient, size_t count);

/*
 * gemm_16, gemm_64 (columns of a tile): u32 m, n, k, const f32 *a, u64 a_row, a_column,
 * const f32 *b, u64 b_row, b_column, f32 *c, u64 c_row, const f32 *start, u64 start_row.
 * gemm_host. With first_row given (n floats; NULL: not) every row of c begins as it, as if it had
 * been copied there before a product that accumulates.
 */
struct launch gemm_launch(const struct gemm *gemm, const float *first_row);

/*
 * The convolution of a batch: pictures one after the other in inputs and outputs.
 *
 * conv_16, conv_64 (columns of a tile): const f32 *in, const f32 *weights, f32 *out, u32 pictures,
 * height, width, channels, kernel, stride, filters, planar. conv_host for every picture.
 *
 * conv_weights_gradient_16, _64: const f32 *in, const f32 *d_out, f32 *parts, and as above.
 * parts: pictures x weights, for sum_pictures; each what conv_weights_gradient_host makes of zeros.
 *
 * conv_input_gradient_16, _64: const f32 *weights, const f32 *d_out, f32 *d_in, and as above.
 * conv_input_gradient_host for every picture.
 */
struct launch conv_launch(const struct conv *conv, size_t pictures, const float *in,
                          const float *weights, float *out);
struct launch conv_weights_gradient_launch(const struct conv *conv, size_t pictures,
                                           const float *in, const float *d_out, float *parts);
struct launch conv_input_gradient_launch(const struct conv *conv, size_t pictures,
                                         const float *weights, const float *d_out, float *d_in);

#endif
