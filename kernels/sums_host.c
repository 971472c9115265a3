/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over pictures, one picture after the other. */
#include "kernels/kernels.h"

void sum_pictures_host(const float *parts, size_t pictures, size_t count, float *sum)
{
    for (size_t n = 0; n < pictures; n++) {
        for (size_t i = 0; i < count; i++) {
            sum[i] += parts[n * count + i];
        }
    }
}
