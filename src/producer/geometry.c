/* SPDX-License-Identifier: Apache-2.0 */
/* Folding of crops, resampling and mirroring into stages; see geometry.h for what a stage is. */
#include "producer/geometry.h"

#include <inttypes.h>

static struct stage *last(struct geometry *geometry)
{
    return &geometry->stages[geometry->count - 1];
}

static void push(struct geometry *geometry, const struct image_size *source)
{
    CHECK(geometry->count < ARRAY_LEN(geometry->stages));
    geometry->stages[geometry->count++] = (struct stage){
        .source = *source,
        .crop = {0, 0, source->width, source->height},
        .scaled = *source,
        .width = source->width,
        .height = source->height,
    };
}

void geometry_init(struct geometry *geometry, const struct image_size *picture)
{
    geometry->count = 0;
    push(geometry, picture);
}

struct image_size geometry_size(const struct geometry *geometry)
{
    const struct stage *stage = &geometry->stages[geometry->count - 1];
    return (struct image_size){stage->width, stage->height};
}

/* Whether the window lies inside the scaled picture, so that it holds no black. */
static bool is_inside(const struct stage *stage)
{
    return stage->x >= 0 && stage->y >= 0 && stage->x + stage->width <= stage->scaled.width &&
           stage->y + stage->height <= stage->scaled.height;
}

static bool is_everything(const struct stage *stage)
{
    return stage->x <= 0 && stage->y <= 0 && stage->x + stage->width >= stage->scaled.width &&
           stage->y + stage->height >= stage->scaled.height;
}

void geometry_crop(struct geometry *geometry, int64_t x, int64_t y, const struct image_size *size)
{
    const struct image_size before = geometry_size(geometry);
    const bool grows =
        x < 0 || y < 0 || x + size->width > before.width || y + size->height > before.height;
    /* A window that grows again must not show what an earlier crop took away. */
    if (grows && !is_everything(last(geometry))) {
        push(geometry, &before);
    }
    struct stage *stage = last(geometry);
    stage->x += stage->mirror ? (int64_t)stage->width - x - size->width : x;
    stage->y += y;
    stage->width = size->width;
    stage->height = size->height;
}

enum status geometry_resize(struct geometry *geometry, const struct image_size *size,
                            struct err *err)
{
    const struct image_size before = geometry_size(geometry);
    if (size->width > IMAGE_SIDE_MAX || size->height > IMAGE_SIDE_MAX ||
        (uint64_t)size->width * size->height > IMAGE_PIXELS_MAX) {
        return err_set(err, ERR_DATA,
                       "a picture of %" PRIu32 "x%" PRIu32 " would be resized to %" PRIu32
                       "x%" PRIu32 "; at most %d on a side and %d in all are allowed",
                       before.width, before.height, size->width, size->height, (int)IMAGE_SIDE_MAX,
                       (int)IMAGE_PIXELS_MAX);
    }
    if (last(geometry)->resampled || !is_inside(last(geometry))) {
        push(geometry, &before);
    }
    struct stage *stage = last(geometry);
    stage->crop =
        (struct image_rect){(uint32_t)stage->x, (uint32_t)stage->y, stage->width, stage->height};
    stage->resampled = true;
    stage->scaled = *size;
    stage->x = 0;
    stage->y = 0;
    stage->width = size->width;
    stage->height = size->height;
    return OK;
}

void geometry_mirror(struct geometry *geometry)
{
    struct stage *stage = last(geometry);
    stage->mirror = !stage->mirror;
}
