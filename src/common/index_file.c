/* SPDX-License-Identifier: Apache-2.0 */
/* The index file. See index_file.h and docs/FORMATS.md. */
#include "common/index_file.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/hash.h"
#include "common/limits.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "index files are used as they are");
static_assert(sizeof(struct index_header) == 8 * (11 + INDEX_LEFT_REASONS + INDEX_BUCKETS),
              "the header has no holes");

const char INDEX_MAGIC[INDEX_MAGIC_BYTES] = {'h', 'e', 'a', 'd', 'r', 'a', 'c', 'e'};

enum { WORD_BYTES = 8 };

/* Where the sum's range begins. */
static const size_t SUMMED_FROM = offsetof(struct index_header, version);

static uint64_t array_count(const struct index_header *header, enum index_array array)
{
    switch (array) {
    case INDEX_SAMPLE_PATH:
    case INDEX_SAMPLE_BYTES:
    case INDEX_SAMPLE_LABEL:
        return header->sample_count;
    case INDEX_FOLDER_PATH:
    case INDEX_FOLDER_MTIME:
        return header->folder_count;
    case INDEX_CLASS_NAME:
        return header->class_count;
    case INDEX_LEFT_PATH:
    case INDEX_LEFT_REASON:
        return header->left_count;
    case INDEX_ARRAYS:
        break;
    }
    CHECK(false);
    return 0;
}

uint64_t index_file_bytes(const struct index_header *counts)
{
    uint64_t bytes = sizeof(*counts);
    for (int array = 0; array < INDEX_ARRAYS; array++) {
        const uint64_t count = array_count(counts, (enum index_array)array);
        if (count > INDEX_FILE_BYTES_MAX / WORD_BYTES) {
            return 0;
        }
        bytes += count * WORD_BYTES;
    }
    if (counts->text_bytes > INDEX_FILE_BYTES_MAX) {
        return 0;
    }
    bytes += counts->text_bytes;
    return bytes <= INDEX_FILE_BYTES_MAX ? bytes : 0;
}

uint64_t index_view_count(const struct index_view *view, enum index_array array)
{
    return array_count(view->header, array);
}

const char *index_view_text(const struct index_view *view, enum index_array array, uint64_t i)
{
    return view->text + view->array[array][i];
}

/* Points the arrays into the file; the header's counts have been checked. */
static void set_arrays(struct index_view *view, const void *bytes)
{
    const uint64_t *next = (const uint64_t *)((const uint8_t *)bytes + sizeof(struct index_header));
    for (int array = 0; array < INDEX_ARRAYS; array++) {
        view->array[array] = next;
        next += array_count(view->header, (enum index_array)array);
    }
    view->text = (const char *)next;
}

const char *index_left_text(enum index_left reason)
{
    static const char *const TEXTS[INDEX_LEFT_REASONS] = {
        [INDEX_LEFT_OTHER] = "not named like a picture",
        [INDEX_LEFT_FORMAT] = "a picture in a format that cannot be decoded: only JPEG and PNG can",
        [INDEX_LEFT_NO_CLASS] = "a picture beside the class folders, so without a class",
        [INDEX_LEFT_SPECIAL] = "named like a picture, but no file",
        [INDEX_LEFT_OUTSIDE] = "a link that leads outside data_root",
        [INDEX_LEFT_DANGLING] = "a link that leads nowhere",
        [INDEX_LEFT_LOOP] = "a folder inside itself",
        [INDEX_LEFT_VANISHED] = "gone while the folder was read",
    };
    CHECK(reason >= 0 && reason < INDEX_LEFT_REASONS);
    return TEXTS[reason];
}

/* ---- the digest ---- */

uint32_t index_bucket_of(const char *path)
{
    return (uint32_t)(hash64(path, strlen(path)) % INDEX_BUCKETS);
}

static uint64_t hash_words(const uint64_t *words, size_t count)
{
    return hash64(words, count * WORD_BYTES); /* little-endian, see the assertion above */
}

uint64_t index_sample_hash(const struct index_view *view, uint64_t sample)
{
    const char *path = index_view_text(view, INDEX_SAMPLE_PATH, sample);
    const uint64_t record[] = {hash64(path, strlen(path)), view->array[INDEX_SAMPLE_BYTES][sample],
                               view->array[INDEX_SAMPLE_LABEL][sample]};
    return hash_words(record, ARRAY_LEN(record));
}

/* Fills the header's digest and bucket digests from the arrays. */
static void set_digests(struct index_header *header, const struct index_view *view)
{
    memset(header->buckets, 0, sizeof(header->buckets));
    for (uint64_t i = 0; i < header->sample_count; i++) {
        const uint32_t bucket = index_bucket_of(index_view_text(view, INDEX_SAMPLE_PATH, i));
        header->buckets[bucket] += index_sample_hash(view, i);
    }
    uint64_t classes = 0;
    for (uint64_t i = 0; i < header->class_count; i++) {
        const char *name = index_view_text(view, INDEX_CLASS_NAME, i);
        const uint64_t link[] = {classes, hash64(name, strlen(name))};
        classes = hash_words(link, ARRAY_LEN(link));
    }
    uint64_t whole[3 + INDEX_BUCKETS] = {header->sample_count, header->class_count, classes};
    memcpy(whole + 3, header->buckets, sizeof(header->buckets));
    header->digest = hash_words(whole, ARRAY_LEN(whole));
}

/* ---- writing ---- */

static uint64_t sum_of(const void *bytes, uint64_t count)
{
    return hash64((const uint8_t *)bytes + SUMMED_FROM, count - SUMMED_FROM);
}

void index_file_write(const struct index_parts *parts, void *out)
{
    struct index_header *header = out;
    *header = parts->header;
    memcpy(header->magic, INDEX_MAGIC, sizeof(header->magic));
    header->version = INDEX_VERSION;
    header->file_bytes = index_file_bytes(header);
    CHECK(header->file_bytes != 0);
    struct index_view view = {.header = header};
    set_arrays(&view, out);
    uint8_t *next = (uint8_t *)out + sizeof(*header);
    for (int array = 0; array < INDEX_ARRAYS; array++) {
        const size_t bytes = array_count(header, (enum index_array)array) * WORD_BYTES;
        if (bytes > 0) {
            memcpy(next, parts->array[array], bytes);
        }
        next += bytes;
    }
    memcpy(next, parts->text, header->text_bytes);
    set_digests(header, &view);
    header->sum = sum_of(out, header->file_bytes);
}

/* ---- reading ---- */

#define BAD(...) err_set(err, ERR_DATA, "index file: " __VA_ARGS__)

static enum status check_header(const struct index_header *header, uint64_t count, struct err *err)
{
    if (memcmp(header->magic, INDEX_MAGIC, sizeof(header->magic)) != 0) {
        return BAD("it does not begin like one");
    }
    if (header->version != INDEX_VERSION) {
        return BAD("version %" PRIu32 ", this program knows %d", header->version, INDEX_VERSION);
    }
    if ((header->flags & ~(uint32_t)INDEX_UNSETTLED) != 0) {
        return BAD("unknown flags %#" PRIx32, header->flags);
    }
    if (header->file_bytes != count || index_file_bytes(header) != count) {
        return BAD("it has %" PRIu64 " bytes, and its counts make %" PRIu64, count,
                   index_file_bytes(header));
    }
    if (header->sum != sum_of(header, count)) {
        return BAD("the checksum does not hold");
    }
    if (header->sample_count == 0 || header->folder_count == 0 || header->text_bytes == 0) {
        return BAD("it is empty");
    }
    if (header->left_count > (uint64_t)INDEX_LEFT_REASONS * INDEX_LEFT_EXAMPLES) {
        return BAD("%" PRIu64 " examples of what was left out", header->left_count);
    }
    return OK;
}

/* The texts of an array lie inside, are shorter than PATH_BYTES_MAX, and ascend where asked. */
static enum status check_texts(const struct index_view *view, enum index_array array, bool ascend,
                               struct err *err)
{
    const uint64_t count = index_view_count(view, array);
    for (uint64_t i = 0; i < count; i++) {
        if (view->array[array][i] >= view->header->text_bytes) {
            return BAD("text %" PRIu64 " of array %d lies outside", i, (int)array);
        }
        const char *text = index_view_text(view, array, i);
        if (strnlen(text, PATH_BYTES_MAX) == PATH_BYTES_MAX) {
            return BAD("text %" PRIu64 " of array %d is too long", i, (int)array);
        }
        if (ascend && i > 0 && strcmp(index_view_text(view, array, i - 1), text) >= 0) {
            return BAD("text %" PRIu64 " of array %d is out of order", i, (int)array);
        }
    }
    return OK;
}

/* A relative path of plain names that stays below where it begins. */
static bool path_is_plain(const char *path)
{
    const char *name = path;
    while (true) {
        const size_t length = strcspn(name, "/");
        if (length == 0 || name[0] == '.') { /* "", ".", ".." and hidden names */
            return false;
        }
        if (name[length] == '\0') {
            return true;
        }
        name += length + 1;
    }
}

static enum status check_paths(const struct index_view *view, enum index_array array,
                               bool empty_allowed, struct err *err)
{
    const uint64_t count = index_view_count(view, array);
    for (uint64_t i = 0; i < count; i++) {
        const char *path = index_view_text(view, array, i);
        const bool fine = path[0] == '\0' ? empty_allowed : path_is_plain(path);
        if (!fine) {
            return BAD("path %" PRIu64 " of array %d is no path below the folder", i, (int)array);
        }
    }
    return OK;
}

static enum status check_labels(const struct index_view *view, struct err *err)
{
    for (uint64_t i = 0; i < view->header->sample_count; i++) {
        const uint64_t label = view->array[INDEX_SAMPLE_LABEL][i];
        if (view->header->class_count == 0 ? label != UINT64_MAX
                                           : label >= view->header->class_count) {
            return BAD("sample %" PRIu64 " has label %" PRId64 " of %" PRIu64 " classes", i,
                       (int64_t)label, view->header->class_count);
        }
    }
    return OK;
}

static enum status check_left(const struct index_view *view, struct err *err)
{
    for (uint64_t i = 0; i < view->header->left_count; i++) {
        if (view->array[INDEX_LEFT_REASON][i] >= INDEX_LEFT_REASONS) {
            return BAD("reason %" PRIu64 " of example %" PRIu64, view->array[INDEX_LEFT_REASON][i],
                       i);
        }
    }
    return OK;
}

enum status index_view_init(const void *bytes, uint64_t count, struct index_view *out,
                            struct err *err)
{
    CHECK((uintptr_t)bytes % WORD_BYTES == 0);
    if (count < sizeof(struct index_header)) {
        return BAD("%" PRIu64 " bytes are less than its header", count);
    }
    struct index_view view = {.header = bytes};
    TRY(check_header(view.header, count, err));
    set_arrays(&view, bytes);
    if (view.text[view.header->text_bytes - 1] != '\0') {
        return BAD("the last text has no end");
    }
    if (view.header->folder >= view.header->text_bytes) {
        return BAD("the folder's name lies outside");
    }
    TRY(check_texts(&view, INDEX_SAMPLE_PATH, true, err));
    TRY(check_texts(&view, INDEX_FOLDER_PATH, false, err));
    TRY(check_texts(&view, INDEX_CLASS_NAME, true, err));
    TRY(check_texts(&view, INDEX_LEFT_PATH, false, err));
    TRY(check_paths(&view, INDEX_SAMPLE_PATH, false, err));
    TRY(check_paths(&view, INDEX_FOLDER_PATH, true, err));
    TRY(check_labels(&view, err));
    TRY(check_left(&view, err));
    *out = view;
    return OK;
}
