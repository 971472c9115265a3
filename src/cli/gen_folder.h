/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a generated data set: DIR/train/CLASS/NUMBER.jpg, DIR/test/CLASS/NUMBER.jpg, and
 * DIR/.headrace-gen, a line that says what was asked for and a second one once all of it is there.
 * That file is also the lock: of two that make the same data set at once the second waits and finds
 * it made. A folder that does not have it and is not empty is never written to.
 */
#ifndef HEADRACE_CLI_GEN_FOLDER_H
#define HEADRACE_CLI_GEN_FOLDER_H

#include "common/err.h"

struct gen_plan {
    uint32_t classes, images;
    uint64_t seed;
};

struct gen_folder {
    const char *path; /* borrowed */
    int fd, marker_fd;
    bool complete; /* nothing is left to do */
};

/* Makes the folder where it is missing, and locks it; waits for another who has it. ERR_USAGE: it
 * holds something else, or another data set; ERR_MISSING: its parent; ERR_IO. */
MUST_USE enum status gen_folder_open(const char *path, const struct gen_plan *plan,
                                     struct gen_folder *out, struct err *err);
void gen_folder_close(struct gen_folder *folder);

/* "train" for split 0, "test" for split 1; both with a folder for each class. */
MUST_USE enum status gen_folder_make_classes(const struct gen_folder *folder, uint32_t classes,
                                             struct err *err);

/* Any thread. Writes over an older one. */
MUST_USE enum status gen_folder_write(const struct gen_folder *folder, uint32_t split,
                                      uint32_t class, uint32_t number, const void *bytes,
                                      size_t count, struct err *err);

MUST_USE enum status gen_folder_finish(struct gen_folder *folder, const struct gen_plan *plan,
                                       struct err *err);

#endif
