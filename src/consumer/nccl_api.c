/* SPDX-License-Identifier: Apache-2.0 */
/* Which NCCL is wanted. Its version matters twice: here, and between ranks (coll_nccl). */
#include "consumer/nccl_api.h"

#include <stdio.h>

#include "common/log.h"

/* The first whose initialisation need not block and that is told so by ncclCommInitRankConfig. */
enum { NCCL_VERSION_MIN = 21400 };

static enum status nccl_version(const void *table, struct library_found *found, struct err *err)
{
    const struct nccl_api *nccl = table;
    int version = 0;
    const unsigned error = nccl->ncclGetVersion(&version);
    if (error != NCCL_OK) {
        return err_set(err, ERR_DEVICE, "ncclGetVersion: %s", nccl->ncclGetErrorString(error));
    }
    found->version = version;
    /* 10000 * major + 100 * minor + patch; before 2.9 it was 1000 * major. */
    const int major = version < 10000 ? version / 1000 : version / 10000;
    snprintf(found->version_text, sizeof(found->version_text), "%d.%d.%d", major,
             version / 100 % (version < 10000 ? 10 : 100), version % 100);
    if (version < NCCL_VERSION_MIN) {
        return err_set(err, ERR_DEVICE, "it is version %s, wanted 2.14 or newer: %s",
                       found->version_text, NCCL_WANT.install);
    }
    return OK;
}

static const struct library_symbol NCCL_SYMBOLS[] = {
#define NCCL_CALL(result, symbol, parameters) {#symbol, offsetof(struct nccl_api, symbol)},
#include "consumer/nccl_calls.def"
};

const struct library_want NCCL_WANT = {
    .name = "NCCL",
    .option = "nccl",
    .sonames = {"libnccl.so.2"},
    .folders = "/usr/local/cuda{,-12*,-13*}/lib64",
    .python = "nccl/lib",
    .install = "pip install nvidia-nccl-cu12",
    .symbols = NCCL_SYMBOLS,
    .symbol_count = ARRAY_LEN(NCCL_SYMBOLS),
    .version = nccl_version,
};

enum status nccl_open(const char *path, struct nccl_api *out, struct err *err)
{
    struct nccl_api nccl;
    TRY(library_open(&NCCL_WANT, path, &nccl, &nccl.found, err));
    *out = nccl;
    return OK;
}

enum status nccl_api_open(const struct config *config, struct nccl_api *out, struct err *err)
{
    TRY(nccl_open(config->nccl, out, err));
    char text[PATH_BYTES_MAX + 128];
    library_describe(&NCCL_WANT, &out->found, text, sizeof(text));
    log_info("%s", text);
    return OK;
}
