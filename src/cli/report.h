/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's report, <base>/output/headrace/report.json on the host of rank 0: what each epoch was
 * like. The train command of rank 0 writes it after every epoch, `local` and whoever wants figures
 * read it:
 *
 *   {"version": 1, "world": 2, "epochs": [{"epoch": 1, "steps": 62, "loss": 0.4, "accuracy": 0.97,
 *     "images_per_s": 812.5, "wait_share": 0.03, "wait_p50_ms": 0.1,
 *     "wait_p99_ms": 2.5, "digest": "0123456789abcdef", "eval_digest": "...", "bad_samples": 0},
 * ...], "stopped": false}
 *
 * After a resume it holds all epochs, those before too, and of the epoch resumed in all steps; only
 * its times (images/s and waiting) are of the run that ended it.
 */
#ifndef HEADRACE_CLI_REPORT_H
#define HEADRACE_CLI_REPORT_H

#include "common/err.h"

struct report_epoch {
    uint32_t epoch;  /* from 1 */
    uint64_t steps;  /* of the train stream; less than planned when the job was stopped in it */
    double loss;     /* mean over the epoch's samples, all ranks */
    bool evaluated;  /* else the next two are not known: null */
    double accuracy; /* on the eval stream, 0 to 1 */
    uint64_t eval_digest;
    double images_per_s;             /* of all ranks, over the epoch's training */
    double wait_share;               /* of the ranks' time spent waiting for data, 0 to 1 */
    double wait_p50_ms, wait_p99_ms; /* of rank 0, for one batch */
    uint64_t digest;                 /* of the train stream, summed over ranks */
    uint64_t bad_samples;
};

struct report {
    uint32_t world;
    bool stopped; /* at a common step, before the last epoch's end */
    uint32_t epoch_count;
    struct report_epoch *epochs; /* owned */
};

/* Replaces the file in one step; makes its folder. ERR_IO. */
MUST_USE enum status report_write(const char *base, const struct report *report, struct err *err);
/* ERR_MISSING: none was written. ERR_DATA. */
MUST_USE enum status report_read(const char *base, struct report *out, struct err *err);
void report_fini(struct report *report);

#endif
