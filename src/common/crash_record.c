/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crash record. The handler runs on the thread that crashed, which may have overflowed its
 * stack: it uses an alternate stack where the thread has set one up, and only stores into the
 * mapping.
 */
#include "common/crash_record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, THREADS_MAX = 4096 };

static const char MAGIC[4] = {'H', 'R', 'C', 'R'};

struct entry {
    uint64_t sample;
    uint32_t stream;
    uint32_t in_work;
};

struct file_layout {
    char magic[4];
    uint32_t version;
    uint32_t threads;
    uint32_t crashed; /* thread + 1 */
    struct entry entries[];
};

struct crash_record {
    struct file_layout *map;
    size_t bytes;
    bool armed;
};

static const int FATAL_SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/* What the handler needs, since a handler has no argument of its own. Set while a record is armed.
 */
static struct file_layout *volatile armed_map;
static _Thread_local uint32_t current_thread; /* + 1; 0: not decoding */

static void on_fatal_signal(int number)
{
    struct file_layout *map = armed_map;
    if (map != NULL && current_thread != 0 && map->crashed == 0) {
        map->crashed = current_thread;
    }
    /* SA_RESETHAND has put the default action back: the signal is delivered again and ends the
     * process. */
    raise(number);
}

static size_t file_bytes(uint32_t threads)
{
    return sizeof(struct file_layout) + (size_t)threads * sizeof(struct entry);
}

enum status crash_record_new(const char *path, uint32_t threads, struct crash_record **out,
                             struct err *err)
{
    CHECK(threads > 0 && threads <= THREADS_MAX);
    struct crash_record *record = calloc(1, sizeof(*record));
    if (record == NULL) {
        return err_set(err, ERR_RESOURCE, "crash record: out of memory");
    }
    record->bytes = file_bytes(threads);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_errno(err, ERR_IO, "crash record %s", path);
        goto free_record;
    }
    if (ftruncate(fd, (off_t)record->bytes) != 0) {
        err_errno(err, ERR_IO, "crash record %s: %zu bytes", path, record->bytes);
        goto close_fd;
    }
    void *map = mmap(NULL, record->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        err_errno(err, ERR_RESOURCE, "crash record %s: mmap", path);
        goto close_fd;
    }
    close(fd);
    record->map = map;
    memcpy(record->map->magic, MAGIC, sizeof(MAGIC));
    record->map->version = VERSION;
    record->map->threads = threads;
    *out = record;
    return OK;
close_fd:
    close(fd);
free_record:
    free(record);
    return err != NULL ? err->status : ERR_IO;
}

void crash_record_free(struct crash_record **record)
{
    if (*record == NULL) {
        return;
    }
    if ((*record)->armed) {
        armed_map = NULL;
        for (size_t i = 0; i < ARRAY_LEN(FATAL_SIGNALS); i++) {
            signal(FATAL_SIGNALS[i], SIG_DFL);
        }
    }
    munmap((*record)->map, (*record)->bytes);
    free(*record);
    *record = NULL;
}

enum status crash_record_arm(struct crash_record *record, struct err *err)
{
    if (armed_map != NULL) {
        return err_set(err, ERR_MISUSE, "a crash record is armed already in this process");
    }
    armed_map = record->map;
    record->armed = true;
    struct sigaction action = {.sa_handler = on_fatal_signal,
                               .sa_flags = SA_RESETHAND | SA_NODEFER | SA_ONSTACK};
    for (size_t i = 0; i < ARRAY_LEN(FATAL_SIGNALS); i++) {
        if (sigaction(FATAL_SIGNALS[i], &action, NULL) != 0) {
            return err_errno(err, ERR_RESOURCE, "sigaction for signal %d", FATAL_SIGNALS[i]);
        }
    }
    return OK;
}

void crash_record_enter(struct crash_record *record, uint32_t thread, uint32_t stream,
                        uint64_t sample)
{
    struct entry *entry = &record->map->entries[thread];
    entry->sample = sample;
    entry->stream = stream;
    entry->in_work = 1;
    current_thread = thread + 1;
}

void crash_record_leave(struct crash_record *record, uint32_t thread)
{
    current_thread = 0;
    record->map->entries[thread].in_work = 0;
}

enum status crash_record_read(const char *path, bool *found_out, uint32_t *stream_out,
                              uint64_t *sample_out, struct err *err)
{
    *found_out = false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? OK : err_errno(err, ERR_IO, "crash record %s", path);
    }
    struct file_layout head;
    struct entry entry = {0};
    const ssize_t got = pread(fd, &head, sizeof(head), 0);
    if (got != (ssize_t)sizeof(head) || memcmp(head.magic, MAGIC, sizeof(MAGIC)) != 0 ||
        head.version != VERSION || head.threads > THREADS_MAX || head.crashed > head.threads) {
        close(fd);
        return err_set(err, ERR_DATA, "crash record %s: damaged header", path);
    }
    if (head.crashed == 0) {
        close(fd);
        return OK;
    }
    const off_t at = (off_t)file_bytes(head.crashed - 1);
    const ssize_t read_bytes = pread(fd, &entry, sizeof(entry), at);
    close(fd);
    if (read_bytes != (ssize_t)sizeof(entry) || entry.in_work != 1) {
        return err_set(err, ERR_DATA, "crash record %s: damaged entry of thread %u", path,
                       head.crashed - 1);
    }
    *found_out = true;
    *stream_out = entry.stream;
    *sample_out = entry.sample;
    return OK;
}
