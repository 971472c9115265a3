/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of the scheduler that a test can take out one at a time, to see that the simulator notices.
 * One line each: the name, and the rule that is gone. Production code runs with none of them.
 */
#ifndef HEADRACE_CONSUMER_SCHED_MUTANT_H
#define HEADRACE_CONSUMER_SCHED_MUTANT_H

/* clang-format off */
#define SCHED_MUTANTS(X)                                                                           \
    /* sessions: DESIGN.md section 9 */                                                            \
    X(ANY_CONNECTION,     "a session belongs to one connection")                                   \
    X(ANY_JOB,            "a HELLO of another job is refused")                                     \
    X(ANY_FINGERPRINT,    "a HELLO with another decode fingerprint is refused")                    \
    X(ANY_DATA,           "a HELLO with another data set is refused")                              \
    X(REPEAT_IS_NEW,      "an attempt gets one session at most")                                   \
    X(REPEAT_UNANSWERED,  "a repeated HELLO gets the same answer again")                           \
    X(STALE_HELLO,        "a HELLO of an older attempt is dropped")                                \
    X(ATTEMPT_WAITS,      "a new attempt ends the same instance's old session at once")            \
    X(INSTANCE_TAKES_OVER, "another instance is turned away while the first is heard")             \
    X(NO_PING,            "the rank PINGs")                                                        \
    X(NO_REJECT,          "an unknown session is answered by REJECT")                              \
    X(REJECT_UNNAMED,     "REJECT names the session it refuses")                                   \
    X(NO_SILENCE,         "silence ends a session")                                                \
    X(GARBAGE_IGNORED,    "a frame that cannot be read ends the session")                          \
    X(STALLED_ENDED,      "mere lack of progress ends no session")                                 \
    X(DEAD_DATA,          "nothing of an ended session changes state")                             \
    /* parts: sections 9 and 10 */                                                                 \
    X(OVERWRITE,          "a part is written only if its bit is clear")                            \
    X(BIT_FIRST,          "a part's bit is set after its checksum held")                           \
    X(BAD_KEEPS_LEASE,    "a bad part cancels its lease at once")                                  \
    X(LIVE_ONLY,          "parts are accepted from any lease of a live session")                   \
    X(OUTSIDE_WINDOW,     "parts of steps that are not open are dropped")                          \
    /* the account: section 10 */                                                                  \
    X(NO_CHARGE,          "a grant is charged to its session")                                     \
    X(NO_CAP,             "a session's bytes in flight are capped")                                \
    X(BAD_NO_CREDIT,      "a bad part is credited")                                                \
    X(UNWANTED_NO_CREDIT, "a late or double part is credited")                                     \
    X(NACK_NO_CREDIT,     "a NACK is credited")                                                    \
    X(RETURN_NO_CREDIT,   "a RETURN is credited")                                                  \
    X(END_NO_CREDIT,      "the account goes with its session")                                     \
    X(EXPIRY_CREDITS,     "expiry does not credit")                                                \
    /* steps and leases: section 10 */                                                             \
    X(SLOT_NOT_FREE,      "a step enters the window when its slot is free")                        \
    X(SLOT_OF_SESSION,    "the slot belongs to the step, not to whoever makes it")                 \
    X(WINDOW_OF_EPOCH,    "the window crosses the ends of epochs")                                 \
    X(OUT_OF_ORDER,       "steps are delivered in order")                                          \
    X(INCOMPLETE,         "a step is delivered when all its parts are written")                    \
    X(NO_EXPIRY,          "a lease without progress expires")                                      \
    X(NO_SERVICE_TIME,    "the lease time follows the measured service time")                      \
    X(NO_LEASE_MIN,       "a lease lasts a minimum time")                                          \
    X(NO_PATIENCE,        "the lease time grows with every expiry of the step")                    \
    X(PARTS_NO_PROGRESS,  "a part renews the producer's leases")                                   \
    X(SAMPLES_NO_PROGRESS, "finished samples renew the producer's leases")                         \
    X(NO_CANCEL,          "a lease that no longer counts is cancelled (only saves work)")          \
    X(WHOLE_RANGE,        "a second lease asks only for the missing parts' range")                 \
    X(REGRANT_CLEARS,     "parts already in the slot stay")                                        \
    X(THIRD_LEASE,        "a step has at most two live leases")                                    \
    X(SPEED_IGNORED,      "a step goes to the producer that would finish first")                   \
    X(LOCAL_IGNORED,      "among equals the local producer is preferred")                          \
    X(FAILURES_IGNORED,   "producers that failed come last")                                       \
    X(FAILURES_FORGOTTEN, "failures are kept across sessions")                                     \
    X(NEWEST_FAILURE_FIRST, "among those that failed the oldest failure comes first")              \
    X(NO_REST,            "who fails again and again is asked ever more rarely")                   \
    X(HEDGE_LATE,         "a late step gets its second lease early, when hedging")                 \
    X(ATTEMPTS_LIMITED,   "deaths and time-outs never end the job")                                \
    X(NO_STARVE,          "a job that starves fails")                                              \
    X(LEAVE_IGNORED,      "a producer that leaves gets no more grants")                            \
    X(NO_DONE,            "producers are told when the job is over")
/* clang-format on */

enum sched_mutant {
    SCHED_MUTANT_NONE = 0,
#define X(name, rule) SCHED_MUTANT_##name,
    SCHED_MUTANTS(X)
#undef X
        SCHED_MUTANT_END,
};

#endif
