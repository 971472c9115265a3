/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where index files lie, and how they get there and back: DIR/.headrace/index, else a file of a
 * cache folder; always written beside and renamed, so that a reader sees a whole one. Knows nothing
 * of what is in them.
 */
#ifndef HEADRACE_COMMON_INDEX_STORE_H
#define HEADRACE_COMMON_INDEX_STORE_H

#include "common/err.h"
#include "common/limits.h"

/* Bytes of an index file, aligned to a page. */
struct index_blob {
    void *bytes;
    uint64_t count;
};

/* Fresh memory, zeroed; ERR_RESOURCE. A zeroed blob may be freed. */
MUST_USE enum status index_blob_new(uint64_t count, struct index_blob *out, struct err *err);
void index_blob_free(struct index_blob *blob);

struct index_place {
    char folder[PATH_BYTES_MAX];
    char file[PATH_BYTES_MAX];
    bool is_cache; /* then the folder has to be ours alone to write, and is made with 0700 */
};
enum { INDEX_PLACES = 2 };

/* The places for a data folder's index in order of preference; cache_dir as in index_options.
 * ERR_CONFIG: a path is too long. */
MUST_USE enum status index_store_places(const char *folder, const char *cache_dir,
                                        struct index_place out[INDEX_PLACES], struct err *err);

/* Makes the folder of a place where it is missing (*made_out, else false). ERR_IO: it cannot be
 * written. */
MUST_USE enum status index_store_prepare(const struct index_place *place, bool *made_out,
                                         struct err *err);

/*
 * ERR_MISSING: there is none; ERR_DATA: it is no regular file, or larger than bytes_max; ERR_IO.
 * Memory-mapped on local file systems; on others (NFS, FUSE, ...) read into memory: there another
 * host may replace the file, and a mapping of the old one would end in SIGBUS.
 */
MUST_USE enum status index_store_load(const struct index_place *place, uint64_t bytes_max,
                                      struct index_blob *out, struct err *err);

/* After index_store_prepare. ERR_IO: nothing was changed. */
MUST_USE enum status index_store_save(const struct index_place *place,
                                      const struct index_blob *blob, struct err *err);

#endif
