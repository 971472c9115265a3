/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to the numbers that a network takes. */
#include "kernels/kernels.h"

void normalize_host(const uint8_t *in, float *out, size_t count, size_t height, size_t width,
                    const float mean[3], const float std[3])
{
    float scale[3], bias[3];
    for (int c = 0; c < 3; c++) {
        scale[c] = (float)(1.0 / (255.0 * std[c]));
        bias[c] = (float)(-(double)mean[c] / std[c]);
    }
    const size_t plane = height * width;
    for (size_t i = 0; i < count; i++) {
        float *restrict red = out + i * 3 * plane;
        float *restrict green = red + plane;
        float *restrict blue = green + plane;
        const uint8_t *restrict pixels = in + i * 3 * plane;
        for (size_t p = 0; p < plane; p++) {
            red[p] = (float)pixels[3 * p] * scale[0] + bias[0];
            green[p] = (float)pixels[3 * p + 1] * scale[1] + bias[1];
            blue[p] = (float)pixels[3 * p + 2] * scale[2] + bias[2];
        }
    }
}
