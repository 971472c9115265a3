/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a data set's index: finds the folder, takes an index that is up to date or builds one,
 * and puts another stream's classes in place of its own. The file is index_file's, its place
 * index_store's, the walk index_scan's.
 */
#include "common/index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/index_builder.h"
#include "common/index_file.h"
#include "common/index_scan.h"
#include "common/index_store.h"

struct index {
    char root[PATH_BYTES_MAX]; /* data_root and the data folder, without links */
    char folder[PATH_BYTES_MAX];
    struct index_blob blob;
    struct index_view view;
    char place[PATH_BYTES_MAX]; /* "": in memory only */
    bool was_built;
    uint32_t class_count; /* of the classes that labels mean: own ones, or another stream's */
    const char **class_names;
    char *class_text;  /* behind another stream's names, else NULL */
    int64_t *label_of; /* own class -> the other stream's label, else NULL */
    uint64_t *class_samples;
    uint64_t digest;
};

/* Files whose size is compared with an index; more take too long on a network. */
enum { RECHECK_FILES_MAX = 16384 };

/* ---- the folder ---- */

static enum status resolve(const char *path, const char *what, char out[PATH_BYTES_MAX],
                           struct err *err)
{
    char *resolved = realpath(path, NULL);
    if (resolved == NULL) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        return err_errno(err, missing ? ERR_MISSING : ERR_IO, "%s %s", what, path);
    }
    struct stat st;
    enum status status = OK;
    if (stat(resolved, &st) != 0 || !S_ISDIR(st.st_mode)) {
        status = err_set(err, ERR_MISSING, "%s %s: it is no folder", what, path);
    } else if (snprintf(out, PATH_BYTES_MAX, "%s", resolved) >= PATH_BYTES_MAX) {
        status = err_set(err, ERR_CONFIG, "%s %s: the path is longer than %d bytes", what, path,
                         PATH_BYTES_MAX - 1);
    }
    free(resolved);
    return status;
}

static enum status find_folder(const struct index_options *options, struct index *index,
                               struct err *err)
{
    TRY(resolve(options->data_root, "data_root", index->root, err));
    char path[2 * PATH_BYTES_MAX];
    const bool absolute = options->data[0] == '/';
    const int length = snprintf(path, sizeof(path), "%s%s%s", absolute ? "" : index->root,
                                absolute ? "" : "/", options->data);
    if (length < 0 || length >= (int)sizeof(path)) {
        return err_set(err, ERR_CONFIG, "data folder: the path is longer than %zu bytes",
                       sizeof(path));
    }
    TRY(resolve(path, "data folder", index->folder, err));
    if (!index_path_is_below(index->folder, index->root)) {
        return err_set(
            err, ERR_CONFIG,
            "data folder %s: %s lies outside data_root %s: move the data, or set data_root",
            options->data, index->folder, index->root);
    }
    return OK;
}

/* ---- up to date? ---- */

static bool folders_are_unchanged(const struct index_view *view, int fd)
{
    for (uint64_t i = 0; i < view->header->folder_count; i++) {
        const char *path = index_view_text(view, INDEX_FOLDER_PATH, i);
        struct stat st;
        if (fstatat(fd, path[0] == '\0' ? "." : path, &st, 0) != 0) {
            return false;
        }
        const int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
        if (!S_ISDIR(st.st_mode) || (uint64_t)mtime_ns != view->array[INDEX_FOLDER_MTIME][i]) {
            return false;
        }
    }
    return true;
}

static bool files_are_unchanged(const struct index_view *view, int fd)
{
    const uint64_t count = view->header->sample_count;
    const uint64_t checks = count < RECHECK_FILES_MAX ? count : RECHECK_FILES_MAX;
    for (uint64_t i = 0; i < checks; i++) {
        const uint64_t sample = (uint64_t)((unsigned __int128)i * count / checks);
        struct stat st;
        if (fstatat(fd, index_view_text(view, INDEX_SAMPLE_PATH, sample), &st, 0) != 0 ||
            !S_ISREG(st.st_mode) ||
            (uint64_t)st.st_size != view->array[INDEX_SAMPLE_BYTES][sample]) {
            return false;
        }
    }
    return true;
}

static bool is_up_to_date(const struct index_view *view, const char *folder)
{
    if ((view->header->flags & INDEX_UNSETTLED) != 0) {
        return false;
    }
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const bool unchanged = folders_are_unchanged(view, fd) && files_are_unchanged(view, fd);
    close(fd);
    return unchanged;
}

/* ---- taking and building ---- */

/* ERR_DATA: there is a file, but it is no index of this folder. */
static enum status load(struct index *index, const struct index_place *place, struct err *err)
{
    struct index_blob blob = {0};
    struct index_view view;
    TRY(index_store_load(place, INDEX_FILE_BYTES_MAX, &blob, err));
    enum status status = index_view_init(blob.bytes, blob.count, &view, err);
    if (status == OK && place->is_cache &&
        strcmp(view.text + view.header->folder, index->folder) != 0) {
        status = err_set(err, ERR_DATA, "index file %s: it is of another folder", place->file);
    }
    if (status != OK) {
        index_blob_free(&blob);
        return status;
    }
    index->blob = blob;
    index->view = view;
    snprintf(index->place, sizeof(index->place), "%s", place->file);
    return OK;
}

static void unload(struct index *index)
{
    index_blob_free(&index->blob);
    index->view = (struct index_view){0};
    index->place[0] = '\0';
}

/* Whether the file of a place could be taken; otherwise it will be written anew, so why not is of
 * no interest. */
static bool take(struct index *index, const struct index_place *place)
{
    if (load(index, place, NULL) != OK) {
        return false;
    }
    if (is_up_to_date(&index->view, index->folder)) {
        return true;
    }
    unload(index);
    return false;
}

/* Scans the folder and makes the file's bytes. */
static enum status make_blob(const struct index *index, bool made_subfolder, struct index_blob *out,
                             struct err *err)
{
    struct index_builder *builder = NULL;
    struct index_parts parts;
    struct index_blob blob = {0};
    const struct index_scan_options scan = {
        .data_root = index->root, .folder = index->folder, .made_subfolder = made_subfolder};
    TRY(index_builder_new(&builder, err));
    enum status status = index_scan(&scan, builder, err);
    if (status == OK) {
        status = index_builder_finish(builder, index->folder, &parts, err);
    }
    if (status == OK && index_file_bytes(&parts.header) == 0) {
        status = err_set(err, ERR_RESOURCE, "%s: its index would pass %" PRIu64 " bytes",
                         index->folder, INDEX_FILE_BYTES_MAX);
    }
    if (status == OK) {
        status = index_blob_new(index_file_bytes(&parts.header), &blob, err);
    }
    if (status == OK) {
        index_file_write(&parts, blob.bytes);
        *out = blob;
    }
    index_builder_free(&builder);
    return status;
}

/* Builds the index and keeps it in the first place that can be written, else in memory. */
static enum status build(struct index *index, const struct index_place places[INDEX_PLACES],
                         struct err *err)
{
    int place = 0;
    bool made = false; /* before the scan: it changes the folder's modification time */
    while (place < INDEX_PLACES && index_store_prepare(&places[place], &made, NULL) != OK) {
        place++;
    }
    struct index_blob blob = {0};
    TRY(make_blob(index, made && place == 0, &blob, err));
    index->was_built = true;
    for (; place < INDEX_PLACES; place++) {
        if (index_store_prepare(&places[place], &made, NULL) == OK &&
            index_store_save(&places[place], &blob, NULL) == OK &&
            load(index, &places[place], NULL) == OK) {
            index_blob_free(&blob);
            return OK;
        }
    }
    const enum status status = index_view_init(blob.bytes, blob.count, &index->view, err);
    index->blob = blob;
    return status;
}

/* ---- classes ---- */

static enum status no_memory(struct err *err)
{
    return err_set(err, ERR_RESOURCE, "index: no memory for the classes");
}

static enum status use_own_classes(struct index *index, struct err *err)
{
    const uint64_t count = index->view.header->class_count;
    if (count > INT32_MAX) {
        return err_set(err, ERR_DATA, "%s: %" PRIu64 " classes, the limit is %" PRId32,
                       index->folder, count, INT32_MAX);
    }
    index->class_names = calloc(count + 1, sizeof(*index->class_names));
    if (index->class_names == NULL) {
        return no_memory(err);
    }
    for (uint64_t i = 0; i < count; i++) {
        index->class_names[i] = index_view_text(&index->view, INDEX_CLASS_NAME, i);
    }
    index->class_count = (uint32_t)count;
    return OK;
}

/* Replaces the names by copies of another index's. */
static enum status copy_classes(struct index *index, const struct index *other, struct err *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < other->class_count; i++) {
        bytes += strlen(other->class_names[i]) + 1;
    }
    char *next = index->class_text = malloc(bytes + 1);
    const char **names = calloc((size_t)other->class_count + 1, sizeof(*names));
    if (next == NULL || names == NULL) {
        free(names);
        return no_memory(err);
    }
    for (uint32_t i = 0; i < other->class_count; i++) {
        const size_t length = strlen(other->class_names[i]) + 1;
        names[i] = memcpy(next, other->class_names[i], length);
        next += length;
    }
    free(index->class_names);
    index->class_names = names;
    index->class_count = other->class_count;
    return OK;
}

static bool classes_are_equal(const struct index *a, const struct index *b)
{
    if (a->class_count != b->class_count) {
        return false;
    }
    for (uint32_t i = 0; i < a->class_count; i++) {
        if (strcmp(a->class_names[i], b->class_names[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* The label of a class by its name; -1: there is none. */
static int64_t find_class(const struct index *index, const char *name)
{
    uint32_t low = 0, high = index->class_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(index->class_names[middle], name);
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return -1;
}

/* A folder without a picture may be called anything: nothing has its label. */
static enum status map_labels(struct index *index, const struct index *other, struct err *err)
{
    const uint64_t own = index->class_count;
    index->label_of = calloc(own + 1, sizeof(*index->label_of));
    if (index->label_of == NULL) {
        return no_memory(err);
    }
    for (uint64_t i = 0; i < own; i++) {
        index->label_of[i] = find_class(other, index->class_names[i]);
    }
    for (uint64_t i = 0; i < index->view.header->sample_count; i++) {
        const uint64_t label = index->view.array[INDEX_SAMPLE_LABEL][i];
        if (own > 0 && index->label_of[label] < 0) {
            return err_set(err, ERR_DATA,
                           "%s: class %s is unknown: it is none of the %" PRIu32 " classes of %s",
                           index->folder, index->class_names[label], other->class_count,
                           other->folder);
        }
    }
    return OK;
}

/* The digest of samples whose labels mean another list's classes. */
static uint64_t mapped_digest(uint64_t own, const struct index *other)
{
    uint64_t digest = own;
    for (uint32_t i = 0; i < other->class_count; i++) {
        uint8_t link[16];
        hash_put64(link, digest);
        hash_put64(link + 8, hash64(other->class_names[i], strlen(other->class_names[i])));
        digest = hash64(link, sizeof(link));
    }
    return digest;
}

static enum status use_classes_of(struct index *index, const struct index *other, struct err *err)
{
    if (classes_are_equal(index, other)) {
        return OK;
    }
    TRY(map_labels(index, other, err));
    index->digest = mapped_digest(index->digest, other);
    return copy_classes(index, other, err);
}

static int64_t label_at(const struct index *index, uint64_t sample)
{
    const int64_t label = (int64_t)index->view.array[INDEX_SAMPLE_LABEL][sample];
    return label >= 0 && index->label_of != NULL ? index->label_of[label] : label;
}

static enum status count_classes(struct index *index, struct err *err)
{
    index->class_samples = calloc((size_t)index->class_count + 1, sizeof(*index->class_samples));
    if (index->class_samples == NULL) {
        return no_memory(err);
    }
    for (uint64_t i = 0; i < index->view.header->sample_count; i++) {
        const int64_t label = label_at(index, i);
        if (label >= 0) {
            index->class_samples[label]++;
        }
    }
    return OK;
}

/* ---- opening ---- */

static enum status open_into(struct index *index, const struct index_options *options, bool rebuild,
                             struct err *err)
{
    struct index_place places[INDEX_PLACES];
    TRY(find_folder(options, index, err));
    TRY(index_store_places(index->folder, options->cache_dir, places, err));
    bool taken = false;
    for (int i = 0; i < INDEX_PLACES && !rebuild && !taken; i++) {
        taken = take(index, &places[i]);
    }
    if (!taken) {
        TRY(build(index, places, err));
    }
    index->digest = index->view.header->digest;
    TRY(use_own_classes(index, err));
    if (options->classes_of != NULL) {
        TRY(use_classes_of(index, options->classes_of, err));
    }
    return count_classes(index, err);
}

static enum status open_index(const struct index_options *options, bool rebuild, struct index **out,
                              struct err *err)
{
    struct index *index = calloc(1, sizeof(*index));
    if (index == NULL) {
        return err_set(err, ERR_RESOURCE, "index: no memory");
    }
    const enum status status = open_into(index, options, rebuild, err);
    if (status != OK) {
        index_free(&index);
        return status;
    }
    *out = index;
    return OK;
}

enum status index_open(const struct index_options *options, struct index **out, struct err *err)
{
    return open_index(options, false, out, err);
}

enum status index_build(const struct index_options *options, struct index **out, struct err *err)
{
    return open_index(options, true, out, err);
}

void index_free(struct index **index)
{
    if (*index == NULL) {
        return;
    }
    free((*index)->class_names);
    free((*index)->class_text);
    free((*index)->label_of);
    free((*index)->class_samples);
    index_blob_free(&(*index)->blob);
    free(*index);
    *index = NULL;
}

/* ---- asking ---- */

const char *index_folder(const struct index *index)
{
    return index->folder;
}

uint64_t index_samples(const struct index *index)
{
    return index->view.header->sample_count;
}

uint32_t index_classes(const struct index *index)
{
    return index->class_count;
}

const char *index_class_name(const struct index *index, uint32_t label)
{
    CHECK(label < index->class_count);
    return index->class_names[label];
}

uint64_t index_class_samples(const struct index *index, uint32_t label)
{
    CHECK(label < index->class_count);
    return index->class_samples[label];
}

void index_get(const struct index *index, uint64_t sample, struct index_entry *out)
{
    CHECK(sample < index->view.header->sample_count);
    *out = (struct index_entry){
        .path = index_view_text(&index->view, INDEX_SAMPLE_PATH, sample),
        .bytes = index->view.array[INDEX_SAMPLE_BYTES][sample],
        .label = label_at(index, sample),
    };
}

uint64_t index_digest(const struct index *index)
{
    return index->digest;
}

uint64_t index_bucket_digest(const struct index *index, uint32_t bucket)
{
    CHECK(bucket < INDEX_BUCKETS);
    return index->view.header->buckets[bucket];
}

void index_buckets(const struct index *index, uint32_t out[INDEX_BUCKETS])
{
    for (uint32_t i = 0; i < INDEX_BUCKETS; i++) {
        out[i] = (uint32_t)index->view.header->buckets[i];
    }
}

const char *index_place(const struct index *index)
{
    return index->place;
}

bool index_was_built(const struct index *index)
{
    return index->was_built;
}

const struct index_view *index_view_of(const struct index *index)
{
    return &index->view;
}
