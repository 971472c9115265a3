/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the embedded images a card can run. */
#include "consumer/kernel_images.h"

#include <stdio.h>
#include <string.h>

#define NO_IMAGES "none (this binary was built without; ./dev cuda builds it with kernels for GPUs)"

static bool same_source(const struct kernel_image *a, const struct kernel_image *b)
{
    return a != NULL && b->source != NULL && strcmp(a->source, b->source) == 0;
}

/* How well an image suits the card: 0 not at all, else more is better. Any cubin beats PTX. */
static uint32_t suits(const struct kernel_image *image, uint32_t card)
{
    if (image->architecture > card) {
        return 0;
    }
    if (image->is_ptx) {
        return 1;
    }
    return image->architecture / 10 == card / 10 ? 1 + image->architecture : 0;
}

enum status kernel_images_choose(const struct kernel_images *images, int major, int minor,
                                 struct kernel_choice *out, struct err *err)
{
    const uint32_t card = 10 * (uint32_t)major + (uint32_t)minor;
    struct kernel_choice choice = {0};
    const struct kernel_image *image = images->images;
    if (image->source == NULL) {
        return err_set(err, ERR_DEVICE, "kernel images: %s", NO_IMAGES);
    }
    while (image->source != NULL) {
        const struct kernel_image *first = image;
        const struct kernel_image *best = NULL;
        for (; same_source(first, image); image++) {
            if (suits(image, card) > (best == NULL ? 0 : suits(best, card))) {
                best = image;
            }
        }
        if (best == NULL) {
            char text[512];
            kernel_images_describe(images, text, sizeof(text));
            return err_set(err, ERR_DEVICE,
                           "kernel images: none of %s runs on this card, sm_%u; built with %s",
                           first->source, card, text);
        }
        CHECK(choice.count < KERNEL_SOURCES_MAX);
        choice.images[choice.count++] = best;
    }
    *out = choice;
    return OK;
}

void kernel_images_describe(const struct kernel_images *images, char *out, size_t size)
{
    const struct kernel_image *first = images->images;
    if (first->source == NULL) {
        snprintf(out, size, "%s", NO_IMAGES);
        return;
    }
    size_t used = (size_t)snprintf(out, size, "%s,", images->compiler);
    for (const struct kernel_image *image = first; same_source(first, image); image++) {
        if (used < size) {
            used += (size_t)snprintf(out + used, size - used, " %s_%u",
                                     image->is_ptx ? "compute" : "sm", image->architecture);
        }
    }
}
