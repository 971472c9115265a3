/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels: what they compute. Each has a *_host.c twin that is its specification, and a kernel
 * in a .cu file whose launch is in launch.h: IEEE single precision, one fixed order of operations,
 * built with -ffp-contract=off, so that results are the same on every CPU. Sums run over the index
 * named, in ascending order, one rounded product and one rounded addition a term; speed comes from
 * working on many results at once, never from splitting a sum.
 *
 * Nothing here allocates, fails or keeps state. Arrays do not overlap unless it is said.
 */
#ifndef HEADRACE_KERNELS_KERNELS_H
#define HEADRACE_KERNELS_KERNELS_H

#include "common/base.h"

/*
 * uint8 NHWC -> float32, float16 or bfloat16, NHWC or NCHW: out = (in / 255 - mean[c]) / std[c],
 * computed as in * scale[c] + bias[c] with scale = 1 / (255 * std), bias = -mean / std, each
 * rounded once to float; the narrow types are the float rounded to nearest, ties to even.
 */
enum normalize_type { NORMALIZE_F32, NORMALIZE_F16, NORMALIZE_BF16 };
struct normalize {
    size_t pictures, height, width; /* of 3 channels */
    size_t in_row, in_picture;      /* bytes from one to the next; at least 3 * width */
    size_t out_row, out_picture;    /* elements from one to the next */
    size_t out_plane;               /* NCHW only */
    enum normalize_type type;
    bool nhwc;               /* the output's layout; else NCHW */
    float scale[3], bias[3]; /* finite */
};
/* Rows, planes and pictures one after the other, without gaps. */
struct normalize normalize_dense(size_t pictures, size_t height, size_t width,
                                 enum normalize_type type, bool nhwc);
void normalize_factors(struct normalize *normalize, const float mean[3], const float std[3]);
/* out: of the type's elements, aligned as they are. Gaps between rows are left alone. */
void normalize_into_host(const struct normalize *normalize, const uint8_t *in, void *out);

/* The same, dense, as float32 NCHW. */
void normalize_host(const uint8_t *in, float *out, size_t count, size_t height, size_t width,
                    const float mean[3], const float std[3]);

/* The bits of the nearest float16 or bfloat16, ties to even; too large: infinity; a NaN stays one.
 */
uint16_t float16_bits(float value);
uint16_t bfloat16_bits(float value);

/*
 * c[i][j] = start + a[i][0] * b[0][j] + ... + a[i][k-1] * b[k-1][j], with start = c[i][j] when
 * accumulate, else 0. Element (i, j) of an operand lies at data[i * row + j * column]; columns of c
 * are adjacent. So a product over k in two calls, the second accumulating, equals one call's.
 */
struct gemm {
    size_t m, n, k;
    const float *a;
    size_t a_row, a_column;
    const float *b;
    size_t b_row, b_column;
    float *c;
    size_t c_row;
    bool accumulate;
};
void gemm_host(const struct gemm *gemm);

/*
 * A convolution: kernel x kernel, odd; zeros for padding, kernel / 2 on every side; so it gives
 * conv_side(height) x conv_side(width) positions. The input is height x width x channels, or with
 * `planar` channels x height x width; the output is always positions x filters. Weights are
 * [kernel][kernel][channels][filters].
 */
struct conv {
    size_t height, width, channels;
    size_t kernel, stride, filters;
    bool planar;
};
size_t conv_side(const struct conv *conv, size_t input_side);
size_t conv_weights(const struct conv *conv); /* how many */
size_t conv_scratch(const struct conv *conv); /* floats the functions below need to work in */

/* out[p][f] = 0 + sum over (ky, kx, c); padding takes part as zero. */
void conv_host(const struct conv *conv, const float *in, const float *weights, float *out,
               float *scratch);

/* Adds to *d_weights, over p, the derivative by the weights, given that by the output. */
void conv_weights_gradient_host(const struct conv *conv, const float *in, const float *d_out,
                                float *d_weights, float *scratch);

/* d_in[y][x][c] = 0 + sum over the positions p that see (y, x) of the sum over f. Not for planar
 * input. */
void conv_input_gradient_host(const struct conv *conv, const float *weights, const float *d_out,
                              float *d_in, float *scratch);

/* Below, arrays are positions x channels. */

/*
 * Every channel gets mean 0 and variance 1 over the positions of its picture: out = (in - mean) *
 * inverse, with mean = (0 + sum over p) * (1 / positions), likewise the variance from (in - mean)
 * squared, inverse = 1 / sqrt(variance + CHANNEL_NORM_FLOOR). in may be out. inverse has room for
 * the channels, scratch for twice as many.
 */
#define CHANNEL_NORM_FLOOR 1e-3F
void channel_norm_host(const float *in, size_t positions, size_t channels, float *out,
                       float *inverse, float *scratch);

/* In place: d becomes ((d - mean of d) - out * mean of (d * out)) * inverse, with out and inverse
 * as channel_norm_host wrote them and means as there. */
void channel_norm_gradient_host(const float *out, const float *inverse, size_t positions,
                                size_t channels, float *d, float *scratch);

/* out = in + bias[c], or 0 where that is < 0 (a NaN stays). in may be out. */
void bias_relu_host(const float *in, const float *bias, size_t positions, size_t channels,
                    float *out);

/* In place: d becomes 0 where out is 0. Then adds d to *d_bias, over p. */
void bias_relu_gradient_host(const float *out, size_t positions, size_t channels, float *d,
                             float *d_bias);

/* out[c] = (0 + sum over p) * (1 / positions); d_in[p][c] = d_out[c] * (1 / positions). */
void mean_pool_host(const float *in, size_t positions, size_t channels, float *out);
void mean_pool_gradient_host(const float *d_out, size_t positions, size_t channels, float *d_in);

/* sum[i] = sum[i] + parts[0][i] + parts[1][i] + ...: what pictures add to a gradient. */
void sum_pictures_host(const float *parts, size_t pictures, size_t count, float *sum);

/*
 * Returns -log(softmax(logits)[label]), writes its derivative by the logits to d_logits (NULL: not
 * wanted) and whether the label has the highest logit (the first of equals) to *correct_out. exp
 * and log are ours (softmax_loss_host.c), since libm's differ between CPUs: within 2 units in the
 * last place.
 */
float softmax_loss_host(const float *logits, size_t classes, size_t label, float *d_logits,
                        bool *correct_out);

/* velocity = momentum * velocity + gradient * scale; parameters -= learning_rate * velocity. */
struct sgd {
    float scale, momentum, learning_rate;
};
void sgd_host(const struct sgd *sgd, float *parameters, float *velocity, const float *gradient,
              size_t count);

#endif
