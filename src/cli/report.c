/* SPDX-License-Identifier: Apache-2.0 */
/* The job's report: its writer beside its reader. Digests are hex digits in a text, for a JSON
 * number holds no 64 bits. */
#include "cli/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"
#include "common/limits.h"

enum { VERSION = 1 };

static void report_path(const char *base, const char *suffix, char out[PATH_BYTES_MAX])
{
    snprintf(out, PATH_BYTES_MAX, "%s/output/headrace/report.json%s", base, suffix);
}

static void make_folder(const char *base)
{
    static const char *const FOLDERS[] = {"output", "output/headrace"};
    char path[PATH_BYTES_MAX];
    for (size_t i = 0; i < ARRAY_LEN(FOLDERS); i++) {
        snprintf(path, sizeof(path), "%s/%s", base, FOLDERS[i]);
        mkdir(path, 0777); /* there, or opening the file says what is wrong */
    }
}

static void print_epoch(FILE *file, const struct report_epoch *epoch)
{
    fprintf(file,
            "{\"epoch\": %u, \"steps\": %" PRIu64 ", \"loss\": %.17g, \"images_per_s\": %.17g, "
            "\"wait_share\": %.17g, \"wait_p50_ms\": %.17g, \"wait_p99_ms\": %.17g, "
            "\"digest\": \"%016" PRIx64 "\", \"bad_samples\": %" PRIu64,
            epoch->epoch, epoch->steps, epoch->loss, epoch->images_per_s, epoch->wait_share,
            epoch->wait_p50_ms, epoch->wait_p99_ms, epoch->digest, epoch->bad_samples);
    if (epoch->evaluated) {
        fprintf(file, ", \"accuracy\": %.17g, \"eval_digest\": \"%016" PRIx64 "\"}",
                epoch->accuracy, epoch->eval_digest);
    } else {
        fprintf(file, ", \"accuracy\": null, \"eval_digest\": null}");
    }
}

enum status report_write(const char *base, const struct report *report, struct err *err)
{
    char path[PATH_BYTES_MAX];
    char next[PATH_BYTES_MAX];
    report_path(base, "", path);
    report_path(base, ".next", next);
    make_folder(base);
    FILE *file = fopen(next, "we");
    if (file == NULL) {
        return err_errno(err, ERR_IO, "writing %s", next);
    }
    fprintf(file, "{\"version\": %d, \"world\": %u, \"stopped\": %s, \"epochs\": [", VERSION,
            report->world, report->stopped ? "true" : "false");
    for (uint32_t i = 0; i < report->epoch_count; i++) {
        fputs(i == 0 ? "\n  " : ",\n  ", file);
        print_epoch(file, &report->epochs[i]);
    }
    fputs("]}\n", file);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed || rename(next, path) != 0) {
        return err_errno(err, ERR_IO, "writing %s", path);
    }
    return OK;
}

/* ---- reading ---- */

static bool get_count(const struct json *json, const char *key, uint64_t *out)
{
    int64_t value;
    const struct json *member = json_get(json, key);
    if (member == NULL || !json_to_integer(member, &value) || value < 0) {
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

static bool get_number(const struct json *json, const char *key, double *out)
{
    const struct json *member = json_get(json, key);
    return member != NULL && json_to_double(member, out);
}

static bool get_digest(const struct json *json, const char *key, uint64_t *out)
{
    const struct json *member = json_get(json, key);
    const char *text = member == NULL || json_kind(member) != JSON_TEXT ? NULL : json_text(member);
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return false;
    }
    *out = strtoull(text, NULL, 16);
    return true;
}

static bool read_epoch(const struct json *json, struct report_epoch *out)
{
    uint64_t number;
    if (!get_count(json, "epoch", &number) || number > UINT32_MAX ||
        !get_count(json, "steps", &out->steps) ||
        !get_count(json, "bad_samples", &out->bad_samples) ||
        !get_number(json, "loss", &out->loss) ||
        !get_number(json, "images_per_s", &out->images_per_s) ||
        !get_number(json, "wait_share", &out->wait_share) ||
        !get_number(json, "wait_p50_ms", &out->wait_p50_ms) ||
        !get_number(json, "wait_p99_ms", &out->wait_p99_ms) ||
        !get_digest(json, "digest", &out->digest)) {
        return false;
    }
    out->epoch = (uint32_t)number;
    const struct json *accuracy = json_get(json, "accuracy");
    out->evaluated = accuracy != NULL && json_kind(accuracy) != JSON_NULL;
    return !out->evaluated || (get_number(json, "accuracy", &out->accuracy) &&
                               get_digest(json, "eval_digest", &out->eval_digest));
}

static enum status read_report(const struct json *json, const char *path, struct report *out,
                               struct err *err)
{
    uint64_t version;
    uint64_t world;
    if (!get_count(json, "version", &version) || version != VERSION ||
        !get_count(json, "world", &world) || world > RANKS_MAX) {
        return err_set(err, ERR_DATA, "%s: no report of version %d", path, VERSION);
    }
    const struct json *epochs = json_get(json, "epochs");
    const uint32_t count = epochs == NULL ? 0 : json_count(epochs);
    out->world = (uint32_t)world;
    const struct json *stopped = json_get(json, "stopped");
    out->stopped = stopped != NULL && json_is_true(stopped);
    out->epochs = calloc(count + 1, sizeof(*out->epochs));
    if (out->epochs == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory for %u epochs", count);
    }
    const struct json *member = epochs == NULL ? NULL : json_first(epochs);
    for (; member != NULL; member = json_next(member)) {
        if (!read_epoch(member, &out->epochs[out->epoch_count])) {
            return err_set(err, ERR_DATA, "%s: epoch %u lacks a field, or has a wrong one", path,
                           out->epoch_count + 1);
        }
        out->epoch_count++;
    }
    return OK;
}

enum status report_read(const char *base, struct report *out, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct json *json = NULL;
    report_path(base, "", path);
    TRY(json_read_file(path, &json, err));
    *out = (struct report){0};
    const enum status status = read_report(json, path, out, err);
    json_free(&json);
    if (status != OK) {
        report_fini(out);
    }
    return status;
}

void report_fini(struct report *report)
{
    free(report->epochs);
    *report = (struct report){0};
}
