/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of coll_nccl share. */
#ifndef HEADRACE_CONSUMER_COLL_NCCL_INTERNAL_H
#define HEADRACE_CONSUMER_COLL_NCCL_INTERNAL_H

#include "common/clock.h"
#include "consumer/coll_nccl.h"

#define NCCL_VERDICT_NS NS_PER_S /* beyond the deadline: the others should hear why */

/*
 * The ranks tell each other, through rank 0 and the store, where they are and what they have; rank
 * 0 compares and gives all of them NCCL's unique id or the same error: ERR_CONFIG where they differ
 * or share a GPU. pci_id: of this rank's GPU. Returns by the deadline and NCCL_VERDICT_NS.
 */
MUST_USE enum status nccl_meet(const struct coll_options *options, const char *pci_id,
                               struct nccl_unique_id *id_out, struct err *err);

/* An error of NCCL's for people: "NCCL: ncclAllReduce: remote error (socket closed)". comm NULL: no
 * communicator is at hand. is_up: the ranks have been connected. */
enum status nccl_error(const struct nccl_api *nccl, struct ncclComm *comm, bool is_up,
                       const char *call, unsigned error, struct err *err);

#endif
