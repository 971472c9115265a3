/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sees to it that a rank never hangs in NCCL. The watch owns the communicator and a thread,
 * hr-nccl, that does not call NCCL itself:
 *
 *   a call in progress, or sums in flight, `timeout` past the deadline  -> as if aborted
 *   aborted (any thread)        -> ncclCommAbort in one more thread, for it may hang itself
 *   that not back in `timeout`, or a call not back `timeout` after it   -> the process ends
 *
 * The communicator is lent for one call at a time (enter, leave), so that it is never used while it
 * is being aborted, or after. The state's lock is not held during a call; the loan's is, and only
 * the aborting thread ever waits for that one, under its time limit.
 */
#ifndef HEADRACE_CONSUMER_COLL_NCCL_WATCH_H
#define HEADRACE_CONSUMER_COLL_NCCL_WATCH_H

#include "common/err.h"
#include "consumer/nccl_api.h"

struct nccl_watch;

/* Must end the process; called on the watch's thread, while others are stuck. */
typedef void (*nccl_stuck_fn)(const struct err *err);

MUST_USE enum status nccl_watch_start(const struct nccl_api *nccl, int64_t timeout_ns,
                                      nccl_stuck_fn stuck, struct nccl_watch **out,
                                      struct err *err);
/* Waits for an abort in progress (bounded: see above) and frees. No call is in progress. */
void nccl_watch_stop(struct nccl_watch **watch);

/* Around every call that may block; `call` is static text. */
void nccl_watch_begin(struct nccl_watch *watch, const char *call, int64_t deadline_ns);
void nccl_watch_end(struct nccl_watch *watch);
/* Sums are in flight outside of any call; 0: none any more. The earliest deadline stands. */
void nccl_watch_flight(struct nccl_watch *watch, int64_t deadline_ns);

/* Gives the communicator to the watch. */
void nccl_watch_adopt(struct nccl_watch *watch, struct ncclComm *comm);
/* Takes it back, to destroy it; NULL: there is none (any more). */
struct ncclComm *nccl_watch_disown(struct nccl_watch *watch);
/* Lends it until nccl_watch_leave; NULL: there is none, and nothing to leave. */
struct ncclComm *nccl_watch_enter(struct nccl_watch *watch);
void nccl_watch_leave(struct nccl_watch *watch);

/* Any thread; does not wait; may repeat. */
void nccl_watch_abort(struct nccl_watch *watch);
/* OK: not aborted. ERR_CANCELLED: asked to. ERR_TIMEOUT: it was the watch that did, for what? */
MUST_USE enum status nccl_watch_aborted(struct nccl_watch *watch, struct err *err);

#endif
