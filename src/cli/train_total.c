/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank tells all others what it has, one after the other: float sums would lose bits. */
#include "cli/train_total.h"

#include "common/clock.h"

#define DEADLINE_NS (300 * NS_PER_S) /* longer than the slowest rank's evaluation and disk */

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
