/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU without hardware, as far as kernels go: the .cu files of kernels/ are compiled as host C++
 * (cuda_shim_device.h is their language) and every thread of every block is run, as a fibre, up to
 * its next barrier. One launch at a time, on the caller's thread; other callers wait.
 *
 * What it finds, and reports as ERR_DEVICE: sizes that no device takes; a barrier at which not all
 * threads of the block arrive, or not at the same one. What its user can find: shared memory is
 * exactly as large as asked for, on the heap (so the address sanitizer guards it), and holds 0xFF
 * (a NaN) at the start of every block; and threads and blocks run in the order of the user's
 * choice, so a race between two barriers gives other results in another order.
 *
 * What it does not show: speed, occupancy, races of threads that run at once within one statement.
 */
#ifndef HEADRACE_TESTS_FAKES_CUDA_SHIM_H
#define HEADRACE_TESTS_FAKES_CUDA_SHIM_H

#include "common/err.h"
#include "fakes/cuda_shim_thread.h"

/* NULL: there is none of that name. */
const struct cuda_shim_kernel *cuda_shim_find(const char *name);

/* Runs all of it before it returns. params as for cuLaunchKernel: the address of each parameter.
 * ERR_MISUSE: no such kernel; ERR_DEVICE: see above (what the kernel wrote until then stays). */
MUST_USE enum status cuda_shim_launch(const char *name, const unsigned grid[3],
                                      const unsigned block[3], size_t shared_bytes,
                                      void *const *params, struct err *err);
MUST_USE enum status cuda_shim_run(const struct cuda_shim_kernel *kernel, const unsigned grid[3],
                                   const unsigned block[3], size_t shared_bytes,
                                   void *const *params, struct err *err);

/* Of the threads between two barriers, and of the blocks; for all later launches. */
enum cuda_shim_order {
    CUDA_SHIM_FORWARD,
    CUDA_SHIM_BACKWARD,
    CUDA_SHIM_SHUFFLED, /* another order between every two barriers */
    CUDA_SHIM_ORDERS,   /* how many there are */
};
void cuda_shim_set_order(enum cuda_shim_order order, uint64_t seed);

#endif
