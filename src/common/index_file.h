/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index file's format: a header, arrays of 64-bit words, and one range of text. Turns a range
 * of bytes, which may come from anywhere, into a view that is safe to use, and parts into such
 * bytes. Knows no files and folders. docs/FORMATS.md is the specification.
 */
#ifndef HEADRACE_COMMON_INDEX_FILE_H
#define HEADRACE_COMMON_INDEX_FILE_H

#include "common/err.h"
#include "common/index.h"

/* The arrays, in the order in which they follow the header. Path, name: offsets into the text. */
enum index_array {
    INDEX_SAMPLE_PATH,  /* strictly ascending, bytewise */
    INDEX_SAMPLE_BYTES, /* size of the file */
    INDEX_SAMPLE_LABEL, /* int64; -1: none */
    INDEX_FOLDER_PATH,  /* of every folder that was read; "" is the data folder itself */
    INDEX_FOLDER_MTIME, /* int64, nanoseconds since 1970 */
    INDEX_CLASS_NAME,   /* strictly ascending, bytewise */
    INDEX_LEFT_PATH,    /* examples of what was left out, ordered by reason */
    INDEX_LEFT_REASON,  /* enum index_left */
    INDEX_ARRAYS,
};

/* Why a file or folder is not in the index. Numbers are part of the format. */
enum index_left {
    INDEX_LEFT_OTHER,    /* its name is no picture's */
    INDEX_LEFT_FORMAT,   /* a picture in a format that cannot be decoded */
    INDEX_LEFT_NO_CLASS, /* a picture beside the class folders */
    INDEX_LEFT_SPECIAL,  /* neither file nor folder */
    INDEX_LEFT_OUTSIDE,  /* a link out of data_root */
    INDEX_LEFT_DANGLING, /* a link to nothing */
    INDEX_LEFT_LOOP,     /* a folder inside itself */
    INDEX_LEFT_VANISHED, /* it was gone when looked at */
    INDEX_LEFT_REASONS,
};
const char *index_left_text(enum index_left reason);
enum { INDEX_LEFT_EXAMPLES = 4 }; /* kept of each reason */

enum { INDEX_VERSION = 1, INDEX_MAGIC_BYTES = 8 };
extern const char INDEX_MAGIC[INDEX_MAGIC_BYTES];

/* All fields little-endian; the file is used as it lies in memory. */
struct index_header {
    char magic[INDEX_MAGIC_BYTES];
    uint64_t sum; /* XXH3-64 of everything after this field */
    uint32_t version;
    uint32_t flags; /* INDEX_UNSETTLED */
    uint64_t file_bytes;
    uint64_t text_bytes;
    uint64_t sample_count, folder_count, class_count, left_count;
    uint64_t folder;                   /* text: the data folder's absolute path */
    uint64_t left[INDEX_LEFT_REASONS]; /* how many, by reason */
    uint64_t digest;
    uint64_t buckets[INDEX_BUCKETS];
};

/* Something changed while the data set was read, or so shortly before that a later change might not
 * show: not to be trusted for up to date. */
enum { INDEX_UNSETTLED = 1 };

/* About 10^9 samples; a larger data set belongs into shards. */
#define INDEX_FILE_BYTES_MAX (UINT64_C(1) << 36)

/* A valid index in borrowed memory. */
struct index_view {
    const struct index_header *header;
    const uint64_t *array[INDEX_ARRAYS];
    const char *text;
};

/* Number of words of an array, and a text by its array and place. */
uint64_t index_view_count(const struct index_view *view, enum index_array array);
const char *index_view_text(const struct index_view *view, enum index_array array, uint64_t i);

/*
 * bytes: aligned to 8, borrowed for the view's life. ERR_DATA says what is wrong. Once OK, every
 * offset, order and label is known to be right, every text ends inside, and no path leads out of
 * the folder.
 */
MUST_USE enum status index_view_init(const void *bytes, uint64_t count, struct index_view *out,
                                     struct err *err);

/* The view behind an open index (index.c). */
const struct index_view *index_view_of(const struct index *index);

/* What an index is made of: everything in the header but magic, version, sum, file_bytes and the
 * digests, which are computed; and the arrays. Offsets point into text. */
struct index_parts {
    struct index_header header;
    const uint64_t *array[INDEX_ARRAYS];
    const char *text;
};

/* Bytes of the file; 0: past INDEX_FILE_BYTES_MAX. */
uint64_t index_file_bytes(const struct index_header *counts);
/* Writes the file at out, which has index_file_bytes() and is aligned to 8. */
void index_file_write(const struct index_parts *parts, void *out);

/* The bucket that a sample's path belongs to, and what the sample adds to its bucket's digest. */
uint32_t index_bucket_of(const char *path);
uint64_t index_sample_hash(const struct index_view *view, uint64_t sample);

#endif
