/* SPDX-License-Identifier: Apache-2.0 */
/* What the collective needs of its rank: the other ranks' addresses for the ring; libraries, a way
 * to the coordinator and the facts to compare for NCCL. */
#include "cli/train_coll.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/failure.h"
#include "common/log.h"

/* ---- the choice ---- */

/* A rank that fell back to the host would wait in the ring for one that is in NCCL. */
static enum status agree(const struct train_coll_options *options, const struct coll_ops *ops,
                         struct err *err)
{
    if (options->roster->rank_count == 1) {
        return OK;
    }
    return coord_agree(options->coord, "collective (1 ring, 2 nccl: on a GPU)",
                       ops == &coll_nccl ? 2 : 1, options->deadline_ns, err);
}

/* ---- the ring ---- */

static enum status join_ring(const struct train_coll_options *options,
                             const struct coll_options *common, struct train_coll *out,
                             struct err *err)
{
    const struct roster *roster = options->roster;
    struct coll_peer *peers = calloc(roster->rank_count, sizeof(*peers));
    if (peers == NULL) {
        return err_errno(err, ERR_RESOURCE, "addresses of %u ranks", roster->rank_count);
    }
    for (uint32_t i = 0; i < roster->rank_count; i++) {
        peers[i] = (struct coll_peer){.address = roster->ranks[i].address,
                                      .port = roster->ranks[i].ring_port};
    }
    struct coll_options full = *common;
    full.peers = peers;
    const enum status status = out->ops->init(&full, &out->coll, err);
    free(peers);
    return status;
}

/* ---- NCCL ---- */

static enum status put(void *context, const char *key, const void *value, size_t count,
                       int64_t deadline_ns, struct err *err)
{
    return coord_put(context, key, value, count, deadline_ns, err);
}

static enum status get(void *context, const char *key, int64_t deadline_ns,
                       uint8_t value[COLL_VALUE_BYTES], size_t *count_out, struct err *err)
{
    _Static_assert(COLL_VALUE_BYTES >= (int)COORD_VALUE_BYTES, "a value fits");
    return coord_get(context, key, deadline_ns, value, count_out, err);
}

/* Where the abort is a consequence, what led to it has been said and stays the last word. */
static void end_stuck(const struct err *err)
{
    if (reason_is_said()) {
        log_error("%s", err->message);
    } else {
        (void)cmd_fail("train", err);
    }
    _exit(EXIT_PEER);
}

static enum status open_tables(const struct train_coll_options *options, struct train_coll *out,
                               struct err *err)
{
    out->cuda = calloc(1, sizeof(*out->cuda));
    out->nccl = calloc(1, sizeof(*out->nccl));
    if (out->cuda == NULL || out->nccl == NULL) {
        return err_errno(err, ERR_RESOURCE, "tables of CUDA and NCCL");
    }
    TRY(cuda_driver_open(options->config->cuda_driver, &out->cuda->driver, err));
    TRY(cuda_runtime_open(options->config->cuda_runtime, &out->cuda->driver, &out->cuda->runtime,
                          err));
    const enum status status = nccl_api_open(options->config, out->nccl, err);
    return status == OK ? OK
                        : err_prefix(err, "%u ranks on GPUs need NCCL (or collective ring)",
                                     options->roster->rank_count);
}

/* What has to be alike for the ranks' sums to have the same number and meaning. */
enum { FACTS = 4, VALUE_BYTES = 32 };
static const char *const FACT_NAMES[FACTS] = {"plan digest", "data digest", "steps an epoch",
                                              "classes"};

static enum status learn_facts(const struct train_coll_options *options,
                               char values[FACTS][VALUE_BYTES], struct err *err)
{
    struct feed_stream train;
    TRY(feed_stream_info(options->feed, "train", &train, err));
    snprintf(values[0], VALUE_BYTES, "%016" PRIx64, plan_digest(&train.plan));
    snprintf(values[1], VALUE_BYTES, "%016" PRIx64, train.data_digest);
    snprintf(values[2], VALUE_BYTES, "%" PRIu64, (uint64_t)train.plan.steps);
    snprintf(values[3], VALUE_BYTES, "%u", train.classes);
    return OK;
}

static enum status join_nccl(const struct train_coll_options *options,
                             const struct coll_options *common, struct train_coll *out,
                             struct err *err)
{
    char values[FACTS][VALUE_BYTES];
    struct coll_fact facts[FACTS];
    TRY(open_tables(options, out, err));
    TRY(learn_facts(options, values, err));
    for (size_t i = 0; i < FACTS; i++) {
        facts[i] = (struct coll_fact){.name = FACT_NAMES[i], .value = values[i]};
    }
    const struct coll_store store = {.context = options->coord, .put = put, .get = get};
    const struct coll_gpu gpu = {.cuda = out->cuda,
                                 .nccl = out->nccl,
                                 .device = (int)options->self->local_rank,
                                 .stuck = end_stuck};
    struct coll_options full = *common;
    full.store = &store;
    full.host = options->self->host;
    full.facts = facts;
    full.fact_count = FACTS;
    full.gpu = &gpu;
    return out->ops->init(&full, &out->coll, err);
}

/* ---- join and leave ---- */

enum status train_coll_join(const struct train_coll_options *options, struct train_coll *out,
                            struct err *err)
{
    const struct coll_options common = {.rank = options->self->rank,
                                        .size = options->roster->rank_count,
                                        .job = options->roster->job,
                                        .insecure = options->config->insecure,
                                        .deadline_ns = options->deadline_ns};
    TRY(coll_choose(options->config->collective, options->on_gpu, options->roster->rank_count,
                    &out->ops, err));
    TRY(agree(options, out->ops, err));
    return out->ops == &coll_nccl ? join_nccl(options, &common, out, err)
                                  : join_ring(options, &common, out, err);
}

void train_coll_leave(struct train_coll *coll, bool good)
{
    if (coll->coll != NULL) {
        if (!good) {
            coll->ops->abort(coll->coll);
        }
        coll->ops->free(&coll->coll);
    }
    free(coll->cuda);
    free(coll->nccl);
    coll->cuda = NULL;
    coll->nccl = NULL;
}
