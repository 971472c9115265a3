/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing, never more than half full; a ring of samples to name. */
#include "producer/bad_set.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"

enum { PLACES = 2 * BAD_SET_MAX, QUEUE = 256 };

struct place {
    uint64_t sample;
    uint32_t stream;
    bool used;
};

struct bad_set {
    uint32_t count;
    uint32_t queue_first, queue_count;
    struct bad_sample queue[QUEUE];
    struct place places[PLACES];
};

enum status bad_set_new(struct bad_set **out, struct err *err)
{
    *out = calloc(1, sizeof(**out));
    return *out != NULL ? OK : err_set(err, ERR_RESOURCE, "bad-sample set: out of memory");
}

void bad_set_free(struct bad_set **set)
{
    free(*set);
    *set = NULL;
}

/* The place that holds the sample, or the free one where it would go. */
static uint32_t find(const struct bad_set *set, uint32_t stream, uint64_t sample)
{
    const uint64_t key[2] = {sample, stream};
    uint32_t at = (uint32_t)(hash64(key, sizeof(key)) % PLACES);
    while (set->places[at].used &&
           (set->places[at].sample != sample || set->places[at].stream != stream)) {
        at = (at + 1) % PLACES;
    }
    return at;
}

bool bad_set_has(const struct bad_set *set, uint32_t stream, uint64_t sample)
{
    return set->count > 0 && set->places[find(set, stream, sample)].used;
}

void bad_set_add(struct bad_set *set, uint32_t stream, uint64_t sample, const char *reason)
{
    const uint32_t at = find(set, stream, sample);
    if (set->places[at].used || set->count == BAD_SET_MAX || set->queue_count == QUEUE) {
        return;
    }
    set->places[at] = (struct place){.sample = sample, .stream = stream, .used = true};
    set->count++;
    struct bad_sample *entry = &set->queue[(set->queue_first + set->queue_count) % QUEUE];
    entry->stream = stream;
    entry->sample = sample;
    snprintf(entry->reason, sizeof(entry->reason), "%s", reason);
    set->queue_count++;
}

bool bad_set_pop(struct bad_set *set, struct bad_sample *out)
{
    if (set->queue_count == 0) {
        return false;
    }
    *out = set->queue[set->queue_first];
    set->queue_first = (set->queue_first + 1) % QUEUE;
    set->queue_count--;
    return true;
}
