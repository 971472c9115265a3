/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and contents of the platform's files. */
#include "common/sm_files.h"

#include <stdio.h>
#include <string.h>

#include "common/limits.h"

bool sm_path_join(const char *folder, const char *name, char *out, size_t size)
{
    const size_t len = strlen(folder);
    const bool is_absolute = name[0] == '/';
    const bool needs_slash = len > 0 && folder[len - 1] != '/';
    const int count = snprintf(out, size, "%s%s%s", is_absolute ? "" : folder,
                               !is_absolute && needs_slash ? "/" : "", name);
    return count >= 0 && (size_t)count < size;
}

void sm_file_path(const char *base, const char *name, char *out, size_t size)
{
    char below[NAME_BYTES_MAX];
    snprintf(below, sizeof(below), "input/config/%s", name);
    (void)!sm_path_join(base, below, out, size);
}

enum status sm_file_read(const char *base, const char *name, struct json **out, struct err *err)
{
    char path[PATH_BYTES_MAX];
    sm_file_path(base, name, path, sizeof(path));
    const enum status status = json_read_file(path, out, err);
    return status == ERR_DATA ? err_restate(err, ERR_CONFIG) : status;
}

enum status sm_hyperparameter_decode(const struct json *value, struct json **out, struct err *err)
{
    struct json *decoded = NULL;
    if (json_kind(value) == JSON_TEXT) {
        const enum status status = json_parse(json_text(value), &decoded, err);
        if (status != OK && status != ERR_DATA) {
            return status;
        }
    }
    if (decoded == NULL) {
        decoded = json_clone(value);
    }
    if (decoded == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a hyperparameter");
    }
    *out = decoded;
    return OK;
}
