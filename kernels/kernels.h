/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels: names, arguments and launch shapes. Each has a *_host.c twin that is its
 * specification: IEEE single precision, one fixed order of operations, built with
 * -ffp-contract=off, so that results are the same on every CPU.
 */
#ifndef HEADRACE_KERNELS_KERNELS_H
#define HEADRACE_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/*
 * uint8 NHWC -> float NCHW: out = (in / 255 - mean[c]) / std[c], computed as in * scale[c] +
 * bias[c] with scale = 1 / (255 * std), bias = -mean / std, each rounded once to float. count
 * images of height x width x 3.
 */
void normalize_host(const uint8_t *in, float *out, size_t count, size_t height, size_t width,
                    const float mean[3], const float std[3]);

#endif
