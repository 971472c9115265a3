/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main function of a Check program with one suite: every test case runs in a process of its own
 * unless CK_FORK=no. Random tests take their seed from test_seed(), which prints it and obeys
 * HR_SEED.
 */
#ifndef HEADRACE_TESTS_SUPPORT_SUITE_H
#define HEADRACE_TESTS_SUPPORT_SUITE_H

#include <check.h>

#include "support/random.h"

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
    return random_seed();
}

#endif
