/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what a data set holds, in the bytewise order of paths, and makes the parts of an index
 * of it: settles which folders are classes and what number each gets. Knows no file system.
 */
#ifndef HEADRACE_COMMON_INDEX_BUILDER_H
#define HEADRACE_COMMON_INDEX_BUILDER_H

#include "common/index_file.h"

struct index_builder; /* memory grows with the data set, up to INDEX_FILE_BYTES_MAX */

MUST_USE enum status index_builder_new(struct index_builder **out, struct err *err);
void index_builder_free(struct index_builder **builder);

/* All texts are copied. ERR_RESOURCE: out of memory, or the index would be too large. */
MUST_USE enum status index_builder_add_folder(struct index_builder *builder, const char *path,
                                              int64_t mtime_ns, struct err *err);
/* The samples added from now on belong to this class; NULL: to none. */
MUST_USE enum status index_builder_set_class(struct index_builder *builder, const char *name,
                                             struct err *err);
MUST_USE enum status index_builder_add_sample(struct index_builder *builder, const char *path,
                                              uint64_t bytes, struct err *err);
/* Counts what is not in the index, and keeps the first few of each reason. */
MUST_USE enum status index_builder_leave(struct index_builder *builder, const char *path,
                                         enum index_left reason, struct err *err);
/* The data set was changing, see INDEX_UNSETTLED. */
void index_builder_set_unsettled(struct index_builder *builder);

/*
 * Sorts the classes and gives every sample its label. With at least one sample in a class, those in
 * none are left out (INDEX_LEFT_NO_CLASS); without, the data set is flat and has no classes.
 * The parts point into the builder. Nothing may be added afterwards. ERR_DATA: no sample.
 */
MUST_USE enum status index_builder_finish(struct index_builder *builder, const char *folder,
                                          struct index_parts *out, struct err *err);

#endif
