/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's keys and totals. Linear search: a job has dozens of keys, asked for once. */
#include "common/coord_facts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum status facts_init(struct facts *facts, struct err *err)
{
    memset(facts, 0, sizeof(*facts));
    facts->facts = calloc(FACTS_MAX, sizeof(*facts->facts));
    facts->totals = calloc(TOTALS_MAX, sizeof(*facts->totals));
    if (facts->facts == NULL || facts->totals == NULL) {
        facts_fini(facts);
        return err_set(err, ERR_RESOURCE, "coordinator: out of memory for %d keys", FACTS_MAX);
    }
    return OK;
}

void facts_fini(struct facts *facts)
{
    for (uint32_t i = 0; facts->facts != NULL && i < facts->count; i++) {
        free(facts->facts[i].value);
    }
    for (uint32_t i = 0; facts->totals != NULL && i < facts->total_count; i++) {
        free(facts->totals[i].parts);
    }
    free(facts->facts);
    free(facts->totals);
    memset(facts, 0, sizeof(*facts));
}

static struct fact *find(const struct facts *facts, const char *key, bool agreed)
{
    for (uint32_t i = 0; i < facts->count; i++) {
        if (facts->facts[i].agreed == agreed && strcmp(facts->facts[i].key, key) == 0) {
            return &facts->facts[i];
        }
    }
    return NULL;
}

static enum status append(struct facts *facts, const char *key, bool agreed, struct fact **out,
                          struct err *err)
{
    if (facts->count == FACTS_MAX) {
        return err_set(err, ERR_RESOURCE,
                       "coordinator: no room for key \"%s\": all %d keys are in use", key,
                       FACTS_MAX);
    }
    struct fact *fact = &facts->facts[facts->count++];
    memcpy(fact->key, key, strlen(key) + 1);
    fact->agreed = agreed;
    *out = fact;
    return OK;
}

const struct fact *facts_get(const struct facts *facts, const char *key)
{
    return find(facts, key, false);
}

enum status facts_put(struct facts *facts, const char *key, const void *value, uint32_t count,
                      struct err *err)
{
    CHECK(count <= COORD_VALUE_BYTES);
    uint8_t *copy = malloc(count + 1);
    if (copy == NULL) {
        return err_set(err, ERR_RESOURCE, "coordinator: out of memory for key \"%s\"", key);
    }
    struct fact *fact = find(facts, key, false);
    if (fact == NULL) {
        const enum status status = append(facts, key, false, &fact, err);
        if (status != OK) {
            free(copy);
            return status;
        }
    }
    memcpy(copy, value, count);
    free(fact->value);
    fact->value = copy;
    fact->count = count;
    return OK;
}

enum status facts_agree(struct facts *facts, const char *key, uint64_t number, const char *host,
                        struct err *err)
{
    struct fact *fact = find(facts, key, true);
    if (fact == NULL) {
        TRY(append(facts, key, true, &fact, err));
        fact->number = number;
        memcpy(fact->host, host, strlen(host) + 1);
        return OK;
    }
    if (fact->number != number) {
        return err_set(err, ERR_CONFIG,
                       "%s differs between hosts: %s has %016" PRIx64 ", %s has %016" PRIx64, key,
                       fact->host, fact->number, host, number);
    }
    return OK;
}

static struct total *find_total(struct facts *facts, const char *key)
{
    for (uint32_t i = 0; i < facts->total_count; i++) {
        if (strcmp(facts->totals[i].key, key) == 0) {
            return &facts->totals[i];
        }
    }
    if (facts->total_count == TOTALS_MAX) {
        return NULL;
    }
    struct total *total = &facts->totals[facts->total_count++];
    memcpy(total->key, key, strlen(key) + 1);
    return total;
}

static struct total_part *find_part(struct total *total, uint64_t member)
{
    for (uint32_t i = 0; i < total->part_count; i++) {
        if (total->parts[i].member == member) {
            return &total->parts[i];
        }
    }
    if (total->part_count == TOTAL_PARTS_MAX) {
        return NULL;
    }
    if (total->part_count == total->part_capacity) {
        const uint32_t capacity = total->part_capacity == 0 ? 16 : total->part_capacity * 2;
        struct total_part *parts = realloc(total->parts, capacity * sizeof(*parts));
        if (parts == NULL) {
            return NULL;
        }
        total->parts = parts;
        total->part_capacity = capacity;
    }
    struct total_part *part = &total->parts[total->part_count++];
    *part = (struct total_part){.member = member};
    return part;
}

enum status facts_add(struct facts *facts, const char *key, uint64_t member, uint64_t request,
                      uint64_t value, uint64_t *sum_out, struct err *err)
{
    struct total *total = find_total(facts, key);
    struct total_part *part = total == NULL ? NULL : find_part(total, member);
    if (part == NULL) {
        return err_set(err, ERR_RESOURCE,
                       "coordinator: no room for total \"%s\": limits are %d totals of %d members",
                       key, TOTALS_MAX, TOTAL_PARTS_MAX);
    }
    if (request >= part->request) {
        part->request = request;
        part->value = value;
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < total->part_count; i++) {
        sum += total->parts[i].value;
    }
    *sum_out = sum;
    return OK;
}
