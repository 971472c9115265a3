/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix product: the choice of the level. What it computes: kernels.h; how: gemm_level.c. */
#include "kernels/gemm_level.h"

void gemm_base(const struct gemm *gemm);

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
void gemm_avx2(const struct gemm *gemm);

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}
#endif

const struct gemm_level GEMM_LEVELS[] = {
    {"base", always, gemm_base},
#if defined(__x86_64__)
    {"avx2", has_avx2, gemm_avx2},
#endif
    {NULL, NULL, NULL},
};

void gemm_host(const struct gemm *gemm)
{
    gemm_fn run = GEMM_LEVELS[0].run;
    for (size_t i = 1; GEMM_LEVELS[i].name != NULL && GEMM_LEVELS[i].usable(); i++) {
        run = GEMM_LEVELS[i].run;
    }
    run(gemm);
}
