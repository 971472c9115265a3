/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the CUDA device share: the opened device and how its errors are told. */
#ifndef HEADRACE_CONSUMER_DEVICE_CUDA_INTERNAL_H
#define HEADRACE_CONSUMER_DEVICE_CUDA_INTERNAL_H

#include <pthread.h>

#include "consumer/device.h"
#include "consumer/gpu_health.h"

enum { DEVICE_LABEL_BYTES = 64 };

enum health_state { WORKING, FAILING /* its text is being made */, BROKEN };

struct device_event {
    struct CUevent_st *cuda;
    struct device_event *next;
};

struct device {
    struct cuda_api api;
    struct gpu_health health;
    int ordinal;
    int major, minor; /* of its architecture */
    char label[DEVICE_LABEL_BYTES];
    int node;           /* whose memory is near; -1: not known */
    bool checks_memory; /* before each copy; costs a call or two */
    struct CUstream_st *copies;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t told;   /* BROKEN */
    enum health_state state;
    struct err failure; /* BROKEN: what every call fails with */
    uint32_t memories;  /* allocated */
    struct device_event *events;
};

/* Before every call of CUDA's: which device is meant is a thread's own setting. ERR_DEVICE, with
 * the first failure's text: the device is broken, and CUDA may not be called. */
MUST_USE enum status device_cuda_enter(struct device *device, const char *call, struct err *err);
/* After it, with what it returned: an error breaks the device. call: in words, for people. */
MUST_USE enum status device_cuda_check(struct device *device, const char *call, unsigned error,
                                       struct err *err);

#endif
