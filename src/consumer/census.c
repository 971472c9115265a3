/* SPDX-License-Identifier: Apache-2.0 */
/* The census: a small table, compared entry by entry. */
#include "consumer/census.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct census_entry *find(const struct census *census, const struct msg_hello *hello)
{
    for (uint32_t i = 0; i < census->count; i++) {
        struct census_entry *entry = &census->entries[i];
        if (entry->index == hello->index && strcmp(entry->host, hello->host) == 0) {
            return entry;
        }
    }
    return NULL;
}

bool census_add(struct census *census, const struct msg_hello *hello)
{
    struct census_entry *entry = find(census, hello);
    if (entry == NULL) {
        if (census->count == census->capacity) {
            return false;
        }
        entry = &census->entries[census->count++];
        (void)snprintf(entry->host, sizeof(entry->host), "%s", hello->host);
        entry->index = hello->index;
    }
    for (uint32_t i = 0; i < census->stream_count; i++) {
        entry->facts[i] = (struct data_facts){.samples = hello->streams[i].samples,
                                              .digest = hello->streams[i].digest,
                                              .classes = hello->streams[i].classes};
        memcpy(entry->buckets[i], hello->streams[i].buckets, sizeof(entry->buckets[i]));
    }
    return true;
}

/* The first stream in which two producers differ, or stream_count. */
static uint32_t differing_stream(const struct census *census, const struct census_entry *a,
                                 const struct census_entry *b)
{
    uint32_t i = 0;
    while (i < census->stream_count && a->facts[i].samples == b->facts[i].samples &&
           a->facts[i].digest == b->facts[i].digest && a->facts[i].classes == b->facts[i].classes) {
        i++;
    }
    return i;
}

static void print_difference(const struct census *census, const struct census_entry *a,
                             const struct census_entry *b, uint32_t stream, char *text)
{
    const struct data_facts *x = &a->facts[stream];
    const struct data_facts *y = &b->facts[stream];
    (void)snprintf(text, TEXT_BYTES_MAX,
                   "stream %s: producer %.100s/%u has %" PRIu64 " samples in %u classes (digest "
                   "%016" PRIx64 "), but %.100s/%u has %" PRIu64 " in %u (%016" PRIx64 ")",
                   census->names[stream], a->host, a->index, x->samples, x->classes, x->digest,
                   b->host, b->index, y->samples, y->classes, y->digest);
}

static void print_present(const struct census *census, char *text)
{
    int used = snprintf(text, TEXT_BYTES_MAX, "%u of %u producers are there", census->count,
                        census->expected);
    for (uint32_t i = 0; i < census->count && used < TEXT_BYTES_MAX; i++) {
        used += snprintf(text + used, (size_t)(TEXT_BYTES_MAX - used), "%s %.100s/%u",
                         i == 0 ? ":" : ",", census->entries[i].host, census->entries[i].index);
    }
}

enum census_state census_state(const struct census *census, char text[TEXT_BYTES_MAX])
{
    for (uint32_t i = 1; i < census->count; i++) {
        const struct census_entry *first = &census->entries[0];
        const uint32_t stream = differing_stream(census, first, &census->entries[i]);
        if (stream < census->stream_count) {
            print_difference(census, first, &census->entries[i], stream, text);
            return CENSUS_DIFFERS;
        }
    }
    print_present(census, text);
    return census->count >= census->expected && census->count > 0 ? CENSUS_AGREED : CENSUS_WAITING;
}

bool census_turns_away(const struct census *census, const struct msg_hello *hello,
                       struct msg_reject *out)
{
    const struct census_entry *self = find(census, hello);
    const struct census_entry *other = NULL; /* the first that differs */
    uint32_t stream = 0;
    uint32_t same = 0;
    for (uint32_t i = 0; self != NULL && i < census->count; i++) {
        const uint32_t differing = differing_stream(census, self, &census->entries[i]);
        if (differing == census->stream_count) {
            same++;
        } else if (other == NULL) {
            other = &census->entries[i];
            stream = differing;
        }
    }
    if (other == NULL || same > census->count / 2) {
        return false;
    }
    *out = (struct msg_reject){.code = REJECT_DATA,
                               .instance = hello->instance,
                               .attempt = hello->attempt,
                               .stream = stream,
                               .bucket_count = INDEX_BUCKETS};
    memcpy(out->buckets, other->buckets[stream], sizeof(out->buckets));
    print_difference(census, self, other, stream, out->text);
    return true;
}
