/* SPDX-License-Identifier: Apache-2.0 */
/* The store is a table in shared memory: an entry is never changed once it is there. */
#include "support/coll_rig.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/clock.h"
#include "fakes/nccl/streams.h"

enum { ENTRIES = 64 };

struct entry {
    _Atomic bool is_ready;
    char key[64];
    size_t count;
    uint8_t value[COLL_VALUE_BYTES];
};

struct table {
    _Atomic unsigned used;
    struct entry entries[ENTRIES];
};

static enum status put(void *context, const char *key, const void *value, size_t count,
                       int64_t deadline_ns, struct err *err)
{
    struct table *table = context;
    const unsigned i = table->used++;
    CHECK(i < ENTRIES && count <= COLL_VALUE_BYTES);
    struct entry *entry = &table->entries[i];
    snprintf(entry->key, sizeof(entry->key), "%s", key);
    memcpy(entry->value, value, count);
    entry->count = count;
    entry->is_ready = true;
    return OK;
}

static enum status get(void *context, const char *key, int64_t deadline_ns,
                       uint8_t value[COLL_VALUE_BYTES], size_t *count_out, struct err *err)
{
    struct table *table = context;
    while (true) {
        for (unsigned i = 0; i < ENTRIES; i++) {
            const struct entry *entry = &table->entries[i];
            if (entry->is_ready && strcmp(entry->key, key) == 0) {
                memcpy(value, entry->value, entry->count);
                *count_out = entry->count;
                return OK;
            }
        }
        if (clock_now_ns() >= deadline_ns) {
            return err_set(err, ERR_TIMEOUT, "nobody has put %s", key);
        }
        const struct timespec nap = {.tv_nsec = NS_PER_MS};
        (void)nanosleep(&nap, NULL);
    }
}

struct coll_store coll_rig_store(void)
{
    void *table =
        mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED);
    return (struct coll_store){.context = table, .put = put, .get = get};
}

enum status coll_rig_open(struct coll_store store, struct coll_rig *out, struct err *err)
{
    char path[PATH_BYTES_MAX];
    const char *build = getenv("HR_BUILD_DIR");
    CHECK(build != NULL);
    snprintf(path, sizeof(path), "%s/fakes/libnccl.so.2", build);
    out->store = store;
    streams_table(&out->cuda);
    return nccl_open(path, &out->nccl, err);
}
