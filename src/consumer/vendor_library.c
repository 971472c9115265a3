/* SPDX-License-Identifier: Apache-2.0 */
/* The search for one library: candidates in order, each opened, filled in and checked. */
#include "consumer/vendor_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

struct search {
    const struct library_want *want;
    void *table;
    struct library_found *found;
    struct err refusal; /* of the first candidate passed over */
};

/* ---- one candidate ---- */

static enum status fill_table(const struct library_want *want, void *handle, void *table,
                              struct err *err)
{
    for (size_t i = 0; i < want->symbol_count; i++) {
        void *function = dlsym(handle, want->symbols[i].name);
        if (function == NULL) {
            return err_set(err, ERR_DEVICE, "it has no %s", want->symbols[i].name);
        }
        memcpy((char *)table + want->symbols[i].offset, &function, sizeof(function));
    }
    return OK;
}

static void set_path(void *handle, const char *asked, char out[PATH_BYTES_MAX])
{
    struct link_map *map = NULL;
    const bool is_known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0';
    snprintf(out, PATH_BYTES_MAX, "%s", is_known ? map->l_name : asked);
}

/* Takes the handle of an opened library, or closes it and says why not. */
static enum status take(struct search *search, void *handle, enum library_origin origin,
                        const char *asked, struct err *err)
{
    struct library_found found = {.origin = origin};
    set_path(handle, asked, found.path);
    enum status status = fill_table(search->want, handle, search->table, err);
    if (status == OK) {
        status = search->want->version(search->table, &found, err);
    }
    if (status != OK) {
        (void)err_prefix(err, "%s, %s", search->want->name, found.path);
        *search->found = found;
        dlclose(handle);
        return status;
    }
    *search->found = found;
    return OK;
}

/* A name that the loader does not find, and not one whose own dependency it does not find. */
static bool is_absent(const char *name, const char *complaint)
{
    return strncmp(complaint, name, strlen(name)) == 0 &&
           strstr(complaint, "No such file or directory") != NULL;
}

/* ERR_MISSING: there is no such file. */
static enum status open_and_take(struct search *search, enum library_origin origin,
                                 const char *name, struct err *err)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != NULL) {
        return take(search, handle, origin, name, err);
    }
    const char *complaint = dlerror();
    complaint = complaint == NULL ? "unknown error" : complaint;
    if (is_absent(name, complaint)) {
        return err_set(err, ERR_MISSING, "%s: %s", search->want->name, complaint);
    }
    snprintf(search->found->path, sizeof(search->found->path), "%s", name);
    return err_set(err, ERR_DEVICE, "%s: %s", search->want->name, complaint);
}

/* ---- the places ---- */

static enum status try_loaded(struct search *search, const char *path, struct err *err)
{
    const struct library_want *want = search->want;
    for (size_t i = 0; want->sonames[i] != NULL; i++) {
        void *handle = dlopen(want->sonames[i], RTLD_NOW | RTLD_NOLOAD);
        if (handle == NULL) {
            (void)dlerror();
            continue;
        }
        TRY(take(search, handle, LIBRARY_LOADED, want->sonames[i], err));
        if (path[0] != '\0' && strcmp(path, search->found->path) != 0) {
            log_warn("%s: %s is loaded in this process already; --%s %s is not used", want->name,
                     search->found->path, want->option, path);
        }
        return OK;
    }
    return ERR_MISSING;
}

/* Whether the candidate was taken; one that does not fit is remembered, and said. */
static bool try_one(struct search *search, enum library_origin origin, const char *name)
{
    struct err err = {0};
    const enum status status = open_and_take(search, origin, name, &err);
    if (status != OK && status != ERR_MISSING) {
        log_warn("passed over: %s", err.message);
        if (search->refusal.status == OK) {
            search->refusal = err;
        }
    }
    return status == OK;
}

/* Every file that the pattern matches, in the order of their names. */
static bool try_pattern(struct search *search, enum library_origin origin, const char *folder,
                        const char *soname)
{
    char pattern[PATH_BYTES_MAX];
    if (snprintf(pattern, sizeof(pattern), "%s/%s", folder, soname) >= (int)sizeof(pattern)) {
        return false;
    }
    glob_t matches = {0};
    bool is_taken = false;
    if (glob(pattern, GLOB_BRACE, NULL, &matches) == 0) {
        for (size_t i = 0; i < matches.gl_pathc && !is_taken; i++) {
            is_taken = try_one(search, origin, matches.gl_pathv[i]);
        }
    }
    globfree(&matches);
    return is_taken;
}

static bool try_system(struct search *search)
{
    const struct library_want *want = search->want;
    for (size_t i = 0; want->sonames[i] != NULL; i++) {
        if (try_one(search, LIBRARY_SYSTEM, want->sonames[i]) ||
            (want->folders != NULL &&
             try_pattern(search, LIBRARY_SYSTEM, want->folders, want->sonames[i]))) {
            return true;
        }
    }
    return false;
}

static bool try_prefix(struct search *search, const char *prefix)
{
    const struct library_want *want = search->want;
    char folder[PATH_BYTES_MAX];
    if (snprintf(folder, sizeof(folder), "%s/lib/python3*/{site,dist}-packages/nvidia/%s", prefix,
                 want->python) >= (int)sizeof(folder)) {
        return false;
    }
    for (size_t i = 0; want->sonames[i] != NULL; i++) {
        if (try_pattern(search, LIBRARY_PYTHON, folder, want->sonames[i])) {
            return true;
        }
    }
    return false;
}

/* The prefix (the folder above bin) of the python3 that a shell would start. */
static bool python_prefix(char out[PATH_BYTES_MAX])
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        const int len = (int)strcspn(at, ":");
        char file[PATH_BYTES_MAX];
        const int file_len = snprintf(file, sizeof(file), "%.*s/python3", len, at);
        if (len > 0 && file_len < (int)sizeof(file) && access(file, X_OK) == 0) {
            snprintf(out, PATH_BYTES_MAX, "%.*s/..", len, at);
            return true;
        }
        at += len + (at[len] == ':');
    }
    return false;
}

static bool try_python(struct search *search)
{
    static const char *const VARIABLES[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    static const char *const PREFIXES[] = {"/opt/conda", "/usr/local", "/usr"};
    char prefix[PATH_BYTES_MAX];
    if (search->want->python == NULL) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(VARIABLES); i++) {
        const char *value = getenv(VARIABLES[i]);
        if (value != NULL && value[0] != '\0' && try_prefix(search, value)) {
            return true;
        }
    }
    if (python_prefix(prefix) && try_prefix(search, prefix)) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(PREFIXES); i++) {
        if (try_prefix(search, PREFIXES[i])) {
            return true;
        }
    }
    const char *home = getenv("HOME");
    return home != NULL && snprintf(prefix, sizeof(prefix), "%s/.local", home) < PATH_BYTES_MAX &&
           try_prefix(search, prefix);
}

/* ---- the whole ---- */

static enum status not_found(const struct search *search, struct err *err)
{
    const struct library_want *want = search->want;
    if (search->refusal.status != OK) {
        *err = search->refusal;
        return err_failed(err->status);
    }
    return err_set(err, ERR_DEVICE, "%s: %s%s%s not found: %s, or name the file with --%s",
                   want->name, want->sonames[0], want->sonames[1] == NULL ? "" : " or ",
                   want->sonames[1] == NULL ? "" : want->sonames[1], want->install, want->option);
}

enum status library_open(const struct library_want *want, const char *path, void *table,
                         struct library_found *found, struct err *err)
{
    struct search search = {.want = want, .table = table, .found = found};
    path = path == NULL ? "" : path;
    *found = (struct library_found){0};
    const enum status status = try_loaded(&search, path, err);
    if (status != ERR_MISSING) {
        return status;
    }
    if (path[0] != '\0') {
        if (open_and_take(&search, LIBRARY_OPTION, path, err) == OK) {
            return OK;
        }
        (void)err_prefix(err, "--%s", want->option);
        return err_restate(err, ERR_DEVICE);
    }
    return try_system(&search) || try_python(&search) ? OK : not_found(&search, err);
}

void library_describe(const struct library_want *want, const struct library_found *found, char *out,
                      size_t size)
{
    static const char *const ORIGINS[] = {
        [LIBRARY_LOADED] = "already loaded",
        [LIBRARY_OPTION] = "option",
        [LIBRARY_SYSTEM] = "system",
        [LIBRARY_PYTHON] = "Python environment",
    };
    snprintf(out, size, "%s %s: %s (%s)", want->name, found->version_text, found->path,
             ORIGINS[found->origin]);
}
