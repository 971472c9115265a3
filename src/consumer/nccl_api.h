/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL as a table of function pointers, filled at run time, like cuda_api.h: types and constants
 * are declared here, and a test compares them with the vendor's headers.
 */
#ifndef HEADRACE_CONSUMER_NCCL_API_H
#define HEADRACE_CONSUMER_NCCL_API_H

#include <limits.h>

#include "common/config.h"
#include "consumer/vendor_library.h"

struct ncclComm;
struct CUstream_st;

enum {
    NCCL_OK = 0,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_USAGE_ERROR = 5,
    NCCL_REMOTE_ERROR = 6, /* a peer is gone, or the network to it */
    NCCL_IN_PROGRESS = 7,

    NCCL_TYPE_BYTE = 1, /* uint8 */
    NCCL_TYPE_INT64 = 4,
    NCCL_TYPE_UINT64 = 5,
    NCCL_TYPE_FLOAT = 7,
    NCCL_TYPE_DOUBLE = 8,

    NCCL_SUM = 0,

    NCCL_ID_BYTES = 128,
    NCCL_CONFIG_UNSET = INT_MIN,
};

struct nccl_unique_id {
    char bytes[NCCL_ID_BYTES];
};

/*
 * The configuration of a communicator as NCCL 2.14 had it. Later versions add members behind it; a
 * NCCL reads `size` bytes, looks at `version` and takes its own defaults for the rest.
 */
struct nccl_config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int unset; /* a later version's first member */
};

#define NCCL_CONFIG_INIT                                                           \
    {                                                                              \
        .size = sizeof(struct nccl_config), .magic = 0xcafebeef, .version = 21400, \
        .blocking = NCCL_CONFIG_UNSET, .unset = NCCL_CONFIG_UNSET,                 \
    }

struct nccl_api {
    struct library_found found;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define NCCL_CALL(result, symbol, parameters) result(*symbol) parameters;
#include "consumer/nccl_calls.def"
};

extern const struct library_want NCCL_WANT;

/* At path, or searched for. ERR_DEVICE: none found, older than 2.14, or not whole. Not logged. */
MUST_USE enum status nccl_open(const char *path, struct nccl_api *out, struct err *err);

/* At the configuration's path, and named in the log. */
MUST_USE enum status nccl_api_open(const struct config *config, struct nccl_api *out,
                                   struct err *err);

#endif
