/* SPDX-License-Identifier: Apache-2.0 */
#include "common/index.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/index_file.h"
#include "common/rng.h"
#include "support/suite.h"
#include "support/tree.h"

static struct tree tree;

static void setup(void)
{
    tree = tree_make();
    tree_folders(&tree, "cache/");
}

static void teardown(void)
{
    tree_remove(&tree);
}

/* A file of as many bytes. */
static void put(const char *path, size_t bytes)
{
    static const char ZEROS[4096];
    tree_write(&tree, path, ZEROS, bytes);
}

static enum status try_open(const char *data, const struct index *classes_of, bool rebuild,
                            struct index **out, struct err *err)
{
    char root[PATH_MAX], cache[PATH_MAX];
    snprintf(root, sizeof(root), "%s", tree.root);
    snprintf(cache, sizeof(cache), "%s/cache", tree.root);
    const struct index_options options = {
        .data_root = root, .data = data, .classes_of = classes_of, .cache_dir = cache};
    return rebuild ? index_build(&options, out, err) : index_open(&options, out, err);
}

static struct index *open_of(const char *data, const struct index *classes_of)
{
    struct index *index = NULL;
    struct err err = {0};
    ck_assert_msg(try_open(data, classes_of, false, &index, &err) == OK, "%s", err.message);
    return index;
}

static void expect_error(const char *data, const struct index *classes_of, enum status status,
                         const char *text)
{
    struct index *index = NULL;
    struct err err = {0};
    ck_assert_int_eq(try_open(data, classes_of, false, &index, &err), status);
    ck_assert_ptr_null(index);
    ck_assert_msg(strstr(err.message, text) != NULL, "'%s' is not in '%s'", text, err.message);
}

/* What an index has to hold: "path=label" for every sample in order. */
static void expect_samples(const struct index *index, const char *const *expected, size_t count)
{
    ck_assert_uint_eq(index_samples(index), count);
    for (size_t i = 0; i < count; i++) {
        struct index_entry entry;
        index_get(index, i, &entry);
        char text[PATH_MAX + 32];
        snprintf(text, sizeof(text), "%s=%" PRId64, entry.path, entry.label);
        ck_assert_str_eq(text, expected[i]);
    }
}
#define EXPECT(index, ...)                                                          \
    do {                                                                            \
        static const char *const expected_[] = {__VA_ARGS__};                       \
        expect_samples((index), expected_, sizeof(expected_) / sizeof(*expected_)); \
    } while (0)

static bool has_note(const struct index *index, const char *text)
{
    char note[512];
    for (uint32_t i = 0; index_note(index, i, note, sizeof(note)); i++) {
        if (strstr(note, text) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- what is a sample, and in which order ---- */

START_TEST(ids_follow_paths_and_labels_follow_folders)
{
    put("d/a/2.jpg", 2);
    put("d/a/10.jpg", 1);
    put("d/a-b/x.jpg", 3); /* '-' < '/': before a/ among paths, behind a among folders */
    put("d/a.c/deep/er/y.png", 4);
    put("d/a.c/z.png", 0);
    put("d/B/q.jpeg", 5);
    put("d/\xC3\xA4/\xFF.jpg", 6);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "B/q.jpeg=0", "a-b/x.jpg=2", "a.c/deep/er/y.png=3", "a.c/z.png=3", "a/10.jpg=1",
           "a/2.jpg=1", "\xC3\xA4/\xFF.jpg=4");
    ck_assert_uint_eq(index_classes(index), 5);
    ck_assert_str_eq(index_class_name(index, 2), "a-b");
    ck_assert_uint_eq(index_class_samples(index, 3), 2);
    struct index_entry entry;
    index_get(index, 2, &entry);
    ck_assert_uint_eq(entry.bytes, 4);
    ck_assert(!has_note(index, ""));
    index_free(&index);
}
END_TEST

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Random names over bytes around '/', '.' and '-', against a plain sort of whole paths. */
START_TEST(random_trees_are_in_the_order_of_whole_paths)
{
    const uint64_t seed = test_seed();
    enum { FILES = 300 };
    static const char LETTERS[] = "ab-!~\xC3 ,0";
    char *paths[FILES];
    const struct rng_at at = {.key = seed};
    for (uint32_t i = 0; i < FILES; i++) {
        char path[64];
        size_t length = 0;
        const uint32_t depth = 1 + rng_below(&at, 0, i, 4);
        for (uint32_t level = 0; level < depth; level++) {
            for (uint32_t n = 1 + rng_below(&at, 1 + level, i, 3); n > 0; n--) {
                path[length++] = LETTERS[rng_below(&at, 10 * n + level, i, sizeof(LETTERS) - 1)];
            }
            path[length++] = '/';
        }
        snprintf(path + length, sizeof(path) - length, "%u.jpg", i);
        char full[80];
        snprintf(full, sizeof(full), "d/%s", path);
        put(full, 1);
        paths[i] = strdup(path);
    }
    qsort(paths, FILES, sizeof(paths[0]), compare_paths);
    struct index *index = open_of("d", NULL);
    ck_assert_uint_eq(index_samples(index), FILES);
    for (uint32_t i = 0; i < FILES; i++) {
        struct index_entry entry;
        index_get(index, i, &entry);
        ck_assert_str_eq(entry.path, paths[i]);
        const char *class = index_class_name(index, (uint32_t)entry.label);
        ck_assert_uint_eq(strncmp(entry.path, class, strlen(class)), 0);
        ck_assert_int_eq(entry.path[strlen(class)], '/');
        free(paths[i]);
    }
    for (uint32_t i = 1; i < index_classes(index); i++) {
        ck_assert_int_lt(strcmp(index_class_name(index, i - 1), index_class_name(index, i)), 0);
    }
    index_free(&index);
}
END_TEST

START_TEST(hidden_and_system_files_do_not_count)
{
    put("d/.DS_Store", 9);
    put("d/.ipynb_checkpoints/cat_0.jpg", 9);
    put("d/__MACOSX/cat/._cat_0.jpg", 9);
    put("d/__MACOSX/cat/cat_0.jpg", 9);
    put("d/lost+found/x.jpg", 9);
    put("d/cat/._cat_0.jpg", 9);
    put("d/cat/.ipynb_checkpoints/cat_0.jpg", 9);
    put("d/cat/0.jpg", 9);
    put("d/dog/Thumbs.db", 9);
    put("d/dog/0.jpg", 9);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "cat/0.jpg=0", "dog/0.jpg=1");
    ck_assert(has_note(index, "left out 1 (not named like a picture): 'dog/Thumbs.db'"));
    index_free(&index);
}
END_TEST

START_TEST(what_a_download_leaves_behind_does_not_count)
{
    put("d/_SUCCESS", 0);
    put("d/a_$folder$", 0);
    put("d/manifest.json", 2);
    put("d/a/.sagemaker-uploaded", 0);
    put("d/a/_", 0);
    put("d/a/0.jpg", 1);
    put("d/b/0.jpg", 1);
    put("d/b/0.jpg.sagemaker-part", 4);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "a/0.jpg=0", "b/0.jpg=1");
    ck_assert(has_note(index,
                       "left out 5 (not named like a picture): '_SUCCESS', 'a/_', 'a_$folder$', "
                       "'b/0.jpg.sagemaker-part', ..."));
    index_free(&index);
}
END_TEST

START_TEST(a_class_without_pictures_keeps_its_label)
{
    put("d/ant/0.jpg", 1);
    tree_folders(&tree, "d/bat/");
    put("d/bee/readme.txt", 1);
    put("d/cow/0.jpg", 1);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "ant/0.jpg=0", "cow/0.jpg=3");
    ck_assert_uint_eq(index_class_samples(index, 1), 0);
    ck_assert(has_note(
        index, "2 of 4 classes have no picture here, and keep their labels: 'bat'=1, 'bee'=2"));
    index_free(&index);
}
END_TEST

START_TEST(extensions_count_in_any_case)
{
    static const char *const TAKEN[] = {"0.JPG", "1.JPEG", "2.jpeg", "3.jpe",
                                        "4.Jpg", "5.PNG",  "6.Png",  "7.jfif"};
    static const char *const LEFT[] = {"8.webp", "9.GIF", "a.bmp"};
    for (size_t i = 0; i < sizeof(TAKEN) / sizeof(*TAKEN); i++) {
        char path[32];
        snprintf(path, sizeof(path), "d/k/%s", TAKEN[i]);
        put(path, 1);
    }
    for (size_t i = 0; i < sizeof(LEFT) / sizeof(*LEFT); i++) {
        char path[32];
        snprintf(path, sizeof(path), "d/k/%s", LEFT[i]);
        put(path, 1);
    }
    put("d/k/jpg", 1);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "k/0.JPG=0", "k/1.JPEG=0", "k/2.jpeg=0", "k/3.jpe=0", "k/4.Jpg=0", "k/5.PNG=0",
           "k/6.Png=0", "k/7.jfif=0");
    ck_assert(has_note(index, "left out 3 (a picture in a format that cannot be decoded"));
    ck_assert(has_note(index, "'k/8.webp', 'k/9.GIF', 'k/a.bmp'"));
    ck_assert(has_note(index, "left out 1 (not named like a picture): 'k/jpg'"));
    index_free(&index);
}
END_TEST

START_TEST(a_flat_folder_has_no_labels)
{
    put("d/b.jpg", 1);
    put("d/a.jpg", 1);
    put("d/notes/readme.txt", 1);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "a.jpg=-1", "b.jpg=-1");
    ck_assert_uint_eq(index_classes(index), 0);
    index_free(&index);
}
END_TEST

START_TEST(pictures_beside_classes_are_left_out_by_name)
{
    put("d/preview.jpg", 1);
    put("d/a/0.jpg", 1);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "a/0.jpg=0");
    ck_assert(has_note(
        index,
        "left out 1 (a picture beside the class folders, so without a class): 'preview.jpg'"));
    index_free(&index);
}
END_TEST

START_TEST(what_is_no_file_neither_hangs_nor_counts)
{
    put("d/a/0.jpg", 1);
    put("d/a/folder.jpg/1.jpg", 1);
    tree_folders(&tree, "d/empty.jpg/");
    ck_assert_int_eq(mkfifo(tree_path(&tree, "d/a/fifo.jpg"), 0644), 0);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                                tree_path(&tree, "d/a/socket.png"));
    ck_assert_int_lt(length, (int)sizeof(address.sun_path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    struct index *index = open_of("d", NULL);
    EXPECT(index, "a/0.jpg=0", "a/folder.jpg/1.jpg=0");
    ck_assert_uint_eq(index_classes(index), 2);
    ck_assert(has_note(
        index, "left out 2 (named like a picture, but no file): 'a/fifo.jpg', 'a/socket.png'"));
    index_free(&index);
    close(fd);
}
END_TEST

/* ---- links ---- */

START_TEST(links_are_followed_inside_data_root_only)
{
    struct tree other = tree_make();
    tree_write(&other, "secret.jpg", "x", 1);
    put("store/0.jpg", 7);
    put("store/deep/1.jpg", 1);
    tree_link(&tree, "d/a/file.jpg", "../../store/0.jpg");
    tree_link(&tree, "d/a/named.txt", "../../store/0.jpg");
    tree_link(&tree, "d/b", "../store");
    tree_link(&tree, "d/c/nowhere.jpg", "missing");
    tree_link(&tree, "d/c/self.jpg", "self.jpg");
    tree_link(&tree, "d/c/out.jpg", tree_path(&other, "secret.jpg"));
    tree_link(&tree, "d/c/outer", other.root);
    tree_link(&tree, "d/c/null.jpg", "/dev/null");
    struct index *index = open_of("d", NULL);
    EXPECT(index, "a/file.jpg=0", "b/0.jpg=1", "b/deep/1.jpg=1");
    struct index_entry entry;
    index_get(index, 0, &entry);
    ck_assert_uint_eq(entry.bytes, 7);
    ck_assert(has_note(
        index,
        "left out 3 (a link that leads outside data_root): 'c/null.jpg', 'c/out.jpg', 'c/outer'"));
    ck_assert(
        has_note(index, "left out 2 (a link that leads nowhere): 'c/nowhere.jpg', 'c/self.jpg'"));
    index_free(&index);
    tree_remove(&other);
}
END_TEST

START_TEST(no_folder_is_entered_inside_itself)
{
    put("d/a/0.jpg", 1);
    put("d/b/1.jpg", 1);
    tree_link(&tree, "d/a/self", ".");
    tree_link(&tree, "d/a/up", "..");
    tree_link(&tree, "d/a/sibling", "../b");
    tree_link(&tree, "d/b/sibling", "../a");
    struct index *index = open_of("d", NULL);
    EXPECT(index, "a/0.jpg=0", "a/sibling/1.jpg=0", "b/1.jpg=1", "b/sibling/0.jpg=1");
    ck_assert(has_note(index, "(a folder inside itself): 'a/self', 'a/sibling/sibling', 'a/up', "
                              "'b/sibling/self', ..."));
    index_free(&index);
}
END_TEST

/* ---- errors ---- */

START_TEST(errors_say_what_is_wrong)
{
    expect_error("missing", NULL, ERR_MISSING, "/missing: No such file");
    put("file", 1);
    expect_error("file", NULL, ERR_MISSING, "it is no folder");
    tree_folders(&tree, "empty/a/");
    expect_error("empty", NULL, ERR_DATA,
                 "empty: the data set is empty: no file below this folder");
    put("texts/a/readme.md", 1);
    expect_error("texts", NULL, ERR_DATA,
                 "left out 1 (not named like a picture), for instance a/readme.md");
    expect_error("..", NULL, ERR_CONFIG, "outside data_root");
    expect_error("/", NULL, ERR_CONFIG, "outside data_root");
    tree_link(&tree, "way_out", "/usr");
    expect_error("way_out", NULL, ERR_CONFIG, "data folder way_out: /usr lies outside data_root");
    char sibling[PATH_MAX + 8]; /* begins like data_root */
    snprintf(sibling, sizeof(sibling), "%s-2", tree.root);
    ck_assert_int_eq(mkdir(sibling, 0755), 0);
    expect_error(sibling, NULL, ERR_CONFIG, "outside data_root");
    ck_assert_int_eq(rmdir(sibling), 0);
}
END_TEST

START_TEST(a_path_without_end_is_an_error)
{
    char path[400] = "d";
    for (int i = 0; i < 33; i++) {
        strncat(path, "/f", sizeof(path) - strlen(path) - 1);
    }
    strncat(path, "/0.jpg", sizeof(path) - strlen(path) - 1);
    put(path, 1);
    expect_error("d", NULL, ERR_DATA, "nested more than 32 deep");
}
END_TEST

START_TEST(data_may_be_named_absolutely_or_be_data_root)
{
    put("d/a/0.jpg", 1);
    struct index *index = open_of(tree_path(&tree, "d"), NULL);
    ck_assert_str_eq(index_folder(index), tree_path(&tree, "d"));
    EXPECT(index, "a/0.jpg=0");
    index_free(&index);
    index = open_of(".", NULL);
    ck_assert_str_eq(index_folder(index), tree.root);
    EXPECT(index, "d/a/0.jpg=1"); /* class 0 is the cache */
    index_free(&index);
}
END_TEST

/* ---- an evaluation's classes ---- */

START_TEST(an_evaluation_takes_the_classes_by_name)
{
    put("train/ant/0.jpg", 1);
    put("train/bee/0.jpg", 1);
    put("train/cow/0.jpg", 1);
    put("eval/bee/7.jpg", 1);
    put("eval/cow/8.jpg", 1);
    tree_folders(&tree, "eval/notes/");
    struct index *train = open_of("train", NULL);
    struct index *own = open_of("eval", NULL);
    struct index *eval = open_of("eval", train);
    EXPECT(own, "bee/7.jpg=0", "cow/8.jpg=1");
    EXPECT(eval, "bee/7.jpg=1", "cow/8.jpg=2");
    ck_assert_uint_ne(index_digest(own), index_digest(eval));
    index_free(&train); /* was borrowed for the call */
    ck_assert_uint_eq(index_classes(eval), 3);
    ck_assert_str_eq(index_class_name(eval, 2), "cow");
    ck_assert_uint_eq(index_class_samples(eval, 0), 0);
    ck_assert_uint_eq(index_class_samples(eval, 2), 1);
    index_free(&own);
    index_free(&eval);
}
END_TEST

START_TEST(an_unknown_class_is_an_error_that_names_both)
{
    put("train/ant/0.jpg", 1);
    put("eval/ant/1.jpg", 1);
    put("eval/dog/1.jpg", 1);
    struct index *train = open_of("train", NULL);
    expect_error("eval", train, ERR_DATA,
                 "/eval: class dog is unknown: it is none of the 1 classes of ");
    expect_error("eval", train, ERR_DATA, "/train");
    index_free(&train);
}
END_TEST

START_TEST(equal_class_lists_give_the_same_digest)
{
    put("train/ant/0.jpg", 1);
    put("eval/ant/1.jpg", 1);
    put("flat/1.jpg", 1);
    struct index *train = open_of("train", NULL);
    struct index *own = open_of("eval", NULL);
    struct index *eval = open_of("eval", train);
    ck_assert_uint_eq(index_digest(own), index_digest(eval));
    struct index *flat = open_of("flat", train);
    EXPECT(flat, "1.jpg=-1");
    index_free(&train);
    index_free(&own);
    index_free(&eval);
    index_free(&flat);
}
END_TEST

/* ---- the digest ---- */

static uint64_t digest_of(const char *data)
{
    struct index *index = NULL;
    struct err err = {0};
    ck_assert_msg(try_open(data, NULL, true, &index, &err) == OK, "%s", err.message);
    const uint64_t digest = index_digest(index);
    index_free(&index);
    return digest;
}

START_TEST(the_digest_is_of_names_sizes_and_labels)
{
    put("d/a/0.jpg", 1);
    put("d/b/0.jpg", 2);
    put("e/b/0.jpg", 2);
    put("e/a/0.jpg", 1);
    const uint64_t digest = digest_of("d");
    ck_assert_uint_eq(digest, digest_of("e")); /* not of the place */
    /* By an independent computation from docs/FORMATS.md: it may not change unseen. */
    ck_assert_uint_eq(digest, UINT64_C(12034552320403467652));
    put("e/a/0.jpg", 2);
    ck_assert_uint_ne(digest, digest_of("e"));
    put("e/a/0.jpg", 1);
    ck_assert_uint_eq(digest, digest_of("e"));
    ck_assert_int_eq(rename(tree_path(&tree, "e/a/0.jpg"), tree_path(&tree, "e/a/1.jpg")), 0);
    ck_assert_uint_ne(digest, digest_of("e"));
    ck_assert_int_eq(rename(tree_path(&tree, "e/a/1.jpg"), tree_path(&tree, "e/a/0.jpg")), 0);
    tree_folders(&tree, "e/A/"); /* an empty class moves the labels */
    ck_assert_uint_ne(digest, digest_of("e"));
}
END_TEST

START_TEST(a_difference_is_narrowed_down_to_buckets)
{
    for (int i = 0; i < 500; i++) {
        char path[32];
        snprintf(path, sizeof(path), "d/a/%03d.jpg", i);
        put(path, 1);
        path[0] = 'e';
        put(path, i == 123 ? 2 : 1);
    }
    struct index *ours = open_of("d", NULL);
    struct index *theirs = open_of("e", NULL);
    uint32_t buckets[INDEX_BUCKETS];
    uint32_t differing = 0;
    index_buckets(theirs, buckets);
    for (uint32_t i = 0; i < INDEX_BUCKETS; i++) {
        ck_assert_uint_eq(buckets[i], (uint32_t)index_bucket_digest(theirs, i));
        differing += index_bucket_digest(theirs, i) != index_bucket_digest(ours, i);
    }
    ck_assert_uint_eq(differing, 1);
    char text[512];
    index_describe_difference(ours, buckets, text, sizeof(text));
    ck_assert_msg(strstr(text, "1 of 64 buckets differ: ") == text, "%s", text);
    ck_assert_msg(strstr(text, "(here it has 'a/") != NULL, "%s", text);
    index_describe_difference(ours, buckets, text, 10);
    ck_assert_uint_eq(strlen(text), 9);
    index_describe_difference(theirs, buckets, text, sizeof(text));
    ck_assert_str_eq(text, "all buckets are equal: only the class lists can differ");
    index_free(&ours);
    index_free(&theirs);
}
END_TEST

START_TEST(the_one_sample_that_others_lack_is_named)
{
    for (int i = 0; i < 500; i++) {
        char path[32];
        snprintf(path, sizeof(path), "d/a/%03d.jpg", i);
        put(path, 1);
        path[0] = 'e';
        if (i != 123) {
            put(path, 1);
        }
    }
    struct index *ours = open_of("d", NULL);
    struct index *theirs = open_of("e", NULL);
    uint32_t buckets[INDEX_BUCKETS];
    char text[512], wanted[128];
    index_buckets(theirs, buckets);
    index_describe_difference(ours, buckets, text, sizeof(text));
    snprintf(wanted, sizeof(wanted), "1 of 64 buckets differ: %u (only here: 'a/123.jpg')",
             index_bucket_of("a/123.jpg"));
    ck_assert_str_eq(text, wanted);
    index_buckets(ours, buckets);
    index_describe_difference(theirs, buckets, text, sizeof(text));
    ck_assert_msg(strstr(text, "(here it has 'a/") != NULL, "%s", text);
    index_free(&ours);
    index_free(&theirs);
}
END_TEST

/* ---- up to date ---- */

static bool was_built(const char *data)
{
    struct index *index = open_of(data, NULL);
    const bool built = index_was_built(index);
    index_free(&index);
    return built;
}

/* A settled data set whose index is there and trusted. */
static void make_settled(void)
{
    put("d/a/0.jpg", 1);
    put("d/a/1.jpg", 1);
    put("d/b/0.jpg", 1);
    tree_folders(&tree, "d/.headrace/"); /* else an index would be its folder's last change */
    tree_age(&tree);
    ck_assert(was_built("d"));
    ck_assert(!was_built("d"));
}

START_TEST(an_index_is_taken_while_nothing_changes)
{
    make_settled();
    struct index *index = open_of("d", NULL);
    ck_assert_str_eq(index_place(index), tree_path(&tree, "d/.headrace/index"));
    EXPECT(index, "a/0.jpg=0", "a/1.jpg=0", "b/0.jpg=1");
    const uint64_t digest = index_digest(index);
    index_free(&index);
    ck_assert_uint_eq(digest_of("d"), digest);
}
END_TEST

START_TEST(a_change_is_noticed)
{
    make_settled();
    put("d/a/2.jpg", 1); /* added */
    tree_age(&tree);     /* not by its own time */
    put("d/a/x", 1);
    ck_assert(was_built("d"));
    tree_age(&tree);
    ck_assert(was_built("d"));
    ck_assert(!was_built("d"));
    ck_assert_int_eq(remove(tree_path(&tree, "d/a/2.jpg")), 0);
    ck_assert(was_built("d"));
    tree_age(&tree);
    ck_assert(was_built("d"));
    put("d/b/0.jpg", 2); /* overwritten: its folder's time stays */
    tree_age(&tree);
    ck_assert(was_built("d"));
    ck_assert(!was_built("d"));
    tree_folders(&tree, "d/c/"); /* a class more */
    ck_assert(was_built("d"));
}
END_TEST

START_TEST(a_data_set_that_was_just_changing_is_not_trusted)
{
    put("d/a/0.jpg", 1);
    ck_assert(was_built("d"));
    ck_assert(was_built("d"));
    tree_age(&tree);
    ck_assert(was_built("d"));
    ck_assert(!was_built("d"));
}
END_TEST

START_TEST(making_the_index_is_no_change_of_the_data_set)
{
    put("d/a/0.jpg", 1);
    tree_age(&tree);
    ck_assert(was_built("d")); /* makes d/.headrace */
    ck_assert(!was_built("d"));
}
END_TEST

START_TEST(a_damaged_index_is_replaced)
{
    make_settled();
    const char *const place = tree_path(&tree, "d/.headrace/index");
    char file[PATH_MAX];
    snprintf(file, sizeof(file), "%s", place);
    struct stat st;
    ck_assert_int_eq(stat(file, &st), 0);
    for (int i = 0; i < 3; i++) {
        const int fd = open(file, O_RDWR);
        ck_assert_int_ge(fd, 0);
        if (i == 0) {
            ck_assert_int_eq(pwrite(fd, "\xFF", 1, st.st_size - 2), 1);
        } else {
            ck_assert_int_eq(ftruncate(fd, i == 1 ? st.st_size - 1 : 0), 0);
        }
        close(fd);
        ck_assert(was_built("d"));
        ck_assert(!was_built("d"));
    }
    ck_assert_int_eq(remove(file), 0);
    ck_assert_int_eq(mkfifo(file, 0644), 0); /* does not hang */
    ck_assert(was_built("d"));
    ck_assert(!was_built("d"));
}
END_TEST

START_TEST(the_cache_is_used_where_the_folder_cannot_be_written)
{
    put("d/a/0.jpg", 1);
    put("d/.headrace", 1); /* a file: no folder can be made (root may write to any folder) */
    tree_age(&tree);
    struct index *index = open_of("d", NULL);
    ck_assert_int_eq(strncmp(index_place(index), tree_path(&tree, "cache/"), strlen(tree.root) + 7),
                     0);
    index_free(&index);
    ck_assert(!was_built("d"));
    /* A folder that others may write to is not trusted: then it is in memory only. */
    ck_assert_int_eq(chmod(tree_path(&tree, "cache"), 0777), 0);
    index = open_of("d", NULL);
    ck_assert_str_eq(index_place(index), "");
    ck_assert(has_note(index, "every start reads the whole folder again"));
    EXPECT(index, "a/0.jpg=0");
    index_free(&index);
    ck_assert(was_built("d"));
}
END_TEST

START_TEST(a_cached_index_of_another_folder_is_not_taken)
{
    put("d/.headrace", 1);
    put("d/a/0.jpg", 1);
    put("e/.headrace", 1);
    put("e/a/1.jpg", 1);
    tree_age(&tree);
    struct index *d = open_of("d", NULL);
    struct index *e = open_of("e", NULL);
    ck_assert_int_eq(rename(index_place(d), index_place(e)), 0);
    ck_assert(was_built("e"));
    index_free(&d);
    index_free(&e);
}
END_TEST

START_TEST(an_open_index_survives_its_replacement)
{
    make_settled();
    struct index *index = open_of("d", NULL);
    put("d/a/2.jpg", 1);
    ck_assert(was_built("d"));
    EXPECT(index, "a/0.jpg=0", "a/1.jpg=0", "b/0.jpg=1");
    index_free(&index);
}
END_TEST

/* Files and folders come and go while they are indexed: every build succeeds, and what is there all
 * the time is in it. */
START_TEST(a_changing_data_set_can_be_indexed)
{
    put("d/a/stays.jpg", 1);
    put("d/z/stays.jpg", 1);
    const pid_t parent = getpid();
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        while (getppid() == parent) {
            for (int i = 0; i < 20; i++) {
                char path[32];
                snprintf(path, sizeof(path), "d/c%d/%d.jpg", i % 3, i);
                put(path, 1);
            }
            for (int i = 0; i < 20; i++) {
                char path[32];
                snprintf(path, sizeof(path), "d/c%d/%d.jpg", i % 3, i);
                remove(tree_path(&tree, path));
                snprintf(path, sizeof(path), "d/c%d", i % 3);
                rmdir(tree_path(&tree, path));
            }
        }
        _exit(0);
    }
    for (int i = 0; i < 200; i++) {
        struct index *index = NULL;
        struct err err = {0};
        ck_assert_msg(try_open("d", NULL, true, &index, &err) == OK, "%s", err.message);
        struct index_entry first, last;
        index_get(index, 0, &first);
        index_get(index, index_samples(index) - 1, &last);
        ck_assert_str_eq(first.path, "a/stays.jpg");
        ck_assert_str_eq(last.path, "z/stays.jpg");
        index_free(&index);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
END_TEST

/* Hosts of a cluster open one data set on a shared file system at the same moment. */
START_TEST(many_may_open_it_at_once)
{
    enum { CHILDREN = 6, ROUNDS = 30 };
    put("d/a/0.jpg", 1);
    put("d/b/0.jpg", 2);
    const uint64_t digest = digest_of("d");
    tree_age(&tree);
    pid_t children[CHILDREN];
    for (int c = 0; c < CHILDREN; c++) {
        children[c] = fork();
        ck_assert_int_ge(children[c], 0);
        for (int i = 0; children[c] == 0 && i < ROUNDS; i++) {
            struct index *index = NULL;
            if (try_open("d", NULL, i % 2 == 0, &index, NULL) != OK ||
                index_digest(index) != digest || index_place(index)[0] == '\0') {
                _exit(1);
            }
            index_free(&index);
        }
        if (children[c] == 0) {
            _exit(0);
        }
    }
    for (int c = 0; c < CHILDREN; c++) {
        int status;
        ck_assert_int_eq(waitpid(children[c], &status, 0), children[c]);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index");
    TCase *tc = tcase_create("index");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, ids_follow_paths_and_labels_follow_folders);
    tcase_add_test(tc, random_trees_are_in_the_order_of_whole_paths);
    tcase_add_test(tc, hidden_and_system_files_do_not_count);
    tcase_add_test(tc, what_a_download_leaves_behind_does_not_count);
    tcase_add_test(tc, a_class_without_pictures_keeps_its_label);
    tcase_add_test(tc, extensions_count_in_any_case);
    tcase_add_test(tc, a_flat_folder_has_no_labels);
    tcase_add_test(tc, pictures_beside_classes_are_left_out_by_name);
    tcase_add_test(tc, what_is_no_file_neither_hangs_nor_counts);
    tcase_add_test(tc, links_are_followed_inside_data_root_only);
    tcase_add_test(tc, no_folder_is_entered_inside_itself);
    tcase_add_test(tc, errors_say_what_is_wrong);
    tcase_add_test(tc, a_path_without_end_is_an_error);
    tcase_add_test(tc, data_may_be_named_absolutely_or_be_data_root);
    tcase_add_test(tc, an_evaluation_takes_the_classes_by_name);
    tcase_add_test(tc, an_unknown_class_is_an_error_that_names_both);
    tcase_add_test(tc, equal_class_lists_give_the_same_digest);
    tcase_add_test(tc, the_digest_is_of_names_sizes_and_labels);
    tcase_add_test(tc, a_difference_is_narrowed_down_to_buckets);
    tcase_add_test(tc, the_one_sample_that_others_lack_is_named);
    tcase_add_test(tc, an_index_is_taken_while_nothing_changes);
    tcase_add_test(tc, a_change_is_noticed);
    tcase_add_test(tc, a_data_set_that_was_just_changing_is_not_trusted);
    tcase_add_test(tc, making_the_index_is_no_change_of_the_data_set);
    tcase_add_test(tc, a_damaged_index_is_replaced);
    tcase_add_test(tc, the_cache_is_used_where_the_folder_cannot_be_written);
    tcase_add_test(tc, a_cached_index_of_another_folder_is_not_taken);
    tcase_add_test(tc, an_open_index_survives_its_replacement);
    tcase_add_test(tc, a_changing_data_set_can_be_indexed);
    tcase_add_test(tc, many_may_open_it_at_once);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
