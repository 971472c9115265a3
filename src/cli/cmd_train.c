/* SPDX-License-Identifier: Apache-2.0 */
/* `headrace train`: one rank of a job, started by the agent. Joins the coordinator, the other ranks
 * and the producers, runs the loop, and ends with the exit code of what happened. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/join.h"
#include "cli/own_option.h"
#include "cli/train_coll.h"
#include "cli/train_loop.h"
#include "cli/train_watch.h"
#include "common/clock.h"
#include "common/log.h"
#include "consumer/cuda_api.h"
#include "consumer/kernel_images.h"
#include "producer/sample.h"

static const char USAGE[] =
    "usage: headrace train --local-rank N [OPTION...]\n"
    "\n"
    "One trainer process of a job; `headrace run` starts one for each GPU. Finds the coordinator\n"
    "through the cluster file, receives batches from all producers, trains, writes checkpoints "
    "and\n"
    "the report (<base>/output/headrace/report.json, rank 0).\n"
    "\n"
    "  --local-rank N         number of this rank among those of its host\n"
    "  OPTION                 see headrace run --help\n";

enum {
    LOCAL_RANK_MAX = 63,
    CAUSE_S_MAX = 10, /* a failed job ends within seconds, whatever peer_timeout is */
};

struct rank {
    struct member member;
    uint32_t local_rank;
    int signal_fd;
    struct coord_client *coord;
    struct train_watch *watch;
    struct roster roster;
    const struct roster_rank *self;
    const struct device_ops *device;
    struct feed *feed;
    struct train_coll coll;
};

/* ---- options ---- */

/* Takes --local-rank out of argv; the rest stays for config_load. */
static enum status take_local_rank(int *argc, char **argv, uint32_t *out, struct err *err)
{
    uint32_t number = UINT32_MAX;
    const struct own_option own[] = {
        {.name = "--local-rank", .number = &number, .max = LOCAL_RANK_MAX}};
    TRY(own_options_take(own, ARRAY_LEN(own), argc, argv, err));
    if (number == UINT32_MAX) {
        return err_set(err, ERR_USAGE, "--local-rank is missing; see headrace run");
    }
    *out = number;
    return OK;
}

static const struct trainer_ops *choose_trainer(const struct config *config)
{
    return strcmp(config->trainer, trainer_synthetic.name) == 0 ? &trainer_synthetic
                                                                : &trainer_reference;
}

/* auto means the GPU wherever there is one: what is wrong with it is an error then, too. But a
 * binary without kernels was not built for it. */
static enum status choose_device(const struct config *config, const struct device_ops **out,
                                 struct err *err)
{
    bool is_there = strcmp(config->device, "cuda") == 0;
    if (strcmp(config->device, "auto") == 0) {
        TRY(cuda_is_there(config, &is_there, err));
        if (!is_there) {
            log_info("device auto: no GPU, batches stay on the host (%s)", err->message);
        } else if (choose_trainer(config) == &trainer_reference &&
                   KERNEL_IMAGES.images->source == NULL) {
            log_info("device auto: the GPU is not used, for this binary was built without kernels "
                     "(./dev cuda builds it with them)");
            is_there = false;
        }
    }
    *out = is_there ? &device_cuda : &device_host;
    return OK;
}

/* The synthetic trainer does not compute at all. */
static bool computes_on_gpu(const struct rank *rank)
{
    return rank->device == &device_cuda &&
           choose_trainer(&rank->member.config) == &trainer_reference;
}

static void on_broken(void *context, const struct err *err)
{
    train_watch_fail(context, err);
}

/* ---- joining ---- */

static int64_t join_deadline(const struct config *config)
{
    return clock_now_ns() + (int64_t)(config->join_timeout_s * NS_PER_S);
}

static enum status find_self(struct rank *rank, struct err *err)
{
    for (uint32_t i = 0; i < rank->roster.rank_count; i++) {
        const struct roster_rank *entry = &rank->roster.ranks[i];
        if (entry->local_rank == rank->local_rank &&
            strcmp(entry->host, rank->member.host->name) == 0) {
            rank->self = entry;
            return OK;
        }
    }
    return err_set(err, ERR_INTERNAL, "local rank %u of host %s is not in the roster",
                   rank->local_rank, rank->member.host->name);
}

/* Up to the roster: who takes part, and which rank this is. */
static enum status join_job(struct rank *rank, struct err *err)
{
    const struct config *config = &rank->member.config;
    const int64_t deadline_ns = join_deadline(config);
    char text[256];
    const uint16_t port = (uint16_t)(config->port + 1 + 2 * (int64_t)rank->local_rank);
    const struct coord_join join = {.kind = COORD_RANK,
                                    .local_rank = rank->local_rank,
                                    .port = port,
                                    .ring_port = (uint16_t)(port + 1),
                                    .fingerprint = sample_fingerprint(text),
                                    .cancel_fd = &rank->signal_fd};
    TRY(member_resolve(&rank->member, &rank->signal_fd, deadline_ns, err));
    TRY(member_join(&rank->member, &join, deadline_ns, &rank->coord, err));
    TRY(train_watch_start(rank->coord, rank->signal_fd, &rank->watch, err));
    TRY(coord_roster(rank->coord, deadline_ns, &rank->roster, err));
    return find_self(rank, err);
}

static enum status join_ranks(struct rank *rank, struct err *err)
{
    const struct train_coll_options options = {.config = &rank->member.config,
                                               .coord = rank->coord,
                                               .roster = &rank->roster,
                                               .self = rank->self,
                                               .feed = rank->feed,
                                               .on_gpu = strcmp(rank->device->name, "cuda") == 0,
                                               .deadline_ns = join_deadline(&rank->member.config)};
    TRY(train_coll_join(&options, &rank->coll, err));
    train_watch_attach(rank->watch, rank->feed, rank->coll.ops, rank->coll.coll);
    return OK;
}

static enum status open_feed(struct rank *rank, struct err *err)
{
    char text[256];
    struct feed_options options = {.config = &rank->member.config,
                                   .coord = rank->coord,
                                   .roster = &rank->roster,
                                   .rank = rank->self->rank,
                                   .address = rank->member.address,
                                   .port = rank->self->port,
                                   .producers = rank->member.cluster.producer_count,
                                   .fingerprint = sample_fingerprint(text),
                                   .local_host = rank->member.host->name,
                                   .device_ordinal = rank->local_rank,
                                   .on_broken = on_broken,
                                   .broken_context = rank->watch};
    TRY(choose_device(&rank->member.config, &rank->device, err));
    options.device = rank->device;
    options.lend_early = computes_on_gpu(rank);
    if (feed_new(&options, &rank->feed, err) != OK) {
        const bool is_chosen = strcmp(rank->member.config.device, "auto") == 0;
        return err->status == ERR_DEVICE && is_chosen
                   ? err_prefix(err, "device auto found a GPU (device=host does without)")
                   : err->status;
    }
    train_watch_attach(rank->watch, rank->feed, NULL, NULL);
    return OK;
}

static enum status train(struct rank *rank, bool *stopped_out, struct err *err)
{
    TRY(join_job(rank, err));
    TRY(open_feed(rank, err)); /* listens before the others wait for each other */
    TRY(join_ranks(rank, err));
    const struct train_options options = {.config = &rank->member.config,
                                          .base = rank->member.cluster.base,
                                          .coord = rank->coord,
                                          .feed = rank->feed,
                                          .coll_ops = rank->coll.ops,
                                          .coll = rank->coll.coll,
                                          .trainer_ops = choose_trainer(&rank->member.config),
                                          .device = computes_on_gpu(rank) ? feed_device(rank->feed)
                                                                          : NULL,
                                          .rank = rank->self->rank,
                                          .world = rank->roster.rank_count};
    return train_loop(&options, stopped_out, err);
}

/* ---- the end ---- */

/* Producers hear DONE only after a good end; after a failure the coordinator has told them. */
static void leave(struct rank *rank, bool good)
{
    feed_free(&rank->feed, good);
    train_watch_free(&rank->watch); /* the feed's thread may have told it of the device */
    train_coll_leave(&rank->coll, good);
    roster_fini(&rank->roster);
    if (rank->coord != NULL) {
        coord_close(&rank->coord);
    }
}

/* A peer that is gone is likely the consequence of a failure elsewhere, which the coordinator tells
 * within the time that anybody may be silent. The links stay open, or the next rank would have
 * its own consequence to tell. */
static void await_cause(struct rank *rank, const struct err *err)
{
    const double silence_s = rank->member.config.peer_timeout_s;
    const double wait_s = silence_s < CAUSE_S_MAX ? silence_s : CAUSE_S_MAX;
    log_info("%s; waiting up to %.1f s for the job's own reason", err->message, wait_s);
    train_watch_await(rank->watch, (int64_t)(wait_s * (double)NS_PER_S));
}

static int run_rank(struct rank *rank, struct err *err)
{
    bool stopped = false;
    int code = EXIT_OK;
    enum status status = train(rank, &stopped, err);
    if (status == ERR_CANCELLED && rank->self == NULL) {
        log_info("stopped before the job began");
        status = OK;
    }
    if (status == ERR_PEER_GONE && rank->watch != NULL) {
        await_cause(rank, err);
    }
    struct err job_err = {0};
    const bool job_failed = rank->watch != NULL && train_watch_stop(rank->watch, &code, &job_err);
    if (job_failed && status != OK) { /* what happened here is a consequence */
        (void)cmd_fail("train", &job_err);
    } else if (status != OK) {
        code = cmd_fail("train", err);
    } else {
        code = EXIT_OK;
    }
    leave(rank, status == OK);
    return code;
}

static int run(int argc, char **argv)
{
    struct err err = {0};
    struct rank rank = {.signal_fd = -1};
    char suffix[32];
    int rest = 0;
    enum status status = take_local_rank(&argc, argv, &rank.local_rank, &err);
    if (status == OK) {
        status = train_watch_signals(&rank.signal_fd, &err);
    }
    if (status == OK) {
        (void)signal(SIGPIPE, SIG_IGN);
        snprintf(suffix, sizeof(suffix), "rank %u", rank.local_rank);
        status = member_load(argc, argv, suffix, &rank.member, &rest, &err);
    }
    if (status == OK) {
        status = coll_nccl_interface(rank.member.cluster.network_interface, &err);
    }
    if (status != OK) {
        return cmd_fail("train", &err);
    }
    const int code = run_rank(&rank, &err);
    member_fini(&rank.member);
    CHECK(close(rank.signal_fd) == 0);
    return code;
}

const struct cmd cmd_train = {
    .name = "train",
    .summary = "one trainer process of a job (started by run)",
    .run = run,
    .usage = USAGE,
};
