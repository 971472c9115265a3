/* SPDX-License-Identifier: Apache-2.0 */
#include "support/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "support/random.h"

static void *must_have(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

struct picture picture_new(uint32_t width, uint32_t height, uint64_t seed)
{
    struct picture p = {width, height, must_have(malloc((size_t)width * height * 3))};
    struct random_state random = {seed};
    const uint64_t phase = random_u64(&random);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *pixel = p.pixels + ((size_t)y * width + x) * 3;
            const bool edge = ((x + phase % 7) / 9 + (y + phase % 5) / 7) % 3 == 0;
            for (uint32_t c = 0; c < 3; c++) {
                const uint64_t noise = random_u64(&random) % 48;
                const uint32_t ramp = (c == 0   ? x * 255 / width
                                       : c == 1 ? y * 255 / height
                                                : (x + y) * 3) %
                                      200;
                pixel[c] = (uint8_t)(edge ? 255 - ramp - noise / 2 : ramp + noise);
            }
        }
    }
    return p;
}

void picture_free(struct picture *picture)
{
    free(picture->pixels);
    picture->pixels = NULL;
}

/* The longest script there is: every coefficient alone, bit by bit. */
static void every_scan(struct jpeg_compress_struct *info)
{
    static jpeg_scan_info scans[4 * 64];
    int count = 0;
    for (int low = 3; low >= 0; low--) {
        for (int k = 0; k < 64; k++) {
            scans[count++] = (jpeg_scan_info){
                .comps_in_scan = 1, .Ss = k, .Se = k, .Ah = low == 3 ? 0 : low + 1, .Al = low};
        }
    }
    info->scan_info = scans;
    info->num_scans = count;
}

static void one_scan_each(struct jpeg_compress_struct *info)
{
    static jpeg_scan_info scans[4];
    for (int i = 0; i < info->num_components; i++) {
        scans[i] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}, .Se = 63};
    }
    info->scan_info = scans;
    info->num_scans = info->num_components;
}

static void set_kind(struct jpeg_compress_struct *info, const struct jpeg_kind *kind)
{
    info->input_components = kind->components == 4 ? 4 : 3;
    info->in_color_space = kind->components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(info);
    jpeg_set_colorspace(info, kind->components == 1   ? JCS_GRAYSCALE
                              : kind->components == 4 ? (kind->ycck ? JCS_YCCK : JCS_CMYK)
                              : kind->rgb             ? JCS_RGB
                                                      : JCS_YCbCr);
    jpeg_set_quality(info, kind->quality == 0 ? 90 : kind->quality, TRUE);
    for (int i = 0; i < info->num_components; i++) {
        info->comp_info[i].h_samp_factor = kind->h[i] == 0 ? 1 : kind->h[i];
        info->comp_info[i].v_samp_factor = kind->v[i] == 0 ? 1 : kind->v[i];
    }
    info->arith_code = kind->arithmetic;
    info->restart_in_rows = (int)kind->restart_rows;
    if (kind->every_scan) {
        every_scan(info);
    } else if (kind->progressive) {
        jpeg_simple_progression(info);
    } else if (kind->scans) {
        one_scan_each(info);
    }
}

struct bytes picture_jpeg(const struct picture *picture, const struct jpeg_kind *kind)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long count = 0;
    info.err = jpeg_std_error(&errors); /* exits on errors */
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &count);
    info.image_width = picture->width;
    info.image_height = picture->height;
    set_kind(&info, kind);
    jpeg_start_compress(&info, TRUE);
    uint8_t *four = must_have(malloc((size_t)picture->width * 4));
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = picture->pixels + (size_t)info.next_scanline * picture->width * 3;
        for (uint32_t x = 0; kind->components == 4 && x < picture->width; x++) {
            memcpy(four + (size_t)4 * x, row + (size_t)3 * x, 3);
            four[4 * x + 3] = (uint8_t)(255 - x % 64);
        }
        row = kind->components == 4 ? four : row;
        jpeg_write_scanlines(&info, &row, 1);
    }
    free(four);
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    return (struct bytes){data, count};
}

struct quiet_errors {
    struct jpeg_error_mgr mgr;
    jmp_buf failed;
};

static _Noreturn void give_up(j_common_ptr info)
{
    longjmp(((struct quiet_errors *)info->err)->failed, 1);
}

static void say_nothing(j_common_ptr info, int level)
{
}

static void decode_whole(struct jpeg_decompress_struct *info, const uint8_t *bytes, size_t count,
                         struct picture *out)
{
    struct quiet_errors *errors = (struct quiet_errors *)info->err;
    if (setjmp(errors->failed) != 0) {
        picture_free(out);
        return;
    }
    jpeg_create_decompress(info);
    jpeg_mem_src(info, bytes, count);
    (void)jpeg_read_header(info, TRUE);
    info->out_color_space = JCS_RGB;
    (void)jpeg_start_decompress(info);
    out->width = info->output_width;
    out->height = info->output_height;
    out->pixels = must_have(malloc((size_t)out->width * out->height * 3));
    while (info->output_scanline < info->output_height) {
        JSAMPROW row = out->pixels + (size_t)info->output_scanline * out->width * 3;
        (void)jpeg_read_scanlines(info, &row, 1);
    }
}

struct picture picture_of_jpeg(const uint8_t *bytes, size_t count)
{
    struct jpeg_decompress_struct info;
    struct quiet_errors errors;
    struct picture out = {0, 0, NULL};
    memset(&info, 0, sizeof(info));
    info.err = jpeg_std_error(&errors.mgr);
    errors.mgr.error_exit = give_up;
    errors.mgr.emit_message = say_nothing;
    decode_whole(&info, bytes, count, &out);
    jpeg_destroy_decompress(&info);
    return out;
}
