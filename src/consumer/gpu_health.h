/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NVML knows of one GPU: its memory node, and after a failure its Xid and ECC errors. NVML may
 * be missing, and a card or container may not tell: then less is said, and nothing fails.
 */
#ifndef HEADRACE_CONSUMER_GPU_HEALTH_H
#define HEADRACE_CONSUMER_GPU_HEALTH_H

#include "consumer/cuda_api.h"

struct gpu_health {
    const struct nvml *nvml;        /* NULL: nothing is known */
    struct nvmlDevice_st *device;   /* NULL: likewise */
    struct nvmlEventSet_st *events; /* NULL: no Xid is told */
};

/* api is borrowed until gpu_health_close. */
void gpu_health_open(const struct cuda_api *api, const char *pci_id, struct gpu_health *out);
void gpu_health_close(struct gpu_health *health);

/* The nearest memory node; -1: not known. */
int gpu_health_node(const struct gpu_health *health);

/* "; Xid 79; 3 uncorrected ECC errors since the driver was loaded", or "". Waits up to 0.2 s for
 * the Xid of a failure that was just seen. */
void gpu_health_describe(const struct gpu_health *health, char *out, size_t size);

#endif
