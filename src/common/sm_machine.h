/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hardware and tools of this machine as the platform's toolkit reports them: by asking
 * nvidia-smi and neuron-ls, which cost up to seconds, and PATH. What training uses is found out
 * elsewhere. Blocks.
 */
#ifndef HEADRACE_COMMON_SM_MACHINE_H
#define HEADRACE_COMMON_SM_MACHINE_H

#include "common/err.h"

enum {
    SM_MACHINE_DEADLINE_MS = 30000, /* nvidia-smi without persistence takes many seconds */
    SM_MACHINE_OUTPUT_BYTES_MAX = 1 << 20,
};

struct sm_machine {
    int64_t num_cpus;    /* online, whatever the affinity */
    int64_t num_gpus;    /* lines of `nvidia-smi --list-gpus` that begin with "GPU " */
    int64_t num_neurons; /* sum of nc_count of `neuron-ls -j` */
    bool has_smddprun;   /* found in PATH */
    bool has_smddpmprun;
};

/*
 * Asks the machine; a tool that is missing or fails counts nothing. with_neurons false: neuron-ls
 * is not asked. ERR_TIMEOUT: a tool did not end within deadline_ms, and was killed; ERR_CONFIG:
 * neuron-ls printed what cannot be read.
 */
MUST_USE enum status sm_machine_probe(bool with_neurons, int64_t deadline_ms,
                                      struct sm_machine *out, struct err *err);

/*
 * For tests: takes all of it from a file instead,
 * {"num_cpus": 4, "num_gpus": 1, "num_neurons": 0} and, where true, "is_smddprun_installed" and
 * "is_smddpmprun_installed". ERR_MISSING, ERR_CONFIG.
 */
MUST_USE enum status sm_machine_read(const char *path, struct sm_machine *out, struct err *err);

#endif
