/* SPDX-License-Identifier: Apache-2.0 */
/* The collective of a single rank: a sum over one is the value itself. */
#include <stdatomic.h>
#include <stdlib.h>

#include "consumer/coll.h"

struct coll {
    atomic_bool aborted;
};

static enum status local_init(const struct coll_options *options, struct coll **out,
                              struct err *err)
{
    if (options->size != 1 || options->rank != 0) {
        return err_set(err, ERR_MISUSE, "local collective: rank %u of %u, but it knows only one",
                       options->rank, options->size);
    }
    struct coll *coll = calloc(1, sizeof(*coll));
    if (coll == NULL) {
        return err_set(err, ERR_RESOURCE, "local collective: out of memory");
    }
    *out = coll;
    return OK;
}

static enum status check_not_aborted(struct coll *coll, struct err *err)
{
    if (atomic_load(&coll->aborted)) {
        return err_set(err, ERR_CANCELLED, "local collective: aborted");
    }
    return OK;
}

static enum status local_allreduce(struct coll *coll, float *values, size_t count,
                                   int64_t deadline_ns, struct err *err)
{
    return check_not_aborted(coll, err);
}

static enum status local_broadcast(struct coll *coll, void *bytes, size_t count, uint32_t root,
                                   int64_t deadline_ns, struct err *err)
{
    CHECK(root == 0);
    return check_not_aborted(coll, err);
}

static enum status local_barrier(struct coll *coll, int64_t deadline_ns, struct err *err)
{
    return check_not_aborted(coll, err);
}

static void local_abort(struct coll *coll)
{
    atomic_store(&coll->aborted, true);
}

static void local_free(struct coll **coll)
{
    free(*coll);
    *coll = NULL;
}

const struct coll_ops coll_local = {
    .name = "local",
    .init = local_init,
    .allreduce = local_allreduce,
    .broadcast = local_broadcast,
    .barrier = local_barrier,
    .abort = local_abort,
    .free = local_free,
};
