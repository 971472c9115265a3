/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Just so much of a CUDA runtime as a collective needs: device memory is host memory, a stream is a
 * thread with a queue. For the fake NCCL, which joins a stream by cudaLaunchHostFunc; the program
 * that links this has to export its symbols.
 */
#ifndef HEADRACE_TESTS_FAKES_STREAMS_H
#define HEADRACE_TESTS_FAKES_STREAMS_H

#include "consumer/cuda_api.h"

/* The functions that exist here; the others are NULL. HR_FAKE_STREAMS_FAIL=CALL in the environment
 * makes that one fail. */
void streams_table(struct cuda_api *out);

/* As CUDA's: runs a function of the host on the stream. */
__attribute__((visibility("default"))) unsigned
cudaLaunchHostFunc(struct CUstream_st *stream, void (*run)(void *context), void *context);

#endif
