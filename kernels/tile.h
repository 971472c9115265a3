/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel and its launch must agree on: sizes of tiles. Included by .cu files and by C, so
 * it holds preprocessor lines only, and includes nothing.
 */
#ifndef HEADRACE_KERNELS_TILE_H
#define HEADRACE_KERNELS_TILE_H

/* Memory shared by a block's threads; its size comes with the launch. */
#ifndef SHARED_ARRAY
#define SHARED_ARRAY(type, name) extern __shared__ type name[]
#endif

/* normalize: threads of a block at most, the pixels of a row that it takes at a time for each of
 * them (48 bytes, 3 vectors), and room for those wherever they begin. */
#define NORMALIZE_THREADS               128
#define NORMALIZE_PIXELS                16
#define NORMALIZE_SHARED_BYTES(threads) ((threads)*NORMALIZE_PIXELS * 3 + 16)

#endif
