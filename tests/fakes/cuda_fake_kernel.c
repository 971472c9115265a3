/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake's modules and launches. An image is the name of a source (a build with
 * HEADRACE_CUDA=fake embeds those): what runs is the host build of kernels/<name>.cu.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/cuda_fake.h"
#include "fakes/cuda_fake_core.h"
#include "fakes/cuda_shim.h"

enum { NAME_BYTES = 64 };

struct CUfunc_st {
    const struct cuda_shim_kernel *kernel;
    const struct CUmod_st *module;
    struct CUfunc_st *next;
};

struct CUmod_st {
    int device;
    char source[NAME_BYTES];
    struct CUfunc_st *functions;
    struct CUmod_st *next;
};

static struct CUmod_st *modules; /* all that there are */

static bool has_source(const char *source)
{
    for (const struct cuda_shim_kernel *k = CUDA_SHIM_KERNELS; k->name != NULL; k++) {
        if (strcmp(k->source, source) == 0) {
            return true;
        }
    }
    return false;
}

unsigned cuModuleLoadData(struct CUmod_st **module, const void *image)
{
    const unsigned error = fake_begin(FAKE_cuModuleLoadData);
    if (error != 0) {
        return error;
    }
    const char *source = image;
    const int device = fake_current("cuModuleLoadData");
    if (strnlen(source, NAME_BYTES) == NAME_BYTES || !has_source(source)) {
        fake_unlock();
        return CUDA_NO_IMAGE;
    }
    struct CUmod_st *made = calloc(1, sizeof(*made));
    CHECK(made != NULL);
    made->device = device;
    snprintf(made->source, sizeof(made->source), "%s", source);
    made->next = modules;
    modules = made;
    cuda_fake.modules++;
    *module = made;
    fake_unlock();
    return CUDA_OK;
}

unsigned cuModuleUnload(struct CUmod_st *module)
{
    const unsigned error = fake_begin(FAKE_cuModuleUnload);
    if (error != 0) {
        return error;
    }
    struct CUmod_st **at = &modules;
    while (*at != module) {
        if (*at == NULL) {
            fake_abort("cuModuleUnload: this is no module, or it was unloaded before");
        }
        at = &(*at)->next;
    }
    *at = module->next;
    while (module->functions != NULL) {
        struct CUfunc_st *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    free(module);
    cuda_fake.modules--;
    fake_unlock();
    return CUDA_OK;
}

unsigned cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    const unsigned error = fake_begin(FAKE_cuModuleGetFunction);
    if (error != 0) {
        return error;
    }
    const struct cuda_shim_kernel *kernel = cuda_shim_find(name);
    if (kernel == NULL || strcmp(kernel->source, module->source) != 0) {
        fake_unlock();
        return CUDA_NOT_FOUND;
    }
    struct CUfunc_st *made = calloc(1, sizeof(*made));
    CHECK(made != NULL);
    *made = (struct CUfunc_st){.kernel = kernel, .module = module, .next = module->functions};
    module->functions = made;
    *function = made;
    fake_unlock();
    return CUDA_OK;
}

/* ---- launches ---- */

struct fake_launch {
    const struct cuda_shim_kernel *kernel;
    unsigned grid[3], block[3], shared_bytes;
    uint64_t values[FAKE_PARAMS_MAX];
    void *params[FAKE_PARAMS_MAX];
};

/* Parameters are read when the kernel is launched, not when it runs. */
static struct fake_launch *launch_new(const struct cuda_shim_kernel *kernel, void **parameters)
{
    struct fake_launch *launch = calloc(1, sizeof(*launch));
    CHECK(launch != NULL && kernel->parameters <= FAKE_PARAMS_MAX);
    launch->kernel = kernel;
    for (unsigned i = 0; i < kernel->parameters; i++) {
        CHECK(kernel->sizes[i] <= sizeof(launch->values[i]));
        memcpy(&launch->values[i], parameters[i], kernel->sizes[i]);
        launch->params[i] = &launch->values[i];
    }
    return launch;
}

bool fake_launch_touches(const struct fake_launch *launch, const struct fake_memory *memory)
{
    for (unsigned i = 0; i < launch->kernel->parameters; i++) {
        const uintptr_t at = launch->values[i];
        if (launch->kernel->sizes[i] == sizeof(void *) && at >= (uintptr_t)memory->base &&
            at < (uintptr_t)memory->base + memory->bytes) {
            return true;
        }
    }
    return false;
}

void fake_launch_run(struct fake_launch *launch)
{
    const unsigned error = fake_injected(FAKE_kernel);
    if (error != 0 && cuda_fake.lost == 0) {
        cuda_fake.lost = error;
    }
    if (cuda_fake.lost == 0) {
        struct err err = {0};
        cuda_fake.kernels++;
        fake_unlock(); /* it takes its time */
        if (cuda_shim_run(launch->kernel, launch->grid, launch->block, launch->shared_bytes,
                          launch->params, &err) != OK) {
            fake_abort("kernel %s: %s", launch->kernel->name, err.message);
        }
        fake_lock();
    }
    free(launch);
}

unsigned cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_bytes, struct CUstream_st *stream, void **parameters,
                        void **extra)
{
    const unsigned error = fake_begin(FAKE_cuLaunchKernel);
    if (error != 0) {
        return error;
    }
    if (extra != NULL || function->module->device != fake_current("cuLaunchKernel")) {
        fake_abort("cuLaunchKernel: %s", extra != NULL ? "parameters as bytes" : "wrong device");
    }
    struct fake_launch *launch = launch_new(function->kernel, parameters);
    launch->grid[0] = grid_x, launch->grid[1] = grid_y, launch->grid[2] = grid_z;
    launch->block[0] = block_x, launch->block[1] = block_y, launch->block[2] = block_z;
    launch->shared_bytes = shared_bytes;
    fake_queue_launch("cuLaunchKernel", stream, launch);
    fake_unlock();
    return CUDA_OK;
}
