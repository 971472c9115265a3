/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor under `headrace bench decode` where the AVX-512 baseline cannot run: what reading the
 * same files and libjpeg-turbo's region decode of the same crops cost when nothing else is done: no
 * resampling, no margin for exact edges, no check of the data. JPEG files directly in DIR only.
 * Prints one JSON object with the median of the rounds after one to warm up.
 *
 *   decode_floor DIR ROUNDS
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#include "common/clock.h"
#include "producer/op.h"

enum { ROUNDS_MAX = 100, ROWS_PER_CALL = 16 };

static const char PIPELINE[] = "[{\"op\":\"decode\"},{\"op\":\"random_resized_crop\",\"size\":224},"
                               "{\"op\":\"horizontal_flip\",\"p\":0.5}]";

struct memory {
    uint8_t *bytes;
    size_t capacity;
};

static void reserve(struct memory *memory, size_t bytes)
{
    if (bytes > memory->capacity) {
        free(memory->bytes);
        memory->bytes = malloc(bytes);
        memory->capacity = bytes;
        CHECK(memory->bytes != NULL);
    }
}

static size_t read_file(const char *path, struct memory *file)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &info) == 0);
    reserve(file, (size_t)info.st_size);
    CHECK(read(fd, file->bytes, (size_t)info.st_size) == info.st_size);
    close(fd);
    return (size_t)info.st_size;
}

static void decode(const struct memory *file, size_t count, const struct pipeline *pipeline,
                   const struct rng_at *at, struct memory *pixels)
{
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct geometry geometry;
    struct err err = {0};
    info.err = jpeg_std_error(&errors); /* exits on errors */
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, file->bytes, count);
    (void)jpeg_read_header(&info, TRUE);
    const struct image_size size = {info.image_width, info.image_height};
    CHECK(op_apply_all(pipeline, at, &size, &geometry, &err) == OK);
    const struct image_rect *crop = &geometry.stages[0].crop;
    info.out_color_space = JCS_RGB;
    (void)jpeg_start_decompress(&info);
    JDIMENSION x = crop->x;
    JDIMENSION width = crop->width;
    jpeg_crop_scanline(&info, &x, &width);
    if (crop->y > 0) {
        (void)jpeg_skip_scanlines(&info, crop->y);
    }
    reserve(pixels, (size_t)width * crop->height * 3);
    for (JDIMENSION y = 0; y < crop->height;) {
        JSAMPROW rows[ROWS_PER_CALL];
        JDIMENSION wanted = 0;
        for (; wanted < ROWS_PER_CALL && y + wanted < crop->height; wanted++) {
            rows[wanted] = pixels->bytes + (size_t)(y + wanted) * width * 3;
        }
        y += jpeg_read_scanlines(&info, rows, wanted);
    }
    jpeg_abort_decompress(&info);
    jpeg_destroy_decompress(&info);
}

static int is_file(const struct dirent *entry)
{
    return entry->d_type == DT_REG && entry->d_name[0] != '.';
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    const int count = argc == 3 ? scandir(argv[1], &entries, is_file, alphasort) : -1;
    const int rounds = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    struct pipeline pipeline;
    struct err err = {0};
    if (count <= 0 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: decode_floor DIR ROUNDS\n");
        return EXIT_USAGE;
    }
    CHECK(pipeline_parse(PIPELINE, &pipeline, &err) == OK);
    struct memory file = {0};
    struct memory pixels = {0};
    double wall[ROUNDS_MAX];
    double cpu[ROUNDS_MAX];
    for (int round = 0; round <= rounds; round++) {
        const int64_t wall_ns = clock_now_ns();
        const int64_t cpu_ns = clock_process_cpu_ns();
        for (int i = 0; i < count; i++) {
            char path[PATH_BYTES_MAX];
            snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
            const size_t bytes = read_file(path, &file);
            const struct rng_at at = {1, (uint64_t)i, (uint32_t)round};
            decode(&file, bytes, &pipeline, &at, &pixels);
        }
        const int slot = round == 0 ? 0 : round - 1; /* the first one only warms up */
        wall[slot] = (double)(clock_now_ns() - wall_ns) / NS_PER_S;
        cpu[slot] = (double)(clock_process_cpu_ns() - cpu_ns) / NS_PER_S;
    }
    printf("{\"bench\": \"decode_floor\", \"images\": %d, \"images_per_s\": %.1f, "
           "\"cpu_s_per_1000_images\": %.4f}\n",
           count, count / median(wall, rounds), median(cpu, rounds) / count * 1000);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    free(file.bytes);
    free(pixels.bytes);
    return EXIT_OK;
}
