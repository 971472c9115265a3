/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of NVML is optional: the first that fails ends the question. */
#include "consumer/gpu_health.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"

enum { XID_WAIT_MS = 200, NODE_WORDS = 16, WORD_BITS = 8 * sizeof(unsigned long) };

static void listen_for_xids(struct gpu_health *health)
{
    const struct nvml *nvml = health->nvml;
    if (nvml->nvmlEventSetCreate(&health->events) != NVML_OK) {
        health->events = NULL;
        return;
    }
    const unsigned error =
        nvml->nvmlDeviceRegisterEvents(health->device, NVML_EVENT_XID, health->events);
    if (error != NVML_OK) {
        log_debug("NVML: no Xids: %s", nvml->nvmlErrorString(error));
        (void)nvml->nvmlEventSetFree(health->events);
        health->events = NULL;
    }
}

void gpu_health_open(const struct cuda_api *api, const char *pci_id, struct gpu_health *out)
{
    *out = (struct gpu_health){0};
    if (!api->has_nvml) {
        return;
    }
    out->nvml = &api->nvml;
    const unsigned error = api->nvml.nvmlDeviceGetHandleByPciBusId_v2(pci_id, &out->device);
    if (error != NVML_OK) {
        log_warn("NVML does not know the GPU at %s: %s", pci_id, api->nvml.nvmlErrorString(error));
        out->device = NULL;
        return;
    }
    listen_for_xids(out);
}

void gpu_health_close(struct gpu_health *health)
{
    if (health->events != NULL) {
        (void)health->nvml->nvmlEventSetFree(health->events);
    }
    if (health->nvml != NULL) {
        (void)health->nvml->nvmlShutdown();
    }
    *health = (struct gpu_health){0};
}

int gpu_health_node(const struct gpu_health *health)
{
    unsigned long nodes[NODE_WORDS] = {0};
    if (health->device == NULL ||
        health->nvml->nvmlDeviceGetMemoryAffinity(health->device, NODE_WORDS, nodes,
                                                  NVML_SCOPE_NODE) != NVML_OK) {
        return -1;
    }
    for (int node = 0; node < NODE_WORDS * WORD_BITS; node++) {
        if ((nodes[node / WORD_BITS] >> (node % WORD_BITS) & 1) != 0) {
            return node;
        }
    }
    return -1;
}

static void add_xid(const struct gpu_health *health, char *out, size_t size)
{
    struct nvml_event event = {0};
    if (health->events != NULL &&
        health->nvml->nvmlEventSetWait_v2(health->events, &event, XID_WAIT_MS) == NVML_OK &&
        event.kind == NVML_EVENT_XID) {
        snprintf(out, size, "; Xid %llu", event.data);
    }
}

static void add_ecc(const struct gpu_health *health, char *out, size_t size)
{
    unsigned long long count = 0;
    if (health->device != NULL &&
        health->nvml->nvmlDeviceGetTotalEccErrors(health->device, NVML_ECC_UNCORRECTED,
                                                  NVML_ECC_SINCE_BOOT, &count) == NVML_OK) {
        snprintf(out, size, "; %llu uncorrected ECC errors since the driver was loaded", count);
    }
}

void gpu_health_describe(const struct gpu_health *health, char *out, size_t size)
{
    out[0] = '\0';
    add_xid(health, out, size);
    const size_t length = strlen(out);
    add_ecc(health, out + length, size - length);
}
