/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares what cuda_api.h and nccl_api.h declare with the vendor's own headers: it compiles only
 * if every function's type, every constant and every layout agree. Never linked or run; images.py
 * compiles it against each version.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvml.h>

#include "consumer/cuda_api.h"
#include "consumer/nccl_api.h"

#define SAME(ours, theirs) \
    _Static_assert((unsigned long long)(ours) == (unsigned long long)(theirs), #ours " " #theirs)
#define SAME_MEMBER(our_type, our_member, their_type, their_member)           \
    SAME(offsetof(our_type, our_member), offsetof(their_type, their_member)); \
    SAME(sizeof(((our_type *)0)->our_member), sizeof(((their_type *)0)->their_member))

/* ---- functions ---- */

/* In these two the vendor's structs stand for ours, whose layouts are compared below. */
#define cuda_pointer cudaPointerAttributes
#define nvml_event   nvmlEventData_st

void compare_functions(void);
void compare_functions(void)
{
#define COMPARE(result, symbol, parameters)      \
    {                                            \
        result(*const ours) parameters = symbol; \
        (void)ours;                              \
    }
#define CUDA_DRIVER_CALL  COMPARE
#define CUDA_RUNTIME_CALL COMPARE
#define NVML_CALL         COMPARE
#include "consumer/cuda_calls.def"
#define NCCL_CALL              COMPARE
#define ncclGetUniqueId        cast_get_unique_id
#define ncclCommInitRankConfig cast_init_rank_config
    unsigned (*const cast_get_unique_id)(struct nccl_unique_id *) = NULL;
    unsigned (*const cast_init_rank_config)(struct ncclComm **, int, struct nccl_unique_id, int,
                                            struct nccl_config *) = NULL;
#include "consumer/nccl_calls.def"
#undef ncclGetUniqueId
#undef ncclCommInitRankConfig
    /* NCCL's own structs have no tag that all versions share; so these two are written out. */
    unsigned (*const get)(ncclUniqueId *) = ncclGetUniqueId;
    unsigned (*const init)(struct ncclComm **, int, ncclUniqueId, int, ncclConfig_t *) =
        ncclCommInitRankConfig;
    (void)get;
    (void)init;
}

#undef cuda_pointer
#undef nvml_event

/* ---- layouts ---- */

SAME_MEMBER(struct cuda_pointer, kind, struct cudaPointerAttributes, type);
SAME_MEMBER(struct cuda_pointer, device, struct cudaPointerAttributes, device);
SAME_MEMBER(struct cuda_pointer, device_pointer, struct cudaPointerAttributes, devicePointer);
SAME_MEMBER(struct cuda_pointer, host_pointer, struct cudaPointerAttributes, hostPointer);
_Static_assert(sizeof(struct cuda_pointer) >= sizeof(struct cudaPointerAttributes), "room");

SAME(sizeof(struct nvml_event), sizeof(nvmlEventData_t));
SAME_MEMBER(struct nvml_event, device, nvmlEventData_t, device);
SAME_MEMBER(struct nvml_event, kind, nvmlEventData_t, eventType);
SAME_MEMBER(struct nvml_event, data, nvmlEventData_t, eventData);

SAME(sizeof(struct nccl_unique_id), sizeof(ncclUniqueId));
SAME(_Alignof(struct nccl_unique_id), _Alignof(ncclUniqueId));
SAME_MEMBER(struct nccl_config, size, ncclConfig_t, size);
SAME_MEMBER(struct nccl_config, magic, ncclConfig_t, magic);
SAME_MEMBER(struct nccl_config, version, ncclConfig_t, version);
SAME_MEMBER(struct nccl_config, blocking, ncclConfig_t, blocking);
_Static_assert(sizeof(struct nccl_config) <= sizeof(ncclConfig_t), "a prefix");

/* ---- constants ---- */

SAME(CUDA_OK, CUDA_SUCCESS);
SAME(CUDA_OK, cudaSuccess);
SAME(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_OUT_OF_MEMORY, cudaErrorMemoryAllocation);
SAME(CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(CUDA_OLD_DRIVER, cudaErrorInsufficientDriver);
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_NO_DEVICE, cudaErrorNoDevice);
SAME(CUDA_NO_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CUDA_NOT_READY, cudaErrorNotReady);
SAME(CUDA_ATTRIBUTE_MULTIPROCESSORS, cudaDevAttrMultiProcessorCount);
SAME(CUDA_ATTRIBUTE_MAJOR, cudaDevAttrComputeCapabilityMajor);
SAME(CUDA_ATTRIBUTE_MINOR, cudaDevAttrComputeCapabilityMinor);
SAME(CUDA_COPY_TO_DEVICE, cudaMemcpyHostToDevice);
SAME(CUDA_COPY_TO_HOST, cudaMemcpyDeviceToHost);
SAME(CUDA_COPY_ON_DEVICE, cudaMemcpyDeviceToDevice);
SAME(CUDA_STREAM_NON_BLOCKING, cudaStreamNonBlocking);
SAME(CUDA_EVENT_NO_TIMING, cudaEventDisableTiming);
SAME(CUDA_HOST_PORTABLE, cudaHostAllocPortable);
SAME(CUDA_POINTER_UNREGISTERED, cudaMemoryTypeUnregistered);
SAME(CUDA_POINTER_HOST, cudaMemoryTypeHost);
SAME(CUDA_POINTER_DEVICE, cudaMemoryTypeDevice);
SAME(NVML_OK, NVML_SUCCESS);
SAME(NVML_TIMED_OUT, NVML_ERROR_TIMEOUT);
SAME(NVML_ECC_UNCORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
SAME(NVML_ECC_SINCE_BOOT, NVML_VOLATILE_ECC);
SAME(NVML_SCOPE_NODE, NVML_AFFINITY_SCOPE_NODE);
SAME(NVML_EVENT_XID, nvmlEventTypeXidCriticalError);
SAME(NCCL_OK, ncclSuccess);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(NCCL_USAGE_ERROR, ncclInvalidUsage);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_TYPE_BYTE, ncclUint8);
SAME(NCCL_TYPE_INT64, ncclInt64);
SAME(NCCL_TYPE_UINT64, ncclUint64);
SAME(NCCL_TYPE_FLOAT, ncclFloat32);
SAME(NCCL_TYPE_DOUBLE, ncclFloat64);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME(NCCL_CONFIG_UNSET, NCCL_CONFIG_UNDEF_INT);
