/* SPDX-License-Identifier: Apache-2.0 */
/* The library's side of gen_jpeg.h: a destination of fixed size, and errors that come back here. */
#include "cli/gen_jpeg.h"

#include <setjmp.h>
#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>

struct encoder {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr target;
    jmp_buf failed;
    char message[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr jpeg)
{
    struct encoder *encoder = jpeg->client_data;
    jpeg->err->format_message(jpeg, encoder->message);
    longjmp(encoder->failed, 1);
}

static void target_begin(j_compress_ptr jpeg)
{
    (void)jpeg; /* target is set up by gen_jpeg */
}

static boolean target_full(j_compress_ptr jpeg)
{
    ERREXIT(jpeg, JERR_FILE_WRITE);
    return FALSE;
}

static void target_end(j_compress_ptr jpeg)
{
    (void)jpeg; /* the bytes lie where they belong */
}

static void set_format(struct jpeg_compress_struct *jpeg, const struct gen_format *format)
{
    jpeg->image_width = format->width;
    jpeg->image_height = format->height;
    jpeg->input_components = 3;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    if (format->chroma == GEN_CHROMA_GRAY) {
        jpeg_set_colorspace(jpeg, JCS_GRAYSCALE);
    }
    jpeg_set_quality(jpeg, format->quality, TRUE);
    jpeg->dct_method = JDCT_ISLOW;
    jpeg->comp_info[0].h_samp_factor = format->chroma <= GEN_CHROMA_422 ? 2 : 1;
    jpeg->comp_info[0].v_samp_factor = format->chroma == GEN_CHROMA_420 ? 2 : 1;
    if (format->progressive) {
        jpeg_simple_progression(jpeg);
    }
}

enum status gen_jpeg(const uint8_t *pixels, const struct gen_format *format,
                     uint8_t out[GEN_JPEG_BYTES_MAX], size_t *bytes_out, struct err *err)
{
    struct encoder encoder;
    encoder.jpeg.err = jpeg_std_error(&encoder.errors);
    encoder.errors.error_exit = on_error;
    encoder.jpeg.client_data = &encoder;
    if (setjmp(encoder.failed) != 0) {
        jpeg_destroy_compress(&encoder.jpeg);
        return err_set(err, ERR_INTERNAL, "JPEG of %ux%u: %s", format->width, format->height,
                       encoder.message);
    }
    jpeg_create_compress(&encoder.jpeg);
    encoder.target = (struct jpeg_destination_mgr){
        .next_output_byte = out,
        .free_in_buffer = GEN_JPEG_BYTES_MAX,
        .init_destination = target_begin,
        .empty_output_buffer = target_full,
        .term_destination = target_end,
    };
    encoder.jpeg.dest = &encoder.target;
    set_format(&encoder.jpeg, format);
    jpeg_start_compress(&encoder.jpeg, TRUE);
    while (encoder.jpeg.next_scanline < format->height) {
        JSAMPROW row = (JSAMPROW)pixels + (size_t)encoder.jpeg.next_scanline * format->width * 3;
        (void)jpeg_write_scanlines(&encoder.jpeg, &row, 1);
    }
    jpeg_finish_compress(&encoder.jpeg);
    *bytes_out = GEN_JPEG_BYTES_MAX - encoder.target.free_in_buffer;
    jpeg_destroy_compress(&encoder.jpeg);
    return OK;
}
