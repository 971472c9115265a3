/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `headrace env` that have a file of their own. */
#ifndef HEADRACE_CLI_CMD_ENV_H
#define HEADRACE_CLI_CMD_ENV_H

#include "common/config.h"

/*
 * Prints a line for each library of CUDA and for NCCL, found or missing, one for the kernels, then
 * one for each card.
 * ERR_DEVICE: no GPU can be used, and why; a missing NVML or NCCL is only told.
 */
MUST_USE enum status env_print_gpu(const struct config *config, struct err *err);

#endif
