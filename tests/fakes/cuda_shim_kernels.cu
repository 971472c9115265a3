/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of kernels/, compiled for cuda_shim. */
#include "fakes/cuda_shim_device.h"
#include "kernels/tile.h"

/* Each in a namespace of its own, for their helpers are nobody else's. */
namespace file_normalize
{
#include "kernels/normalize.cu"
}
using namespace file_normalize;

extern "C" const struct cuda_shim_kernel CUDA_SHIM_KERNELS[] = {
    CUDA_SHIM_KERNEL(normalize_f32_nchw),
    CUDA_SHIM_KERNEL(normalize_f32_nhwc),
    CUDA_SHIM_KERNEL(normalize_f16_nchw),
    CUDA_SHIM_KERNEL(normalize_f16_nhwc),
    CUDA_SHIM_KERNEL(normalize_bf16_nchw),
    CUDA_SHIM_KERNEL(normalize_bf16_nhwc),
    {nullptr, 0, nullptr},
};
