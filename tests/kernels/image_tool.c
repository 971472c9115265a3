/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: image_tool FOLDER
 *
 * Writes every image that the build has embedded to FOLDER, as <source>.sm_70.cubin or
 * <source>.ptx, and prints their description.
 */
#include <stdio.h>
#include <stdlib.h>

#include "consumer/kernel_images.h"

static void write_image(const char *folder, const struct kernel_image *image)
{
    char ending[32];
    char path[4096];
    snprintf(ending, sizeof(ending), "sm_%u.cubin", image->architecture);
    snprintf(path, sizeof(path), "%s/%s.%s", folder, image->source, image->is_ptx ? "ptx" : ending);
    FILE *file = fopen(path, "wb");
    const size_t size = (size_t)(image->end - image->begin);
    if (file == NULL || fwrite(image->begin, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        return EXIT_USAGE;
    }
    for (const struct kernel_image *image = KERNEL_IMAGES.images; image->source != NULL; image++) {
        write_image(argv[1], image);
    }
    char text[512];
    kernel_images_describe(&KERNEL_IMAGES, text, sizeof(text));
    puts(text);
    return EXIT_SUCCESS;
}
