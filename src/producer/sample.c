/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample from bytes to pixels: header, geometry, then stage after stage, of which the first
 * reads from the decoder only the pixels that it needs. Knows no format, no operation and no vector
 * instruction.
 */
#include "producer/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "producer/image_ops.h"
#include "producer/op.h"
#include "producer/resize.h"

struct sample_maker {
    struct pipeline pipeline;
    struct image_decoder *decoder;
    struct resizer *resizer;
    struct image_buffer between[2]; /* outputs of stages that are not the last, in turn */
};

/* What of a stage's window shows pixels, and where they come from. */
struct plan {
    bool empty;              /* the window is all black; source is then any pixel */
    struct resize_axis x, y; /* outputs of the scaled picture that show */
    uint32_t out_x, out_y;   /* where they go in the output */
    struct image_rect source;
};

enum status sample_maker_new(const struct pipeline *pipeline, struct sample_maker **out,
                             struct err *err)
{
    struct sample_maker *maker = calloc(1, sizeof(*maker));
    if (maker == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a sample maker");
    }
    maker->pipeline = *pipeline;
    enum cpu_level level = CPU_SCALAR;
    enum status status = cpu_level_get(&level, err);
    if (status == OK) {
        status = image_decoder_new(&maker->decoder, err);
    }
    if (status == OK) {
        status = resizer_new(level, &maker->resizer, err);
    }
    if (status != OK) {
        sample_maker_free(&maker);
        return status;
    }
    *out = maker;
    return OK;
}

void sample_maker_free(struct sample_maker **maker)
{
    if (*maker == NULL) {
        return;
    }
    image_decoder_free(&(*maker)->decoder);
    resizer_free(&(*maker)->resizer);
    free((*maker)->between[0].bytes);
    free((*maker)->between[1].bytes);
    free(*maker);
    *maker = NULL;
}

/* Outputs first..first+count-1 of a side of `scaled` are what shows of a window at `at`. False:
 * none of it does. */
static bool clip(uint32_t in, uint32_t scaled, int64_t at, uint32_t length,
                 struct resize_axis *axis, uint32_t *out_at)
{
    const int64_t begin = at > 0 ? at : 0;
    const int64_t end = at + length < scaled ? at + length : scaled;
    if (begin >= end) {
        return false;
    }
    *axis = (struct resize_axis){in, scaled, (uint32_t)begin, (uint32_t)(end - begin)};
    *out_at = (uint32_t)(begin - at);
    return true;
}

static void source_span(const struct resize_axis *axis, bool resampled, uint32_t crop_at,
                        uint32_t *at, uint32_t *length)
{
    uint32_t first = axis->first;
    *length = axis->count;
    if (resampled) {
        resize_span(axis, &first, length);
    }
    *at = crop_at + first;
}

static void plan_stage(const struct stage *stage, struct plan *plan)
{
    plan->empty = !clip(stage->crop.width, stage->scaled.width, stage->x, stage->width, &plan->x,
                        &plan->out_x) ||
                  !clip(stage->crop.height, stage->scaled.height, stage->y, stage->height, &plan->y,
                        &plan->out_y);
    if (plan->empty) {
        plan->source = (struct image_rect){stage->crop.x, stage->crop.y, 1, 1};
        return;
    }
    if (stage->mirror) {
        plan->out_x = stage->width - plan->out_x - plan->x.count;
    }
    source_span(&plan->x, stage->resampled, stage->crop.x, &plan->source.x, &plan->source.width);
    source_span(&plan->y, stage->resampled, stage->crop.y, &plan->source.y, &plan->source.height);
}

static void copy_mirrored(const uint8_t *pixels, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        memcpy(out + (size_t)3 * (count - 1 - i), pixels + (size_t)3 * i, 3);
    }
}

static void copy_pixels(const struct image_view *view, const struct plan *plan, bool mirror,
                        uint8_t *out, size_t out_stride_bytes)
{
    for (uint32_t y = 0; y < plan->y.count; y++) {
        const uint8_t *row = view->pixels + y * view->stride_bytes;
        if (mirror) {
            copy_mirrored(row, plan->x.count, out + y * out_stride_bytes);
        } else {
            memcpy(out + y * out_stride_bytes, row, (size_t)plan->x.count * 3);
        }
    }
}

/* view: the pixels of plan->source. */
static enum status run_stage(struct sample_maker *maker, const struct stage *stage,
                             const struct plan *plan, const struct image_view *view, uint8_t *out,
                             struct err *err)
{
    const size_t stride_bytes = (size_t)stage->width * 3;
    if (plan->empty || plan->x.count < stage->width || plan->y.count < stage->height) {
        memset(out, 0, stage->height * stride_bytes);
    }
    if (plan->empty) {
        return OK;
    }
    uint8_t *first = out + plan->out_y * stride_bytes + (size_t)plan->out_x * 3;
    if (!stage->resampled) {
        copy_pixels(view, plan, stage->mirror, first, stride_bytes);
        return OK;
    }
    const struct resize_job job = {
        .pixels = view->pixels,
        .stride_bytes = view->stride_bytes,
        .x = plan->x,
        .y = plan->y,
        .mirror = stage->mirror,
        .out = first,
        .out_stride_bytes = stride_bytes,
    };
    return resizer_run(maker->resizer, &job, err);
}

static struct image_view view_at(const uint8_t *pixels, const struct image_size *size,
                                 const struct image_rect *rect)
{
    const size_t stride_bytes = (size_t)size->width * 3;
    return (struct image_view){pixels + rect->y * stride_bytes + (size_t)rect->x * 3, stride_bytes};
}

/* All stages after the first one's source has been decoded. */
static enum status run_stages(struct sample_maker *maker, const struct geometry *geometry,
                              const struct plan *first, const struct image_view *decoded,
                              uint8_t *out, struct err *err)
{
    struct plan plan = *first;
    struct image_view view = *decoded;
    for (uint32_t i = 0; i < geometry->count; i++) {
        const struct stage *stage = &geometry->stages[i];
        if (i + 1 == geometry->count) {
            return run_stage(maker, stage, &plan, &view, out, err);
        }
        struct image_buffer *target = &maker->between[i % 2];
        TRY(image_buffer_reserve(target, stage->height, (size_t)stage->width * 3, err));
        TRY(run_stage(maker, stage, &plan, &view, target->bytes, err));
        plan_stage(&geometry->stages[i + 1], &plan);
        view = view_at(target->bytes, &geometry->stages[i + 1].source, &plan.source);
    }
    return OK;
}

static enum status make(struct sample_maker *maker, const void *bytes, size_t count,
                        const struct rng_at *at, uint8_t *out, struct sample_times *times,
                        struct err *err)
{
    const int64_t begin = clock_now_ns();
    struct image_size size;
    TRY(image_open(maker->decoder, bytes, count, &size, err));
    struct geometry geometry;
    TRY(op_apply_all(&maker->pipeline, at, &size, &geometry, err));
    struct plan plan;
    plan_stage(&geometry.stages[0], &plan);
    struct image_view view;
    TRY(image_read(maker->decoder, &plan.source, &view, err));
    const int64_t decoded = clock_now_ns();
    TRY(run_stages(maker, &geometry, &plan, &view, out, err));
    times->decode_ns = (uint64_t)(decoded - begin);
    times->augment_ns = (uint64_t)(clock_now_ns() - decoded);
    return OK;
}

enum status sample_make(struct sample_maker *maker, const void *bytes, size_t count,
                        const struct rng_at *at, uint8_t *out, struct sample_times *times,
                        struct err *err)
{
    struct sample_times unused;
    const enum status status =
        make(maker, bytes, count, at, out, times != NULL ? times : &unused, err);
    image_close(maker->decoder);
    return status;
}

uint64_t sample_fingerprint(char text[256])
{
    char versions[200];
    image_versions(versions, sizeof(versions));
    const int length = snprintf(text, 256, "headrace " HEADRACE_VERSION ", %s", versions);
    return hash64(text, length > 0 && length < 256 ? (size_t)length : strlen(text));
}
