/* SPDX-License-Identifier: Apache-2.0 */
/* The job's file and the hyperparameters: the same bytes as both, read as the program reads them.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/config.h"
#include "fuzz/fuzz.h"

static void try_sources(const char *config_path, const char *hyperparameters_path)
{
    char *no_variables[] = {NULL};
    const struct config_sources sources = {.environ_list = no_variables,
                                           .hyperparameters_path = hyperparameters_path,
                                           .config_path = config_path};
    static struct config config; /* too large for a fuzzer's stack */
    struct err err = {0};
    int rest_count = 0;
    const enum status status = config_load(&sources, &config, &rest_count, &err);
    if (status == OK) {
        CHECK(config.stream_count <= STREAMS_MAX && config.role_count <= ROLES_MAX);
        CHECK(config.stream_count == 0 || config.streams[0].data[0] != '/');
        (void)config_digest(&config);
        config_fini(&config);
        return;
    }
    /* A hyperparameter may name a job file that is not there, or that is a folder. */
    CHECK(status == ERR_CONFIG || status == ERR_MISSING || status == ERR_IO);
    CHECK(err.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char path[64];
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(write(fd, bytes, count) == (ssize_t)count);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    try_sources(path, NULL);
    try_sources(NULL, path);
    close(fd);
    return 0;
}
