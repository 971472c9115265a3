/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one file of a data set, whole. Knows no picture. */
#include "producer/sample_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum status sample_file_read(int folder_fd, const struct index_entry *entry, uint8_t *bytes,
                             struct err *err)
{
    const int fd = openat(folder_fd, entry->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return err_errno(err, ERR_IO, "%s", entry->path);
    }
    struct stat info;
    if (fstat(fd, &info) != 0) {
        err_errno(err, ERR_IO, "%s", entry->path);
        close(fd);
        return ERR_IO;
    }
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != entry->bytes) {
        close(fd);
        return err_set(
            err, ERR_IO,
            "%s: changed since it was indexed (%lld bytes, the index says %llu); index again",
            entry->path, (long long)info.st_size, (unsigned long long)entry->bytes);
    }
    size_t done = 0;
    while (done < entry->bytes) {
        const ssize_t got = read(fd, bytes + done, entry->bytes - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            if (got == 0) {
                errno = ENODATA;
            }
            err_errno(err, ERR_IO, "%s: at byte %zu of %llu", entry->path, done,
                      (unsigned long long)entry->bytes);
            close(fd);
            return ERR_IO;
        }
        done += (size_t)got;
    }
    close(fd);
    return OK;
}
