/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled kernels, embedded in the binary: of every kernels/<source>.cu a cubin for each
 * architecture and PTX of the last one, made by cmake/kernel_images.cmake. A cubin runs on its own
 * major architecture, at its own or a later minor one; PTX is compiled by the driver for whatever
 * comes later.
 */
#ifndef HEADRACE_CONSUMER_KERNEL_IMAGES_H
#define HEADRACE_CONSUMER_KERNEL_IMAGES_H

#include "common/err.h"

enum { KERNEL_SOURCES_MAX = 32 };

/* [begin, end) is what cuModuleLoadData takes; PTX ends with a NUL inside. */
struct kernel_image {
    const char *source;    /* "normalize" of kernels/normalize.cu; NULL ends a table */
    uint32_t architecture; /* 10 * major + minor */
    bool is_ptx;
    const uint8_t *begin, *end;
};

struct kernel_images {
    const char *compiler;              /* "NVRTC 12.9"; "": built without */
    const struct kernel_image *images; /* all of a source side by side */
};

/* What this binary holds. */
extern const struct kernel_images KERNEL_IMAGES;

/* One image of every source. */
struct kernel_choice {
    uint32_t count;
    const struct kernel_image *images[KERNEL_SOURCES_MAX];
};

/*
 * The best image of every source for a card: the cubin of its major architecture with the highest
 * minor one that it has, else PTX that it understands. ERR_DEVICE: there is none, and what would
 * help.
 */
MUST_USE enum status kernel_images_choose(const struct kernel_images *images, int major, int minor,
                                          struct kernel_choice *out, struct err *err);

/* "NVRTC 12.9, sm_70 sm_75 compute_120" (of the first source), or what to build. */
void kernel_images_describe(const struct kernel_images *images, char *out, size_t size);

#endif
