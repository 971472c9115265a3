/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor over fields of eight bytes; encoder and decoder name them in the same order. */
#include "cli/train_history.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { FIELD_BYTES = 8, TOTAL_FIELDS = 3, EPOCH_FIELDS = 12 };

size_t history_bytes(uint32_t epochs)
{
    return FIELD_BYTES * (TOTAL_FIELDS + EPOCH_FIELDS * (size_t)epochs);
}

/* ---- fields ---- */

static void put(uint8_t **at, uint64_t value)
{
    hash_put64(*at, value);
    *at += FIELD_BYTES;
}

static void put_double(uint8_t **at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put(at, bits);
}

static uint64_t get(const uint8_t **at)
{
    const uint64_t value = hash_get64(*at);
    *at += FIELD_BYTES;
    return value;
}

static double get_double(const uint8_t **at)
{
    const uint64_t bits = get(at);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- the whole ---- */

static void put_epoch(uint8_t **at, const struct report_epoch *epoch)
{
    put(at, epoch->epoch);
    put(at, epoch->steps);
    put_double(at, epoch->loss);
    put_double(at, epoch->images_per_s);
    put_double(at, epoch->wait_share);
    put_double(at, epoch->wait_p50_ms);
    put_double(at, epoch->wait_p99_ms);
    put(at, epoch->digest);
    put(at, epoch->bad_samples);
    put(at, epoch->evaluated ? 1 : 0);
    put_double(at, epoch->accuracy);
    put(at, epoch->eval_digest);
}

static void get_epoch(const uint8_t **at, struct report_epoch *out)
{
    out->epoch = (uint32_t)get(at);
    out->steps = get(at);
    out->loss = get_double(at);
    out->images_per_s = get_double(at);
    out->wait_share = get_double(at);
    out->wait_p50_ms = get_double(at);
    out->wait_p99_ms = get_double(at);
    out->digest = get(at);
    out->bad_samples = get(at);
    out->evaluated = get(at) != 0;
    out->accuracy = get_double(at);
    out->eval_digest = get(at);
}

void history_encode(const struct report *report, const struct train_total *partial, uint8_t *out)
{
    put_double(&out, partial->loss);
    put(&out, partial->samples);
    put(&out, partial->bad_samples);
    for (uint32_t i = 0; i < report->epoch_count; i++) {
        put_epoch(&out, &report->epochs[i]);
    }
}

enum status history_decode(const uint8_t *bytes, size_t count, uint32_t room, struct report *out,
                           struct train_total *partial_out, struct err *err)
{
    const size_t epochs =
        count < history_bytes(0) ? 0 : (count - history_bytes(0)) / (FIELD_BYTES * EPOCH_FIELDS);
    if (epochs > UINT32_MAX || count != history_bytes((uint32_t)epochs)) {
        return err_set(err, ERR_DATA, "a history of %zu bytes holds no whole epochs", count);
    }
    struct report_epoch *entries = calloc(epochs > room ? epochs : room, sizeof(*entries));
    if (entries == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a history of %zu epochs", epochs);
    }
    *partial_out = (struct train_total){.loss = get_double(&bytes)};
    partial_out->samples = get(&bytes);
    partial_out->bad_samples = get(&bytes);
    for (size_t i = 0; i < epochs; i++) {
        get_epoch(&bytes, &entries[i]);
    }
    free(out->epochs);
    out->epochs = entries;
    out->epoch_count = (uint32_t)epochs;
    return OK;
}
