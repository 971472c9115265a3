/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what our own objects allocate: a test that lists alloc_count.c and links with
 * ALLOC_COUNT_LINK (tests/CMakeLists.txt) has malloc, calloc, realloc and their kin pass through
 * here. Allocations inside shared libraries are not ours and are not counted.
 */
#ifndef HEADRACE_TESTS_SUPPORT_ALLOC_COUNT_H
#define HEADRACE_TESTS_SUPPORT_ALLOC_COUNT_H

#include <stdint.h>

/* Allocations since the process began, over all threads. */
uint64_t alloc_count(void);

#endif
