/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main function of a Check program with one suite: every test case runs in a process of its own
 * unless CK_FORK=no. Random tests take their seed from test_seed(), which prints it and obeys
 * HR_SEED.
 */
#ifndef HEADRACE_TESTS_SUPPORT_SUITE_H
#define HEADRACE_TESTS_SUPPORT_SUITE_H

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline int suite_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static inline uint64_t test_seed(void)
{
    const char *text = getenv("HR_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 0)
                                       : (uint64_t)now.tv_sec * 1000000007U + (uint64_t)now.tv_nsec;
    printf("HR_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}

#endif
