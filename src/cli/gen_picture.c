/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws come in one fixed order: format, scene, object. Whoever adds one puts it at the end, or
 * changes GEN_VERSION in gen_folder.c.
 */
#include "cli/gen_picture.h"

#include "cli/gen_class.h"
#include "common/rng.h"

/* ---- draws ---- */

struct draws {
    struct rng_at at;
    uint32_t next;
};

static double draw_between(struct draws *d, double low, double high)
{
    return low + rng_uniform(&d->at, 0, d->next++) * (high - low);
}

static uint32_t draw_below(struct draws *d, uint32_t n)
{
    return rng_below(&d->at, 0, d->next++, n);
}

struct direction {
    double x, y;
};

/* A unit vector: (1 - t^2, 2t) / (1 + t^2) turns by up to a right angle either way, the sign does
 * the rest. Not quite even over the circle, which nobody needs. */
static struct direction draw_direction(struct draws *d)
{
    const double t = draw_between(d, -1, 1);
    const double length = draw_below(d, 2) == 0 ? 1 + t * t : -1 - t * t;
    return (struct direction){.x = (1 - t * t) / length, .y = 2 * t / length};
}

struct color {
    int32_t channel[3];
};

static struct color draw_color(struct draws *d)
{
    struct color color;
    for (int c = 0; c < 3; c++) {
        color.channel[c] = (int32_t)draw_below(d, 216) + 20;
    }
    return color;
}

static int32_t brightness(const struct color *color)
{
    return (77 * color->channel[0] + 150 * color->channel[1] + 29 * color->channel[2]) / 256;
}

static struct noise_walk draw_walk(struct draws *d, const uint8_t *tile, double low, double high)
{
    const struct direction direction = draw_direction(d);
    const double scale = draw_between(d, low, high) * 65536;
    return (struct noise_walk){
        .tile = tile,
        .x = draw_below(d, NOISE_SIDE) << 16,
        .y = draw_below(d, NOISE_SIDE) << 16,
        .step_x = (uint32_t)(int32_t)(direction.x * scale),
        .step_y = (uint32_t)(int32_t)(direction.y * scale),
    };
}

/* ---- the scene ---- */

struct scene {
    uint32_t width, height;
    struct color ground[2];
    struct noise_walk clouds, rough, grain;
    int32_t rough_strength, grain_strength;
    int32_t light_x, light_y; /* how much brighter a pixel is than its neighbour, 16.16 */
};

static void draw_format(struct draws *d, struct gen_format *format)
{
    const uint32_t longer = 400 + draw_below(d, GEN_SIDE_MAX - 400 + 1);
    const uint32_t shorter = longer * (66 + draw_below(d, 19)) / 100;
    const bool upright = draw_below(d, 4) == 0;
    const uint32_t chroma = draw_below(d, 32);
    format->width = upright ? shorter : longer;
    format->height = upright ? longer : shorter;
    format->chroma = chroma < 20   ? GEN_CHROMA_420
                     : chroma < 23 ? GEN_CHROMA_422
                     : chroma < 31 ? GEN_CHROMA_444
                                   : GEN_CHROMA_GRAY;
    format->quality = 70 + (int)draw_below(d, 27);
    format->progressive = draw_below(d, 32) == 0;
}

static void draw_scene(struct draws *d, const struct noise *noise, const struct gen_format *format,
                       struct scene *scene)
{
    scene->width = format->width;
    scene->height = format->height;
    scene->clouds = draw_walk(d, noise->clouds, 0.4, 1.6);
    scene->rough = draw_walk(d, noise->rough, 0.5, 1.2);
    scene->grain = draw_walk(d, noise->grain, 1, 1);
    scene->ground[0] = draw_color(d);
    scene->ground[1] = draw_color(d);
    scene->rough_strength = (int32_t)draw_below(d, 16);
    scene->grain_strength = (int32_t)draw_below(d, 20) + 8;
    scene->light_x = (int32_t)draw_between(d, -6000, 6000);
    scene->light_y = (int32_t)draw_between(d, -6000, 6000);
}

static uint8_t clamp(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* What noise and light add to a pixel, on the way along a row. */
struct shade {
    struct noise_walk rough, grain;
    int32_t rough_strength, grain_strength;
    int32_t light, light_step; /* 16.16 */
};

static struct shade shade_from(const struct scene *s, uint32_t x, uint32_t y)
{
    const int32_t dx = (int32_t)x - (int32_t)s->width / 2;
    const int32_t dy = (int32_t)y - (int32_t)s->height / 2;
    return (struct shade){
        .rough = noise_from(&s->rough, x, y),
        .grain = noise_from(&s->grain, x, y),
        .rough_strength = s->rough_strength,
        .grain_strength = s->grain_strength,
        .light = dx * s->light_x + dy * s->light_y,
        .light_step = s->light_x,
    };
}

static int32_t shade_next(struct shade *shade)
{
    const int32_t rough = (noise_at(&shade->rough) - 128) * shade->rough_strength / 64;
    const int32_t grain = (noise_at(&shade->grain) - 128) * shade->grain_strength / 128;
    const int32_t light = shade->light / 65536;
    noise_right(&shade->rough);
    noise_right(&shade->grain);
    shade->light += shade->light_step;
    return rough + grain + light;
}

/* share: of the second, in 256ths. */
static int32_t mix(int32_t first, int32_t second, int32_t share)
{
    return first + (second - first) * share / 256;
}

static void paint_ground(const struct scene *s, uint8_t *pixels)
{
    for (uint32_t y = 0; y < s->height; y++) {
        struct shade shade = shade_from(s, 0, y);
        struct noise_walk clouds = noise_from(&s->clouds, 0, y);
        for (uint32_t x = 0; x < s->width; x++) {
            const int32_t share = noise_at(&clouds);
            const int32_t added = shade_next(&shade);
            for (int c = 0; c < 3; c++) {
                const int32_t paint = mix(s->ground[0].channel[c], s->ground[1].channel[c], share);
                *pixels++ = clamp(paint + added);
            }
            noise_right(&clouds);
        }
    }
}

/* ---- the object ---- */

struct object {
    uint32_t class;
    double side; /* the picture's shorter one */
    double radius, x, y;
    struct direction turn;
    struct color colors[2];
};

static void draw_object(struct draws *d, const struct scene *s, uint32_t class, struct object *o)
{
    o->class = class;
    o->side = s->width < s->height ? s->width : s->height;
    o->radius = draw_between(d, 0.36, 0.48) * o->side;
    o->x = draw_between(d, o->radius, s->width - o->radius);
    o->y = draw_between(d, o->radius, s->height - o->radius);
    o->turn = draw_direction(d);
    int32_t contrast;
    do { /* about every third pair will do */
        o->colors[0] = draw_color(d);
        o->colors[1] = draw_color(d);
        contrast = brightness(&o->colors[0]) - brightness(&o->colors[1]);
    } while (contrast > -70 && contrast < 70);
}

/* How much of a pixel lies on the positive side of a border, in 256ths, given the signed distance
 * in pixels: a lens's blur of 1.6 pixels. */
static int32_t coverage(double distance)
{
    const double share = distance / 1.6 + 0.5;
    return (int32_t)(share <= 0 ? 0 : share >= 1 ? 256 : share * 256);
}

static void paint_object_row(const struct scene *s, const struct object *o, uint32_t y,
                             uint32_t x_begin, uint32_t x_end, uint8_t *pixel)
{
    struct shade shade = shade_from(s, x_begin, y);
    for (uint32_t x = x_begin; x < x_end; x++, pixel += 3) {
        const int32_t added = shade_next(&shade);
        const double dx = x - o->x;
        const double dy = y - o->y;
        const double across = dx * o->turn.x - dy * o->turn.y;
        const double down = dx * o->turn.y + dy * o->turn.x;
        const double inside =
            gen_class_outline(o->class, across / o->radius, down / o->radius) * o->radius;
        const int32_t cover = coverage(inside);
        if (cover == 0) {
            continue;
        }
        const double second =
            gen_class_pattern(o->class, across / o->side, down / o->side) * o->side;
        const int32_t share = coverage(second);
        for (int c = 0; c < 3; c++) {
            const int32_t paint = mix(o->colors[0].channel[c], o->colors[1].channel[c], share);
            pixel[c] = clamp(mix(pixel[c], clamp(paint + added), cover));
        }
    }
}

static void paint_object(const struct scene *s, const struct object *o, uint8_t *pixels)
{
    const double reach = o->radius + 1;
    const uint32_t x_begin = (uint32_t)(o->x < reach ? 0 : o->x - reach);
    const uint32_t y_begin = (uint32_t)(o->y < reach ? 0 : o->y - reach);
    const uint32_t x_end = o->x + reach < s->width ? (uint32_t)(o->x + reach) + 1 : s->width;
    const uint32_t y_end = o->y + reach < s->height ? (uint32_t)(o->y + reach) + 1 : s->height;
    for (uint32_t y = y_begin; y < y_end; y++) {
        paint_object_row(s, o, y, x_begin, x_end, pixels + ((size_t)y * s->width + x_begin) * 3);
    }
}

void gen_picture(const struct noise *noise, const struct gen_id *id,
                 uint8_t pixels[GEN_PIXEL_BYTES_MAX], struct gen_format *format_out)
{
    struct draws d = {.at = {.key = id->seed, .position = id->number, .epoch = id->split}};
    struct scene scene;
    struct object object;
    draw_format(&d, format_out);
    draw_scene(&d, noise, format_out, &scene);
    draw_object(&d, &scene, id->class, &object);
    paint_ground(&scene, pixels);
    paint_object(&scene, &object, pixels);
}
