/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, roles and the hosts map, out of JSON objects. */
#include "common/config_maps.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/option.h"
#include "common/text.h"

enum { DESCRIPTION_BYTES = 160, WHERE_BYTES = 512 };

static const char TRAIN_PIPELINE[] =
    "[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\",\"size\":224},"
    "{\"op\":\"horizontal_flip\",\"p\":0.5}]";
static const char OTHER_PIPELINE[] = "[{\"op\":\"decode\"},{\"op\":\"resize\",\"size\":256},"
                                     "{\"op\":\"center_crop\",\"size\":224}]";

static enum status refuse(const struct json *value, const char *wanted, const char *where,
                          struct err *err)
{
    char found[DESCRIPTION_BYTES];
    json_describe(value, found, sizeof(found));
    return err_set(err, ERR_CONFIG, "%s: found %s, expected %s", where, found, wanted);
}

/* Copies a text member that has to fit and not to be empty. */
static enum status copy_text(const struct json *value, const char *wanted, const char *where,
                             char *out, size_t size, struct err *err)
{
    if (value == NULL || json_kind(value) != JSON_TEXT || json_text(value)[0] == '\0' ||
        strlen(json_text(value)) >= size) {
        return refuse(value, wanted, where, err);
    }
    snprintf(out, size, "%s", json_text(value));
    return OK;
}

/* ---- streams ---- */

/* One word out of "a|b|c" gives its index; a missing member leaves *index_out. */
static enum status read_choice(const struct json *stream, const char *key, const char *choices,
                               const char *where, int *index_out, struct err *err)
{
    const struct json *value = json_get(stream, key);
    if (value == NULL) {
        return OK;
    }
    const char *word = json_kind(value) == JSON_TEXT ? json_text(value) : "";
    char at[WHERE_BYTES];
    snprintf(at, sizeof(at), "%s.%s", where, key);
    if (!choice_has(choices, word)) {
        char wanted[DESCRIPTION_BYTES];
        snprintf(wanted, sizeof(wanted), "one of %s", choices);
        return refuse(value, wanted, at, err);
    }
    int index = 0;
    for (const char *p = choices; p < strstr(choices, word); p++) {
        index += *p == '|';
    }
    *index_out = index;
    return OK;
}

static enum status read_pipeline(const struct json *value, const char *where, bool is_train,
                                 struct pipeline *out, struct err *err)
{
    if (value == NULL) {
        return pipeline_parse(is_train ? TRAIN_PIPELINE : OTHER_PIPELINE, out, err);
    }
    char *text = NULL;
    TRY(json_print(value, &text, err));
    enum status status = pipeline_parse(text, out, err);
    free(text);
    if (status != OK && err != NULL) {
        status = err_prefix(err, "%s.pipeline", where);
    }
    return status;
}

static enum status check_stream_keys(const struct json *value, const char *where, struct err *err)
{
    static const char KEYS[] = "data|shuffle|last|pipeline";
    for (const struct json *m = json_first(value); m != NULL; m = json_next(m)) {
        if (!choice_has(KEYS, json_key(m))) {
            char nearest[NAME_BYTES_MAX];
            choice_nearest(KEYS, json_key(m), nearest, sizeof(nearest));
            return err_set(err, ERR_CONFIG, "%s: no key '%s'; did you mean '%s'?", where,
                           json_key(m), nearest);
        }
    }
    return OK;
}

static enum status read_stream(const struct json *value, const char *where,
                               struct stream_config *stream, struct err *err)
{
    const char *name = json_key(value);
    if (name[0] == '\0' || strlen(name) >= NAME_BYTES_MAX ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") !=
            strlen(name)) {
        return err_set(err, ERR_CONFIG,
                       "%s: the name may hold letters, digits and _-. and %d bytes", where,
                       NAME_BYTES_MAX - 1);
    }
    if (json_kind(value) != JSON_OBJECT) {
        return refuse(value, "an object like {\"data\": \"train\"}", where, err);
    }
    TRY(check_stream_keys(value, where, err));
    snprintf(stream->name, sizeof(stream->name), "%s", name);
    const bool is_train = strcmp(name, "train") == 0;
    int shuffle = is_train ? SHUFFLE_FULL : SHUFFLE_NONE;
    int last = is_train ? LAST_DROP : LAST_PARTIAL;
    TRY(read_choice(value, "shuffle", "none|full|window", where, &shuffle, err));
    TRY(read_choice(value, "last", "drop|partial", where, &last, err));
    stream->shuffle = (enum shuffle_kind)shuffle;
    stream->last = (enum last_kind)last;
    char at[WHERE_BYTES];
    snprintf(at, sizeof(at), "%s.data", where);
    TRY(copy_text(json_get(value, "data"), "a folder below data_root", at, stream->data,
                  sizeof(stream->data), err));
    return read_pipeline(json_get(value, "pipeline"), where, is_train, &stream->pipeline, err);
}

static void put_train_first(struct config *config)
{
    uint32_t i = 0;
    while (i < config->stream_count && strcmp(config->streams[i].name, "train") != 0) {
        i++;
    }
    if (i == config->stream_count) {
        return;
    }
    for (; i > 0; i--) {
        const struct stream_config before = config->streams[i - 1];
        config->streams[i - 1] = config->streams[i];
        config->streams[i] = before;
    }
}

enum status config_set_streams(const struct json *value, const char *where, struct config *config,
                               struct err *err)
{
    if (json_kind(value) != JSON_OBJECT) {
        return refuse(value, "an object of streams by name", where, err);
    }
    if (json_count(value) > STREAMS_MAX) {
        return err_set(err, ERR_CONFIG, "%s: found %u streams, at most %d are allowed", where,
                       json_count(value), STREAMS_MAX);
    }
    config->stream_count = 0;
    for (const struct json *m = json_first(value); m != NULL; m = json_next(m)) {
        char at[WHERE_BYTES];
        snprintf(at, sizeof(at), "%s.%s", where, json_key(m));
        struct stream_config *stream = &config->streams[config->stream_count];
        *stream = (struct stream_config){0};
        TRY(read_stream(m, at, stream, err));
        config->stream_count++;
    }
    put_train_first(config);
    return OK;
}

/*
 * Appends the path's components to out, which holds some already; false: one leads above them, or
 * they do not fit.
 */
static bool append_components(const char *path, char *out, size_t size)
{
    size_t len = strlen(out);
    while (*path != '\0') {
        const size_t count = strcspn(path, "/");
        if (count == 2 && memcmp(path, "..", 2) == 0) {
            if (len == 0) {
                return false;
            }
            const char *slash = strrchr(out, '/');
            len = slash == NULL ? 0 : (size_t)(slash - out);
            out[len] = '\0';
        } else if (count > 0 && !(count == 1 && *path == '.')) {
            if (len + 1 + count >= size) {
                return false;
            }
            len += (size_t)snprintf(out + len, size - len, "%s%.*s", len > 0 ? "/" : "", (int)count,
                                    path);
        }
        path += count + (path[count] == '/');
    }
    return true;
}

/* The path below root, both absolute and cleaned; NULL: it is not below. */
static const char *below(const char *path, const char *root)
{
    const size_t len = strlen(root);
    if (len == 0) {
        return path;
    }
    if (strncmp(path, root, len) != 0) {
        return NULL;
    }
    return path[len] == '/' ? path + len + 1 : (path[len] == '\0' ? path + len : NULL);
}

static const char *relative_data(const char *data, const char *root, char *clean, size_t size)
{
    if (data[0] != '/') {
        return append_components(data, clean, size) ? clean : NULL;
    }
    char clean_root[CONFIG_TEXT_BYTES] = "";
    if (root[0] != '/' || !append_components(root, clean_root, sizeof(clean_root)) ||
        !append_components(data, clean, size)) {
        return NULL;
    }
    return below(clean, clean_root);
}

enum status config_confine_streams(struct config *config, struct err *err)
{
    for (uint32_t i = 0; i < config->stream_count; i++) {
        struct stream_config *stream = &config->streams[i];
        char clean[CONFIG_TEXT_BYTES] = "";
        const char *relative = relative_data(stream->data, config->data_root, clean, sizeof(clean));
        if (relative == NULL) {
            return err_set(err, ERR_CONFIG,
                           "streams.%s.data: found '%s', expected a folder below data_root '%s'",
                           stream->name, stream->data, config->data_root);
        }
        snprintf(stream->data, sizeof(stream->data), "%s", relative[0] == '\0' ? "." : relative);
    }
    return OK;
}

/* ---- roles and hosts ---- */

enum status config_set_roles(const struct json *value, const char *where, struct config *config,
                             struct err *err)
{
    if (json_kind(value) != JSON_OBJECT) {
        return refuse(value, "an object of group name to role", where, err);
    }
    if (json_count(value) > ROLES_MAX) {
        return err_set(err, ERR_CONFIG, "%s: found %u groups, at most %d are allowed", where,
                       json_count(value), ROLES_MAX);
    }
    config->role_count = 0;
    for (const struct json *m = json_first(value); m != NULL; m = json_next(m)) {
        char at[WHERE_BYTES];
        snprintf(at, sizeof(at), "%s[\"%s\"]", where, json_key(m));
        if (json_kind(m) != JSON_TEXT || !choice_has("producer|trainer|both", json_text(m)) ||
            strlen(json_key(m)) >= CONFIG_TEXT_BYTES) {
            return refuse(m, "one of producer|trainer|both", at, err);
        }
        struct role_setting *setting = &config->roles[config->role_count++];
        snprintf(setting->group, sizeof(setting->group), "%s", json_key(m));
        snprintf(setting->role, sizeof(setting->role), "%s", json_text(m));
    }
    return OK;
}

static bool is_numeric_address(const char *text)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

static enum status read_host(const struct json *value, const char *where, struct host_address *host,
                             struct err *err)
{
    char at[WHERE_BYTES];
    snprintf(at, sizeof(at), "%s[\"%s\"]", where, json_key(value));
    const size_t len = strlen(json_key(value));
    if (len == 0 || len >= sizeof(host->name)) {
        return err_set(err, ERR_CONFIG, "%s: a host's name has 1 to %zu bytes", at,
                       sizeof(host->name) - 1);
    }
    TRY(copy_text(value, "a numeric address like \"10.0.0.7\"", at, host->address,
                  sizeof(host->address), err));
    if (!is_numeric_address(host->address)) {
        return refuse(value, "a numeric address like \"10.0.0.7\"", at, err);
    }
    snprintf(host->name, sizeof(host->name), "%s", json_key(value));
    return OK;
}

enum status config_set_hosts(const struct json *value, const char *where, struct config *config,
                             struct err *err)
{
    if (json_kind(value) != JSON_OBJECT) {
        return refuse(value, "an object of host name to address", where, err);
    }
    const uint32_t count = json_count(value);
    if (count > HOSTS_MAX) {
        return err_set(err, ERR_CONFIG, "%s: found %u hosts, at most %d are allowed", where, count,
                       HOSTS_MAX);
    }
    free(config->hosts);
    config->host_count = 0;
    config->hosts = calloc(count + 1U, sizeof(*config->hosts));
    if (config->hosts == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %u hosts", count);
    }
    for (const struct json *m = json_first(value); m != NULL; m = json_next(m)) {
        TRY(read_host(m, where, &config->hosts[config->host_count], err));
        config->host_count++;
    }
    return OK;
}
