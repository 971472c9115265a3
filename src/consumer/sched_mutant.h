/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of the scheduler that a test can take out one at a time, to see that the simulator notices.
 * One line each: the name, and the rule that is gone. Production code runs with none of them.
 */
#ifndef HEADRACE_CONSUMER_SCHED_MUTANT_H
#define HEADRACE_CONSUMER_SCHED_MUTANT_H

#define SCHED_MUTANTS(X)                                              \
    X(EXPIRY_CREDITS, "expiry does not credit the session's account") \
    X(NO_EXPIRY, "a lease without progress expires")

enum sched_mutant {
    SCHED_MUTANT_NONE = 0,
#define X(name, rule) SCHED_MUTANT_##name,
    SCHED_MUTANTS(X)
#undef X
        SCHED_MUTANT_END,
};

#endif
