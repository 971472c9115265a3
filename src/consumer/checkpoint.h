/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints on disk: the model's state, the place in the train stream up to which it has consumed
 * (not what was prefetched), and a history, bytes of the caller's own. One file each,
 * DIR/checkpoint-<number>.hrc, with a checksum over all of it; written beside its final name,
 * synced and renamed, so that a crash at any moment leaves the ones before it whole. The last two
 * are kept. One writer per directory.
 */
#ifndef HEADRACE_CONSUMER_CHECKPOINT_H
#define HEADRACE_CONSUMER_CHECKPOINT_H

#include "common/err.h"
#include "common/limits.h"

struct checkpoint_place {
    char stream[NAME_BYTES_MAX];
    uint64_t plan_digest; /* of the stream's plan: names the job that may resume here */
    uint64_t seed;
    uint64_t step;   /* of the epoch: the next one to take */
    uint64_t digest; /* stream digest of the epoch's steps before it, summed over all ranks */
    uint32_t epoch;
};

struct checkpoint_body {
    const void *model;
    size_t model_bytes;
    const void *history;
    size_t history_bytes;
};

/* Blocks until the file and its name are on disk, then removes all but the last two. The directory
 * is made when it is missing (its parent must exist). ERR_IO names the file; the older ones are
 * then untouched. */
MUST_USE enum status checkpoint_save(const char *dir, const struct checkpoint_place *place,
                                     const struct checkpoint_body *body, struct err *err);

struct checkpoint {
    struct checkpoint_place place;
    uint32_t number; /* of the file */
    void *model;     /* owned */
    size_t model_bytes;
    void *history; /* owned */
    size_t history_bytes;
};

/*
 * The newest checkpoint of this stream, plan and seed. A damaged file, or one of another job, is
 * refused by name with a warning, and the one before it taken. ERR_MISSING: the directory holds
 * none; ERR_DATA: every one was refused (the newest one's reason); ERR_IO.
 */
MUST_USE enum status checkpoint_load(const char *dir, const char *stream, uint64_t plan_digest,
                                     uint64_t seed, struct checkpoint *out, struct err *err);
void checkpoint_fini(struct checkpoint *checkpoint);

#endif
