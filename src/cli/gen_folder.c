/* SPDX-License-Identifier: Apache-2.0 */
/* Where generated pictures lie; see gen_folder.h. Everything goes through the folder's descriptor.
 */
#include "cli/gen_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/gen_class.h"

static const char MARKER[] = ".headrace-gen";
static const char COMPLETE[] = "complete\n";
static const char *const SPLITS[] = {"train", "test"};

/* Changes whenever the same options give other pictures. */
enum { GEN_VERSION = 1 };

enum { LINE_BYTES = 256, NAME_MAX_BYTES = 128 };

static void describe(const struct gen_plan *plan, char line[LINE_BYTES])
{
    snprintf(line, LINE_BYTES,
             "headrace gen version %d: classes %" PRIu32 ", images %" PRIu32 ", seed %" PRIu64 "\n",
             GEN_VERSION, plan->classes, plan->images, plan->seed);
}

static enum status check_empty(const char *path, int fd, struct err *err)
{
    const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        enum status status = err_errno(err, ERR_IO, "cannot list %s", path);
        if (copy >= 0) {
            close(copy);
        }
        return status;
    }
    enum status status = OK;
    const struct dirent *entry;
    while (status == OK && (entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, MARKER) != 0) {
            status = err_set(err, ERR_USAGE,
                             "%s is not empty (it holds '%s') and not a data set of headrace gen: "
                             "it stays as it is; name a new or an empty folder",
                             path, name);
        }
    }
    closedir(dir);
    return status;
}

static enum status open_dir(const char *path, int *fd_out, struct err *err)
{
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        return err_errno(err, errno == ENOENT ? ERR_MISSING : ERR_IO, "cannot make the folder %s",
                         path);
    }
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno == ENOTDIR ? ERR_USAGE : ERR_IO, "cannot open the folder %s",
                         path);
    }
    *fd_out = fd;
    return OK;
}

static enum status open_marker(struct gen_folder *folder, struct err *err)
{
    int fd = openat(folder->fd, MARKER, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        TRY(check_empty(folder->path, folder->fd, err));
        fd = openat(folder->fd, MARKER, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    }
    if (fd < 0) {
        return err_errno(err, ERR_IO, "cannot open %s/%s", folder->path, MARKER);
    }
    folder->marker_fd = fd;
    while (flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            return err_errno(err, ERR_IO, "cannot lock %s/%s", folder->path, MARKER);
        }
    }
    return OK;
}

static enum status write_marker(const struct gen_folder *folder, const char *text, struct err *err)
{
    const size_t count = strlen(text);
    if (pwrite(folder->marker_fd, text, count, 0) != (ssize_t)count ||
        ftruncate(folder->marker_fd, (off_t)count) != 0 || fsync(folder->marker_fd) != 0) {
        return err_errno(err, ERR_IO, "cannot write %s/%s", folder->path, MARKER);
    }
    return OK;
}

/* Under the lock: whose data set is it, and is it whole? */
static enum status read_marker(struct gen_folder *folder, const struct gen_plan *plan,
                               struct err *err)
{
    char wanted[LINE_BYTES], found[LINE_BYTES + sizeof(COMPLETE)];
    describe(plan, wanted);
    const ssize_t count = pread(folder->marker_fd, found, sizeof(found) - 1, 0);
    if (count < 0) {
        return err_errno(err, ERR_IO, "cannot read %s/%s", folder->path, MARKER);
    }
    found[count] = '\0';
    if (count == 0) {
        return write_marker(folder, wanted, err);
    }
    if (strncmp(found, wanted, strlen(wanted)) != 0) {
        found[strcspn(found, "\n")] = '\0';
        wanted[strcspn(wanted, "\n")] = '\0';
        return err_set(err, ERR_USAGE,
                       "%s holds another data set ('%s', wanted '%s'): it stays as it is; remove "
                       "it or name another folder",
                       folder->path, found, wanted);
    }
    folder->complete = strcmp(found + strlen(wanted), COMPLETE) == 0;
    return OK;
}

enum status gen_folder_open(const char *path, const struct gen_plan *plan, struct gen_folder *out,
                            struct err *err)
{
    struct gen_folder folder = {.path = path, .fd = -1, .marker_fd = -1};
    enum status status = open_dir(path, &folder.fd, err);
    if (status == OK) {
        status = open_marker(&folder, err);
    }
    if (status == OK) {
        status = read_marker(&folder, plan, err);
    }
    if (status != OK) {
        gen_folder_close(&folder);
        return status;
    }
    *out = folder;
    return OK;
}

void gen_folder_close(struct gen_folder *folder)
{
    if (folder->marker_fd >= 0) {
        close(folder->marker_fd);
    }
    if (folder->fd >= 0) {
        close(folder->fd);
    }
    folder->fd = folder->marker_fd = -1;
}

static enum status make_folder(const struct gen_folder *folder, const char *name, struct err *err)
{
    if (mkdirat(folder->fd, name, 0755) != 0 && errno != EEXIST) {
        return err_errno(err, ERR_IO, "cannot make the folder %s/%s", folder->path, name);
    }
    return OK;
}

enum status gen_folder_make_classes(const struct gen_folder *folder, uint32_t classes,
                                    struct err *err)
{
    for (size_t split = 0; split < ARRAY_LEN(SPLITS); split++) {
        TRY(make_folder(folder, SPLITS[split], err));
        for (uint32_t class = 0; class < classes; class ++) {
            char class_name[GEN_NAME_BYTES], name[NAME_MAX_BYTES];
            gen_class_name(class, class_name);
            snprintf(name, sizeof(name), "%s/%s", SPLITS[split], class_name);
            TRY(make_folder(folder, name, err));
        }
    }
    return OK;
}

static enum status write_all(int fd, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            return ERR_IO;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return OK;
}

enum status gen_folder_write(const struct gen_folder *folder, uint32_t split, uint32_t class,
                             uint32_t number, const void *bytes, size_t count, struct err *err)
{
    CHECK(split < ARRAY_LEN(SPLITS));
    char class_name[GEN_NAME_BYTES], name[NAME_MAX_BYTES];
    gen_class_name(class, class_name);
    snprintf(name, sizeof(name), "%s/%s/%08" PRIu32 ".jpg", SPLITS[split], class_name, number);
    const int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return err_errno(err, ERR_IO, "cannot write %s/%s", folder->path, name);
    }
    enum status status = write_all(fd, bytes, count);
    if (status != OK) {
        status = err_errno(err, ERR_IO, "cannot write %s/%s", folder->path, name);
    }
    if (close(fd) != 0 && status == OK) {
        status = err_errno(err, ERR_IO, "cannot write %s/%s", folder->path, name);
    }
    return status;
}

enum status gen_folder_finish(struct gen_folder *folder, const struct gen_plan *plan,
                              struct err *err)
{
    char line[LINE_BYTES], text[LINE_BYTES + sizeof(COMPLETE)];
    describe(plan, line);
    snprintf(text, sizeof(text), "%s%s", line, COMPLETE);
    TRY(write_marker(folder, text, err));
    folder->complete = true;
    return OK;
}
