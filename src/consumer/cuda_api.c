/* SPDX-License-Identifier: Apache-2.0 */
/* Which libraries of CUDA are wanted, and in which versions. */
#include "consumer/cuda_api.h"

#include <stdio.h>

#include "common/log.h"

enum { CUDA_VERSION_MIN = 12000, CUDA_RUNTIME_VERSION_END = 14000 }; /* 1000 * major + 10 * minor */

static void set_version(struct library_found *found, int version)
{
    found->version = version;
    snprintf(found->version_text, sizeof(found->version_text), "%d.%d", version / 1000,
             version % 1000 / 10);
}

static enum status driver_version(const void *table, struct library_found *found, struct err *err)
{
    const struct cuda_driver *driver = table;
    int version = 0;
    const unsigned error = driver->cuDriverGetVersion(&version);
    if (error != CUDA_OK) {
        return cuda_driver_error(driver, "cuDriverGetVersion", error, err);
    }
    set_version(found, version);
    if (version < CUDA_VERSION_MIN) {
        return err_set(err, ERR_DEVICE, "it has CUDA %s, wanted 12.0 or newer: %s",
                       found->version_text, CUDA_DRIVER_WANT.install);
    }
    return OK;
}

static enum status runtime_version(const void *table, struct library_found *found, struct err *err)
{
    const struct cuda_runtime *runtime = table;
    int version = 0;
    const unsigned error = runtime->cudaRuntimeGetVersion(&version);
    if (error != CUDA_OK) {
        return cuda_runtime_error(runtime, "cudaRuntimeGetVersion", error, err);
    }
    set_version(found, version);
    if (version < CUDA_VERSION_MIN || version >= CUDA_RUNTIME_VERSION_END) {
        return err_set(err, ERR_DEVICE, "it is version %s, wanted 12 or 13: %s",
                       found->version_text, CUDA_RUNTIME_WANT.install);
    }
    const int driver = runtime->driver_version;
    if (driver != 0 && version / 1000 > driver / 1000) {
        return err_set(err, ERR_DEVICE,
                       "it is version %s, too new for the driver, which has CUDA %d.%d: install a "
                       "newer driver, or %s",
                       found->version_text, driver / 1000, driver % 1000 / 10,
                       CUDA_RUNTIME_WANT.install);
    }
    return OK;
}

/* NVML's version is the driver's, which only an initialised NVML tells. */
static enum status nvml_version(const void *table, struct library_found *found, struct err *err)
{
    const struct nvml *nvml = table;
    unsigned error = nvml->nvmlInit_v2();
    if (error != NVML_OK) {
        return err_set(err, ERR_DEVICE, "nvmlInit_v2: %s", nvml->nvmlErrorString(error));
    }
    error = nvml->nvmlSystemGetDriverVersion(found->version_text, sizeof(found->version_text));
    if (error != NVML_OK) {
        (void)nvml->nvmlShutdown();
        return err_set(err, ERR_DEVICE, "nvmlSystemGetDriverVersion: %s",
                       nvml->nvmlErrorString(error));
    }
    return OK;
}

#define INSTALL_DRIVER                                                                        \
    "install NVIDIA's driver, 525 or newer (580 is the last one for a V100), and give it to " \
    "the container (docker run --gpus all)"

static const struct library_symbol DRIVER_SYMBOLS[] = {
#define CUDA_DRIVER_CALL(result, symbol, parameters) \
    {#symbol, offsetof(struct cuda_driver, symbol)},
#include "consumer/cuda_calls.def"
};

static const struct library_symbol RUNTIME_SYMBOLS[] = {
#define CUDA_RUNTIME_CALL(result, symbol, parameters) \
    {#symbol, offsetof(struct cuda_runtime, symbol)},
#include "consumer/cuda_calls.def"
};

static const struct library_symbol NVML_SYMBOLS[] = {
#define NVML_CALL(result, symbol, parameters) {#symbol, offsetof(struct nvml, symbol)},
#include "consumer/cuda_calls.def"
};

const struct library_want CUDA_DRIVER_WANT = {
    .name = "CUDA driver",
    .option = "cuda-driver",
    .sonames = {"libcuda.so.1"},
    .install = INSTALL_DRIVER,
    .symbols = DRIVER_SYMBOLS,
    .symbol_count = ARRAY_LEN(DRIVER_SYMBOLS),
    .version = driver_version,
};

/* 12 first: it works with every driver that 13 works with, and with a V100. */
const struct library_want CUDA_RUNTIME_WANT = {
    .name = "CUDA runtime",
    .option = "cuda-runtime",
    .sonames = {"libcudart.so.12", "libcudart.so.13"},
    .folders = "/usr/local/cuda{,-12*,-13*}/lib64",
    .python = "{cuda_runtime,cu12,cu13}/lib",
    .install = "pip install nvidia-cuda-runtime-cu12",
    .symbols = RUNTIME_SYMBOLS,
    .symbol_count = ARRAY_LEN(RUNTIME_SYMBOLS),
    .version = runtime_version,
};

const struct library_want NVML_WANT = {
    .name = "NVML",
    .option = "nvml",
    .sonames = {"libnvidia-ml.so.1"},
    .install = INSTALL_DRIVER,
    .symbols = NVML_SYMBOLS,
    .symbol_count = ARRAY_LEN(NVML_SYMBOLS),
    .version = nvml_version,
};

enum status cuda_driver_open(const char *path, struct cuda_driver *out, struct err *err)
{
    struct cuda_driver driver;
    TRY(library_open(&CUDA_DRIVER_WANT, path, &driver, &driver.found, err));
    *out = driver;
    return OK;
}

enum status cuda_runtime_open(const char *path, const struct cuda_driver *driver,
                              struct cuda_runtime *out, struct err *err)
{
    struct cuda_runtime runtime = {
        .driver_version = driver == NULL ? 0 : driver->found.version,
    };
    TRY(library_open(&CUDA_RUNTIME_WANT, path, &runtime, &runtime.found, err));
    *out = runtime;
    return OK;
}

enum status nvml_open(const char *path, struct nvml *out, struct err *err)
{
    struct nvml nvml;
    TRY(library_open(&NVML_WANT, path, &nvml, &nvml.found, err));
    *out = nvml;
    return OK;
}

static void log_found(const struct library_want *want, const struct library_found *found)
{
    char text[PATH_BYTES_MAX + 128];
    library_describe(want, found, text, sizeof(text));
    log_info("%s", text);
}

enum status cuda_api_open(const struct config *config, struct cuda_api *out, struct err *err)
{
    struct cuda_api api = {0};
    TRY(cuda_driver_open(config->cuda_driver, &api.driver, err));
    log_found(&CUDA_DRIVER_WANT, &api.driver.found);
    TRY(cuda_runtime_open(config->cuda_runtime, &api.driver, &api.runtime, err));
    log_found(&CUDA_RUNTIME_WANT, &api.runtime.found);
    const unsigned error = api.driver.cuInit(0);
    if (error != CUDA_OK) {
        return cuda_driver_error(&api.driver, "cuInit", error, err);
    }
    struct err nvml_err = {0};
    api.has_nvml = nvml_open(config->nvml, &api.nvml, &nvml_err) == OK;
    if (api.has_nvml) {
        log_found(&NVML_WANT, &api.nvml.found);
    } else if (config->nvml[0] != '\0') { /* asked for */
        *err = nvml_err;
        return err_failed(err->status);
    } else {
        log_warn("%s; errors of a GPU will not tell its Xid and ECC state", nvml_err.message);
    }
    *out = api;
    return OK;
}

enum status cuda_is_there(const struct config *config, bool *out, struct err *why)
{
    struct cuda_driver driver;
    *out = false;
    const enum status status =
        library_open(&CUDA_DRIVER_WANT, config->cuda_driver, &driver, &driver.found, why);
    if (status != OK) {
        const bool is_absent = config->cuda_driver[0] == '\0' && driver.found.path[0] == '\0';
        return is_absent ? OK : status;
    }
    const unsigned error = driver.cuInit(0);
    if (error == CUDA_OK) {
        *out = true;
        return OK;
    }
    (void)cuda_driver_error(&driver, "cuInit", error, why);
    return error == CUDA_NO_DEVICE || error == CUDA_STUB_LIBRARY ? OK : why->status;
}

enum status cuda_runtime_error(const struct cuda_runtime *runtime, const char *call, unsigned error,
                               struct err *err)
{
    return err_set(err, ERR_DEVICE, "%s: %s (%s)", call, runtime->cudaGetErrorName(error),
                   runtime->cudaGetErrorString(error));
}

enum status cuda_driver_error(const struct cuda_driver *driver, const char *call, unsigned error,
                              struct err *err)
{
    const char *name = NULL;
    const char *text = NULL;
    if (driver->cuGetErrorName(error, &name) != CUDA_OK || name == NULL ||
        driver->cuGetErrorString(error, &text) != CUDA_OK || text == NULL) {
        return err_set(err, ERR_DEVICE, "%s: unknown error %u", call, error);
    }
    return err_set(err, ERR_DEVICE, "%s: %s (%s)", call, name, text);
}
