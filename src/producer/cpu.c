/* SPDX-License-Identifier: Apache-2.0 */
/* CPU levels, from cpuid by way of the compiler's support library, which also asks whether the
 * system saves the registers. */
#include "producer/cpu.h"

#include <stdlib.h>
#include <string.h>

static const char *const NAMES[CPU_LEVELS] = {"scalar", "sse2", "avx2", "avx512"};

const char *cpu_level_name(enum cpu_level level)
{
    return NAMES[level];
}

bool cpu_supports(enum cpu_level level)
{
#if defined(__x86_64__)
    switch (level) {
    case CPU_SCALAR:
    case CPU_SSE2: /* part of the x86-64 base */
        return true;
    case CPU_AVX2:
        return __builtin_cpu_supports("avx2");
    case CPU_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
#endif
    return level == CPU_SCALAR;
}

static enum cpu_level highest_level(void)
{
    enum cpu_level level = CPU_AVX512;
    while (level > CPU_SCALAR && !cpu_supports(level)) {
        level--;
    }
    return level;
}

enum status cpu_level_get(enum cpu_level *out, struct err *err)
{
    const char *name = getenv("HEADRACE_CPU");
    if (name == NULL || name[0] == '\0') {
        *out = highest_level();
        return OK;
    }
    for (int i = 0; i < CPU_LEVELS; i++) {
        const enum cpu_level level = (enum cpu_level)i;
        if (strcmp(name, NAMES[level]) != 0) {
            continue;
        }
        if (!cpu_supports(level)) {
            return err_set(err, ERR_CONFIG, "HEADRACE_CPU=%s: this CPU has no %s; it offers %s",
                           name, name, NAMES[highest_level()]);
        }
        *out = level;
        return OK;
    }
    return err_set(err, ERR_CONFIG, "HEADRACE_CPU=%s: known are scalar, sse2, avx2 and avx512",
                   name);
}
