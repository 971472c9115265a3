/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: the real scheduler and the real message codec, with everything around them made up
 * and driven by one seed on a virtual clock. A world has a rank (scheduler, slots, trainer), some
 * producer processes that follow the producer's side of DESIGN.md section 9, and connections
 * between them that are FIFO and lossless until they are cut, as TCP is. Faults come at random for
 * a while and then stop; from then on the run must end within a bounded time.
 *
 * What is checked after every event is listed in sim_check.c. A world that breaks a rule stops
 * there, with a text that says which rule, and when.
 *
 * A failed run prints its seed. All that happened in it:
 *     build-dev/test_sim --trace --seed SEED
 * The same with a rule taken out (names: sched_mutant.h, and below):
 *     build-dev/test_sim --trace --seed SEED --mutant NAME
 * A seed means the same world only in the same version of the simulator.
 */
#ifndef HEADRACE_TESTS_SIM_SIM_H
#define HEADRACE_TESTS_SIM_SIM_H

#include "common/base.h"

/* What a run must have seen in the end: a zero over all seeds is a failure of the simulator. */
/* clang-format off */
#define SIM_COUNTS(X)                                                                              \
    X(worlds) X(worlds_hung) X(worlds_loop) X(worlds_slow) X(worlds_speed) X(worlds_hedge)         \
    X(worlds_starve) X(worlds_rest)                                                                \
    X(cuts) X(crashes) X(power_losses) X(freezes) X(hangs) X(stalls) X(corruptions) X(garbage)     \
    X(nacks) X(hello_repeats) X(resets) X(twins) X(joins) X(leaves) X(strangers) X(send_failures)  \
    X(rank_restarts) X(trainer_stalls) X(reopenings) X(late_fixes) X(hints)                        \
    X(old_pipe_messages) X(rejects) X(duplicates_refused) X(cancels) X(returns)                    \
    X(sessions) X(grants) X(expiries) X(second_leases) X(hedges) X(parts_written)                  \
    X(parts_duplicate) X(parts_late) X(parts_bad) X(full_windows) X(steps_delivered)
/* clang-format on */

struct sim_counts {
#define X(name) uint64_t name;
    SIM_COUNTS(X)
#undef X
};

/* Rules of the producer's side and of the books, which a test may take out. */
/* clang-format off */
#define SIM_MUTANTS(X)                                                                             \
    X(HELLO_ONCE,         "HELLO is repeated until it is answered")                                \
    X(SAME_ATTEMPT,       "the attempt is new each time the producer drops its session")           \
    X(REJECT_OF_ANY,      "a REJECT of another session is ignored")                                \
    X(REJECT_IGNORED,     "a REJECT of its session makes the producer begin anew")                 \
    X(WELCOME_OF_ANY,     "a WELCOME of an older attempt is ignored")                              \
    X(WELCOME_KEEPS_WORK, "a new session begins without the old one's work")                       \
    X(PRODUCER_NO_PING,   "the producer PINGs")                                                    \
    X(PRODUCER_NO_PONG,   "the producer says in PONG what it has finished")                        \
    X(ONE_ACCOUNT,        "the memory budget counts two accounts a producer")
/* clang-format on */

enum sim_mutant {
    SIM_MUTANT_NONE = 0,
#define X(name, rule) SIM_MUTANT_##name,
    SIM_MUTANTS(X)
#undef X
        SIM_MUTANT_END,
};

struct sim_options {
    uint64_t seed;
    uint32_t sched_mutant; /* enum sched_mutant */
    uint32_t sim_mutant;   /* enum sim_mutant */
    bool trace;
};

enum { SIM_TEXT_BYTES = 512 };

/* Runs one world. True: no rule was broken; else text says which one. Adds to *counts. */
bool sim_run(const struct sim_options *options, struct sim_counts *counts,
             char text[SIM_TEXT_BYTES]);

#endif
