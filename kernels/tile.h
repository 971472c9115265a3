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
 * them (48 bytes, 3 vectors), and room for those wherever they begin. NORMALIZE_RESIDENT: blocks of
 * a processor that registers must be enough for, which every card takes. */
#define NORMALIZE_THREADS               128
#define NORMALIZE_PIXELS                16
#define NORMALIZE_RESIDENT              8
#define NORMALIZE_SHARED_BYTES(threads) ((threads)*NORMALIZE_PIXELS * 3 + 16)

/* Kernels with a thread for an element, and those with a thread for a long sum: how many in a block
 * (few of the latter, so that there are blocks for every processor), and terms fetched ahead. */
#define ELEMENT_THREADS 256
#define SUM_THREADS     32
#define SUM_AHEAD       16U

/* softmax_loss: threads, with a float and an index each, and two words for all of them. */
#define SOFTMAX_THREADS      128
#define SOFTMAX_SHARED_BYTES (SOFTMAX_THREADS * 8 + 8)

/* The tiled product (product.h): a block makes PRODUCT_ROWS rows of 16 or 64 columns, a thread 4 x
 * 4 of them, and takes PRODUCT_TERMS terms of the sums at a time. Shared: the two operands' tiles,
 * 4 floats longer in each line so that neighbouring lines lie in different banks, and 16 bytes for
 * each row and term. */
#define PRODUCT_ROWS             64U
#define PRODUCT_TERMS            16U
#define PRODUCT_THREADS(columns) ((columns)*4U)
#define PRODUCT_SHARED_BYTES(columns)                            \
    (PRODUCT_TERMS * (PRODUCT_ROWS + 4U + (columns) + 4U) * 4U + \
     (PRODUCT_ROWS + PRODUCT_TERMS) * 16U)

#endif
