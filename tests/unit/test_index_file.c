/* SPDX-License-Identifier: Apache-2.0 */
#include "common/index_file.h"

#include <string.h>

#include "common/hash.h"
#include "common/index_builder.h"
#include "support/suite.h"

static _Alignas(8) uint8_t file[4096];
static uint64_t file_bytes;

static void must(enum status status)
{
    ck_assert_int_eq(status, OK);
}

/* Two classes, two samples, one of each that can be left out. */
static void setup(void)
{
    struct index_builder *builder = NULL;
    struct index_parts parts;
    must(index_builder_new(&builder, NULL));
    must(index_builder_add_folder(builder, "", 11, NULL));
    must(index_builder_set_class(builder, "b", NULL));
    must(index_builder_add_folder(builder, "b", -12, NULL));
    must(index_builder_add_sample(builder, "b/x.jpg", 100, NULL));
    must(index_builder_set_class(builder, "a", NULL)); /* order of arrival is not order of name */
    must(index_builder_add_folder(builder, "a", 13, NULL));
    must(index_builder_add_sample(builder, "c/y.jpg", 200, NULL));
    must(index_builder_leave(builder, "z", INDEX_LEFT_OTHER, NULL));
    must(index_builder_finish(builder, "/data", &parts, NULL));
    file_bytes = index_file_bytes(&parts.header);
    ck_assert_uint_le(file_bytes, sizeof(file));
    memset(file, 0, sizeof(file));
    index_file_write(&parts, file);
    index_builder_free(&builder);
}

static void seal(void)
{
    struct index_header *header = (struct index_header *)file;
    const size_t from = offsetof(struct index_header, version);
    header->sum = hash64(file + from, file_bytes - from);
}

static void expect_refused(const char *text)
{
    struct index_view view;
    struct err err = {0};
    ck_assert_int_eq(index_view_init(file, file_bytes, &view, &err), ERR_DATA);
    ck_assert_msg(strstr(err.message, text) != NULL, "'%s' is not in '%s'", text, err.message);
    setup();
}

START_TEST(what_was_written_is_read)
{
    struct index_view view;
    must(index_view_init(file, file_bytes, &view, NULL));
    ck_assert_uint_eq(view.header->sample_count, 2);
    ck_assert_str_eq(index_view_text(&view, INDEX_SAMPLE_PATH, 1), "c/y.jpg");
    ck_assert_uint_eq(view.array[INDEX_SAMPLE_BYTES][1], 200);
    ck_assert_str_eq(index_view_text(&view, INDEX_CLASS_NAME, 0), "a");
    ck_assert_uint_eq(view.array[INDEX_SAMPLE_LABEL][0], 1);
    ck_assert_uint_eq(view.array[INDEX_SAMPLE_LABEL][1], 0);
    ck_assert_str_eq(index_view_text(&view, INDEX_FOLDER_PATH, 0), "");
    ck_assert_int_eq((int64_t)view.array[INDEX_FOLDER_MTIME][1], -12);
    ck_assert_str_eq(index_view_text(&view, INDEX_LEFT_PATH, 0), "z");
    ck_assert_uint_eq(view.header->left[INDEX_LEFT_OTHER], 1);
    ck_assert_str_eq(view.text + view.header->folder, "/data");
}
END_TEST

START_TEST(every_flipped_bit_is_noticed)
{
    struct index_view view;
    uint64_t accepted = 0;
    for (uint64_t i = 0; i < file_bytes * 8; i++) {
        file[i / 8] ^= (uint8_t)(1 << i % 8);
        accepted += index_view_init(file, file_bytes, &view, NULL) == OK;
        file[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    ck_assert_uint_eq(accepted, 0);
    must(index_view_init(file, file_bytes, &view, NULL));
}
END_TEST

START_TEST(every_other_length_is_refused)
{
    struct index_view view;
    for (uint64_t count = 0; count < sizeof(file); count++) {
        ck_assert(count == file_bytes || index_view_init(file, count, &view, NULL) == ERR_DATA);
    }
}
END_TEST

/* With a checksum that holds, so that each check stands alone. */
START_TEST(every_wrong_value_is_refused_by_name)
{
    struct index_header *header = (struct index_header *)file;
    struct index_view view;
    must(index_view_init(file, file_bytes, &view, NULL));
    uint64_t *array[INDEX_ARRAYS]; /* the same words, writable */
    for (int i = 0; i < INDEX_ARRAYS; i++) {
        array[i] = (uint64_t *)(file + ((const uint8_t *)view.array[i] - file));
    }
    char *text = (char *)file + (view.text - (const char *)file);

#define REFUSED(change, message) \
    do {                         \
        change;                  \
        seal();                  \
        expect_refused(message); \
    } while (0)
    REFUSED(header->magic[0] = 'H', "does not begin like one");
    REFUSED(header->version = 2, "version 2, this program knows 1");
    REFUSED(header->flags = 2, "unknown flags 0x2");
    REFUSED(header->sample_count = UINT64_MAX, "its counts make 0");
    REFUSED(header->class_count++, "its counts make");
    REFUSED(header->text_bytes = UINT64_MAX, "its counts make 0");
    REFUSED(header->file_bytes--, "bytes, and its counts make");
    REFUSED(header->folder = header->text_bytes, "folder's name lies outside");
    REFUSED(text[header->text_bytes - 1] = 'x', "the last text has no end");
    REFUSED(array[INDEX_SAMPLE_PATH][1] = header->text_bytes, "text 1 of array 0 lies outside");
    REFUSED(array[INDEX_CLASS_NAME][1] = UINT64_MAX, "text 1 of array 5 lies outside");
    REFUSED(array[INDEX_LEFT_PATH][0] = UINT64_MAX, "text 0 of array 6 lies outside");
    REFUSED(array[INDEX_SAMPLE_PATH][1] = array[INDEX_SAMPLE_PATH][0],
            "text 1 of array 0 is out of order");
    REFUSED(array[INDEX_CLASS_NAME][1] = array[INDEX_CLASS_NAME][0],
            "text 1 of array 5 is out of order");
    static const char *const BAD_PATHS[] = {"/x.jpg0", "b//.jpg", "../.jpg", ".x/.jpg",
                                            "b/./jpg", "b/..jpg", "b/x.jp/"};
    for (size_t i = 0; i < ARRAY_LEN(BAD_PATHS); i++) {
        REFUSED(memcpy(text + array[INDEX_SAMPLE_PATH][0], BAD_PATHS[i], 7), "path 0 of array 0");
    }
    REFUSED(array[INDEX_SAMPLE_PATH][0] = array[INDEX_FOLDER_PATH][0], "path 0 of array 0");
    REFUSED(text[array[INDEX_FOLDER_PATH][1]] = '.', "path 1 of array 3");
    REFUSED(array[INDEX_SAMPLE_LABEL][0] = 2, "sample 0 has label 2 of 2 classes");
    REFUSED(array[INDEX_SAMPLE_LABEL][1] = UINT64_MAX, "sample 1 has label -1 of 2 classes");
    REFUSED(array[INDEX_LEFT_REASON][0] = INDEX_LEFT_REASONS, "reason 8 of example 0");
#undef REFUSED
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_file");
    TCase *tc = tcase_create("index_file");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, what_was_written_is_read);
    tcase_add_test(tc, every_flipped_bit_is_noticed);
    tcase_add_test(tc, every_other_length_is_refused);
    tcase_add_test(tc, every_wrong_value_is_refused_by_name);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
