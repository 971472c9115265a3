/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of cuda_shim know, the C one that runs threads and the C++ one that they are. */
#ifndef HEADRACE_TESTS_FAKES_CUDA_SHIM_THREAD_H
#define HEADRACE_TESTS_FAKES_CUDA_SHIM_THREAD_H

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_shim_kernel {
    const char *name;                 /* NULL ends a table */
    const char *source;               /* "gemm" of kernels/gemm.cu */
    unsigned parameters;              /* how many */
    const unsigned char *sizes;       /* of each, in bytes */
    void (*run)(void *const *params); /* one thread of it */
};

/* All of kernels/, in cuda_shim_kernels.cu. */
extern const struct cuda_shim_kernel CUDA_SHIM_KERNELS[];

struct cuda_shim_dim {
    unsigned x, y, z;
};

/* The thread that runs now. */
struct cuda_shim_thread {
    struct cuda_shim_dim thread, block, block_size, grid_size;
    void *shared;
};
extern struct cuda_shim_thread cuda_shim_self;

/* Returns when all threads of the block have come to the barrier in this line. */
void cuda_shim_barrier(int line);

#ifdef __cplusplus
}
#endif

#endif
