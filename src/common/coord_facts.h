/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator keeps under names: facts that were put or agreed on, and totals that members
 * add to. Bounded by the limits below; nothing is ever forgotten. Knows no member, message or time.
 */
#ifndef HEADRACE_COMMON_COORD_FACTS_H
#define HEADRACE_COMMON_COORD_FACTS_H

#include "common/coord.h"

enum {
    FACTS_MAX = 1024,      /* keys of coord_put and coord_agree together */
    TOTALS_MAX = 64,       /* names of coord_add */
    TOTAL_PARTS_MAX = 8192 /* members that add to one of them */
};

struct fact {
    char key[COORD_KEY_BYTES];
    bool agreed; /* by coord_agree: number and host; else by coord_put: value */
    uint64_t number;
    char host[HOST_BYTES_MAX];
    uint32_t count;
    uint8_t *value; /* owned */
};

struct total_part {
    uint64_t member;
    uint64_t request; /* the newest that was heard */
    uint64_t value;
};

struct total {
    char key[COORD_KEY_BYTES];
    uint32_t part_count, part_capacity;
    struct total_part *parts; /* owned */
};

struct facts {
    uint32_t count, total_count;
    struct fact *facts;   /* FACTS_MAX, owned */
    struct total *totals; /* TOTALS_MAX, owned */
};

MUST_USE enum status facts_init(struct facts *facts, struct err *err);
void facts_fini(struct facts *facts);

/* NULL: not there, or agreed on and not put. */
const struct fact *facts_get(const struct facts *facts, const char *key);
/* ERR_RESOURCE: too many keys, or memory. */
MUST_USE enum status facts_put(struct facts *facts, const char *key, const void *value,
                               uint32_t count, struct err *err);
/* ERR_CONFIG: another value stands; names both hosts and values. */
MUST_USE enum status facts_agree(struct facts *facts, const char *key, uint64_t number,
                                 const char *host, struct err *err);
/* The member's own total is now `value`, unless a request with a higher number was heard before.
 * *sum_out: of all members' totals, modulo 2^64. */
MUST_USE enum status facts_add(struct facts *facts, const char *key, uint64_t member,
                               uint64_t request, uint64_t value, uint64_t *sum_out,
                               struct err *err);

#endif
