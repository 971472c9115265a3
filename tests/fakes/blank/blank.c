/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blank: a shared library with every function that one of the vendor's has for us, which do
 * nothing, succeed and tell the version BLANK_VERSION. For the search for libraries only. Compiled
 * once per library (BLANK_DRIVER, BLANK_RUNTIME, BLANK_NVML, BLANK_NCCL).
 */
#include <stdio.h>

#include "consumer/cuda_api.h"
#include "consumer/nccl_api.h"

#define EXPORT __attribute__((visibility("default")))

#define BLANK(result, symbol, parameters) \
    EXPORT result symbol parameters;      \
    EXPORT result symbol parameters       \
    {                                     \
        return 0;                         \
    }

/* The few that say something have another name in the list. */
#ifdef BLANK_DRIVER
#define cuDriverGetVersion said_version
#define cuDeviceGetName    said_name
#define CUDA_DRIVER_CALL   BLANK
#include "consumer/cuda_calls.def"
#undef cuDriverGetVersion
#undef cuDeviceGetName

EXPORT unsigned cuDriverGetVersion(int *version);
EXPORT unsigned cuDriverGetVersion(int *version)
{
    *version = BLANK_VERSION;
    return CUDA_OK;
}

EXPORT unsigned cuDeviceGetName(char *name, int size, int device);
EXPORT unsigned cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "blank card");
    return CUDA_OK;
}
#endif

#ifdef BLANK_RUNTIME
#define cudaRuntimeGetVersion  said_version
#define cudaGetDeviceCount     said_count
#define cudaDeviceGetAttribute said_attribute
#define cudaDeviceGetPCIBusId  said_id
#define CUDA_RUNTIME_CALL      BLANK
#include "consumer/cuda_calls.def"
#undef cudaRuntimeGetVersion
#undef cudaGetDeviceCount
#undef cudaDeviceGetAttribute
#undef cudaDeviceGetPCIBusId

EXPORT unsigned cudaRuntimeGetVersion(int *version);
EXPORT unsigned cudaRuntimeGetVersion(int *version)
{
    *version = BLANK_VERSION;
    return CUDA_OK;
}

EXPORT unsigned cudaGetDeviceCount(int *count);
EXPORT unsigned cudaGetDeviceCount(int *count)
{
    *count = 2;
    return CUDA_OK;
}

EXPORT unsigned cudaDeviceGetAttribute(int *value, unsigned attribute, int device);
EXPORT unsigned cudaDeviceGetAttribute(int *value, unsigned attribute, int device)
{
    *value = attribute == CUDA_ATTRIBUTE_MAJOR ? 7 : 0;
    return CUDA_OK;
}

EXPORT unsigned cudaDeviceGetPCIBusId(char *id, int size, int device);
EXPORT unsigned cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    snprintf(id, (size_t)size, "0000:00:1%d.0", device);
    return CUDA_OK;
}
#endif

#ifdef BLANK_NVML
#define nvmlSystemGetDriverVersion said_version
#define NVML_CALL                  BLANK
#include "consumer/cuda_calls.def"
#undef nvmlSystemGetDriverVersion

EXPORT unsigned nvmlSystemGetDriverVersion(char *version, unsigned size);
EXPORT unsigned nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    snprintf(version, size, "%d.1", BLANK_VERSION);
    return NVML_OK;
}
#endif

#ifdef BLANK_NCCL
#define ncclGetVersion said_version
#define NCCL_CALL      BLANK
#include "consumer/nccl_calls.def"
#undef ncclGetVersion

EXPORT unsigned ncclGetVersion(int *version);
EXPORT unsigned ncclGetVersion(int *version)
{
    *version = BLANK_VERSION;
    return NCCL_OK;
}
#endif
