/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a folder data set once, in the bytewise order of relative paths, and tells a builder what
 * is there. Opens folders only, never a file, so that a FIFO or a device cannot stop it. No link is
 * followed out of data_root, and no folder is entered inside itself.
 */
#ifndef HEADRACE_COMMON_INDEX_SCAN_H
#define HEADRACE_COMMON_INDEX_SCAN_H

#include "common/index_builder.h"

enum {
    INDEX_DEPTH_MAX = 32, /* folders inside each other; each holds a descriptor while it is read */
    INDEX_SETTLE_S = 3,   /* what changed so shortly before may change again without showing: some
                             file systems count modification times in whole seconds or two */
};

struct index_scan_options {
    const char *data_root; /* absolute, links resolved */
    const char *folder;    /* absolute, links resolved, data_root or below */
    bool made_subfolder;   /* by us, just now: the folder's modification time says nothing */
};

/* ERR_IO: a folder or a file's properties cannot be read; ERR_DATA: nested too deep, or a path too
 * long; ERR_RESOURCE. A file that vanishes meanwhile is left out. */
MUST_USE enum status index_scan(const struct index_scan_options *options,
                                struct index_builder *builder, struct err *err);

/* By the end of its name, without case: jpg, jpeg, jpe, jfif, png, and formats that are known but
 * cannot be decoded. */
enum index_name_kind { INDEX_NAME_PICTURE, INDEX_NAME_UNKNOWN_FORMAT, INDEX_NAME_OTHER };
enum index_name_kind index_name_kind(const char *name);

/* resolved is root or lies below it; both absolute and without links. */
bool index_path_is_below(const char *resolved, const char *root);

#endif
