/* SPDX-License-Identifier: Apache-2.0 */
/* The JPEG decoder over any bytes. */
#include "fuzz/fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    fuzz_image(bytes, count);
    return 0;
}
