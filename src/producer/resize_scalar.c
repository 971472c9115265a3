/* SPDX-License-Identifier: Apache-2.0 */
/* The resampler's inner loops in plain C: what every other level must equal byte for byte. */
#include "producer/resize_kernels.h"

static void vertical(const uint8_t *const *rows, const int16_t *weight, uint32_t pairs,
                     uint32_t count, uint32_t shift, int16_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        int32_t sum = 1 << (shift - 1);
        for (uint32_t k = 0; k < 2 * pairs; k++) {
            sum += rows[k][i] * weight[k];
        }
        out[i] = (int16_t)(sum >> shift);
    }
}

static void horizontal(const struct resize_block *block)
{
    const struct resize_weights *weights = block->weights;
    const uint32_t taps = 2 * weights->pairs;
    for (uint32_t i = 0; i < block->count; i++) {
        const uint32_t output = block->first + i;
        const uint32_t column = block->mirror ? block->count - 1 - i : i;
        const int16_t *weight = weights->weight + (size_t)output * taps;
        const uint32_t start = weights->start[output] - block->origin;
        for (uint32_t c = 0; c < 3; c++) {
            int32_t sum = 1 << (block->shift - 1);
            for (uint32_t k = 0; k < taps && start + k < block->columns; k++) {
                sum += block->rows[3 * (start + k) + c] * weight[k];
            }
            const int32_t value = sum >> block->shift;
            block->out[3 * column + c] = (uint8_t)(value > 255 ? 255 : value);
        }
    }
}

const struct resize_kernels resize_scalar = {
    .rows = 1,
    .vertical = vertical,
    .horizontal = horizontal,
};
