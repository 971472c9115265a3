/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels/launch.h on the fake GPU. */
#ifndef HEADRACE_TESTS_KERNELS_ON_SHIM_H
#define HEADRACE_TESTS_KERNELS_ON_SHIM_H

#include <check.h>

#include "fakes/cuda_shim.h"
#include "kernels/launch.h"

/* *launch and no other parameters than the kernel has. */
static inline void run_on_shim(struct launch *launch)
{
    const struct cuda_shim_kernel *kernel = cuda_shim_find(launch->kernel);
    if (kernel == NULL || kernel->parameters != launch->params) {
        ck_abort_msg("%s: no kernel of %u parameters", launch->kernel, launch->params);
    }
    if (launch->empty) {
        return;
    }
    void *params[LAUNCH_PARAMS_MAX];
    launch_params(launch, params);
    struct err err;
    if (cuda_shim_run(kernel, launch->grid, launch->block, launch->shared_bytes, params, &err) !=
        OK) {
        ck_abort_msg("%s", err.message);
    }
}

#endif
