/* SPDX-License-Identifier: Apache-2.0 */
/* headrace env --gpu: which of the vendor's libraries are found, what is missing, and the cards. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd_env.h"
#include "consumer/cuda_api.h"
#include "consumer/kernel_images.h"
#include "consumer/nccl_api.h"

/* A line for one library: what was found, or what is missing and what to install. */
static void print_library(const struct library_want *want, enum status status,
                          const struct library_found *found, const struct err *err)
{
    char text[PATH_BYTES_MAX + 128];
    if (status == OK) {
        library_describe(want, found, text, sizeof(text));
        puts(text);
    } else {
        printf("%s\n", err->message);
    }
}

/* Which image of the kernels a card would run. */
static const char *image_name(int major, int minor, char *out, size_t size)
{
    struct kernel_choice choice;
    if (kernel_images_choose(&KERNEL_IMAGES, major, minor, &choice, NULL) != OK) {
        return "none";
    }
    snprintf(out, size, "%s_%u", choice.images[0]->is_ptx ? "compute" : "sm",
             choice.images[0]->architecture);
    return out;
}

/* What could not be asked is left out: the line is for people. */
static void print_card(const struct cuda_api *api, int ordinal)
{
    char image[32];
    char name[CUDA_NAME_BYTES] = "a card without a name";
    char pci_id[CUDA_PCI_ID_BYTES] = "unknown bus id";
    int device = 0;
    int major = 0;
    int minor = 0;
    if (api->driver.cuDeviceGet(&device, ordinal) == CUDA_OK) {
        (void)api->driver.cuDeviceGetName(name, sizeof(name), device);
    }
    (void)api->runtime.cudaDeviceGetPCIBusId(pci_id, sizeof(pci_id), ordinal);
    (void)api->runtime.cudaDeviceGetAttribute(&major, CUDA_ATTRIBUTE_MAJOR, ordinal);
    (void)api->runtime.cudaDeviceGetAttribute(&minor, CUDA_ATTRIBUTE_MINOR, ordinal);
    printf("GPU %d: %s, sm_%d%d, %s, kernels: %s\n", ordinal, name, major, minor, pci_id,
           image_name(major, minor, image, sizeof(image)));
}

static enum status print_cards(const struct cuda_api *api, struct err *err)
{
    unsigned error = api->driver.cuInit(0);
    if (error != CUDA_OK) {
        return cuda_driver_error(&api->driver, "cuInit", error, err);
    }
    int count = 0;
    error = api->runtime.cudaGetDeviceCount(&count);
    if (error != CUDA_OK) {
        return cuda_runtime_error(&api->runtime, "cudaGetDeviceCount", error, err);
    }
    if (count == 0) {
        return err_set(err, ERR_DEVICE, "there is no GPU");
    }
    for (int i = 0; i < count; i++) {
        print_card(api, i);
    }
    return OK;
}

enum status env_print_gpu(const struct config *config, struct err *err)
{
    struct cuda_api api = {0};
    struct nccl_api nccl;
    struct err driver_err = {0};
    struct err runtime_err = {0};
    struct err other_err = {0};
    const enum status driver = cuda_driver_open(config->cuda_driver, &api.driver, &driver_err);
    print_library(&CUDA_DRIVER_WANT, driver, &api.driver.found, &driver_err);
    const enum status runtime = cuda_runtime_open(
        config->cuda_runtime, driver == OK ? &api.driver : NULL, &api.runtime, &runtime_err);
    print_library(&CUDA_RUNTIME_WANT, runtime, &api.runtime.found, &runtime_err);
    enum status other = nvml_open(config->nvml, &api.nvml, &other_err);
    print_library(&NVML_WANT, other, &api.nvml.found, &other_err);
    other = nccl_open(config->nccl, &nccl, &other_err);
    print_library(&NCCL_WANT, other, &nccl.found, &other_err);
    char images[512];
    kernel_images_describe(&KERNEL_IMAGES, images, sizeof(images));
    printf("kernel images: %s\n", images);
    if (driver != OK || runtime != OK) {
        *err = driver != OK ? driver_err : runtime_err;
        return err_failed(err->status);
    }
    return print_cards(&api, err);
}
