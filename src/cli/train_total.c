/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank tells all others what it has, one after the other: float sums would lose bits. */
#include "cli/train_total.h"

#include <math.h>

#include "common/clock.h"

#define DEADLINE_NS (300 * NS_PER_S) /* longer than the slowest rank's evaluation and disk */
#define APART_NS    (60 * NS_PER_S)  /* a stop that lasts longer is no good end */
#define LOSS_UNIT   0x1p-20
#define LOSS_MAX    0x1p30 /* of one rank: RANKS_MAX such sums still fit */

enum status train_tell(const struct train_team *team, void *bytes, size_t count, struct err *err)
{
    return team->ops->broadcast(team->coll, bytes, count, 0, clock_now_ns() + DEADLINE_NS, err);
}

enum status train_total_sum(const struct train_team *team, struct train_total *total,
                            struct err *err)
{
    const struct train_total own = *total;
    struct train_total sum = {0};
    for (uint32_t root = 0; root < team->world; root++) {
        struct train_total one = own; /* overwritten unless this is the root */
        TRY(team->ops->broadcast(team->coll, &one, sizeof(one), root, clock_now_ns() + DEADLINE_NS,
                                 err));
        sum.loss += one.loss;
        sum.correct += one.correct;
        sum.samples += one.samples;
        sum.bad_samples += one.bad_samples;
        sum.wait_ns += one.wait_ns;
        sum.digest += one.digest;
    }
    *total = sum;
    return OK;
}

static enum status sum_apart(struct coord_client *coord, const char *name, uint32_t world,
                             uint64_t *value, struct err *err)
{
    return coord_sum(coord, name, world, *value, clock_now_ns() + APART_NS, value, err);
}

/* The coordinator sums whole numbers, modulo 2^64. */
enum status train_total_sum_apart(struct coord_client *coord, uint32_t world,
                                  struct train_total *total, struct err *err)
{
    const double own = fabs(total->loss) < LOSS_MAX ? total->loss : 0; /* no number either */
    uint64_t loss = (uint64_t)llrint(own / LOSS_UNIT);
    TRY(sum_apart(coord, "stop/loss", world, &loss, err));
    total->loss = (double)(int64_t)loss * LOSS_UNIT;
    TRY(sum_apart(coord, "stop/correct", world, &total->correct, err));
    TRY(sum_apart(coord, "stop/samples", world, &total->samples, err));
    TRY(sum_apart(coord, "stop/bad_samples", world, &total->bad_samples, err));
    TRY(sum_apart(coord, "stop/wait_ns", world, &total->wait_ns, err));
    return sum_apart(coord, "stop/digest", world, &total->digest, err);
}
