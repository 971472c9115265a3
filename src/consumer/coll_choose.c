/* SPDX-License-Identifier: Apache-2.0 */
/* Which collective a rank uses: the option, the device and the number of ranks decide. */
#include <string.h>

#include "consumer/coll.h"

enum status coll_choose(const char *wanted, bool on_gpu, uint32_t world,
                        const struct coll_ops **out, struct err *err)
{
    const bool is_auto = strcmp(wanted, "auto") == 0;
    if (strcmp(wanted, coll_nccl.name) == 0 && !on_gpu) {
        return err_set(err, ERR_CONFIG,
                       "collective nccl sums on GPUs, but this rank has none: use device cuda, or "
                       "collective auto or ring");
    }
    if (strcmp(wanted, coll_nccl.name) == 0 || (is_auto && on_gpu && world > 1)) {
        *out = &coll_nccl;
    } else {
        *out = world == 1 ? &coll_local : &coll_ring;
    }
    return OK;
}
