/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of its own for a test that needs files: made under TMPDIR, removed by tree_remove. Paths
 * are relative to it; folders on the way are made. Failures abort the test.
 */
#ifndef HEADRACE_TESTS_SUPPORT_TREE_H
#define HEADRACE_TESTS_SUPPORT_TREE_H

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
    char root[PATH_MAX]; /* absolute, without links */
};

static inline struct tree tree_make(void)
{
    const char *base = getenv("TMPDIR");
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/headrace-test.XXXXXX", base != NULL ? base : "/tmp");
    struct tree tree;
    ck_assert_ptr_nonnull(mkdtemp(name));
    ck_assert_ptr_nonnull(realpath(name, tree.root));
    return tree;
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type,
                                  struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void tree_remove(const struct tree *tree)
{
    nftw(tree->root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Valid until the eighth next call. */
static inline const char *tree_path(const struct tree *tree, const char *path)
{
    static char paths[8][2 * PATH_MAX];
    static unsigned next;
    char *out = paths[next++ % 8];
    snprintf(out, sizeof(paths[0]), "%s/%s", tree->root, path);
    return out;
}

/* Makes the folders that lead to a path; with a '/' at its end the path itself. */
static inline void tree_folders(const struct tree *tree, const char *path)
{
    char full[2 * PATH_MAX];
    snprintf(full, sizeof(full), "%s/%s", tree->root, path);
    for (char *slash = full + strlen(tree->root) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        (void)mkdir(full, 0755);
        *slash = '/';
    }
}

static inline void tree_write(const struct tree *tree, const char *path, const void *bytes,
                              size_t count)
{
    tree_folders(tree, path);
    FILE *file = fopen(tree_path(tree, path), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

static inline void tree_link(const struct tree *tree, const char *path, const char *target)
{
    tree_folders(tree, path);
    ck_assert_int_eq(symlink(target, tree_path(tree, path)), 0);
}

static inline int tree_age_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    return utimensat(AT_FDCWD, path, long_ago, AT_SYMLINK_NOFOLLOW);
}

/* Makes everything look as if it had not changed for years. */
static inline void tree_age(const struct tree *tree)
{
    ck_assert_int_eq(nftw(tree->root, tree_age_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
