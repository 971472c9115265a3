/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's watcher: the thread that hears signals and the coordinator's events while the main
 * thread waits for data or for other ranks. It ends those waits, and the process itself when the
 * main thread does not end in time: no rank outlives a failed job.
 *
 *   SIGTERM etc. once   the job is asked to stop at a common step; the loop goes on until then
 *   a second time       the process ends at once, 128 + signal
 *   FAIL or lost        collective aborted, feed closed; 0.5 s later the process ends
 *   train_watch_fail    the same
 *   STOP_AT(0)          the same, but a good end: no step was begun
 *   STOP_AT again       the collective is aborted if the main thread is in the step given up
 */
#ifndef HEADRACE_CLI_TRAIN_WATCH_H
#define HEADRACE_CLI_TRAIN_WATCH_H

#include "common/coord.h"
#include "consumer/coll.h"
#include "consumer/feed.h"

struct train_watch;

/* Blocks the stop signals in this thread, and so in those it starts from now on; *fd_out is
 * readable when one came. Before any other thread is there. */
MUST_USE enum status train_watch_signals(int *fd_out, struct err *err);

/* Takes over signal_fd and the client's events. */
MUST_USE enum status train_watch_start(struct coord_client *coord, int signal_fd,
                                       struct train_watch **out, struct err *err);

/* What to end when the job has failed; at once if it has. Either may be NULL and come later. */
void train_watch_attach(struct train_watch *watch, struct feed *feed,
                        const struct coll_ops *coll_ops, struct coll *coll);

/* Any thread: this rank cannot go on, whatever its main thread waits for. The process ends with
 * err's exit code and text as after a FAIL, unless the job has failed already. Does not block. */
void train_watch_fail(struct train_watch *watch, const struct err *err);

/* Waits until the job is known to have failed, at most so long. */
void train_watch_await(struct train_watch *watch, int64_t timeout_ns);

/* Joins the thread, before what is attached is freed. True: the job has failed, or was stopped
 * before it began (ERR_CANCELLED); *code_out is what to exit with and err why. */
bool train_watch_stop(struct train_watch *watch, int *code_out, struct err *err);
/* Stopped before; when nobody can call train_watch_fail any more. */
void train_watch_free(struct train_watch **watch);

#endif
