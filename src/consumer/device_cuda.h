/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computing on a GPU that batches are staged on: a stream of its own beside the device's copy
 * stream, and the kernels of kernels/launch.h. Everything below but new, free and the waits of
 * device_ops only queues, in the order of the calls; one thread per stream. The device is one that
 * device_cuda opened. Errors are the device's: the first one of any call breaks it for good, and
 * its text names the work (gpu_stream_work), the call and the kernel.
 */
#ifndef HEADRACE_CONSUMER_DEVICE_CUDA_H
#define HEADRACE_CONSUMER_DEVICE_CUDA_H

#include "consumer/device.h"
#include "consumer/kernel_images.h"
#include "kernels/launch.h"

struct gpu_stream;

/* Loads every kernel of the images for this card. ERR_DEVICE: there is none for it. */
MUST_USE enum status gpu_stream_new(struct device *device, const struct kernel_images *images,
                                    struct gpu_stream **out, struct err *err);
/* What was queued is done (an event recorded last has fired), or the device is broken. */
void gpu_stream_free(struct gpu_stream **stream);

/* What is computed from now on, for errors: "step 12". */
void gpu_stream_work(struct gpu_stream *stream, const char *work);

MUST_USE enum status gpu_launch(struct gpu_stream *stream, struct launch launch, struct err *err);
MUST_USE enum status gpu_zero(struct gpu_stream *stream, void *memory, size_t bytes,
                              struct err *err);
/* Between the device's memory and pinned memory. */
MUST_USE enum status gpu_upload(struct gpu_stream *stream, void *target, const void *pinned,
                                size_t bytes, struct err *err);
MUST_USE enum status gpu_download(struct gpu_stream *stream, void *pinned, const void *source,
                                  size_t bytes, struct err *err);
/* Records behind all that was queued so far. */
MUST_USE enum status gpu_record(struct gpu_stream *stream, struct device_event *event,
                                struct err *err);
/* What is queued from now on begins after the event, as last recorded, has fired. */
MUST_USE enum status gpu_await(struct gpu_stream *stream, const struct device_event *event,
                               struct err *err);

#endif
