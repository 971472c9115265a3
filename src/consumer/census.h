/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The census: what the producers of the cluster say of their data before the job knows its own. The
 * first rank takes it and fixes each stream's number of samples, classes and digest when all
 * expected producers agree (DESIGN.md section 7). It counts producers by host and index, so a
 * restarted one replaces what it said before. Pure.
 */
#ifndef HEADRACE_CONSUMER_CENSUS_H
#define HEADRACE_CONSUMER_CENSUS_H

#include "common/msg.h"

/* What is fixed of a stream. */
struct data_facts {
    uint64_t samples;
    uint64_t digest;
    uint32_t classes;
};

struct census_entry {
    char host[HOST_BYTES_MAX];
    uint32_t index;
    struct data_facts facts[STREAMS_MAX];
    uint32_t buckets[STREAMS_MAX][INDEX_BUCKETS];
};

struct census {
    const char *const *names; /* of the streams, for texts; borrowed */
    uint32_t stream_count;
    uint32_t expected; /* producers of the cluster file */
    uint32_t count, capacity;
    struct census_entry *entries; /* the caller's, `capacity` of them */
};

/* Takes in a HELLO of this job and fingerprint. False: no room for another producer. */
bool census_add(struct census *census, const struct msg_hello *hello);

enum census_state {
    CENSUS_WAITING, /* too few producers yet; those that spoke agree */
    CENSUS_AGREED,  /* as many as expected, and all agree */
    CENSUS_DIFFERS, /* two producers have different data */
};
/* text: who is there, or which two differ and in what. Empty facts when nobody spoke. */
enum census_state census_state(const struct census *census, char text[TEXT_BYTES_MAX]);

/* Is this producer one of those to turn away while data differ: all but a strict majority? Then
 * *out is what it is told: how its data differ from another producer's, with that one's buckets. */
bool census_turns_away(const struct census *census, const struct msg_hello *hello,
                       struct msg_reject *out);

#endif
