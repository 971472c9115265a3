/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test's way to the fake CUDA (fakes/cuda_fake.h). What it reads from the environment is set
 * before its first call, so a test that sets it needs a process of its own.
 */
#ifndef HEADRACE_TESTS_SUPPORT_CUDA_FAKES_H
#define HEADRACE_TESTS_SUPPORT_CUDA_FAKES_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/config.h"
#include "fakes/cuda_fake.h"

static inline void cuda_fakes_configure(struct config *config)
{
    const char *build = getenv("HR_BUILD_DIR");
    CHECK(build != NULL);
    snprintf(config->cuda_driver, sizeof(config->cuda_driver), "%s/cuda_fake/libcuda.so.1", build);
    snprintf(config->cuda_runtime, sizeof(config->cuda_runtime), "%s/cuda_fake/libcudart.so.12",
             build);
    snprintf(config->nvml, sizeof(config->nvml), "%s/cuda_fake/libnvidia-ml.so.1", build);
}

/* How often this process has called a function of the fake, which stays loaded from now on. */
static inline uint64_t cuda_fakes_calls(const char *symbol)
{
    char path[1024];
    cuda_fake_calls_fn calls = NULL;
    snprintf(path, sizeof(path), "%s/cuda_fake/libcuda_fake.so", getenv("HR_BUILD_DIR"));
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library != NULL);
    void *found = dlsym(library, CUDA_FAKE_CALLS);
    CHECK(found != NULL);
    *(void **)&calls = found;
    return calls(symbol);
}

#endif
