/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG by libjpeg-turbo, accurate integer DCT and smooth ("fancy") upsampling. From baseline
 * pictures only the rectangle's rows and columns are decoded; everything else is decoded whole:
 * progressive and multi-scan, arithmetic, four components, unusual sampling factors, files that do
 * not end as they should, and all that make the library warn.
 *
 * A library object lives for one picture only: it keeps its Huffman and quantisation tables from
 * one picture to the next, and a damaged file without its own would be decoded with the last one's.
 *
 * Invariant: the library's errors come back by longjmp to guard() and nowhere else, and no step
 * that guard() runs owns anything.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "producer/image_ops.h"

enum {
    /* Smooth upsampling looks at the neighbouring chroma sample, so the crop's outermost columns
     * need theirs: 2 pixels at the largest factor that is cropped. */
    MARGIN_PIXELS = 2,
    ROWS_PER_CALL = 16,
    /* Most that the library may take for one picture's coefficients: 2 bytes for each of at most 4
     * components of IMAGE_PIXELS_MAX, and some slack for blocks that stick out. */
    PICTURE_BYTES_MAX = 10 * IMAGE_PIXELS_MAX,
};

struct jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    bool created;
    const uint8_t *bytes;
    size_t count;
    /* what went wrong */
    int failure; /* message code of the error */
    char reason[JMSG_LENGTH_MAX];
    long warnings;
    bool hit_marker; /* a segment ended before its data were complete */
    bool hit_end;    /* the file ended before its end marker */
    char warning[JMSG_LENGTH_MAX];
    /* what is read, for the steps */
    const struct image_rect *rect;
    uint8_t *pixels;
    size_t stride_bytes;
    uint8_t *row; /* one full row of the library's components */
    JDIMENSION left, columns, top;
};

static struct jpeg *jpeg_of(j_common_ptr info)
{
    return info->client_data;
}

static _Noreturn void on_error(j_common_ptr info)
{
    struct jpeg *jpeg = jpeg_of(info);
    jpeg->failure = info->err->msg_code;
    info->err->format_message(info, jpeg->reason);
    longjmp(jpeg->failed, 1);
}

static void on_message(j_common_ptr info, int level)
{
    struct jpeg *jpeg = jpeg_of(info);
    if (level >= 0) {
        return; /* a trace message */
    }
    if (jpeg->warnings == 0) {
        info->err->format_message(info, jpeg->warning);
    }
    jpeg->warnings++;
    jpeg->hit_marker |= info->err->msg_code == JWRN_HIT_MARKER;
    jpeg->hit_end |= info->err->msg_code == JWRN_JPEG_EOF;
}

static void on_output(j_common_ptr info)
{
}

/* A few bytes of scan can cost a pass over the whole picture, so their number is limited. */
static void on_progress(j_common_ptr info)
{
    struct jpeg *jpeg = jpeg_of(info);
    if (jpeg->info.input_scan_number > JPEG_SCANS_MAX) {
        jpeg->failure = 0;
        (void)snprintf(jpeg->reason, sizeof(jpeg->reason), "more than %d scans",
                       (int)JPEG_SCANS_MAX);
        longjmp(jpeg->failed, 1);
    }
}

/* Runs a step of the library; the one place where its errors arrive. */
static enum status guard(struct jpeg *jpeg, void (*step)(struct jpeg *), struct err *err)
{
    if (setjmp(jpeg->failed) != 0) {
        if (jpeg->failure == JERR_OUT_OF_MEMORY) {
            return err_set(err, ERR_RESOURCE, "JPEG: no memory for a picture of %ux%u pixels",
                           jpeg->info.image_width, jpeg->info.image_height);
        }
        return err_set(err, ERR_DATA, "JPEG: %s", jpeg->reason);
    }
    step(jpeg);
    return OK;
}

static void step_header(struct jpeg *jpeg)
{
    jpeg->created = true; /* even half of it must be destroyed */
    jpeg_create_decompress(&jpeg->info);
    jpeg->info.progress = &jpeg->progress;
    jpeg->info.mem->max_memory_to_use = PICTURE_BYTES_MAX;
    jpeg_mem_src(&jpeg->info, jpeg->bytes, jpeg->count);
    (void)jpeg_read_header(&jpeg->info, TRUE);
}

static void close_picture(void *state)
{
    struct jpeg *jpeg = state;
    if (jpeg->created) {
        jpeg_destroy_decompress(&jpeg->info);
        jpeg->created = false;
    }
}

static enum status read_header(struct jpeg *jpeg, struct err *err)
{
    close_picture(jpeg);
    jpeg->warnings = 0;
    jpeg->hit_marker = false;
    jpeg->hit_end = false;
    jpeg->failure = 0;
    memset(&jpeg->info, 0, sizeof(jpeg->info));
    jpeg->info.err = &jpeg->errors;
    jpeg->info.client_data = jpeg;
    return guard(jpeg, step_header, err);
}

/* Even an empty block costs one bit of Huffman code: a header that claims more blocks than the file
 * has bits is refused before memory and time go into it. */
static bool is_too_short(const struct jpeg *jpeg)
{
    uint64_t blocks = 0;
    for (int i = 0; i < jpeg->info.num_components; i++) {
        const jpeg_component_info *c = &jpeg->info.comp_info[i];
        blocks += (uint64_t)c->width_in_blocks * c->height_in_blocks;
    }
    return !jpeg->info.arith_code && blocks / 8 > jpeg->count;
}

static enum status open_picture(void *state, const uint8_t *bytes, size_t count,
                                struct image_size *size_out, struct err *err)
{
    struct jpeg *jpeg = state;
    jpeg->bytes = bytes;
    jpeg->count = count;
    TRY(read_header(jpeg, err));
    if (is_too_short(jpeg)) {
        return err_set(err, ERR_DATA, "JPEG: %zu bytes cannot hold the %ux%u pixels of the header",
                       count, jpeg->info.image_width, jpeg->info.image_height);
    }
    *size_out = (struct image_size){jpeg->info.image_width, jpeg->info.image_height};
    return OK;
}

/* Chroma at full, half width, half height or both: what the library crops exactly. */
static bool has_common_sampling(const struct jpeg_decompress_struct *info)
{
    const jpeg_component_info *c = info->comp_info;
    if (info->num_components == 1) {
        return c[0].h_samp_factor == 1 && c[0].v_samp_factor == 1;
    }
    if (info->num_components != 3 || c[0].h_samp_factor > 2 || c[0].v_samp_factor > 2) {
        return false;
    }
    return c[1].h_samp_factor == 1 && c[1].v_samp_factor == 1 && c[2].h_samp_factor == 1 &&
           c[2].v_samp_factor == 1;
}

static bool ends_with_marker(const struct jpeg *jpeg)
{
    return jpeg->count >= 2 && jpeg->bytes[jpeg->count - 2] == 0xff &&
           jpeg->bytes[jpeg->count - 1] == JPEG_EOI;
}

static bool can_crop(struct jpeg *jpeg)
{
    return !jpeg->info.progressive_mode && !jpeg->info.arith_code &&
           !jpeg_has_multiple_scans(&jpeg->info) && has_common_sampling(&jpeg->info) &&
           ends_with_marker(jpeg) && jpeg->warnings == 0;
}

static bool is_subsampled(const struct jpeg_decompress_struct *info)
{
    return info->max_h_samp_factor > 1 || info->max_v_samp_factor > 1;
}

static void step_start(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *info = &jpeg->info;
    const bool four = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = four ? JCS_CMYK : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    (void)jpeg_start_decompress(info);
}

/* The columns and the first row to ask the library for: the rectangle with its margin. The library
 * then moves the left edge outwards to a whole block. */
static void step_crop(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *info = &jpeg->info;
    const struct image_rect *rect = jpeg->rect;
    const JDIMENSION margin = is_subsampled(info) ? MARGIN_PIXELS : 0;
    const JDIMENSION before = rect->x < margin ? rect->x : margin;
    const JDIMENSION after = info->output_width - rect->x - rect->width;
    jpeg->top = rect->y - (rect->y < margin ? rect->y : margin);
    jpeg->left = rect->x - before;
    jpeg->columns = before + rect->width + (after < margin ? after : margin);
    jpeg_crop_scanline(info, &jpeg->left, &jpeg->columns);
}

static void step_read_crop(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *info = &jpeg->info;
    const JDIMENSION end = jpeg->rect->y + jpeg->rect->height;
    if (jpeg->top > 0) {
        (void)jpeg_skip_scanlines(info, jpeg->top);
    }
    while (info->output_scanline < end) {
        JSAMPROW rows[ROWS_PER_CALL];
        JDIMENSION count = 0;
        while (count < ROWS_PER_CALL && info->output_scanline + count < end) {
            const size_t row = info->output_scanline + count - jpeg->top;
            rows[count++] = jpeg->pixels + row * jpeg->stride_bytes;
        }
        (void)jpeg_read_scanlines(info, rows, count);
    }
}

/* a * b / 255, rounded, for a and b up to 255; as Pillow's MULDIV255. */
static uint32_t scale255(uint32_t a, uint32_t b)
{
    const uint32_t product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

/* Inverted CMYK, as Adobe writes it whether or not its marker is there, to RGB as Pillow does it.
 */
static void rgb_of_cmyk(const uint8_t *cmyk, size_t count, uint8_t *rgb)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t light = cmyk[4 * i + 3];
        for (size_t c = 0; c < 3; c++) {
            rgb[3 * i + c] = (uint8_t)(light - scale255(255U - cmyk[4 * i + c], light));
        }
    }
}

/* All rows, so that damage anywhere is seen; those of the rectangle are kept at full width. */
static void step_read_whole(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *info = &jpeg->info;
    const struct image_rect *rect = jpeg->rect;
    while (info->output_scanline < info->output_height) {
        const JDIMENSION y = info->output_scanline;
        JSAMPROW row = jpeg->row;
        const bool wanted = y >= rect->y && y < rect->y + rect->height;
        uint8_t *target = wanted ? jpeg->pixels + (y - rect->y) * jpeg->stride_bytes : NULL;
        if (wanted && info->out_color_space == JCS_RGB) {
            row = target;
        }
        (void)jpeg_read_scanlines(info, &row, 1);
        if (wanted && info->out_color_space == JCS_CMYK) {
            rgb_of_cmyk(row, info->output_width, target);
        }
    }
}

static enum status read_crop(struct jpeg *jpeg, struct image_buffer *buffer,
                             struct image_view *view_out, struct err *err)
{
    const struct image_rect *rect = jpeg->rect;
    TRY(guard(jpeg, step_start, err));
    TRY(guard(jpeg, step_crop, err));
    jpeg->stride_bytes = (size_t)jpeg->columns * 3;
    TRY(image_buffer_reserve(buffer, rect->y + rect->height - jpeg->top, jpeg->stride_bytes, err));
    jpeg->pixels = buffer->bytes;
    TRY(guard(jpeg, step_read_crop, err));
    view_out->pixels = jpeg->pixels + (rect->y - jpeg->top) * jpeg->stride_bytes +
                       (size_t)(rect->x - jpeg->left) * 3;
    view_out->stride_bytes = jpeg->stride_bytes;
    return OK;
}

/* Whether pixels are made up: a segment ended early, or the file ended and left coefficients of a
 * multi-scan picture unknown. A missing end marker alone loses nothing, but the arithmetic decoder
 * does not tell the one from the other. */
static bool is_cut_short(const struct jpeg *jpeg)
{
    const struct jpeg_decompress_struct *info = &jpeg->info;
    if (jpeg->hit_marker || !jpeg->hit_end || info->arith_code) {
        return jpeg->hit_marker || jpeg->hit_end;
    }
    for (int c = 0; c < info->num_components; c++) {
        if (info->comp_info[c].quant_table == NULL) {
            return true; /* no scan of this component */
        }
        for (int k = 0; info->coef_bits != NULL && k < DCTSIZE2; k++) {
            if (info->coef_bits[c][k] != 0) {
                return true;
            }
        }
    }
    return false;
}

static enum status read_whole(struct jpeg *jpeg, struct image_buffer *buffer,
                              struct image_view *view_out, struct err *err)
{
    TRY(guard(jpeg, step_start, err));
    const size_t row_bytes = (size_t)jpeg->info.output_width * (size_t)jpeg->info.output_components;
    jpeg->stride_bytes = (size_t)jpeg->info.output_width * 3;
    /* One row more, which holds what is not kept: at most 4 bytes a pixel against 3. */
    TRY(image_buffer_reserve(buffer, jpeg->rect->height + 2, jpeg->stride_bytes, err));
    jpeg->pixels = buffer->bytes;
    jpeg->row = jpeg->pixels + jpeg->rect->height * jpeg->stride_bytes;
    CHECK(row_bytes <= 2 * jpeg->stride_bytes);
    TRY(guard(jpeg, step_read_whole, err));
    if (is_cut_short(jpeg)) {
        return err_set(err, ERR_DATA, "JPEG: %s (%zu bytes, %ux%u pixels)", jpeg->warning,
                       jpeg->count, jpeg->info.image_width, jpeg->info.image_height);
    }
    view_out->pixels = jpeg->pixels + (size_t)jpeg->rect->x * 3;
    view_out->stride_bytes = jpeg->stride_bytes;
    return OK;
}

static enum status read_rect(void *state, const struct image_rect *rect,
                             struct image_buffer *buffer, struct image_view *view_out,
                             struct err *err)
{
    struct jpeg *jpeg = state;
    jpeg->rect = rect;
    if (can_crop(jpeg)) {
        struct image_view view;
        TRY(read_crop(jpeg, buffer, &view, err));
        if (jpeg->warnings == 0) {
            *view_out = view;
            return OK;
        }
        TRY(read_header(jpeg, err));
    }
    return read_whole(jpeg, buffer, view_out, err);
}

static bool matches(const uint8_t *bytes, size_t count)
{
    return count >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

static enum status new_state(void **out, struct err *err)
{
    struct jpeg *jpeg = calloc(1, sizeof(*jpeg));
    if (jpeg == NULL) {
        return err_set(err, ERR_RESOURCE, "no memory for a JPEG decoder");
    }
    (void)jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = on_error;
    jpeg->errors.emit_message = on_message;
    jpeg->errors.output_message = on_output;
    jpeg->progress.progress_monitor = on_progress;
    *out = jpeg;
    return OK;
}

static void free_state(void *state)
{
    free(state);
}

#define TEXT_OF(x)       #x
#define TEXT_OF_VALUE(x) TEXT_OF(x)

/* The version that was compiled in, since the library has no call that tells its own, and the
 * copyright line of the library that is loaded, which changes between releases. */
static void version(char *text, size_t text_bytes)
{
    struct jpeg_error_mgr errors;
    const struct jpeg_error_mgr *std = jpeg_std_error(&errors);
    (void)snprintf(text, text_bytes, "libjpeg-turbo " TEXT_OF_VALUE(LIBJPEG_TURBO_VERSION) " (%s)",
                   std->jpeg_message_table[JMSG_COPYRIGHT]);
}

const struct image_ops image_jpeg = {
    .name = "JPEG",
    .matches = matches,
    .new_state = new_state,
    .free_state = free_state,
    .open = open_picture,
    .read = read_rect,
    .close = close_picture,
    .version = version,
};
