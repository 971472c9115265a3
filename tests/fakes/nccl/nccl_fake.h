/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake NCCL that really sums and sends between processes, over sockets of this machine: a star
 * around rank 0, which sums in rank order. It takes part in a stream by cudaLaunchHostFunc, so it
 * needs a fake CUDA runtime that has that function, whose device memory the host can read:
 * the program's own, or a loaded libcudart.
 *
 * Like NCCL: with blocking=0 calls return before they are done; a rank that loses a peer learns it
 * from ncclCommGetAsyncError, and its stream then stands still until the abort.
 *
 * Environment, read at each call:
 *
 *   HR_FAKE_NCCL_VERSION   what ncclGetVersion says (default 22703); ranks that differ cannot
 * connect HR_FAKE_NCCL_FAULT     faults, separated by commas: CALL:KIND:N, of the N-th call from 1
 *       fail    returns an error (or no text)
 *       stall   does not return
 *       hang    returns, but what it began never ends (until the abort)
 *       late    returns; later the communicator has an error, and what it began never ends
 *   HR_FAKE_NCCL_FIRED     a descriptor that gets a byte for each fault that was met
 */
#ifndef HEADRACE_TESTS_FAKES_NCCL_FAKE_H
#define HEADRACE_TESTS_FAKES_NCCL_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "consumer/nccl_api.h"

enum fault { FAULT_NONE, FAULT_FAIL, FAULT_STALL, FAULT_HANG, FAULT_LATE };

enum fake_call {
#define NCCL_CALL(result, symbol, parameters) CALL_##symbol,
#include "consumer/nccl_calls.def"
    CALL_COUNT
};

/* Counts the call and says what is to happen to it; does not return for `stall`. */
enum fault fake_fault(enum fake_call call);

struct ncclComm {
    _Atomic unsigned state;
    _Atomic int refs; /* its owner's, its linker's, one for every operation on a stream */
    int abort_fd;     /* readable from the abort on */
    int listen_fd;    /* rank 0 */
    uint32_t rank, size;
    int *peers; /* rank 0: of every rank; else [0]: rank 0 */
    char id[32];
    char last[128];
    bool will_not_connect;
};

/* An id is the name of a listening socket, which waits here for rank 0's communicator. */
bool fake_listen(char id[32]);
int fake_take_listener(const char *id);

/* Connects the ranks: true, or comm->last says why not. */
bool fake_link(struct ncclComm *comm);
/* Moves bytes to or from a rank until done; false: aborted, or the rank is lost (comm->last). */
bool fake_send(struct ncclComm *comm, uint32_t rank, const void *bytes, size_t count);
bool fake_receive(struct ncclComm *comm, uint32_t rank, void *bytes, size_t count);
bool fake_is_aborted(struct ncclComm *comm);
void fake_await_abort(struct ncclComm *comm);

#endif
