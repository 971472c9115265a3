/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays and the classes. See index_builder.h. */
#include "common/index_builder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct words {
    uint64_t *at;
    uint64_t count, capacity;
};

struct index_builder {
    struct words array[INDEX_ARRAYS];
    char *text;
    uint64_t text_bytes, text_capacity;
    uint64_t class; /* of the samples to come, by order of arrival; UINT64_MAX: none */
    uint64_t left[INDEX_LEFT_REASONS];
    uint64_t example[INDEX_LEFT_REASONS][INDEX_LEFT_EXAMPLES];
    bool unsettled;
};

static const uint64_t NO_CLASS = UINT64_MAX;

/* Room for `needed` items of item_bytes each, doubling. */
static enum status reserve(void **at, uint64_t *capacity, uint64_t needed, size_t item_bytes,
                           struct err *err)
{
    if (needed <= *capacity) {
        return OK;
    }
    uint64_t wanted = *capacity == 0 ? 1024 : *capacity * 2;
    wanted = wanted < needed ? needed : wanted;
    if (wanted > INDEX_FILE_BYTES_MAX / item_bytes) {
        return err_set(err, ERR_RESOURCE,
                       "index: it would pass %" PRIu64 " bytes: use fewer, larger files",
                       INDEX_FILE_BYTES_MAX);
    }
    void *grown = realloc(*at, wanted * item_bytes);
    if (grown == NULL) {
        return err_set(err, ERR_RESOURCE, "index: no memory for %" PRIu64 " bytes",
                       wanted * item_bytes);
    }
    *at = grown;
    *capacity = wanted;
    return OK;
}

static enum status add_word(struct words *words, uint64_t word, struct err *err)
{
    void *at = words->at;
    TRY(reserve(&at, &words->capacity, words->count + 1, sizeof(*words->at), err));
    words->at = at;
    words->at[words->count++] = word;
    return OK;
}

static enum status add_text(struct index_builder *builder, const char *text, uint64_t *offset_out,
                            struct err *err)
{
    const size_t bytes = strlen(text) + 1;
    void *at = builder->text;
    TRY(reserve(&at, &builder->text_capacity, builder->text_bytes + bytes, 1, err));
    builder->text = at;
    memcpy(builder->text + builder->text_bytes, text, bytes);
    *offset_out = builder->text_bytes;
    builder->text_bytes += bytes;
    return OK;
}

enum status index_builder_new(struct index_builder **out, struct err *err)
{
    struct index_builder *builder = calloc(1, sizeof(*builder));
    if (builder == NULL) {
        return err_set(err, ERR_RESOURCE, "index: no memory");
    }
    builder->class = NO_CLASS;
    *out = builder;
    return OK;
}

void index_builder_free(struct index_builder **builder)
{
    if (*builder == NULL) {
        return;
    }
    for (int array = 0; array < INDEX_ARRAYS; array++) {
        free((*builder)->array[array].at);
    }
    free((*builder)->text);
    free(*builder);
    *builder = NULL;
}

enum status index_builder_add_folder(struct index_builder *builder, const char *path,
                                     int64_t mtime_ns, struct err *err)
{
    uint64_t offset;
    TRY(add_text(builder, path, &offset, err));
    TRY(add_word(&builder->array[INDEX_FOLDER_PATH], offset, err));
    return add_word(&builder->array[INDEX_FOLDER_MTIME], (uint64_t)mtime_ns, err);
}

enum status index_builder_set_class(struct index_builder *builder, const char *name,
                                    struct err *err)
{
    if (name == NULL) {
        builder->class = NO_CLASS;
        return OK;
    }
    uint64_t offset;
    TRY(add_text(builder, name, &offset, err));
    builder->class = builder->array[INDEX_CLASS_NAME].count;
    return add_word(&builder->array[INDEX_CLASS_NAME], offset, err);
}

enum status index_builder_add_sample(struct index_builder *builder, const char *path,
                                     uint64_t bytes, struct err *err)
{
    uint64_t offset;
    TRY(add_text(builder, path, &offset, err));
    TRY(add_word(&builder->array[INDEX_SAMPLE_PATH], offset, err));
    TRY(add_word(&builder->array[INDEX_SAMPLE_BYTES], bytes, err));
    return add_word(&builder->array[INDEX_SAMPLE_LABEL], builder->class, err);
}

/* As index_builder_leave, for a text that is there already. */
static void leave_at(struct index_builder *builder, uint64_t offset, enum index_left reason)
{
    const uint64_t before = builder->left[reason]++;
    if (before < INDEX_LEFT_EXAMPLES) {
        builder->example[reason][before] = offset;
    }
}

enum status index_builder_leave(struct index_builder *builder, const char *path,
                                enum index_left reason, struct err *err)
{
    uint64_t offset = 0;
    if (builder->left[reason] < INDEX_LEFT_EXAMPLES) {
        TRY(add_text(builder, path, &offset, err));
    }
    leave_at(builder, offset, reason);
    return OK;
}

void index_builder_set_unsettled(struct index_builder *builder)
{
    builder->unsettled = true;
}

/* ---- finishing ---- */

static bool any_sample_has_class(const struct index_builder *builder)
{
    const struct words *labels = &builder->array[INDEX_SAMPLE_LABEL];
    for (uint64_t i = 0; i < labels->count; i++) {
        if (labels->at[i] != NO_CLASS) {
            return true;
        }
    }
    return false;
}

static void leave_samples_without_class(struct index_builder *builder)
{
    struct words *path = &builder->array[INDEX_SAMPLE_PATH];
    struct words *bytes = &builder->array[INDEX_SAMPLE_BYTES];
    struct words *label = &builder->array[INDEX_SAMPLE_LABEL];
    uint64_t kept = 0;
    for (uint64_t i = 0; i < label->count; i++) {
        if (label->at[i] == NO_CLASS) {
            leave_at(builder, path->at[i], INDEX_LEFT_NO_CLASS);
            continue;
        }
        path->at[kept] = path->at[i];
        bytes->at[kept] = bytes->at[i];
        label->at[kept] = label->at[i];
        kept++;
    }
    path->count = bytes->count = label->count = kept;
}

static int compare_text(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const uint64_t *)a,
                  (const char *)text + *(const uint64_t *)b);
}

/* The place of a name among the sorted ones. */
static uint64_t find_name(const struct index_builder *builder, const char *name)
{
    const struct words *names = &builder->array[INDEX_CLASS_NAME];
    uint64_t low = 0, high = names->count;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (strcmp(builder->text + names->at[middle], name) <= 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Sorts the class names and turns labels from order of arrival into order of name. */
static enum status number_classes(struct index_builder *builder, struct err *err)
{
    struct words *names = &builder->array[INDEX_CLASS_NAME];
    struct words *labels = &builder->array[INDEX_SAMPLE_LABEL];
    uint64_t *arrived = malloc(names->count * sizeof(*arrived));
    if (arrived == NULL) {
        return err_set(err, ERR_RESOURCE, "index: no memory for %" PRIu64 " classes", names->count);
    }
    memcpy(arrived, names->at, names->count * sizeof(*arrived));
    qsort_r(names->at, names->count, sizeof(*names->at), compare_text, builder->text);
    uint64_t last = NO_CLASS, number = NO_CLASS; /* samples of a class come in a row */
    for (uint64_t i = 0; i < labels->count; i++) {
        if (labels->at[i] != last) {
            last = labels->at[i];
            number = find_name(builder, builder->text + arrived[last]);
        }
        labels->at[i] = number;
    }
    free(arrived);
    return OK;
}

static enum status list_examples(struct index_builder *builder, struct err *err)
{
    for (int reason = 0; reason < INDEX_LEFT_REASONS; reason++) {
        for (uint64_t i = 0; i < builder->left[reason] && i < INDEX_LEFT_EXAMPLES; i++) {
            TRY(add_word(&builder->array[INDEX_LEFT_PATH], builder->example[reason][i], err));
            TRY(add_word(&builder->array[INDEX_LEFT_REASON], (uint64_t)reason, err));
        }
    }
    return OK;
}

/* Says what was found instead. */
static enum status fail_empty(const struct index_builder *builder, const char *folder,
                              struct err *err)
{
    int reason = INDEX_LEFT_REASONS - 1; /* the later a reason, the more its files look like data */
    while (reason >= 0 && builder->left[reason] == 0) {
        reason--;
    }
    if (reason < 0) {
        return err_set(err, ERR_DATA, "%s: the data set is empty: no file below this folder",
                       folder);
    }
    return err_set(err, ERR_DATA,
                   "%s: the data set is empty: no picture (.jpg, .jpeg, .jpe, .jfif, .png) below "
                   "this folder; left out %" PRIu64 " (%s), for instance %s",
                   folder, builder->left[reason], index_left_text((enum index_left)reason),
                   builder->text + builder->example[reason][0]);
}

enum status index_builder_finish(struct index_builder *builder, const char *folder,
                                 struct index_parts *out, struct err *err)
{
    if (builder->array[INDEX_SAMPLE_PATH].count == 0) {
        return fail_empty(builder, folder, err);
    }
    if (any_sample_has_class(builder)) {
        leave_samples_without_class(builder);
        TRY(number_classes(builder, err));
    } else {
        builder->array[INDEX_CLASS_NAME].count = 0;
    }
    TRY(list_examples(builder, err));
    uint64_t folder_at;
    TRY(add_text(builder, folder, &folder_at, err));
    *out = (struct index_parts){
        .header = {.flags = builder->unsettled ? INDEX_UNSETTLED : 0,
                   .text_bytes = builder->text_bytes,
                   .sample_count = builder->array[INDEX_SAMPLE_PATH].count,
                   .folder_count = builder->array[INDEX_FOLDER_PATH].count,
                   .class_count = builder->array[INDEX_CLASS_NAME].count,
                   .left_count = builder->array[INDEX_LEFT_PATH].count,
                   .folder = folder_at},
        .text = builder->text,
    };
    memcpy(out->header.left, builder->left, sizeof(builder->left));
    for (int array = 0; array < INDEX_ARRAYS; array++) {
        out->array[array] = builder->array[array].at;
    }
    return OK;
}
