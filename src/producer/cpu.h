/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which vector instructions this CPU and its system offer. Every level gives the same bytes; a
 * higher one is only faster.
 */
#ifndef HEADRACE_PRODUCER_CPU_H
#define HEADRACE_PRODUCER_CPU_H

#include "common/err.h"

enum cpu_level {
    CPU_SCALAR,
    CPU_SSE2,
    CPU_AVX2,
    CPU_AVX512, /* F, BW, DQ and VL: what every server CPU with AVX-512 has */
};
enum { CPU_LEVELS = CPU_AVX512 + 1 };

const char *cpu_level_name(enum cpu_level level); /* "scalar", "sse2", "avx2", "avx512" */
bool cpu_supports(enum cpu_level level);

/* The highest level there is, or the one that the environment variable HEADRACE_CPU names (for
 * tests and for measuring). ERR_CONFIG: an unknown name, or a level that this CPU lacks. */
MUST_USE enum status cpu_level_get(enum cpu_level *out, struct err *err);

#endif
