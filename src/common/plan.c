/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: arithmetic on positions. The order itself is shuffle.c's. */
#include "common/plan.h"

#include <inttypes.h>
#include <string.h>

#include "common/hash.h"
#include "common/limits.h"
#include "common/shuffle.h"

/* Goes into the plan digest; to be raised when the same options come to mean another order. */
enum { PLAN_VERSION = 1 };

static uint64_t key_of(uint64_t seed, const char *stream)
{
    uint8_t bytes[8 + NAME_BYTES_MAX];
    const size_t length = strlen(stream);
    CHECK(length < NAME_BYTES_MAX);
    hash_put64(bytes, seed);
    for (size_t i = 0; i < length; i++) { /* bytes, not a text: no zero at the end */
        bytes[8 + i] = (uint8_t)stream[i];
    }
    return hash64(bytes, 8 + length);
}

static enum status check_options(const struct plan_options *options, struct err *err)
{
    if (options->samples == 0) {
        return err_set(err, ERR_DATA, "stream %s: the data set has no samples", options->stream);
    }
    if (options->samples > INT64_MAX) { /* sample ids are int64 in a batch */
        return err_set(err, ERR_DATA,
                       "stream %s: the data set has %" PRIu64 " samples, the limit is %" PRId64,
                       options->stream, options->samples, INT64_MAX);
    }
    if (options->world == 0 || options->world > RANKS_MAX) {
        return err_set(err, ERR_CONFIG, "stream %s: %" PRIu32 " ranks, allowed are 1 to %d",
                       options->stream, options->world, RANKS_MAX);
    }
    if (options->global_batch == 0 || options->global_batch > UINT32_MAX) {
        return err_set(err, ERR_CONFIG,
                       "stream %s: global_batch is %" PRIu64 ", allowed are 1 to %" PRIu32,
                       options->stream, options->global_batch, UINT32_MAX);
    }
    if (options->global_batch % options->world != 0) {
        return err_set(err, ERR_CONFIG,
                       "stream %s: global_batch is %" PRIu64 " and there are %" PRIu32
                       " ranks: set global_batch to a multiple of %" PRIu32
                       ", for instance %" PRIu64,
                       options->stream, options->global_batch, options->world, options->world,
                       (options->global_batch / options->world + 1) * options->world);
    }
    if (options->shuffle == SHUFFLE_WINDOW) {
        return err_set(err, ERR_CONFIG,
                       "stream %s: shuffle \"window\" needs shards of neighbouring records, which "
                       "are not supported yet: use \"full\" or \"none\"",
                       options->stream);
    }
    return OK;
}

enum status plan_init(const struct plan_options *options, struct plan *out, struct err *err)
{
    TRY(check_options(options, err));
    const uint64_t whole = options->samples / options->global_batch;
    const bool rest = options->samples % options->global_batch != 0;
    *out = (struct plan){
        .key = key_of(options->seed, options->stream),
        .samples = options->samples,
        .global_batch = options->global_batch,
        .rank_batch = options->global_batch / options->world,
        .steps = options->last == LAST_PARTIAL && rest ? whole + 1 : whole,
        .world = options->world,
        .shuffle = options->shuffle,
        .last = options->last,
    };
    return OK;
}

uint32_t plan_batch(const struct plan *plan, uint64_t step, uint32_t rank, uint64_t *first_out)
{
    CHECK(step < plan->steps && rank < plan->world);
    /* step * G < samples, and the rest is less than G: far from overflow. */
    const uint64_t first = step * plan->global_batch + rank * plan->rank_batch;
    *first_out = first;
    if (first >= plan->samples) {
        return 0;
    }
    const uint64_t left = plan->samples - first;
    return (uint32_t)(left < plan->rank_batch ? left : plan->rank_batch);
}

uint64_t plan_sample(const struct plan *plan, uint32_t epoch, uint64_t position)
{
    CHECK(position < plan->samples);
    if (plan->shuffle == SHUFFLE_NONE) {
        return position;
    }
    return shuffle_full(plan->key, epoch, SHUFFLE_USE_ORDER, plan->samples, position);
}

uint64_t plan_substitute(const struct plan *plan, uint32_t epoch, uint64_t position,
                         uint32_t attempt)
{
    if (attempt == 0) {
        return plan_sample(plan, epoch, position);
    }
    CHECK(position < plan->samples);
    const uint64_t place = (position + attempt % plan->samples) % plan->samples;
    return shuffle_full(plan->key, epoch, SHUFFLE_USE_SUBSTITUTE, plan->samples, place);
}

uint64_t plan_digest(const struct plan *plan)
{
    const uint64_t fields[] = {
        PLAN_VERSION,        plan->key, plan->samples, plan->global_batch, (uint64_t)plan->shuffle,
        (uint64_t)plan->last};
    uint8_t bytes[8 * ARRAY_LEN(fields)];
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        hash_put64(bytes + 8 * i, fields[i]);
    }
    return hash64(bytes, sizeof(bytes));
}
