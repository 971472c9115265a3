/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for property tests: splitmix64, with a seed that is printed and obeys HR_SEED. Not the
 * program's own generator, so that a mistake in that one cannot hide in its tests.
 */
#ifndef HEADRACE_TESTS_SUPPORT_RANDOM_H
#define HEADRACE_TESTS_SUPPORT_RANDOM_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct random_state {
    uint64_t state;
};

static inline uint64_t random_u64(struct random_state *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* min..max, one time in four an end of it: that is where mistakes live. */
static inline uint64_t random_in(struct random_state *random, uint64_t min, uint64_t max)
{
    const uint64_t choice = random_u64(random) % 8;
    if (choice < 2) {
        return choice == 0 ? min : max;
    }
    const uint64_t span = max - min + 1;
    return span == 0 ? random_u64(random) : min + random_u64(random) % span;
}

static inline uint64_t random_seed(void)
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
