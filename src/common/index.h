/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a data set: an array-only binary file, memory-mapped, that says where every sample
 * lies. Format and digest are described in index.c and docs/FORMATS.md. Read-only once open, so any
 * thread may use it.
 *
 * A folder data set: sample ids follow the bytewise order of relative paths; hidden files and
 * folders are skipped; links are followed inside data_root only; labels follow the bytewise order
 * of the first-level folders. A flat folder has no classes: label -1 everywhere.
 */
#ifndef HEADRACE_COMMON_INDEX_H
#define HEADRACE_COMMON_INDEX_H

#include "common/err.h"

struct index; /* opaque */

struct index_options {
    const char
        *data_root;   /* absolute; data must lie below it after resolving links, else ERR_CONFIG */
    const char *data; /* relative to data_root, or absolute below it */
    const struct index
        *classes_of; /* an eval stream takes its class list by name from here, NULL: its own */
    const char *cache_dir; /* where the index goes when DIR/.headrace cannot be written; NULL:
                              $XDG_CACHE_HOME etc. */
};

/* Opens the index, building it first when absent or out of date. ERR_MISSING (no folder), ERR_DATA
 * (empty, unknown class), ERR_CONFIG (outside data_root), ERR_IO. May take minutes on a network
 * file system. */
MUST_USE enum status index_open(const struct index_options *options, struct index **out,
                                struct err *err);
/* As index_open, but always builds anew. */
MUST_USE enum status index_build(const struct index_options *options, struct index **out,
                                 struct err *err);
void index_free(struct index **index);

struct index_entry {
    const char *path; /* relative to the data folder; valid while the index is open */
    uint64_t bytes;   /* size at indexing time */
    int64_t label;    /* -1: none */
};

const char *index_folder(const struct index *index); /* the data folder, absolute */
uint64_t index_samples(const struct index *index);
uint32_t index_classes(const struct index *index);
const char *index_class_name(const struct index *index, uint32_t label);
void index_get(const struct index *index, uint64_t sample, struct index_entry *out);

/* The data-set digest over names, sizes and labels (not over the bytes), and its 64 bucket digests.
 */
enum { INDEX_BUCKETS = 64 };
uint64_t index_digest(const struct index *index);
uint64_t index_bucket_digest(const struct index *index, uint32_t bucket);

#endif
