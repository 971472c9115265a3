/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collective of GPU ranks, one GPU a rank, over NCCL as found at run time. Beside coll_ops,
 * whose values are of host memory and go through a pinned buffer, it sums device memory in buckets
 * on a stream of its own, while the backward pass still computes the next ones:
 *
 *   for every bucket, last layer first:  record `ready` on the compute stream; coll_nccl_bucket
 *   coll_nccl_after(compute stream)      what is put on it from now on sees the sums
 *   coll_nccl_wait                       the host waits, with the deadline
 *
 * All ranks give the same buckets in the same order. A deadline is kept even where a call of the
 * vendor's hangs: see coll_nccl_watch.h.
 *
 * What an error means: ERR_TIMEOUT (deadline), ERR_CANCELLED (aborted), ERR_PEER_GONE (NCCL says
 * that a peer or the network is gone), ERR_CONFIG (ranks differ; the same text on every rank),
 * ERR_DEVICE (CUDA's or NCCL's other errors), ERR_RESOURCE.
 */
#ifndef HEADRACE_CONSUMER_COLL_NCCL_H
#define HEADRACE_CONSUMER_COLL_NCCL_H

#include "consumer/coll.h"
#include "consumer/coll_nccl_watch.h"
#include "consumer/cuda_api.h"

struct coll_gpu {
    const struct cuda_api *cuda; /* both borrowed for the collective's life */
    const struct nccl_api *nccl;
    int device;               /* CUDA's ordinal */
    int64_t abort_timeout_ns; /* for an abort, and a call's return after its deadline; 0: 5 s */
    nccl_stuck_fn stuck;      /* when that is over; NULL: the process ends with EXIT_PEER */
};

/*
 * Sums count floats of device memory over all ranks, in place, once `ready` has fired (NULL: at
 * once). Does not wait for the sum; by deadline_ns coll_nccl_wait has to have returned, or all is
 * aborted. The thread of the collective's other calls.
 */
MUST_USE enum status coll_nccl_bucket(struct coll *coll, float *device_values, size_t count,
                                      struct CUevent_st *ready, int64_t deadline_ns,
                                      struct err *err);
/* Makes the stream wait, on the device, for all buckets so far. */
MUST_USE enum status coll_nccl_after(struct coll *coll, struct CUstream_st *stream,
                                     struct err *err);
/* Waits for all buckets so far. */
MUST_USE enum status coll_nccl_wait(struct coll *coll, int64_t deadline_ns, struct err *err);

/*
 * Lets NCCL use exactly this interface, unless the user has set NCCL_SOCKET_IFNAME. Changes the
 * environment: before any other thread is there. interface NULL or "": nothing is changed.
 */
MUST_USE enum status coll_nccl_interface(const char *interface, struct err *err);

/* "NCCL 2.27.3 (/usr/lib/libnccl.so.2), 4 ranks, NCCL_SOCKET_IFNAME==eth0, network plugin: none" */
void coll_nccl_describe(const struct nccl_api *nccl, uint32_t size, char *out, size_t out_bytes);

#endif
