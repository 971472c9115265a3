/* SPDX-License-Identifier: Apache-2.0 */
/* Index files on disk. See index_store.h. */
#include "common/index_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/hash.h"

enum status index_blob_new(uint64_t count, struct index_blob *out, struct err *err)
{
    void *bytes = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        return err_errno(err, ERR_RESOURCE, "index: no memory for %" PRIu64 " bytes", count);
    }
    *out = (struct index_blob){.bytes = bytes, .count = count};
    return OK;
}

void index_blob_free(struct index_blob *blob)
{
    if (blob->bytes != NULL) {
        munmap(blob->bytes, blob->count);
    }
    *blob = (struct index_blob){0};
}

/* ---- places ---- */

static enum status too_long(const char *path, struct err *err)
{
    return err_set(err, ERR_CONFIG, "index: the path %s is longer than %d bytes", path,
                   PATH_BYTES_MAX - 1);
}

static enum status join(char out[PATH_BYTES_MAX], const char *a, const char *b, struct err *err)
{
    const int length = snprintf(out, PATH_BYTES_MAX, "%s/%s", a, b);
    if (length < 0 || length >= PATH_BYTES_MAX) {
        return too_long(a, err);
    }
    return OK;
}

static enum status cache_folder(const char *cache_dir, char out[PATH_BYTES_MAX], struct err *err)
{
    if (cache_dir != NULL) {
        const int length = snprintf(out, PATH_BYTES_MAX, "%s", cache_dir);
        return length < PATH_BYTES_MAX ? OK : too_long(cache_dir, err);
    }
    const char *xdg = getenv("XDG_CACHE_HOME");
    if (xdg != NULL && xdg[0] == '/') {
        return join(out, xdg, "headrace", err);
    }
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/' && access(home, W_OK) == 0) {
        return join(out, home, ".cache/headrace", err);
    }
    char name[32];
    snprintf(name, sizeof(name), "headrace-%" PRIu64, (uint64_t)geteuid());
    return join(out, "/tmp", name, err);
}

enum status index_store_places(const char *folder, const char *cache_dir,
                               struct index_place out[INDEX_PLACES], struct err *err)
{
    struct index_place *beside = &out[0], *cache = &out[1];
    TRY(join(beside->folder, folder, ".headrace", err));
    TRY(join(beside->file, beside->folder, "index", err));
    beside->is_cache = false;
    char name[32];
    snprintf(name, sizeof(name), "%016" PRIx64 ".index", hash64(folder, strlen(folder)));
    TRY(cache_folder(cache_dir, cache->folder, err));
    TRY(join(cache->file, cache->folder, name, err));
    cache->is_cache = true;
    return OK;
}

/* Nobody else may put an index there: the cache may lie in /tmp. */
static bool folder_may_be_used(const struct index_place *place)
{
    struct stat st;
    if (stat(place->folder, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return false;
    }
    return !place->is_cache || (st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

enum status index_store_prepare(const struct index_place *place, bool *made_out, struct err *err)
{
    *made_out = false;
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof(path), "%s", place->folder);
    for (char *slash = path + 1; place->is_cache && (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700); /* whether it worked shows at the end */
        *slash = '/';
    }
    if (mkdir(path, place->is_cache ? 0700 : 0755) == 0) {
        *made_out = true;
    } else if (errno != EEXIST) {
        return err_errno(err, ERR_IO, "index: cannot make the folder %s", place->folder);
    }
    if (!folder_may_be_used(place)) {
        return err_set(err, ERR_IO, "index: %s is no folder, or others may write there",
                       place->folder);
    }
    if (access(place->folder, W_OK | X_OK) != 0) {
        return err_errno(err, ERR_IO, "index: cannot write to the folder %s", place->folder);
    }
    return OK;
}

/* ---- loading ---- */

/* Where a mapped file stays as it is when its name is given to another one. */
static bool file_system_is_local(int fd)
{
    static const uint32_t LOCAL[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,
                                     TMPFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC};
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(LOCAL); i++) {
        if ((uint32_t)fs.f_type == LOCAL[i]) {
            return true;
        }
    }
    return false;
}

static enum status read_all(int fd, const struct index_blob *blob, const char *file,
                            struct err *err)
{
    uint64_t done = 0;
    while (done < blob->count) {
        const ssize_t got =
            pread(fd, (uint8_t *)blob->bytes + done, blob->count - done, (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0 ? err_set(err, ERR_DATA, "index file %s: it is being cut", file)
                            : err_errno(err, ERR_IO, "index file %s: cannot read it", file);
        }
        done += (uint64_t)got;
    }
    return OK;
}

static enum status load_open(int fd, const char *file, uint64_t bytes_max, struct index_blob *out,
                             struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return err_errno(err, ERR_IO, "index file %s: cannot read its size", file);
    }
    const uint64_t count = (uint64_t)st.st_size;
    if (!S_ISREG(st.st_mode) || count == 0 || count > bytes_max) {
        return err_set(err, ERR_DATA,
                       "index file %s: it is no file of 1 to %" PRIu64 " bytes, but %" PRIu64, file,
                       bytes_max, count);
    }
    if (file_system_is_local(fd)) {
        void *bytes = mmap(NULL, count, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            return err_errno(err, ERR_RESOURCE, "index file %s: cannot map it", file);
        }
        *out = (struct index_blob){.bytes = bytes, .count = count};
        return OK;
    }
    struct index_blob blob = {0};
    TRY(index_blob_new(count, &blob, err));
    const enum status status = read_all(fd, &blob, file, err);
    if (status != OK) {
        index_blob_free(&blob);
        return status;
    }
    *out = blob;
    return OK;
}

enum status index_store_load(const struct index_place *place, uint64_t bytes_max,
                             struct index_blob *out, struct err *err)
{
    const int fd = folder_may_be_used(place)
                       ? open(place->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                       : -1;
    if (fd < 0) {
        return err_set(err, ERR_MISSING, "index file %s: there is none", place->file);
    }
    const enum status status = load_open(fd, place->file, bytes_max, out, err);
    close(fd);
    return status;
}

/* ---- saving ---- */

static enum status write_all(int fd, const struct index_blob *blob, const char *file,
                             struct err *err)
{
    uint64_t done = 0;
    while (done < blob->count) {
        const ssize_t put = write(fd, (const uint8_t *)blob->bytes + done, blob->count - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return err_errno(err, ERR_IO, "index file %s: cannot write it", file);
        }
        done += (uint64_t)put;
    }
    /* Other users of the data set may read it. No fsync: a torn file fails its checksum. */
    return fchmod(fd, 0644) == 0 ? OK
                                 : err_errno(err, ERR_IO, "index file %s: cannot share it", file);
}

enum status index_store_save(const struct index_place *place, const struct index_blob *blob,
                             struct err *err)
{
    char temporary[PATH_BYTES_MAX];
    TRY(join(temporary, place->folder, "index.XXXXXX", err));
    const int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, ERR_IO, "index: cannot make a file in %s", place->folder);
    }
    enum status status = write_all(fd, blob, temporary, err);
    if (close(fd) != 0 && status == OK) {
        status = err_errno(err, ERR_IO, "index file %s: cannot write it", temporary);
    }
    if (status == OK && rename(temporary, place->file) != 0) {
        status = err_errno(err, ERR_IO, "index file %s: cannot replace it", place->file);
    }
    if (status != OK) {
        (void)unlink(temporary);
    }
    return status;
}
