/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a sample that is a file of its own. */
#ifndef HEADRACE_PRODUCER_SAMPLE_FILE_H
#define HEADRACE_PRODUCER_SAMPLE_FILE_H

#include "common/index.h"

/* Reads entry->bytes bytes of the file below the folder. May block as long as the disk or network
 * does. ERR_IO: it cannot be read, or is no longer what was indexed; the bytes may still be good
 * elsewhere or later. */
MUST_USE enum status sample_file_read(int folder_fd, const struct index_entry *entry,
                                      uint8_t *bytes, struct err *err);

#endif
