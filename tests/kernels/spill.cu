/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kernels for images.py alone: one that cannot do with the registers that its launch bounds
 * leave it, and one whose product and sum a compiler would contract if it might.
 */
extern "C" __global__ void __launch_bounds__(1024, 1) spill(const float *in, float *out)
{
    float held[160];
#pragma unroll
    for (int i = 0; i < 160; i++) {
        held[i] = in[i * 1024 + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 160; i++) {
        out[i * 1024 + threadIdx.x] = held[i] * held[159 - i] + held[(i * 7) % 160];
    }
}

extern "C" __global__ void contract(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x] * in[threadIdx.x + 1] + in[threadIdx.x + 2];
}
