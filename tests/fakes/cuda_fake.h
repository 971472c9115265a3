/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's runtime and driver and NVML without hardware, as shared libraries: libcuda.so.1,
 * libcudart.so.12 and libnvidia-ml.so.1 in build/cuda_fake/, to be named by the options
 * cuda_driver, cuda_runtime and nvml. They have the functions of cuda_calls.def. Device memory is
 * the host's and can be read; a stream is a queue and a thread that works it off in real time.
 *
 * It ends the process (SIGABRT, "cuda_fake: " and what was wrong) for
 *   a copy from or to the host of memory that is not pinned, or out of an allocation's bounds
 *   a source that was changed between the call and the end of its copy
 *   memory, an event or a stream freed while something queued uses it; memory freed twice
 *   a call by a thread that was told of a sticky error before
 *   a thread that chose no device, or uses a stream, event or memory of another one
 *   the default stream; a wait for a whole device or stream; a child that was forked
 *
 * Environment, read at the first call:
 *   HR_FAKE_CUDA_GPUS        how many (2); CUDA_VISIBLE_DEVICES chooses among them
 *   HR_FAKE_CUDA_LATENCY_US  of a copy (0), in its stream's thread
 *   HR_FAKE_CUDA_MBPS        megabytes a second (0: as fast as memory)
 *   HR_FAKE_CUDA_FAIL        CALL:N:ERROR[,...]: the N-th call (from 1) of that function returns
 *                            the error; "copy", "kernel" for CALL: the N-th to be worked off;
 *                            "any": the N-th call of all those that a lost context would end.
 *                            Errors that lose a context (700, 719, ...) are returned by all that
 *                            follows
 *   HR_FAKE_CUDA_XID, HR_FAKE_CUDA_ECC   what NVML tells after a sticky error
 *   HR_FAKE_CUDA_NODE        the memory node of every GPU, by NVML
 *   HR_FAKE_CUDA_LOG         a file to which a process that ends well adds a line of what it did
 *
 * Kernels are those of cuda_shim.h, run by their stream's thread; an image is a source's name. Not
 * there: timing, several contexts.
 */
#ifndef HEADRACE_TESTS_FAKES_CUDA_FAKE_H
#define HEADRACE_TESTS_FAKES_CUDA_FAKE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CUDA_FAKE_POISON = 0xDB, /* what new memory and a running copy's target hold */
    CUDA_FAKE_LOST = 719,    /* a sticky error */
    CUDA_FAKE_BAD_DEVICE = 101,
};

/* Of a process that has loaded it; to be looked up by name in any of the three. */
typedef uint64_t (*cuda_fake_calls_fn)(const char *symbol);
#define CUDA_FAKE_CALLS "cuda_fake_calls" /* how often a function was called, failures included */

#endif
