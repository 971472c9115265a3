/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of kernels/, compiled for cuda_shim. */
#include "fakes/cuda_shim_device.h"
#include "kernels/product.h"
#include "kernels/tile.h"

/* Each in a namespace of its own, for their helpers are nobody else's. */
namespace file_bias_relu
{
#include "kernels/bias_relu.cu"
}
namespace file_channel_norm
{
#include "kernels/channel_norm.cu"
}
namespace file_conv
{
#include "kernels/conv.cu"
}
namespace file_gemm
{
#include "kernels/gemm.cu"
}
namespace file_mean_pool
{
#include "kernels/mean_pool.cu"
}
namespace file_normalize
{
#include "kernels/normalize.cu"
}
namespace file_sgd
{
#include "kernels/sgd.cu"
}
namespace file_softmax_loss
{
#include "kernels/softmax_loss.cu"
}
namespace file_sums
{
#include "kernels/sums.cu"
}
using namespace file_bias_relu;
using namespace file_channel_norm;
using namespace file_conv;
using namespace file_gemm;
using namespace file_mean_pool;
using namespace file_normalize;
using namespace file_sgd;
using namespace file_softmax_loss;
using namespace file_sums;

extern "C" const struct cuda_shim_kernel CUDA_SHIM_KERNELS[] = {
    CUDA_SHIM_KERNEL(bias_relu, bias_relu),
    CUDA_SHIM_KERNEL(bias_relu, relu_gradient),
    CUDA_SHIM_KERNEL(channel_norm, channel_norm_moments),
    CUDA_SHIM_KERNEL(channel_norm, channel_norm),
    CUDA_SHIM_KERNEL(channel_norm, channel_norm_gradient_means),
    CUDA_SHIM_KERNEL(channel_norm, channel_norm_gradient),
    CUDA_SHIM_KERNEL(conv, conv_16),
    CUDA_SHIM_KERNEL(conv, conv_64),
    CUDA_SHIM_KERNEL(conv, conv_weights_gradient_16),
    CUDA_SHIM_KERNEL(conv, conv_weights_gradient_64),
    CUDA_SHIM_KERNEL(conv, conv_input_gradient_16),
    CUDA_SHIM_KERNEL(conv, conv_input_gradient_64),
    CUDA_SHIM_KERNEL(gemm, gemm_16),
    CUDA_SHIM_KERNEL(gemm, gemm_64),
    CUDA_SHIM_KERNEL(mean_pool, mean_pool_gradient),
    CUDA_SHIM_KERNEL(sgd, sgd),
    CUDA_SHIM_KERNEL(softmax_loss, softmax_loss),
    CUDA_SHIM_KERNEL(sums, channel_sums),
    CUDA_SHIM_KERNEL(sums, sum_pictures),
    CUDA_SHIM_KERNEL(normalize, normalize_f32_nchw),
    CUDA_SHIM_KERNEL(normalize, normalize_f32_nhwc),
    CUDA_SHIM_KERNEL(normalize, normalize_f16_nchw),
    CUDA_SHIM_KERNEL(normalize, normalize_f16_nhwc),
    CUDA_SHIM_KERNEL(normalize, normalize_bf16_nchw),
    CUDA_SHIM_KERNEL(normalize, normalize_bf16_nhwc),
    {nullptr, nullptr, 0, nullptr, nullptr},
};
