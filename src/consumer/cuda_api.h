/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's driver and runtime (12 or 13) and NVML as tables of function pointers, filled at run time
 * (vendor_library.h has the search). The few types and constants that their functions take are
 * declared here, so that nothing of the vendor's is needed to build; a test compares them with the
 * vendor's headers. A table is a plain struct: a fake library fits behind it by its path, a test
 * may also fill one itself.
 */
#ifndef HEADRACE_CONSUMER_CUDA_API_H
#define HEADRACE_CONSUMER_CUDA_API_H

#include "common/config.h"
#include "consumer/vendor_library.h"

/* The vendor's own objects, under the vendor's tags. */
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct nvmlDevice_st;
struct nvmlEventSet_st;

enum {
    /* What the driver's and the runtime's functions return: the same numbers. */
    CUDA_OK = 0,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_STUB_LIBRARY = 34, /* the toolkit's, to link with where there is no driver */
    CUDA_OLD_DRIVER = 35,
    CUDA_NO_DEVICE = 100,
    CUDA_NO_IMAGE = 209,  /* none for this card */
    CUDA_NOT_FOUND = 500, /* no function of that name */
    CUDA_NOT_READY = 600,

    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_MAJOR = 75, /* of the architecture: sm_<major><minor> */
    CUDA_ATTRIBUTE_MINOR = 76,

    CUDA_COPY_TO_DEVICE = 1,
    CUDA_COPY_TO_HOST = 2,
    CUDA_COPY_ON_DEVICE = 3,

    CUDA_STREAM_NON_BLOCKING = 1, /* never waits for the default stream */
    CUDA_EVENT_NO_TIMING = 2,
    CUDA_HOST_PORTABLE = 1, /* pinned for every context */

    CUDA_POINTER_UNREGISTERED = 0,
    CUDA_POINTER_HOST = 1,
    CUDA_POINTER_DEVICE = 2,

    CUDA_PCI_ID_BYTES = 32, /* "0000:3b:00.0" */
    CUDA_NAME_BYTES = 96,

    NVML_OK = 0,
    NVML_TIMED_OUT = 10,
    NVML_ECC_UNCORRECTED = 1,
    NVML_ECC_SINCE_BOOT = 0, /* the driver's last load */
    NVML_SCOPE_NODE = 0,
    NVML_EVENT_XID = 8,
};

/* struct cudaPointerAttributes, with room for what runtime 13 adds. */
struct cuda_pointer {
    unsigned kind; /* CUDA_POINTER_... */
    int device;
    void *device_pointer;
    void *host_pointer;
    uint64_t more[8];
};

/* nvmlEventData_t. */
struct nvml_event {
    struct nvmlDevice_st *device;
    unsigned long long kind;
    unsigned long long data; /* NVML_EVENT_XID: the Xid */
    unsigned gpu_instance;
    unsigned compute_instance;
};

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define CUDA_MEMBER_(result, symbol, parameters) result(*symbol) parameters;

struct cuda_driver {
    struct library_found found;
#define CUDA_DRIVER_CALL CUDA_MEMBER_
#include "consumer/cuda_calls.def"
};

struct cuda_runtime {
    struct library_found found;
    int driver_version; /* of the driver that it is to work with; 0: any */
#define CUDA_RUNTIME_CALL CUDA_MEMBER_
#include "consumer/cuda_calls.def"
};

struct nvml {
    struct library_found found;
#define NVML_CALL CUDA_MEMBER_
#include "consumer/cuda_calls.def"
};

#undef CUDA_MEMBER_

struct cuda_api {
    struct cuda_driver driver;
    struct cuda_runtime runtime;
    bool has_nvml; /* without it, errors say less */
    struct nvml nvml;
};

extern const struct library_want CUDA_DRIVER_WANT;
extern const struct library_want CUDA_RUNTIME_WANT;
extern const struct library_want NVML_WANT;

/*
 * Each opens one library: at path (NULL, "": searched for). ERR_DEVICE: none found, or too old, or
 * not whole; the message names it and says what to install. No device is touched; nvml_open
 * initialises NVML. *out is written on success only. A runtime of a later generation than the
 * driver (NULL: not known) does not fit it.
 */
MUST_USE enum status cuda_driver_open(const char *path, struct cuda_driver *out, struct err *err);
MUST_USE enum status cuda_runtime_open(const char *path, const struct cuda_driver *driver,
                                       struct cuda_runtime *out, struct err *err);
MUST_USE enum status nvml_open(const char *path, struct nvml *out, struct err *err);

/*
 * All three at the configuration's paths, each named in the log; driver and runtime have to be
 * there and to fit, and the driver is initialised. ERR_DEVICE as above, or the driver's own error.
 */
MUST_USE enum status cuda_api_open(const struct config *config, struct cuda_api *out,
                                   struct err *err);

/*
 * Is there a GPU that this process can see, by the driver alone? false: no driver, or no GPU; *why
 * says which. ERR_DEVICE: there is a driver, but it is of no use.
 */
MUST_USE enum status cuda_is_there(const struct config *config, bool *out, struct err *why);

/* An error of a call, for people: ERR_DEVICE, "cudaMalloc: cudaErrorMemoryAllocation (out of
 * memory)"; likewise for the driver's. */
enum status cuda_runtime_error(const struct cuda_runtime *runtime, const char *call, unsigned error,
                               struct err *err);
enum status cuda_driver_error(const struct cuda_driver *driver, const char *call, unsigned error,
                              struct err *err);

#endif
