/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzz target defines: libFuzzer's entry point. It returns 0 for every input, and aborts
 * where the code under test is wrong.
 */
#ifndef HEADRACE_TESTS_FUZZ_FUZZ_H
#define HEADRACE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#endif
