/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every fixed limit of the program in one place, with the reason for its value. What a user may
 * raise is an option in config.def instead.
 */
#ifndef HEADRACE_COMMON_LIMITS_H
#define HEADRACE_COMMON_LIMITS_H

enum {
    NAME_BYTES_MAX = 64,  /* stream, option and tensor names, with the final NUL */
    HOST_BYTES_MAX = 256, /* a host name, with the final NUL (DNS: 253) */
    ADDR_BYTES_MAX = 64,  /* a numeric address without port */
    PATH_BYTES_MAX = 4096,
    TEXT_BYTES_MAX = 512, /* error texts on the wire, with the final NUL */
    HOSTS_MAX = 4096,     /* of one cluster; SageMaker's own limit is far lower */
    RANKS_MAX = 4096,     /* of one job */
    STREAMS_MAX = 8,      /* of one job */
    OPS_MAX = 16,         /* of one pipeline */
    JSON_BYTES_MAX = 1 << 20,
    JSON_DEPTH_MAX = 32,
    PART_BYTES_MAX = 1 << 20,   /* of a batch: reliability of the link and measured optimum */
    PART_ALIGN_BYTES = 64,      /* tensors inside a batch */
    PARTS_MAX = 4096,           /* of one batch: 4 GiB */
    TENSORS_MAX = 8,            /* of one batch */
    IMAGE_PIXELS_MAX = 1 << 26, /* 64 Mpixel, before anything is allocated */
    IMAGE_SIDE_MAX = 65500,     /* libjpeg's own limit */
    JPEG_SCANS_MAX = 100,       /* of a progressive picture; encoders write about ten */
    FILE_BYTES_MAX = 1 << 28,   /* one sample */
    TARGET_SIDE_MAX = 4096,     /* of a crop */
    SUBST_MAX = 64,             /* substitutions named in one DATA message */
    INDEX_BUCKETS = 64,         /* bucket digests of a data set; part of its index's format */
};

#endif
