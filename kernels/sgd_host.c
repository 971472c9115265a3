/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent with momentum, one parameter after the other. */
#include "kernels/kernels.h"

void sgd_host(const struct sgd *sgd, float *parameters, float *velocity, const float *gradient,
              size_t count)
{
    const float scale = sgd->scale;
    const float momentum = sgd->momentum;
    const float learning_rate = sgd->learning_rate;
    for (size_t i = 0; i < count; i++) {
        velocity[i] = momentum * velocity[i] + gradient[i] * scale;
        parameters[i] -= learning_rate * velocity[i];
    }
}
