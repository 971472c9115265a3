/* SPDX-License-Identifier: Apache-2.0 */
/* The compute stream of a GPU: its kernels by name, and what is queued on it. */
#include "consumer/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "consumer/device_cuda_internal.h"

enum { KERNELS_MAX = 64, WORK_BYTES = 64, CALL_BYTES = 160 };

struct gpu_kernel {
    const char *name; /* static, of a launch */
    struct CUfunc_st *function;
};

struct gpu_stream {
    struct device *device;
    struct CUstream_st *cuda;
    char work[WORK_BYTES];
    uint32_t module_count;
    struct CUmod_st *modules[KERNEL_SOURCES_MAX];
    uint32_t kernel_count; /* those that were launched before */
    struct gpu_kernel kernels[KERNELS_MAX];
};

/* ---- what every call begins and ends with ---- */

struct call {
    char text[CALL_BYTES];
};

/* "cuLaunchKernel of conv_16 in step 12" */
static const char *name_call(const struct gpu_stream *stream, const char *call, const char *kernel,
                             struct call *out)
{
    snprintf(out->text, sizeof(out->text), "%s%s%s%s%s", call, kernel == NULL ? "" : " of ",
             kernel == NULL ? "" : kernel, stream->work[0] == '\0' ? "" : " in ", stream->work);
    return out->text;
}

static enum status enter(struct gpu_stream *stream, const char *call, const char *kernel,
                         struct err *err)
{
    struct call text;
    return device_cuda_enter(stream->device, name_call(stream, call, kernel, &text), err);
}

static enum status check(struct gpu_stream *stream, const char *call, const char *kernel,
                         unsigned error, struct err *err)
{
    struct call text;
    return error == CUDA_OK ? OK
                            : device_cuda_check(stream->device,
                                                name_call(stream, call, kernel, &text), error, err);
}

/* ---- opening ---- */

static enum status load(struct gpu_stream *stream, const struct kernel_images *images,
                        struct err *err)
{
    const struct device *device = stream->device;
    struct kernel_choice choice;
    TRY(kernel_images_choose(images, device->major, device->minor, &choice, err));
    for (uint32_t i = 0; i < choice.count; i++) {
        const struct kernel_image *image = choice.images[i];
        struct CUmod_st *module = NULL;
        TRY(enter(stream, "cuModuleLoadData", image->source, err));
        TRY(check(stream, "cuModuleLoadData", image->source,
                  device->api.driver.cuModuleLoadData(&module, image->begin), err));
        stream->modules[stream->module_count++] = module;
    }
    return OK;
}

static enum status set_up(struct gpu_stream *stream, const struct kernel_images *images,
                          struct err *err)
{
    static const char call[] = "cudaStreamCreateWithPriority";
    struct device *device = stream->device;
    TRY(load(stream, images, err));
    TRY(enter(stream, call, NULL, err));
    return check(stream, call, NULL,
                 device->api.runtime.cudaStreamCreateWithPriority(&stream->cuda,
                                                                  CUDA_STREAM_NON_BLOCKING, 0),
                 err);
}

enum status gpu_stream_new(struct device *device, const struct kernel_images *images,
                           struct gpu_stream **out, struct err *err)
{
    struct gpu_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return err_errno(err, ERR_RESOURCE, "kernels of %s", device->label);
    }
    stream->device = device;
    const enum status status = set_up(stream, images, err);
    if (status != OK) {
        gpu_stream_free(&stream);
        return status;
    }
    *out = stream;
    return OK;
}

/* A broken device is left alone. */
static enum status tear_down(struct gpu_stream *stream, struct err *err)
{
    const struct cuda_api *api = &stream->device->api;
    if (stream->cuda != NULL) {
        TRY(enter(stream, "cudaStreamDestroy", NULL, err));
        TRY(check(stream, "cudaStreamDestroy", NULL, api->runtime.cudaStreamDestroy(stream->cuda),
                  err));
    }
    for (uint32_t i = 0; i < stream->module_count; i++) {
        TRY(enter(stream, "cuModuleUnload", NULL, err));
        TRY(check(stream, "cuModuleUnload", NULL, api->driver.cuModuleUnload(stream->modules[i]),
                  err));
    }
    return OK;
}

void gpu_stream_free(struct gpu_stream **stream)
{
    struct err err = {0};
    if (*stream == NULL) {
        return;
    }
    if (tear_down(*stream, &err) != OK) {
        log_debug("%s", err.message);
    }
    free(*stream);
    *stream = NULL;
}

void gpu_stream_work(struct gpu_stream *stream, const char *work)
{
    snprintf(stream->work, sizeof(stream->work), "%s", work);
}

/* ---- kernels ---- */

/* Which module has it, the driver knows; it is asked once. */
static enum status look_up(struct gpu_stream *stream, const char *name, struct CUfunc_st **out,
                           struct err *err)
{
    static const char call[] = "cuModuleGetFunction";
    unsigned error = CUDA_NOT_FOUND;
    for (uint32_t i = 0; i < stream->module_count && error == CUDA_NOT_FOUND; i++) {
        TRY(enter(stream, call, name, err));
        error = stream->device->api.driver.cuModuleGetFunction(out, stream->modules[i], name);
    }
    return check(stream, call, name, error, err);
}

static enum status find(struct gpu_stream *stream, const char *name, struct CUfunc_st **out,
                        struct err *err)
{
    for (uint32_t i = 0; i < stream->kernel_count; i++) {
        if (strcmp(stream->kernels[i].name, name) == 0) {
            *out = stream->kernels[i].function;
            return OK;
        }
    }
    TRY(look_up(stream, name, out, err));
    CHECK(stream->kernel_count < KERNELS_MAX);
    stream->kernels[stream->kernel_count++] = (struct gpu_kernel){.name = name, .function = *out};
    return OK;
}

enum status gpu_launch(struct gpu_stream *stream, struct launch launch, struct err *err)
{
    static const char call[] = "cuLaunchKernel";
    void *params[LAUNCH_PARAMS_MAX];
    struct CUfunc_st *function = NULL;
    if (launch.empty) {
        return OK;
    }
    TRY(find(stream, launch.kernel, &function, err));
    launch_params(&launch, params);
    TRY(enter(stream, call, launch.kernel, err));
    return check(stream, call, launch.kernel,
                 stream->device->api.driver.cuLaunchKernel(
                     function, launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0],
                     launch.block[1], launch.block[2], launch.shared_bytes, stream->cuda, params,
                     NULL),
                 err);
}

/* ---- memory and events ---- */

enum status gpu_zero(struct gpu_stream *stream, void *memory, size_t bytes, struct err *err)
{
    TRY(enter(stream, "cudaMemsetAsync", NULL, err));
    return check(stream, "cudaMemsetAsync", NULL,
                 stream->device->api.runtime.cudaMemsetAsync(memory, 0, bytes, stream->cuda), err);
}

static enum status copy(struct gpu_stream *stream, void *target, const void *source, size_t bytes,
                        unsigned kind, struct err *err)
{
    TRY(enter(stream, "cudaMemcpyAsync", NULL, err));
    return check(
        stream, "cudaMemcpyAsync", NULL,
        stream->device->api.runtime.cudaMemcpyAsync(target, source, bytes, kind, stream->cuda),
        err);
}

enum status gpu_upload(struct gpu_stream *stream, void *target, const void *pinned, size_t bytes,
                       struct err *err)
{
    return copy(stream, target, pinned, bytes, CUDA_COPY_TO_DEVICE, err);
}

enum status gpu_download(struct gpu_stream *stream, void *pinned, const void *source, size_t bytes,
                         struct err *err)
{
    return copy(stream, pinned, source, bytes, CUDA_COPY_TO_HOST, err);
}

enum status gpu_record(struct gpu_stream *stream, struct device_event *event, struct err *err)
{
    TRY(enter(stream, "cudaEventRecord", NULL, err));
    return check(stream, "cudaEventRecord", NULL,
                 stream->device->api.runtime.cudaEventRecord(event->cuda, stream->cuda), err);
}

enum status gpu_await(struct gpu_stream *stream, const struct device_event *event, struct err *err)
{
    TRY(enter(stream, "cudaStreamWaitEvent", NULL, err));
    return check(stream, "cudaStreamWaitEvent", NULL,
                 stream->device->api.runtime.cudaStreamWaitEvent(stream->cuda, event->cuda, 0),
                 err);
}
