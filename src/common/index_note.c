/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to say about a data set, in words: index_note and index_describe_difference. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/index_file.h"

/* A line being written; what does not fit is cut. */
struct line {
    char *at;
    size_t size, used;
};

static void append(struct line *line, const char *format, ...) PRINTF(2, 3);
static void append(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line->at + line->used, line->size - line->used, format, args);
    va_end(args);
    if (length > 0) {
        line->used += (size_t)length;
        line->used = line->used < line->size ? line->used : line->size - 1;
    }
}

/* A file's name may hold anything: what would spoil a terminal becomes a '?'. */
static void append_name(struct line *line, const char *name)
{
    append(line, "'");
    for (; *name != '\0'; name++) {
        append(line, "%c", iscntrl((unsigned char)*name) ? '?' : *name);
    }
    append(line, "'");
}

static void describe_left(const struct index_view *view, enum index_left reason, struct line *line)
{
    const uint64_t count = view->header->left[reason];
    append(line, "left out %" PRIu64 " (%s):", count, index_left_text(reason));
    uint64_t shown = 0;
    for (uint64_t i = 0; i < view->header->left_count; i++) {
        if (view->array[INDEX_LEFT_REASON][i] == (uint64_t)reason) {
            append(line, "%s", shown++ == 0 ? " " : ", ");
            append_name(line, index_view_text(view, INDEX_LEFT_PATH, i));
        }
    }
    append(line, "%s", shown < count ? ", ..." : "");
}

static uint32_t count_empty_classes(const struct index *index)
{
    uint32_t empty = 0;
    for (uint32_t i = 0; i < index_classes(index); i++) {
        empty += index_class_samples(index, i) == 0;
    }
    return empty;
}

static void describe_empty_classes(const struct index *index, uint32_t empty, struct line *line)
{
    append(line,
           "%" PRIu32 " of %" PRIu32 " classes have no picture here, and keep their labels:", empty,
           index_classes(index));
    uint32_t shown = 0;
    for (uint32_t i = 0; i < index_classes(index) && shown < INDEX_LEFT_EXAMPLES; i++) {
        if (index_class_samples(index, i) == 0) {
            append(line, "%s", shown++ == 0 ? " " : ", ");
            append_name(line, index_class_name(index, i));
            append(line, "=%" PRIu32, i);
        }
    }
    append(line, "%s", shown < empty ? ", ..." : "");
}

bool index_note(const struct index *index, uint32_t i, char *out, size_t size)
{
    const struct index_view *view = index_view_of(index);
    struct line line = {.at = out, .size = size};
    for (int reason = 0; reason < INDEX_LEFT_REASONS; reason++) {
        if (view->header->left[reason] > 0 && i-- == 0) {
            describe_left(view, (enum index_left)reason, &line);
            return true;
        }
    }
    const uint32_t empty = count_empty_classes(index);
    if (empty > 0 && i-- == 0) {
        describe_empty_classes(index, empty, &line);
        return true;
    }
    if (index_place(index)[0] == '\0' && i-- == 0) {
        append(&line, "the index could be written neither to .headrace in the data folder nor to a "
                      "cache folder: every start reads the whole folder again");
        return true;
    }
    return false;
}

/* Some of our samples that belong to a bucket, or the one that alone makes its digest another by
 * `surplus` (of the low halves). */
static void append_bucket_samples(const struct index *index, uint32_t bucket, uint32_t surplus,
                                  struct line *line)
{
    const struct index_view *view = index_view_of(index);
    struct line some = *line;
    uint64_t count = 0;
    for (uint64_t i = 0; i < index_samples(index); i++) {
        const char *path = index_view_text(view, INDEX_SAMPLE_PATH, i);
        if (index_bucket_of(path) != bucket) {
            continue;
        }
        if ((uint32_t)index_sample_hash(view, i) == surplus) {
            append(line, " (only here: ");
            append_name(line, path);
            append(line, ")");
            return;
        }
        if (count++ < 3) {
            append(&some, "%s", count == 1 ? " (here it has " : ", ");
            append_name(&some, path);
        }
    }
    *line = some;
    if (count > 3) {
        append(line, ", ...: %" PRIu64 ")", count);
    } else {
        append(line, "%s", count > 0 ? ")" : " (empty here)");
    }
}

void index_describe_difference(const struct index *index, const uint32_t other[INDEX_BUCKETS],
                               char *out, size_t size)
{
    struct line line = {.at = out, .size = size};
    uint32_t ours[INDEX_BUCKETS], differing[INDEX_BUCKETS], count = 0;
    index_buckets(index, ours);
    for (uint32_t i = 0; i < INDEX_BUCKETS; i++) {
        if (ours[i] != other[i]) {
            differing[count++] = i;
        }
    }
    if (count == 0) {
        append(&line, "all buckets are equal: only the class lists can differ");
        return;
    }
    const uint32_t first = differing[0];
    append(&line, "%" PRIu32 " of %d buckets differ: %" PRIu32, count, INDEX_BUCKETS, first);
    append_bucket_samples(index, first, ours[first] - other[first], &line);
    for (uint32_t i = 1; i < count; i++) {
        append(&line, ", %" PRIu32, differing[i]);
    }
}
