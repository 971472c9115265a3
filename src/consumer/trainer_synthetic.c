/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of a given time and a given gradient size, for measuring the feed without a model: it
 * looks at no picture and no label. It sleeps until step_ms have passed since the step began, then
 * sums grad_mb megabytes (10^6 bytes) over the ranks and checks the sum, so that a broken
 * collective cannot pass unseen. Forward only takes a third of a step, as is usual.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "consumer/trainer.h"

struct trainer {
    const struct coll_ops *coll_ops;
    struct coll *coll;
    uint32_t world;
    int64_t step_ns, timeout_ns;
    size_t gradient_count;
    float *gradient;
    uint64_t steps; /* the whole state */
};

static void synthetic_close(struct trainer **trainer)
{
    if (*trainer != NULL) {
        free((*trainer)->gradient);
        free(*trainer);
        *trainer = NULL;
    }
}

static enum status synthetic_open(const struct trainer_options *options, struct trainer **out,
                                  struct err *err)
{
    const struct config *config = options->config;
    struct trainer *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return err_set(err, ERR_RESOURCE, "synthetic trainer: out of memory");
    }
    t->coll_ops = options->coll_ops;
    t->coll = options->coll;
    t->world = options->world;
    t->step_ns = (int64_t)(config->step_ms * (double)NS_PER_MS);
    t->timeout_ns = (int64_t)(config->starve_timeout_s * (double)NS_PER_S) + 60 * NS_PER_S;
    t->gradient_count = (size_t)(config->grad_mb * 1e6) / sizeof(float);
    t->gradient = calloc(t->gradient_count + 1, sizeof(float));
    if (t->gradient == NULL) {
        synthetic_close(&t);
        return err_set(err, ERR_RESOURCE, "synthetic trainer: no memory for grad_mb = %g",
                       config->grad_mb);
    }
    *out = t;
    return OK;
}

static void sleep_until(int64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = deadline_ns / NS_PER_S,
                                   .tv_nsec = deadline_ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

/* The same on every rank, different between neighbours and steps, and small enough that the sum
 * over RANKS_MAX ranks is exact. */
static float gradient_value(const struct trainer *t, size_t i)
{
    return (float)((i + t->steps) % 61 + 1);
}

static enum status sum_gradient(struct trainer *t, struct err *err)
{
    for (size_t i = 0; i < t->gradient_count; i++) {
        t->gradient[i] = gradient_value(t, i);
    }
    TRY(t->coll_ops->allreduce(t->coll, t->gradient, t->gradient_count,
                               clock_now_ns() + t->timeout_ns, err));
    for (size_t i = 0; i < t->gradient_count; i++) {
        const float want = gradient_value(t, i) * (float)t->world;
        if (t->gradient[i] != want) {
            return err_set(err, ERR_INTERNAL,
                           "synthetic trainer: step %llu: the %s collective summed value %zu over "
                           "%u ranks to %g, wanted %g",
                           (unsigned long long)t->steps, t->coll_ops->name, i, t->world,
                           (double)t->gradient[i], (double)want);
        }
    }
    return OK;
}

static enum status synthetic_step(struct trainer *t, const struct trainer_batch *batch,
                                  struct trainer_result *out, struct err *err)
{
    const int64_t begin_ns = clock_now_ns();
    sleep_until(begin_ns + t->step_ns);
    TRY(sum_gradient(t, err));
    t->steps++;
    *out = (struct trainer_result){.count = batch->count};
    return OK;
}

static enum status synthetic_evaluate(struct trainer *t, const struct trainer_batch *batch,
                                      struct trainer_result *out, struct err *err)
{
    sleep_until(clock_now_ns() + t->step_ns / 3);
    *out = (struct trainer_result){.count = batch->count};
    return OK;
}

static size_t synthetic_state_bytes(const struct trainer *t)
{
    return sizeof(t->steps);
}

static enum status synthetic_save(struct trainer *t, void *state, struct err *err)
{
    (void)err;
    memcpy(state, &t->steps, sizeof(t->steps));
    return OK;
}

static enum status synthetic_load(struct trainer *t, const void *state, size_t bytes,
                                  struct err *err)
{
    if (bytes != sizeof(t->steps)) {
        return err_set(err, ERR_DATA, "synthetic trainer: a saved state of %zu bytes, wanted %zu",
                       bytes, sizeof(t->steps));
    }
    memcpy(&t->steps, state, sizeof(t->steps));
    return OK;
}

static size_t synthetic_memory_bytes(const struct trainer *t)
{
    return sizeof(*t) + (t->gradient_count + 1) * sizeof(float);
}

const struct trainer_ops trainer_synthetic = {
    .name = "synthetic",
    .open = synthetic_open,
    .step = synthetic_step,
    .evaluate = synthetic_evaluate,
    .state_bytes = synthetic_state_bytes,
    .save = synthetic_save,
    .load = synthetic_load,
    .memory_bytes = synthetic_memory_bytes,
    .close = synthetic_close,
};
