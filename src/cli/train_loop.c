/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop. A step is counted when it is begun; what the report says of an epoch is summed over all
 * ranks at its end. Stops fall between steps, the same one on every rank.
 *
 * A step that waits for data which do not come is given up after a stop. The first rank that does
 * so has not joined the step's sum, so no rank has got it, and every model stands where the step
 * before left it. The others hear of it and leave the step, or do not begin it. From then on the
 * coordinator sums and waits in the collective's place: it is aborted on some ranks, while others
 * may still read from it what ends the step before.
 */
#include "cli/train_loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "cli/train_place.h"
#include "cli/train_total.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "consumer/kernel_images.h"

#define METRIC_INTERVAL_NS (5 * NS_PER_S)
#define MAY_BEGIN_NS       (60 * NS_PER_S)
#define PATIENCE_NS        (10 * NS_PER_S) /* for data, once a stop is agreed on */
#define LOOK_NS            NS_PER_S        /* between looks whether one is */
#define MIB                (1024.0 * 1024.0)
enum { LINE_BYTES = 512 };

static const char TRAIN[] = "train";
static const char EVAL[] = "eval";

/* Since the last metric line; this rank's. */
struct interval {
    int64_t begin_ns;
    uint64_t steps, samples, wait_ns;
    double loss;
};

struct loop {
    const struct train_options *options;
    const struct config *config;
    struct train_team team;
    struct feed_stream train;
    bool has_eval;
    struct feed_stream eval;
    struct trainer *trainer;
    struct train_keeper keeper;

    uint32_t epoch; /* the next step to take */
    uint64_t step;
    uint64_t begun;   /* steps and evaluation batches, for coord_may_begin */
    bool unevaluated; /* the epoch before the checkpoint */
    bool stopped;
    bool given_up; /* inside a step that no rank can finish; the collective is of no use any more */

    /* Of the epoch, this rank's. */
    struct train_total epoch_total;
    uint64_t digest_base;       /* the feed's digest when the epoch began here */
    struct train_total carried; /* rank 0: what a checkpoint brought of this epoch, all ranks */
    uint64_t bad_base;
    int64_t epoch_begin_ns, paused_ns;
    struct histogram waits;

    struct interval interval;
    int64_t saved_ns;
    struct report report;
};

/* ---- what people and metric definitions read ---- */

/* One write, so that no other process's line comes between. */
static void print_line(const char *line)
{
    const size_t count = strlen(line);
    if (write(STDOUT_FILENO, line, count) != (ssize_t)count) {
        log_debug("a metric line was lost");
    }
}

static void begin_interval(struct loop *loop, int64_t now_ns)
{
    loop->interval = (struct interval){.begin_ns = now_ns};
}

static void print_interval(struct loop *loop)
{
    const struct interval *interval = &loop->interval;
    const int64_t now_ns = clock_now_ns();
    const int64_t took_ns = now_ns - interval->begin_ns;
    if (loop->team.rank != 0 || took_ns < METRIC_INTERVAL_NS) {
        return;
    }
    const double took_s = (double)took_ns / NS_PER_S;
    const uint64_t samples = interval->steps * loop->train.plan.global_batch;
    char line[LINE_BYTES];
    snprintf(line, sizeof(line),
             "headrace: epoch=%u; step=%" PRIu64
             "; loss=%.5f; images_per_s=%.1f; wait_share=%.4f;\n",
             loop->epoch + 1, loop->step,
             interval->samples == 0 ? 0 : interval->loss / (double)interval->samples,
             (double)samples / took_s, (double)interval->wait_ns / (double)took_ns);
    print_line(line);
    begin_interval(loop, now_ns);
}

static void print_epoch(const struct report_epoch *epoch)
{
    char accuracy[64] = "";
    char line[LINE_BYTES];
    if (epoch->evaluated) {
        snprintf(accuracy, sizeof(accuracy), " accuracy=%.4f; eval_digest=%016" PRIx64 ";",
                 epoch->accuracy, epoch->eval_digest);
    }
    snprintf(line, sizeof(line),
             "headrace: epoch=%u; epoch_loss=%.5f; epoch_images_per_s=%.1f; epoch_wait_share=%.4f; "
             "digest=%016" PRIx64 ";%s\n",
             epoch->epoch, epoch->loss, epoch->images_per_s, epoch->wait_share, epoch->digest,
             accuracy);
    print_line(line);
}

/* ---- one batch ---- */

static struct trainer_batch view(const struct feed_batch *batch, const struct layout *layout)
{
    const uint8_t *bytes = batch->host;
    const uint8_t *device = batch->device;
    struct trainer_batch rows = {.images = bytes + layout->image_offset,
                                 .labels = (const int64_t *)(bytes + layout->label_offset),
                                 .count = batch->count,
                                 .copied = batch->copied,
                                 .done = batch->done};
    if (device != NULL) {
        rows.device_images = device + layout->image_offset;
        rows.device_labels = (const int64_t *)(device + layout->label_offset);
    }
    return rows;
}

static enum status may_begin(struct loop *loop, bool *may_out, struct err *err)
{
    const struct train_options *options = loop->options;
    TRY(coord_may_begin(options->coord, loop->begun, clock_now_ns() + MAY_BEGIN_NS, may_out, err));
    loop->begun += *may_out;
    if (!*may_out) {
        struct coord_stop_state stop;
        coord_stop_state(options->coord, &stop);
        loop->stopped = true;
        loop->given_up = stop.given_up;
    }
    return OK;
}

/* Is the step, or the evaluation, that was begun last given up by another rank? */
static bool is_given_up(const struct loop *loop)
{
    struct coord_stop_state stop;
    coord_stop_state(loop->options->coord, &stop);
    return stop.given_up && stop.step < loop->begun;
}

static void leave_step(struct loop *loop)
{
    loop->stopped = true;
    loop->given_up = true;
}

/* Until the next batch is there; *came_out false: the step is given up. */
static enum status await_batch(struct loop *loop, const char *stream, bool *came_out,
                               struct err *err)
{
    const struct train_options *options = loop->options;
    struct coord_stop_state stop = {0};
    int64_t patience_ns = INT64_MAX; /* when it ends */
    enum status status = OK;
    while ((status = feed_wait(options->feed, stream, clock_now_ns() + LOOK_NS, err)) ==
           ERR_TIMEOUT) {
        const int64_t now_ns = clock_now_ns();
        coord_stop_state(options->coord, &stop);
        if (stop.settled && patience_ns == INT64_MAX) {
            patience_ns = now_ns + PATIENCE_NS;
        }
        if (now_ns >= patience_ns || is_given_up(loop)) {
            break;
        }
    }
    coord_stop_state(options->coord, &stop);
    const bool starved = status == ERR_PEER_GONE && stop.settled;
    *came_out = status == OK;
    if (status != ERR_TIMEOUT && !starved) {
        return status;
    }
    coord_give_up(options->coord, loop->begun - 1);
    leave_step(loop);
    log_info("stopping before this step: %s",
             starved ? err->message : "no data have come for it since the stop was agreed on");
    return OK;
}

/* *taken_out false: the step is given up. */
static enum status train_step(struct loop *loop, bool *taken_out, struct err *err)
{
    const struct train_options *options = loop->options;
    struct feed_batch batch;
    struct trainer_result result = {0};
    const int64_t begin_ns = clock_now_ns();
    TRY(await_batch(loop, TRAIN, taken_out, err));
    if (!*taken_out) {
        return OK;
    }
    TRY(feed_next(options->feed, TRAIN, &batch, err));
    const uint64_t waited_ns = (uint64_t)(clock_now_ns() - begin_ns);
    const struct trainer_batch rows = view(&batch, &loop->train.layout);
    const enum status status = options->trainer_ops->step(loop->trainer, &rows, &result, err);
    if (status == ERR_CANCELLED && is_given_up(loop)) {
        *taken_out = false;
        leave_step(loop);
        return OK;
    }
    TRY(status);
    TRY(feed_release(options->feed, &batch, batch.done, err));
    histogram_add(&loop->waits, waited_ns);
    loop->epoch_total.loss += result.loss;
    loop->epoch_total.correct += result.correct;
    loop->epoch_total.samples += batch.count;
    loop->epoch_total.wait_ns += waited_ns;
    loop->interval.steps++;
    loop->interval.samples += batch.count;
    loop->interval.wait_ns += waited_ns;
    loop->interval.loss += result.loss;
    loop->step++;
    return OK;
}

/* ---- evaluation ---- */

/* *done_out false: a stop came first. */
static enum status evaluate(struct loop *loop, struct train_total *out, bool *done_out,
                            struct err *err)
{
    const struct train_options *options = loop->options;
    bool came = false;
    *out = (struct train_total){0};
    *done_out = false;
    for (uint64_t step = 0; step < loop->eval.plan.steps; step++) {
        struct feed_batch batch;
        struct trainer_result result = {0};
        bool may = false;
        TRY(may_begin(loop, &may, err));
        if (!may) {
            return OK;
        }
        TRY(await_batch(loop, EVAL, &came, err));
        if (!came) {
            return OK;
        }
        TRY(feed_next(options->feed, EVAL, &batch, err));
        const struct trainer_batch rows = view(&batch, &loop->eval.layout);
        TRY(options->trainer_ops->evaluate(loop->trainer, &rows, &result, err));
        TRY(feed_release(options->feed, &batch, batch.done, err));
        out->loss += result.loss;
        out->correct += result.correct;
        out->samples += batch.count;
    }
    struct feed_stats stats;
    feed_stats(options->feed, EVAL, &stats);
    out->digest = stats.digest;
    const enum status status = train_total_sum(&loop->team, out, err);
    if (status == ERR_CANCELLED && is_given_up(loop)) {
        leave_step(loop);
        return OK;
    }
    *done_out = status == OK;
    return status;
}

/* ---- epochs ---- */

/* Evaluation's first batches are asked for now, so that they wait in their slots when it begins. */
static enum status begin_epoch(struct loop *loop, struct err *err)
{
    struct feed_stats stats;
    if (loop->has_eval) {
        TRY(feed_start(loop->options->feed, EVAL, loop->epoch, 0, loop->epoch + 1, err));
    }
    feed_stats(loop->options->feed, TRAIN, &stats);
    const int64_t now_ns = clock_now_ns();
    loop->epoch_total = (struct train_total){0};
    loop->digest_base = stats.digest;
    loop->bad_base = stats.bad_samples;
    loop->epoch_begin_ns = now_ns;
    loop->paused_ns = 0;
    memset(&loop->waits, 0, sizeof(loop->waits));
    begin_interval(loop, now_ns);
    return OK;
}

/* This rank's part of the epoch so far; that of rank 0 has in it what a checkpoint brought. */
static struct train_total own_total(const struct loop *loop)
{
    struct feed_stats stats;
    struct train_total total = loop->epoch_total;
    feed_stats(loop->options->feed, TRAIN, &stats);
    total.digest = stats.digest - loop->digest_base + loop->carried.digest;
    total.bad_samples = stats.bad_samples - loop->bad_base + loop->carried.bad_samples;
    total.samples += loop->carried.samples;
    total.loss += loop->carried.loss;
    return total;
}

/* At the loop's place. */
static enum status save(struct loop *loop, const struct train_total *before, struct err *err)
{
    const struct train_place place = {.epoch = loop->epoch, .step = loop->step, .before = *before};
    loop->saved_ns = clock_now_ns();
    return train_keeper_save(&loop->keeper, &place, &loop->report, err);
}

/* Inside an epoch, when rank 0's clock says so. The time it takes is not training's. */
static enum status save_if_due(struct loop *loop, struct err *err)
{
    const int64_t interval_ns = (int64_t)(loop->config->checkpoint_interval_s * NS_PER_S);
    if (interval_ns == 0) {
        return OK;
    }
    const int64_t begin_ns = clock_now_ns();
    uint8_t due = begin_ns - loop->saved_ns >= interval_ns;
    TRY(train_tell(&loop->team, &due, sizeof(due), err));
    if (due == 0) {
        return OK;
    }
    struct train_total total = own_total(loop);
    TRY(train_total_sum(&loop->team, &total, err));
    TRY(save(loop, &total, err));
    loop->paused_ns += clock_now_ns() - begin_ns;
    return OK;
}

/* Up to the epoch's end or a stop. */
static enum status train_epoch(struct loop *loop, struct err *err)
{
    while (loop->step < loop->train.plan.steps) {
        bool may = false;
        TRY(may_begin(loop, &may, err));
        if (!may) {
            return OK;
        }
        bool taken = false;
        TRY(train_step(loop, &taken, err));
        if (!taken) {
            return OK;
        }
        print_interval(loop);
        if (loop->step < loop->train.plan.steps) {
            TRY(save_if_due(loop, err));
        }
    }
    return OK;
}

static enum status sum_total(struct loop *loop, struct train_total *total, struct err *err)
{
    return loop->given_up
               ? train_total_sum_apart(loop->options->coord, loop->team.world, total, err)
               : train_total_sum(&loop->team, total, err);
}

/* Sums the epoch over all ranks; *out: the report's next entry. */
static enum status sum_epoch(struct loop *loop, struct train_total *total_out,
                             struct report_epoch *out, struct err *err)
{
    const int64_t took_ns = clock_now_ns() - loop->epoch_begin_ns - loop->paused_ns;
    struct train_total total = own_total(loop);
    TRY(sum_total(loop, &total, err));
    *total_out = total;
    const double took_s = took_ns > 0 ? (double)took_ns / NS_PER_S : 1e-9;
    *out = (struct report_epoch){
        .epoch = loop->epoch + 1,
        .steps = loop->step,
        .loss = total.samples == 0 ? 0 : total.loss / (double)total.samples,
        .images_per_s = (double)(total.samples - loop->carried.samples) / took_s,
        .wait_share = (double)total.wait_ns / NS_PER_S / took_s / loop->team.world,
        .wait_p50_ms = (double)histogram_quantile(&loop->waits, 0.5) / NS_PER_MS,
        .wait_p99_ms = (double)histogram_quantile(&loop->waits, 0.99) / NS_PER_MS,
        .digest = total.digest,
        .bad_samples = total.bad_samples,
    };
    return OK;
}

static enum status evaluate_epoch(struct loop *loop, struct report_epoch *entry, struct err *err)
{
    if (!loop->has_eval) {
        return OK;
    }
    struct train_total total;
    TRY(evaluate(loop, &total, &entry->evaluated, err));
    if (!entry->evaluated) {
        /* No rank closes its links while another one may still need them. */
        TRY(coord_barrier(loop->options->coord, "stop", loop->team.world,
                          clock_now_ns() + MAY_BEGIN_NS, err));
    }
    entry->eval_digest = total.digest;
    entry->accuracy = total.samples == 0 ? 0 : (double)total.correct / (double)total.samples;
    return OK;
}

static enum status write_report(struct loop *loop, struct err *err)
{
    if (loop->team.rank != 0) {
        return OK;
    }
    loop->report.stopped = loop->stopped;
    return report_write(loop->options->base, &loop->report, err);
}

/* The entry of an epoch that is over, or of one that is not but was stopped in. */
static void add_entry(struct loop *loop, const struct report_epoch *entry)
{
    if (loop->team.rank == 0) {
        loop->report.epochs[loop->report.epoch_count++] = *entry;
        print_epoch(entry);
    }
}

static enum status end_epoch(struct loop *loop, struct err *err)
{
    struct report_epoch entry;
    struct train_total total;
    TRY(sum_epoch(loop, &total, &entry, err));
    TRY(evaluate_epoch(loop, &entry, err));
    add_entry(loop, &entry);
    loop->epoch++;
    loop->step = 0;
    loop->carried = (struct train_total){0};
    TRY(save(loop, &loop->carried, err));
    return write_report(loop, err);
}

/* A stop inside an epoch. */
static enum status end_early(struct loop *loop, struct err *err)
{
    struct report_epoch entry;
    struct train_total total;
    TRY(sum_epoch(loop, &total, &entry, err));
    TRY(save(loop, &total, err));
    if (loop->step > 0) {
        add_entry(loop, &entry);
    }
    return write_report(loop, err);
}

/* That of the epoch before the checkpoint, where a stop came first. */
static enum status evaluate_missed(struct loop *loop, struct err *err)
{
    struct report_epoch entry = {0};
    if (!loop->unevaluated || !loop->has_eval) {
        return OK;
    }
    TRY(feed_start(loop->options->feed, EVAL, loop->epoch - 1, 0, loop->epoch, err));
    TRY(evaluate_epoch(loop, &entry, err));
    if (!entry.evaluated) {
        return OK;
    }
    if (loop->team.rank == 0) {
        struct report_epoch *last = &loop->report.epochs[loop->report.epoch_count - 1];
        last->evaluated = true;
        last->accuracy = entry.accuracy;
        last->eval_digest = entry.eval_digest;
        print_epoch(last);
    }
    TRY(save(loop, &loop->carried, err));
    return write_report(loop, err);
}

static enum status run_epochs(struct loop *loop, struct err *err)
{
    const uint32_t epochs = (uint32_t)loop->config->epochs;
    TRY(feed_start(loop->options->feed, TRAIN, loop->epoch, loop->step, epochs, err));
    while (loop->epoch < epochs && !loop->stopped) {
        TRY(begin_epoch(loop, err));
        TRY(train_epoch(loop, err));
        if (loop->step < loop->train.plan.steps) {
            TRY(end_early(loop, err));
            break;
        }
        TRY(end_epoch(loop, err));
    }
    return OK;
}

/* ---- set-up ---- */

static enum status learn_streams(struct loop *loop, struct err *err)
{
    struct feed *feed = loop->options->feed;
    TRY(feed_stream_info(feed, TRAIN, &loop->train, err));
    loop->has_eval = config_stream(loop->config, EVAL) != NULL;
    return loop->has_eval ? feed_stream_info(feed, EVAL, &loop->eval, err) : OK;
}

static enum status open_trainer(struct loop *loop, struct err *err)
{
    const struct train_options *options = loop->options;
    const struct trainer_options trainer_options = {.config = loop->config,
                                                    .layout = &loop->train.layout,
                                                    .classes = loop->train.classes,
                                                    .world = loop->team.world,
                                                    .steps = loop->train.plan.steps *
                                                             (uint64_t)loop->config->epochs,
                                                    .coll_ops = options->coll_ops,
                                                    .coll = options->coll,
                                                    .device = options->device,
                                                    .images = &KERNEL_IMAGES};
    TRY(options->trainer_ops->open(&trainer_options, &loop->trainer, err));
    TRY(train_keeper_init(&loop->keeper, loop->config, options->base, &loop->train, &loop->team,
                          options->trainer_ops, loop->trainer, err));
    const size_t bytes =
        options->trainer_ops->memory_bytes(loop->trainer) + train_keeper_bytes(&loop->keeper);
    log_info("memory budget: trainer %s with its checkpoint: %.1f MiB", options->trainer_ops->name,
             (double)bytes / MIB);
    return OK;
}

static enum status resume(struct loop *loop, struct err *err)
{
    if (!loop->config->resume) {
        return OK;
    }
    bool found = false;
    struct train_place place;
    TRY(train_keeper_resume(&loop->keeper, &place, &loop->report, &found, &loop->unevaluated, err));
    if (!found) {
        return OK;
    }
    loop->epoch = place.epoch;
    loop->step = place.step;
    loop->carried = place.before;
    if (loop->team.rank == 0) {
        log_info("resuming at epoch %u step %" PRIu64, loop->epoch + 1, loop->step);
    }
    return OK;
}

static enum status take_report(struct loop *loop, struct err *err)
{
    loop->report.world = loop->team.world;
    loop->report.epochs = calloc((size_t)loop->config->epochs, sizeof(*loop->report.epochs));
    if (loop->report.epochs == NULL) {
        return err_errno(err, ERR_RESOURCE, "report of %" PRId64 " epochs", loop->config->epochs);
    }
    return OK;
}

static enum status run(struct loop *loop, struct err *err)
{
    TRY(take_report(loop, err));
    TRY(learn_streams(loop, err));
    TRY(open_trainer(loop, err));
    TRY(resume(loop, err));
    loop->saved_ns = clock_now_ns();
    if (loop->epoch >= (uint64_t)loop->config->epochs) {
        log_info("all %" PRId64 " epochs are done already", loop->config->epochs);
    }
    TRY(evaluate_missed(loop, err));
    if (loop->epoch < (uint64_t)loop->config->epochs && !loop->stopped) {
        TRY(run_epochs(loop, err));
    } else {
        TRY(write_report(loop, err));
    }
    if (loop->stopped && loop->team.rank == 0) {
        log_info("stopped at epoch %u step %" PRIu64, loop->epoch + 1, loop->step);
    }
    return OK;
}

enum status train_loop(const struct train_options *options, bool *stopped_out, struct err *err)
{
    struct loop *loop = calloc(1, sizeof(*loop)); /* the histogram is too large for a stack */
    if (loop == NULL) {
        return err_errno(err, ERR_RESOURCE, "training loop");
    }
    loop->options = options;
    loop->config = options->config;
    loop->team = (struct train_team){.ops = options->coll_ops,
                                     .coll = options->coll,
                                     .rank = options->rank,
                                     .world = options->world};
    const enum status status = run(loop, err);
    *stopped_out = loop->stopped;
    train_keeper_fini(&loop->keeper);
    if (loop->trainer != NULL) {
        options->trainer_ops->close(&loop->trainer);
    }
    report_fini(&loop->report);
    free(loop);
    return status;
}
