/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk. One frame per folder on the way down; a frame reads its folder whole, sorts it, and is
 * then worked off entry by entry. Names of folders carry a '/' at the end while they are sorted,
 * which makes the order of the walk the bytewise order of full paths.
 */
#include "common/index_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/limits.h"

enum entry_kind {
    ENTRY_LEFT, /* reason says why */
    ENTRY_SAMPLE,
    ENTRY_FOLDER,
};

struct entry {
    size_t name; /* offset into the frame's names */
    uint64_t bytes;
    enum entry_kind kind;
    enum index_left reason;
};

struct frame {
    DIR *dir;
    dev_t device;
    ino_t inode;
    size_t prefix; /* bytes of the scan's path that lead here */
    struct entry *entries;
    char *names;
    size_t entry_count, entry_capacity, next;
    size_t name_bytes, name_capacity;
};

struct scan {
    const struct index_scan_options *options;
    struct index_builder *builder;
    int64_t begun_ns;          /* wall clock, as the file system's times */
    char path[PATH_BYTES_MAX]; /* relative: the prefix of the top frame, then a name */
    struct frame frames[INDEX_DEPTH_MAX];
    uint32_t depth;
};

/* ---- names ---- */

enum index_name_kind index_name_kind(const char *name)
{
    static const char *const PICTURES[] = {"jpg", "jpeg", "jpe", "jfif", "png"};
    static const char *const OTHER_PICTURES[] = {"avif", "bmp", "gif",  "heic", "heif",
                                                 "j2k",  "jp2", "jxl",  "mpo",  "pgm",
                                                 "ppm",  "tif", "tiff", "webp"};
    const char *dot = strrchr(name, '.');
    if (dot == NULL || dot == name) {
        return INDEX_NAME_OTHER;
    }
    for (size_t i = 0; i < ARRAY_LEN(PICTURES); i++) {
        if (strcasecmp(dot + 1, PICTURES[i]) == 0) {
            return INDEX_NAME_PICTURE;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(OTHER_PICTURES); i++) {
        if (strcasecmp(dot + 1, OTHER_PICTURES[i]) == 0) {
            return INDEX_NAME_UNKNOWN_FORMAT;
        }
    }
    return INDEX_NAME_OTHER;
}

/* Hidden, or left behind by an operating system: never part of a data set, and no class. */
static bool name_is_hidden(const char *name)
{
    static const char *const SYSTEM[] = {"$RECYCLE.BIN", "@eaDir", "System Volume Information",
                                         "__MACOSX", "lost+found"};
    if (name[0] == '.') {
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(SYSTEM); i++) {
        if (strcmp(name, SYSTEM[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool index_path_is_below(const char *resolved, const char *root)
{
    const size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    return strncmp(resolved, root, length) == 0 &&
           (resolved[length] == '\0' || resolved[length] == '/');
}

/* Puts a name behind the frame's prefix in scan->path. */
static enum status set_path(struct scan *scan, const struct frame *frame, const char *name,
                            struct err *err)
{
    const size_t length = strlen(name);
    if (frame->prefix + length >= sizeof(scan->path)) {
        scan->path[frame->prefix] = '\0';
        return err_set(err, ERR_DATA, "%s/%s%.32s...: this path is longer than %d bytes",
                       scan->options->folder, scan->path, name, PATH_BYTES_MAX - 1);
    }
    memcpy(scan->path + frame->prefix, name, length + 1);
    return OK;
}

/* ---- one folder ---- */

static int64_t time_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * NS_PER_S + time->tv_nsec;
}

static int64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return time_ns(&now);
}

/* A time in the far future is a wrong clock's and no sign of a change. */
static void note_change(struct scan *scan, int64_t mtime_ns)
{
    const int64_t window_ns = INDEX_SETTLE_S * NS_PER_S;
    if (mtime_ns > scan->begun_ns - window_ns && mtime_ns < wall_ns() + window_ns) {
        index_builder_set_unsettled(scan->builder);
    }
}

static enum status grow(void **at, size_t *capacity, size_t needed, size_t item_bytes,
                        struct err *err)
{
    if (needed <= *capacity) {
        return OK;
    }
    const size_t wanted = 2 * needed + 1024;
    void *grown =
        wanted <= INDEX_FILE_BYTES_MAX / item_bytes ? realloc(*at, wanted * item_bytes) : NULL;
    if (grown == NULL) {
        return err_set(err, ERR_RESOURCE, "index: no memory for a folder of %zu entries", needed);
    }
    *at = grown;
    *capacity = wanted;
    return OK;
}

static enum status add_entry(struct frame *frame, const char *name, struct entry entry,
                             struct err *err)
{
    const bool is_folder = entry.kind == ENTRY_FOLDER;
    const size_t length = strlen(name);
    void *names = frame->names;
    TRY(grow(&names, &frame->name_capacity, frame->name_bytes + length + 2, 1, err));
    frame->names = names;
    void *entries = frame->entries;
    TRY(grow(&entries, &frame->entry_capacity, frame->entry_count + 1, sizeof(entry), err));
    frame->entries = entries;
    entry.name = frame->name_bytes;
    memcpy(frame->names + frame->name_bytes, name, length);
    frame->name_bytes += length;
    if (is_folder) {
        frame->names[frame->name_bytes++] = '/';
    }
    frame->names[frame->name_bytes++] = '\0';
    frame->entries[frame->entry_count++] = entry;
    return OK;
}

static struct entry left(enum index_left reason)
{
    return (struct entry){.kind = ENTRY_LEFT, .reason = reason};
}

static struct entry left_for_name(enum index_name_kind kind)
{
    return left(kind == INDEX_NAME_UNKNOWN_FORMAT ? INDEX_LEFT_FORMAT : INDEX_LEFT_OTHER);
}

/* What a file, folder or other thing is to the data set. */
static struct entry entry_of(struct scan *scan, enum index_name_kind kind, const struct stat *st)
{
    if (S_ISDIR(st->st_mode)) {
        return (struct entry){.kind = ENTRY_FOLDER};
    }
    if (kind != INDEX_NAME_PICTURE) {
        return left_for_name(kind);
    }
    if (!S_ISREG(st->st_mode)) {
        return left(INDEX_LEFT_SPECIAL);
    }
    note_change(scan, time_ns(&st->st_mtim));
    return (struct entry){.kind = ENTRY_SAMPLE, .bytes = (uint64_t)st->st_size};
}

/* scan->path names a link. */
static enum status examine_link(struct scan *scan, enum index_name_kind kind, struct entry *out,
                                struct err *err)
{
    char link[2 * PATH_BYTES_MAX];
    snprintf(link, sizeof(link), "%s/%s", scan->options->folder, scan->path);
    char *target = realpath(link, NULL);
    struct stat st;
    enum status status = OK;
    if (target == NULL || stat(target, &st) != 0) {
        if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR || errno == EACCES) {
            *out = left(INDEX_LEFT_DANGLING);
        } else {
            status = err_errno(err, ERR_IO, "%s: cannot follow this link", link);
        }
    } else if (!index_path_is_below(target, scan->options->data_root)) {
        *out = left(INDEX_LEFT_OUTSIDE);
    } else {
        *out = entry_of(scan, kind, &st);
    }
    free(target);
    return status;
}

/* type: of readdir, DT_UNKNOWN where the file system gives none. */
static enum status examine(struct scan *scan, const struct frame *frame, const char *name,
                           unsigned char type, struct entry *out, struct err *err)
{
    const enum index_name_kind kind = index_name_kind(name);
    if (type == DT_DIR) {
        *out = (struct entry){.kind = ENTRY_FOLDER};
        return OK;
    }
    if (type == DT_REG && kind != INDEX_NAME_PICTURE) {
        *out = left_for_name(kind);
        return OK;
    }
    TRY(set_path(scan, frame, name, err));
    struct stat st;
    if (fstatat(dirfd(frame->dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) {
            *out = left(INDEX_LEFT_VANISHED);
            return OK;
        }
        return err_errno(err, ERR_IO, "%s/%s: cannot read its size", scan->options->folder,
                         scan->path);
    }
    if (S_ISLNK(st.st_mode)) {
        return examine_link(scan, kind, out, err);
    }
    *out = entry_of(scan, kind, &st);
    return OK;
}

static int compare_entry(const void *a, const void *b, void *names)
{
    return strcmp((const char *)names + ((const struct entry *)a)->name,
                  (const char *)names + ((const struct entry *)b)->name);
}

/* Fills the frame with what its folder holds, in order. */
static enum status read_folder(struct scan *scan, struct frame *frame, struct err *err)
{
    frame->entry_count = frame->next = frame->name_bytes = 0;
    while (true) {
        errno = 0;
        const struct dirent *found = readdir(frame->dir);
        if (found == NULL) {
            break;
        }
        if (name_is_hidden(found->d_name)) {
            continue;
        }
        struct entry entry;
        TRY(examine(scan, frame, found->d_name, found->d_type, &entry, err));
        TRY(add_entry(frame, found->d_name, entry, err));
    }
    if (errno != 0) {
        scan->path[frame->prefix] = '\0';
        return err_errno(err, ERR_IO, "%s/%s: cannot read this folder", scan->options->folder,
                         scan->path);
    }
    if (frame->entry_count > 0) {
        qsort_r(frame->entries, frame->entry_count, sizeof(*frame->entries), compare_entry,
                frame->names);
    }
    return OK;
}

/* ---- the walk ---- */

static bool is_open_already(const struct scan *scan, const struct stat *st)
{
    for (uint32_t i = 0; i < scan->depth; i++) {
        if (scan->frames[i].device == st->st_dev && scan->frames[i].inode == st->st_ino) {
            return true;
        }
    }
    return false;
}

/* Makes the folder of an open descriptor, which is taken, the top frame. scan->path is its path,
 * without a '/' at the end. */
static enum status push_folder(struct scan *scan, int fd, const struct stat *st, struct err *err)
{
    struct frame *frame = &scan->frames[scan->depth];
    frame->dir = fdopendir(fd);
    if (frame->dir == NULL) {
        close(fd);
        return err_errno(err, ERR_RESOURCE, "%s/%s: cannot read this folder", scan->options->folder,
                         scan->path);
    }
    frame->device = st->st_dev;
    frame->inode = st->st_ino;
    frame->prefix = strlen(scan->path);
    scan->depth++; /* from here on index_scan closes it */
    TRY(index_builder_add_folder(scan->builder, scan->path, time_ns(&st->st_mtim), err));
    if (scan->depth > 1 || !scan->options->made_subfolder) {
        note_change(scan, time_ns(&st->st_mtim));
    }
    if (frame->prefix > 0) {
        TRY(set_path(scan, frame, "/", err));
        frame->prefix++;
    }
    return read_folder(scan, frame, err);
}

/* name ends with a '/'. */
static enum status enter_folder(struct scan *scan, const struct frame *parent, const char *name,
                                struct err *err)
{
    TRY(set_path(scan, parent, name, err));
    scan->path[parent->prefix + strlen(name) - 1] = '\0';
    const char *path = scan->path;
    const int fd = openat(dirfd(parent->dir), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return index_builder_leave(scan->builder, path, INDEX_LEFT_VANISHED, err);
    }
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        const enum status status =
            err_errno(err, ERR_IO, "%s/%s: cannot open this folder", scan->options->folder, path);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    if (is_open_already(scan, &st)) {
        close(fd);
        return index_builder_leave(scan->builder, path, INDEX_LEFT_LOOP, err);
    }
    if (scan->depth == INDEX_DEPTH_MAX) {
        close(fd);
        return err_set(err, ERR_DATA, "%s/%s: folders are nested more than %d deep",
                       scan->options->folder, path, INDEX_DEPTH_MAX);
    }
    if (scan->depth == 1) {
        const enum status status = index_builder_set_class(scan->builder, path, err);
        if (status != OK) {
            close(fd);
            return status;
        }
    }
    return push_folder(scan, fd, &st, err);
}

static enum status leave_folder(struct scan *scan, struct err *err)
{
    struct frame *frame = &scan->frames[--scan->depth];
    closedir(frame->dir);
    return scan->depth == 1 ? index_builder_set_class(scan->builder, NULL, err) : OK;
}

static enum status walk(struct scan *scan, struct err *err)
{
    while (scan->depth > 0) {
        struct frame *frame = &scan->frames[scan->depth - 1];
        if (frame->next == frame->entry_count) {
            TRY(leave_folder(scan, err));
            continue;
        }
        const struct entry *entry = &frame->entries[frame->next++];
        const char *name = frame->names + entry->name;
        if (frame->next > 1 && strcmp(name, frame->names + entry[-1].name) == 0) {
            continue; /* readdir may name a file twice while the folder changes */
        }
        if (entry->kind == ENTRY_FOLDER) {
            TRY(enter_folder(scan, frame, name, err));
            continue;
        }
        TRY(set_path(scan, frame, name, err));
        TRY(entry->kind == ENTRY_SAMPLE
                ? index_builder_add_sample(scan->builder, scan->path, entry->bytes, err)
                : index_builder_leave(scan->builder, scan->path, entry->reason, err));
    }
    return OK;
}

static enum status enter_root(struct scan *scan, struct err *err)
{
    const char *folder = scan->options->folder;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        const enum status status = err_errno(err, errno == ENOENT ? ERR_MISSING : ERR_IO,
                                             "%s: cannot open this folder", folder);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    return push_folder(scan, fd, &st, err);
}

enum status index_scan(const struct index_scan_options *options, struct index_builder *builder,
                       struct err *err)
{
    struct scan *scan = calloc(1, sizeof(*scan));
    if (scan == NULL) {
        return err_set(err, ERR_RESOURCE, "index: no memory");
    }
    scan->options = options;
    scan->builder = builder;
    scan->begun_ns = wall_ns();
    enum status status = enter_root(scan, err);
    if (status == OK) {
        status = walk(scan, err);
    }
    while (scan->depth > 0) {
        closedir(scan->frames[--scan->depth].dir);
    }
    for (size_t i = 0; i < INDEX_DEPTH_MAX; i++) {
        free(scan->frames[i].entries);
        free(scan->frames[i].names);
    }
    free(scan);
    return status;
}
