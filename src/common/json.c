/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A struct json is a cJSON item of a marked document (json_mark.h): numbers and texts are both
 * strings there, told apart by their first byte.
 */
#include "common/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json_mark.h"
#include "common/limits.h"

static const cJSON *item_of(const struct json *json)
{
    return (const cJSON *)json;
}

static const struct json *json_of(const cJSON *item)
{
    return (const struct json *)item;
}

/* ---- equal keys ---- */

struct place {
    cJSON *item;
    size_t index;
};

static int place_compare(const void *a, const void *b)
{
    const struct place *left = a;
    const struct place *right = b;
    const int order = strcmp(left->item->string, right->item->string);
    if (order != 0) {
        return order;
    }
    return (left->index > right->index) - (left->index < right->index);
}

/* Moves the value of `last` into `first`, which keeps its key and place. */
static void take_over(cJSON *first, cJSON *last)
{
    const cJSON spare = *first;
    first->type = last->type;
    first->valuestring = last->valuestring;
    first->child = last->child;
    last->type = spare.type;
    last->valuestring = spare.valuestring;
    last->child = spare.child;
}

static void drop_equal_keys(cJSON *object, struct place *places, size_t count)
{
    qsort(places, count, sizeof(places[0]), place_compare);
    size_t first = 0;
    for (size_t i = 1; i <= count; i++) {
        if (i < count && strcmp(places[i].item->string, places[first].item->string) == 0) {
            continue;
        }
        if (i - first > 1) {
            take_over(places[first].item, places[i - 1].item);
        }
        for (size_t j = first + 1; j < i; j++) {
            cJSON_Delete(cJSON_DetachItemViaPointer(object, places[j].item));
        }
        first = i;
    }
}

enum status json_unite(struct json *object, struct err *err)
{
    const size_t count = json_count(object);
    if (count < 2) {
        return OK;
    }
    struct place *places = calloc(count, sizeof(*places));
    if (places == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    size_t index = 0;
    for (cJSON *item = ((cJSON *)object)->child; item != NULL; item = item->next) {
        places[index] = (struct place){item, index};
        index++;
    }
    drop_equal_keys((cJSON *)object, places, count);
    free(places);
    return OK;
}

/* Every object of the tree, from the root down. */
static enum status unite_equal_keys(cJSON *root, struct err *err)
{
    cJSON *path[JSON_DEPTH_MAX + 1] = {root};
    size_t depth = 1;
    while (depth > 0) {
        cJSON *item = path[depth - 1];
        if (item == NULL) {
            depth--;
            if (depth > 0) {
                path[depth - 1] = path[depth - 1]->next;
            }
            continue;
        }
        if (cJSON_IsObject(item)) {
            TRY(json_unite((struct json *)item, err));
        }
        if (item->child != NULL) {
            CHECK(depth < ARRAY_LEN(path));
            path[depth++] = item->child;
        } else {
            path[depth - 1] = item->next;
        }
    }
    return OK;
}

/* ---- reading ---- */

static enum status parse_marked(const char *marked, size_t len, struct json **out, struct err *err)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(marked, len + 1, &end, true);
    if (root == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    const enum status status = unite_equal_keys(root, err);
    if (status != OK) {
        cJSON_Delete(root);
        return status;
    }
    *out = (struct json *)root;
    return OK;
}

static enum status parse(const char *text, size_t len, bool outside, struct json **out,
                         struct err *err)
{
    if (len > JSON_BYTES_MAX) {
        return err_set(err, ERR_CONFIG, "%zu bytes of JSON, at most %d are allowed", len,
                       JSON_BYTES_MAX);
    }
    char *marked = NULL;
    size_t marked_len = 0;
    FILE *stream = open_memstream(&marked, &marked_len);
    if (stream == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    enum status status = json_mark(text, len, outside, stream, err);
    if (fclose(stream) != 0 && status == OK) {
        status = err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    if (status == OK) {
        status = parse_marked(marked, marked_len, out, err);
    }
    free(marked);
    return status;
}

enum status json_parse(const char *text, struct json **out, struct err *err)
{
    return parse(text, strlen(text), false, out, err);
}

enum status json_parse_bytes(const char *bytes, size_t len, struct json **out, struct err *err)
{
    return parse(bytes, len, true, out, err);
}

/* Fills buffer (JSON_BYTES_MAX + 2 bytes), with a NUL behind what was read. */
static enum status read_all(int fd, const char *path, char *buffer, size_t *len_out,
                            struct err *err)
{
    size_t len = 0;
    while (len <= JSON_BYTES_MAX) {
        const ssize_t count = read(fd, buffer + len, JSON_BYTES_MAX + 1 - len);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return err_errno(err, ERR_IO, "%s: cannot read it", path);
        }
        if (count == 0) {
            break;
        }
        len += (size_t)count;
    }
    buffer[len] = '\0';
    *len_out = len;
    return OK;
}

enum status json_read_file(const char *path, struct json **out, struct err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        const bool is_missing = errno == ENOENT || errno == ENOTDIR;
        return err_errno(err, is_missing ? ERR_MISSING : ERR_IO, "%s: cannot open it", path);
    }
    char *buffer = malloc(JSON_BYTES_MAX + 2);
    size_t len = 0;
    enum status status = buffer != NULL ? read_all(fd, path, buffer, &len, err)
                                        : err_set(err, ERR_RESOURCE, "no memory for JSON");
    close(fd);
    if (status == OK) {
        status = json_parse_bytes(buffer, len, out, err);
        if (status != OK && err != NULL) {
            status = err_prefix(err, "%s", path);
        }
    }
    free(buffer);
    return status;
}

void json_free(struct json **json)
{
    cJSON_Delete((cJSON *)*json);
    *json = NULL;
}

enum json_kind json_kind(const struct json *json)
{
    const cJSON *item = item_of(json);
    if (cJSON_IsObject(item)) {
        return JSON_OBJECT;
    }
    if (cJSON_IsArray(item)) {
        return JSON_LIST;
    }
    if (cJSON_IsBool(item)) {
        return JSON_BOOL;
    }
    if (cJSON_IsNull(item)) {
        return JSON_NULL;
    }
    CHECK(cJSON_IsString(item));
    return item->valuestring[0] == JSON_MARK_NUMBER ? JSON_NUMBER : JSON_TEXT;
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const NAMES[] = {
        [JSON_NULL] = "null",   [JSON_BOOL] = "true or false", [JSON_NUMBER] = "a number",
        [JSON_TEXT] = "a text", [JSON_LIST] = "a list",        [JSON_OBJECT] = "an object",
    };
    return NAMES[kind];
}

const char *json_text(const struct json *json)
{
    return cJSON_IsString(item_of(json)) ? item_of(json)->valuestring + 1 : NULL;
}

bool json_is_true(const struct json *json)
{
    return cJSON_IsTrue(item_of(json));
}

bool json_is_integer(const struct json *json)
{
    return json_kind(json) == JSON_NUMBER && strpbrk(json_text(json), ".eNI") == NULL;
}

bool json_to_integer(const struct json *json, int64_t *out)
{
    if (json_kind(json) != JSON_NUMBER) {
        return false;
    }
    if (json_is_integer(json)) {
        errno = 0;
        const long long value = strtoll(json_text(json), NULL, 10);
        *out = value;
        return errno == 0;
    }
    const double value = strtod(json_text(json), NULL);
    if (!(fabs(value) <= 9007199254740992.0) || value != floor(value)) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

bool json_to_double(const struct json *json, double *out)
{
    if (json_kind(json) != JSON_NUMBER) {
        return false;
    }
    *out = strtod(json_text(json), NULL);
    return true;
}

bool json_truth(const struct json *json)
{
    switch (json_kind(json)) {
    case JSON_NULL:
        return false;
    case JSON_BOOL:
        return json_is_true(json);
    case JSON_NUMBER:
        return strpbrk(json_text(json), "123456789NI") != NULL;
    case JSON_TEXT:
        return json_text(json)[0] != '\0';
    case JSON_LIST:
    case JSON_OBJECT:
        return json_first(json) != NULL;
    }
    return false;
}

bool json_is_text(const struct json *json, const char *text)
{
    return json_kind(json) == JSON_TEXT && strcmp(json_text(json), text) == 0;
}

const struct json *json_first(const struct json *json)
{
    return json_of(item_of(json)->child);
}

const struct json *json_next(const struct json *member)
{
    return json_of(item_of(member)->next);
}

const char *json_key(const struct json *member)
{
    return item_of(member)->string;
}

uint32_t json_count(const struct json *json)
{
    uint32_t count = 0;
    for (const struct json *member = json_first(json); member != NULL; member = json_next(member)) {
        count++;
    }
    return count;
}

const struct json *json_get(const struct json *json, const char *key)
{
    return json_of(cJSON_GetObjectItemCaseSensitive(item_of(json), key));
}

/* ---- building ---- */

struct json *json_new_object(void)
{
    return (struct json *)cJSON_CreateObject();
}

struct json *json_new_list(void)
{
    return (struct json *)cJSON_CreateArray();
}

struct json *json_new_null(void)
{
    return (struct json *)cJSON_CreateNull();
}

struct json *json_new_bool(bool value)
{
    return (struct json *)cJSON_CreateBool(value);
}

struct json *json_new_integer(int64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%c%" PRId64, JSON_MARK_NUMBER, value);
    return (struct json *)cJSON_CreateString(text);
}

struct json *json_new_text(const char *text)
{
    const size_t size = strlen(text) + 2;
    char *marked = malloc(size);
    if (marked == NULL) {
        return NULL;
    }
    marked[0] = JSON_MARK_TEXT;
    memcpy(marked + 1, text, size - 1);
    cJSON *item = cJSON_CreateString(marked);
    free(marked);
    return (struct json *)item;
}

struct json *json_clone(const struct json *json)
{
    return (struct json *)cJSON_Duplicate(item_of(json), true);
}

enum status json_add(struct json *object, const char *key, struct json *value, struct err *err)
{
    cJSON *item = (cJSON *)value;
    if (item == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    if (!cJSON_AddItemToObject((cJSON *)object, key, item)) {
        cJSON_Delete(item);
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    return OK;
}

enum status json_append(struct json *list, struct json *value, struct err *err)
{
    if (value == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for JSON");
    }
    CHECK(cJSON_AddItemToArray((cJSON *)list, (cJSON *)value));
    return OK;
}
