/* SPDX-License-Identifier: Apache-2.0 */
/* headrace index: what a data set holds, and its index brought up to date. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "common/clock.h"
#include "common/index.h"
#include "common/json.h"
#include "common/option.h"

static const char USAGE[] =
    "usage: headrace index DIR [--data-root ROOT] [--rebuild] [--json]\n"
    "\n"
    "Makes the index of the picture folder DIR, or takes the one that is there and up to date, "
    "and\n"
    "prints what is in it. Every .jpg, .jpeg, .jpe, .jfif and .png below DIR is a sample; the "
    "folders\n"
    "in DIR are its classes.\n"
    "\n"
    "  --data-root ROOT  links may lead anywhere below ROOT (default: DIR)\n"
    "  --rebuild         build it anew, whatever is there\n"
    "  --json            print one JSON object\n"
    "\n"
    "Exit codes: 0 ok, 64 usage, 65 no picture found, 66 no such folder, 74 it cannot be read,\n"
    "78 DIR lies outside ROOT.\n";

struct arguments {
    const char *dir, *data_root;
    bool rebuild, json;
};

/* ---- arguments ---- */

static enum status unknown_option(const char *option, struct err *err)
{
    char nearest[16];
    choice_nearest("--data-root|--rebuild|--json", option, nearest, sizeof(nearest));
    return err_set(err, ERR_USAGE, "unknown option '%s'; did you mean %s?", option, nearest);
}

static enum status parse(int argc, char **argv, struct arguments *out, struct err *err)
{
    struct arguments a = {0};
    static const char ROOT_IS[] = "--data-root=";
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--rebuild") == 0) {
            a.rebuild = true;
        } else if (strcmp(word, "--json") == 0) {
            a.json = true;
        } else if (strncmp(word, ROOT_IS, sizeof(ROOT_IS) - 1) == 0) {
            a.data_root = word + sizeof(ROOT_IS) - 1;
        } else if (strcmp(word, "--data-root") == 0) {
            if (i + 1 == argc) {
                return err_set(err, ERR_USAGE, "--data-root needs a folder");
            }
            a.data_root = argv[++i];
        } else if (word[0] == '-' && word[1] != '\0') {
            return unknown_option(word, err);
        } else if (a.dir != NULL) {
            return err_set(err, ERR_USAGE, "one folder at a time, got '%s' and '%s'", a.dir, word);
        } else {
            a.dir = word;
        }
    }
    if (a.dir == NULL) {
        return err_set(err, ERR_USAGE, "which folder? usage: headrace index DIR");
    }
    *out = a;
    return OK;
}

/* ---- results ---- */

enum { NOTE_BYTES = 1024, CLASSES_SHOWN = 8 };

static void print_text(const struct index *index, double seconds)
{
    printf("folder   %s\n", index_folder(index));
    printf("samples  %" PRIu64 "\n", index_samples(index));
    const uint32_t classes = index_classes(index);
    printf("classes  %" PRIu32, classes);
    for (uint32_t i = 0; i < classes && i < CLASSES_SHOWN; i++) {
        printf("%s%s %" PRIu64, i == 0 ? ": " : ", ", index_class_name(index, i),
               index_class_samples(index, i));
    }
    printf("%s\n", classes == 0              ? " (a flat folder: no labels)"
                   : classes > CLASSES_SHOWN ? ", ..."
                                             : "");
    printf("digest   %016" PRIx64 "\n", index_digest(index));
    const char *place = index_place(index);
    printf("index    %s (%s, %.2f s)\n", place[0] != '\0' ? place : "in memory only",
           index_was_built(index) ? "built" : "was up to date", seconds);
    char note[NOTE_BYTES];
    for (uint32_t i = 0; index_note(index, i, note, sizeof(note)); i++) {
        printf("note     %s\n", note);
    }
}

static void print_json_text(const char *key, const char *text)
{
    printf(",\"%s\":", key);
    json_write_quoted(stdout, text);
}

static void print_json(const struct index *index, double seconds)
{
    printf("{\"samples\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\",\"built\":%s,\"seconds\":%.3f",
           index_samples(index), index_digest(index), index_was_built(index) ? "true" : "false",
           seconds);
    print_json_text("folder", index_folder(index));
    print_json_text("index", index_place(index));
    printf(",\"classes\":[");
    for (uint32_t i = 0; i < index_classes(index); i++) {
        printf("%s{\"label\":%" PRIu32 ",\"samples\":%" PRIu64, i == 0 ? "" : ",", i,
               index_class_samples(index, i));
        print_json_text("name", index_class_name(index, i));
        printf("}");
    }
    printf("],\"buckets\":[");
    for (uint32_t i = 0; i < INDEX_BUCKETS; i++) {
        printf("%s\"%016" PRIx64 "\"", i == 0 ? "" : ",", index_bucket_digest(index, i));
    }
    printf("],\"notes\":[");
    char note[NOTE_BYTES];
    for (uint32_t i = 0; index_note(index, i, note, sizeof(note)); i++) {
        printf("%s", i == 0 ? "" : ",");
        json_write_quoted(stdout, note);
    }
    printf("]}\n");
}

/* DIR is relative to the working folder, data in index_options to data_root. */
static enum status open_index(const struct arguments *arguments, struct index **out,
                              struct err *err)
{
    char *dir = realpath(arguments->dir, NULL);
    if (dir == NULL) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        return err_errno(err, missing ? ERR_MISSING : ERR_IO, "data folder %s", arguments->dir);
    }
    const char *root = arguments->data_root;
    const struct index_options options = {.data_root = root != NULL ? root : dir, .data = dir};
    const enum status status =
        arguments->rebuild ? index_build(&options, out, err) : index_open(&options, out, err);
    free(dir);
    return status;
}

static int run(int argc, char **argv)
{
    struct arguments arguments;
    struct err err = {0};
    if (parse(argc, argv, &arguments, &err) != OK) {
        return cmd_fail("index", &err);
    }
    struct index *index = NULL;
    const int64_t begun_ns = clock_now_ns();
    if (open_index(&arguments, &index, &err) != OK) {
        return cmd_fail("index", &err);
    }
    const double seconds = (double)(clock_now_ns() - begun_ns) / 1e9;
    if (arguments.json) {
        print_json(index, seconds);
    } else {
        print_text(index, seconds);
    }
    index_free(&index);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)err_errno(&err, ERR_IO, "cannot write the result");
        return cmd_fail("index", &err);
    }
    return EXIT_OK;
}

const struct cmd cmd_index = {
    .name = "index",
    .summary = "make and print the index of a picture folder",
    .run = run,
    .usage = USAGE,
};
