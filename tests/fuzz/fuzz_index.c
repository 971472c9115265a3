/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index file as input. A file is tried as it is and, since its checksum stops nearly every
 * change, once more with magic, version, length and checksum put right. Whatever is accepted is
 * then read in every way the program reads it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/index_file.h"
#include "common/limits.h"
#include "fuzz/fuzz.h"

static void check_path(const char *path)
{
    CHECK(path[0] != '/' && path[0] != '.' && strstr(path, "/.") == NULL);
}

static void check_samples(const struct index_view *view)
{
    CHECK(view->header->sample_count > 0);
    for (uint64_t i = 0; i < view->header->sample_count; i++) {
        const char *path = index_view_text(view, INDEX_SAMPLE_PATH, i);
        check_path(path);
        CHECK(path[0] != '\0' && index_bucket_of(path) < INDEX_BUCKETS);
        CHECK(i == 0 || strcmp(index_view_text(view, INDEX_SAMPLE_PATH, i - 1), path) < 0);
        const uint64_t label = view->array[INDEX_SAMPLE_LABEL][i];
        CHECK(view->header->class_count == 0 ? label == UINT64_MAX
                                             : label < view->header->class_count);
    }
}

static void use(const struct index_view *view)
{
    for (int array = 0; array < INDEX_ARRAYS; array++) { /* reads every word */
        (void)hash64(view->array[array], 8 * index_view_count(view, (enum index_array)array));
    }
    for (uint64_t i = 0; i < view->header->folder_count; i++) {
        check_path(index_view_text(view, INDEX_FOLDER_PATH, i));
    }
    for (uint64_t i = 0; i < view->header->class_count; i++) {
        CHECK(strlen(index_view_text(view, INDEX_CLASS_NAME, i)) < PATH_BYTES_MAX);
    }
    for (uint64_t i = 0; i < view->header->left_count; i++) {
        CHECK(strlen(index_view_text(view, INDEX_LEFT_PATH, i)) < PATH_BYTES_MAX);
        CHECK(view->array[INDEX_LEFT_REASON][i] < INDEX_LEFT_REASONS);
    }
    CHECK(strlen(view->text + view->header->folder) < view->header->text_bytes);
    check_samples(view);
}

static void try_view(const void *bytes, size_t count)
{
    struct index_view view;
    struct err err = {0};
    if (index_view_init(bytes, count, &view, &err) == OK) {
        use(&view);
        return;
    }
    CHECK(err.status == ERR_DATA && err.message[0] != '\0');
}

static void seal(void *bytes, size_t count)
{
    struct index_header *header = bytes;
    const size_t from = offsetof(struct index_header, version);
    memcpy(header->magic, INDEX_MAGIC, sizeof(header->magic));
    header->version = INDEX_VERSION;
    header->file_bytes = count;
    header->sum = hash64((const uint8_t *)bytes + from, count - from);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    void *copy = malloc(count); /* aligned, and sanitizers see its end */
    CHECK(copy != NULL);
    memcpy(copy, bytes, count);
    try_view(copy, count);
    if (count >= sizeof(struct index_header)) {
        seal(copy, count);
        try_view(copy, count);
    }
    free(copy);
    return 0;
}
