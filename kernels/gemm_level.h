/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix product at each level of vector instructions: the same bits from all of them. */
#ifndef HEADRACE_KERNELS_GEMM_LEVEL_H
#define HEADRACE_KERNELS_GEMM_LEVEL_H

#include "kernels/kernels.h"

typedef void (*gemm_fn)(const struct gemm *gemm);

struct gemm_level {
    const char *name;
    bool (*usable)(void); /* on this CPU */
    gemm_fn run;
};

/* Slowest first, the first always usable; ends with a NULL name. */
extern const struct gemm_level GEMM_LEVELS[];

#endif
