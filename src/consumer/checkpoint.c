/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint files; their layout is in docs/FORMATS.md. */
#include "consumer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/log.h"

enum {
    VERSION = 2,
    HEADER_BYTES = 128,
    SUM_BYTES = 8,
    KEPT = 2,
    NAME_ROOM = 64, /* of a checkpoint's file name */
    LISTED_MAX = 1024,
};

static const uint8_t MAGIC[8] = {'H', 'R', 'C', 'K', 'P', 'T', '0', '1'};

/* ---- numbers and names ---- */

static void file_name(uint32_t number, char out[NAME_ROOM])
{
    snprintf(out, NAME_ROOM, "checkpoint-%08" PRIu32 ".hrc", number);
}

/* False: not the name of a checkpoint. */
static bool parse_name(const char *name, uint32_t *out)
{
    char again[NAME_ROOM];
    uint32_t number = 0;
    if (sscanf(name, "checkpoint-%8" SCNu32, &number) != 1) { /* NOLINT: compared below */
        return false;
    }
    file_name(number, again);
    *out = number;
    return strcmp(name, again) == 0;
}

static int descending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* The numbers of the directory's checkpoints, newest first, at most LISTED_MAX. */
static enum status list_numbers(int dir_fd, const char *dir, uint32_t *numbers, size_t *count_out,
                                struct err *err)
{
    const int fd = dup(dir_fd);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return err_errno(err, ERR_IO, "listing %s", dir);
    }
    size_t count = 0;
    rewinddir(stream);
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (count < LISTED_MAX && parse_name(entry->d_name, &numbers[count])) {
            count++;
        }
    }
    closedir(stream);
    qsort(numbers, count, sizeof(*numbers), descending);
    *count_out = count;
    return OK;
}

static enum status open_dir(const char *dir, int *out, struct err *err)
{
    *out = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *out >= 0
               ? OK
               : err_errno(err, errno == ENOENT ? ERR_MISSING : ERR_IO, "checkpoints in %s", dir);
}

/* ---- the header ---- */

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get_le(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static void write_header(const struct checkpoint_place *place, const struct checkpoint_body *body,
                         uint8_t out[HEADER_BYTES])
{
    memset(out, 0, HEADER_BYTES);
    memcpy(out, MAGIC, sizeof(MAGIC));
    put32(out + 8, VERSION);
    put32(out + 12, place->epoch);
    memcpy(out + 16, place->stream, strnlen(place->stream, NAME_BYTES_MAX - 1));
    hash_put64(out + 80, place->plan_digest);
    hash_put64(out + 88, place->seed);
    hash_put64(out + 96, place->step);
    hash_put64(out + 104, place->digest);
    hash_put64(out + 112, body->model_bytes);
    hash_put64(out + 120, body->history_bytes);
}

static enum status read_header(const uint8_t header[HEADER_BYTES], struct checkpoint *out,
                               struct err *err)
{
    if (memcmp(header, MAGIC, sizeof(MAGIC)) != 0) {
        return err_set(err, ERR_DATA, "not a checkpoint");
    }
    if (get_le(header + 8, 4) != VERSION) {
        return err_set(err, ERR_DATA, "version %" PRIu64 ", this program reads %d",
                       get_le(header + 8, 4), VERSION);
    }
    struct checkpoint_place *place = &out->place;
    place->epoch = (uint32_t)get_le(header + 12, 4);
    memcpy(place->stream, header + 16, NAME_BYTES_MAX);
    place->stream[NAME_BYTES_MAX - 1] = '\0';
    place->plan_digest = get_le(header + 80, 8);
    place->seed = get_le(header + 88, 8);
    place->step = get_le(header + 96, 8);
    place->digest = get_le(header + 104, 8);
    out->model_bytes = (size_t)get_le(header + 112, 8);
    out->history_bytes = (size_t)get_le(header + 120, 8);
    return OK;
}

/* ---- saving ---- */

static enum status write_all(int fd, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    while (count > 0) {
        const ssize_t written = write(fd, at, count);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return ERR_IO;
        }
        at += written;
        count -= (size_t)written;
    }
    return OK;
}

/* XXH3-64 of the XXH3-64 of each: they are in memory apart. */
static uint64_t sum_of(const uint8_t *header, const struct checkpoint_body *body)
{
    uint8_t sums[24];
    hash_put64(sums, hash64(header, HEADER_BYTES));
    hash_put64(sums + 8, hash64(body->model, body->model_bytes));
    hash_put64(sums + 16, hash64(body->history, body->history_bytes));
    return hash64(sums, sizeof(sums));
}

static enum status write_file(int fd, const struct checkpoint_place *place,
                              const struct checkpoint_body *body)
{
    uint8_t header[HEADER_BYTES];
    uint8_t sum[SUM_BYTES];
    write_header(place, body, header);
    hash_put64(sum, sum_of(header, body));
    TRY(write_all(fd, header, sizeof(header)));
    TRY(write_all(fd, body->model, body->model_bytes));
    TRY(write_all(fd, body->history, body->history_bytes));
    TRY(write_all(fd, sum, sizeof(sum)));
    return fsync(fd) == 0 ? OK : ERR_IO;
}

static enum status save_number(int dir_fd, const char *dir, uint32_t number,
                               const struct checkpoint_place *place,
                               const struct checkpoint_body *body, struct err *err)
{
    char name[NAME_ROOM];
    char next[NAME_ROOM];
    file_name(number, name);
    snprintf(next, sizeof(next), ".checkpoint.next");
    const int fd = openat(dir_fd, next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return err_errno(err, ERR_IO, "writing %s/%s", dir, next);
    }
    enum status status = write_file(fd, place, body);
    if (close(fd) != 0 || status != OK) {
        status = err_errno(err, ERR_IO, "writing %s/%s, %zu bytes", dir, name,
                           body->model_bytes + body->history_bytes);
    } else if (renameat(dir_fd, next, dir_fd, name) != 0 || fsync(dir_fd) != 0) {
        status = err_errno(err, ERR_IO, "renaming %s/%s to %s", dir, next, name);
    }
    if (status != OK) {
        unlinkat(dir_fd, next, 0);
    }
    return status;
}

enum status checkpoint_save(const char *dir, const struct checkpoint_place *place,
                            const struct checkpoint_body *body, struct err *err)
{
    uint32_t numbers[LISTED_MAX];
    size_t count = 0;
    int dir_fd = -1;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        return err_errno(err, ERR_IO, "making %s", dir);
    }
    TRY(open_dir(dir, &dir_fd, err));
    enum status status = list_numbers(dir_fd, dir, numbers, &count, err);
    if (status == OK) {
        const uint32_t number = count > 0 ? numbers[0] + 1 : 1;
        status = save_number(dir_fd, dir, number, place, body, err);
    }
    for (size_t i = KEPT - 1; status == OK && i < count; i++) {
        char name[NAME_ROOM];
        file_name(numbers[i], name);
        unlinkat(dir_fd, name, 0); /* one that stays is only a third one */
    }
    close(dir_fd);
    return status;
}

/* ---- loading ---- */

static enum status read_all(int fd, void *bytes, size_t count, struct err *err)
{
    uint8_t *at = bytes;
    while (count > 0) {
        const ssize_t got = read(fd, at, count);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_errno(err, ERR_IO, "reading");
        }
        if (got == 0) {
            return err_set(err, ERR_DATA, "cut short");
        }
        at += got;
        count -= (size_t)got;
    }
    return OK;
}

static enum status check_size(const struct checkpoint *found, off_t size, struct err *err)
{
    const uint64_t fixed = HEADER_BYTES + SUM_BYTES;
    const uint64_t left = (uint64_t)size < fixed ? 0 : (uint64_t)size - fixed;
    if (found->model_bytes > left || found->history_bytes != left - found->model_bytes) {
        return err_set(err, ERR_DATA,
                       "%lld bytes, but a model of %zu and a history of %zu bytes are announced",
                       (long long)size, found->model_bytes, found->history_bytes);
    }
    return OK;
}

static enum status read_part(int fd, void **out, size_t count, struct err *err)
{
    *out = malloc(count > 0 ? count : 1);
    if (*out == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for %zu bytes", count);
    }
    return read_all(fd, *out, count, err);
}

static enum status read_file(int fd, struct checkpoint *out, struct err *err)
{
    uint8_t header[HEADER_BYTES];
    uint8_t sum[SUM_BYTES];
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return err_errno(err, ERR_IO, "reading");
    }
    TRY(read_all(fd, header, sizeof(header), err));
    TRY(read_header(header, out, err));
    TRY(check_size(out, info.st_size, err));
    TRY(read_part(fd, &out->model, out->model_bytes, err));
    TRY(read_part(fd, &out->history, out->history_bytes, err));
    TRY(read_all(fd, sum, sizeof(sum), err));
    const struct checkpoint_body body = {.model = out->model,
                                         .model_bytes = out->model_bytes,
                                         .history = out->history,
                                         .history_bytes = out->history_bytes};
    if (get_le(sum, SUM_BYTES) != sum_of(header, &body)) {
        return err_set(err, ERR_DATA, "damaged: its checksum does not hold");
    }
    return OK;
}

static enum status check_job(const struct checkpoint_place *place, const char *stream,
                             uint64_t plan_digest, uint64_t seed, struct err *err)
{
    if (strcmp(place->stream, stream) != 0) {
        return err_set(err, ERR_DATA, "of stream %s, not %s", place->stream, stream);
    }
    if (place->seed != seed) {
        return err_set(err, ERR_DATA, "of seed %" PRIu64 ", this job's is %" PRIu64, place->seed,
                       seed);
    }
    if (place->plan_digest != plan_digest) {
        return err_set(err, ERR_DATA,
                       "of another plan (%016" PRIx64 ", this job's is %016" PRIx64
                       "): other data, shuffle, last-batch rule or global batch",
                       place->plan_digest, plan_digest);
    }
    return OK;
}

static enum status load_number(int dir_fd, const char *name, const char *stream,
                               uint64_t plan_digest, uint64_t seed, struct checkpoint *out,
                               struct err *err)
{
    const int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, ERR_IO, "opening");
    }
    enum status status = read_file(fd, out, err);
    close(fd);
    if (status == OK) {
        status = check_job(&out->place, stream, plan_digest, seed, err);
    }
    if (status != OK) {
        checkpoint_fini(out);
    }
    return status;
}

enum status checkpoint_load(const char *dir, const char *stream, uint64_t plan_digest,
                            uint64_t seed, struct checkpoint *out, struct err *err)
{
    uint32_t numbers[LISTED_MAX];
    size_t count = 0;
    int dir_fd = -1;
    TRY(open_dir(dir, &dir_fd, err));
    enum status status = list_numbers(dir_fd, dir, numbers, &count, err);
    if (status == OK && count == 0) {
        status = err_set(err, ERR_MISSING, "%s holds no checkpoint", dir);
    }
    struct err newest = {0};
    for (size_t i = 0; i < count; i++) {
        char name[NAME_ROOM];
        file_name(numbers[i], name);
        struct checkpoint found = {.number = numbers[i]};
        status = load_number(dir_fd, name, stream, plan_digest, seed, &found, err);
        if (status == OK) {
            *out = found;
            break;
        }
        status = err_prefix(err, "%s/%s", dir, name);
        if (i == 0) {
            newest = *err;
        }
        log_warn("checkpoint refused: %s", err->message);
        if (status == ERR_RESOURCE) {
            break;
        }
    }
    close(dir_fd);
    if (status == ERR_DATA || status == ERR_IO) {
        *err = newest.status != OK ? newest : *err;
    }
    return status == OK ? OK : err->status;
}

void checkpoint_fini(struct checkpoint *checkpoint)
{
    free(checkpoint->model);
    free(checkpoint->history);
    checkpoint->model = checkpoint->history = NULL;
    checkpoint->model_bytes = checkpoint->history_bytes = 0;
}
