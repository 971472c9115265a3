/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a data set: an array-only binary file, memory-mapped, that says where every sample
 * lies. docs/FORMATS.md is the specification of the file and of the digest. Read-only once open, so
 * any thread may use it.
 *
 * A folder data set: every regular file below the folder whose name ends like a picture
 * (index_scan.h has the list) is a sample, whatever its bytes. Sample ids follow the bytewise order
 * of relative paths; hidden files and folders and what operating systems leave behind are skipped;
 * links are followed inside data_root only; labels follow the bytewise order of the first-level
 * folders, also of those without a picture. A flat folder has no classes: label -1 everywhere.
 * What was left out is counted and named (index_note), never silent.
 */
#ifndef HEADRACE_COMMON_INDEX_H
#define HEADRACE_COMMON_INDEX_H

#include "common/err.h"
#include "common/limits.h"

struct index; /* opaque */

struct index_options {
    const char *data_root; /* data must lie below it after resolving links, else ERR_CONFIG */
    const char *data;      /* relative to data_root, or absolute below it */
    const struct index *classes_of; /* an eval stream takes its class list by name from here; NULL:
                                       its own. Borrowed for the call. */
    const char *cache_dir; /* where the index goes when DIR/.headrace cannot be written; NULL:
                              $XDG_CACHE_HOME/headrace, ~/.cache/headrace or /tmp/headrace-UID */
};

/*
 * Opens the index, building it first when absent or out of date. ERR_MISSING (no folder), ERR_DATA
 * (empty, unknown class), ERR_CONFIG (outside data_root), ERR_IO, ERR_RESOURCE. May take minutes on
 * a network file system.
 *
 * Up to date means: no file or folder was changing while it was built, every folder has the
 * modification time it had then, and every file its size; of more than 16,384 files as many, spread
 * evenly, are looked at. So an added, removed or renamed file is always seen; an overwritten file
 * of a large data set, or one of equal size, may not be: index_build.
 */
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
/* label < index_classes. */
const char *index_class_name(const struct index *index, uint32_t label);
uint64_t index_class_samples(const struct index *index, uint32_t label);
/* sample < index_samples. */
void index_get(const struct index *index, uint64_t sample, struct index_entry *out);

/* The data-set digest over names, sizes and labels (not over the bytes), and its bucket digests. */
uint64_t index_digest(const struct index *index);
uint64_t index_bucket_digest(const struct index *index, uint32_t bucket);

/* The low halves of all bucket digests: what producers and ranks tell each other, enough to find
 * out where two data sets differ. */
void index_buckets(const struct index *index, uint32_t out[INDEX_BUCKETS]);
/* Says in a line of at most `size` bytes how this data set differs from another one with these
 * buckets: which of them, and of the first one the sample that only we have, if one alone makes the
 * difference, or some of those in which it may lie. */
void index_describe_difference(const struct index *index, const uint32_t other[INDEX_BUCKETS],
                               char *out, size_t size);

/* The file that holds the index; "" when neither place could be written and it is in memory only.
 */
const char *index_place(const struct index *index);
bool index_was_built(const struct index *index); /* by the call that opened it */

/* What a person should know about the data set (files left out and why, empty classes), one line
 * each for i = 0, 1, ...; false: there is no i-th. For whoever opened it to log or print. */
bool index_note(const struct index *index, uint32_t i, char *out, size_t size);

#endif
