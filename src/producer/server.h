/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer: a stateless server of batches to every rank of a job. The server thread owns the
 * connections and the sessions; reader threads fetch files; decode threads make samples, one at a
 * time, in order of `due`; finished parts go out at once, without a copy, from the batch pool.
 */
#ifndef HEADRACE_PRODUCER_SERVER_H
#define HEADRACE_PRODUCER_SERVER_H

#include "common/coord.h"

struct server_options {
    const struct config
        *config; /* threads, read_threads, producer_batches, on_bad, timeouts, insecure; borrowed */
    const char *data_root;       /* streams are confined to it */
    struct coord_client *coord;  /* joined as COORD_PRODUCER; borrowed */
    const struct roster *roster; /* borrowed */
    const char *host;            /* own name in the cluster */
    uint32_t index;              /* of this process on its host */
    const char *crash_record; /* file that names the samples in work, for the agent after a crash;
                                 NULL: none */
};

/* Indexes the streams, connects to every rank, serves until the job is done: OK; ERR_PEER_GONE (job
 * failed, coordinator lost, orphaned), ERR_CONFIG, ERR_DATA, ... Blocks; *stop set to true (by a
 * signal) makes it LEAVE. */
MUST_USE enum status server_run(const struct server_options *options, const volatile bool *stop,
                                struct err *err);

#endif
