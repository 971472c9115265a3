/* SPDX-License-Identifier: Apache-2.0 */
/* The failure file and the last words of children. */
#include "cli/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/limits.h"
#include "common/log.h"

void failure_write(const char *base, const char *text)
{
    char path[PATH_BYTES_MAX];
    char line[FAILURE_BYTES_MAX];
    snprintf(path, sizeof(path), "%s/output", base);
    mkdir(path, 0777); /* usually there */
    snprintf(path, sizeof(path), "%s/output/failure", base);
    snprintf(line, sizeof(line), "headrace: %s\n", text);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        if (errno != EEXIST) {
            log_warn("failure file %s: %s", path, strerror(errno));
        }
        return;
    }
    const size_t count = strlen(line);
    if (write(fd, line, count) != (ssize_t)count || close(fd) != 0) {
        log_warn("failure file %s: %s", path, strerror(errno));
    }
}

/* -1: this process has no agent. */
static int reason_fd(void)
{
    const char *number = getenv("HR_REASON_FD");
    if (number == NULL) {
        return -1;
    }
    char *end = NULL;
    const long fd = strtol(number, &end, 10);
    return *number == '\0' || *end != '\0' || fd <= STDERR_FILENO || fd > INT_MAX ? -1 : (int)fd;
}

void reason_say(const char *text)
{
    const int fd = reason_fd();
    if (fd >= 0) {
        dprintf(fd, "%s\n", text); /* fails where the descriptor was not handed on */
    }
}

bool reason_is_said(void)
{
    struct stat status;
    const int fd = reason_fd();
    return fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0;
}

int reason_open(void)
{
    return memfd_create("headrace-reason", MFD_CLOEXEC);
}

void reason_take(int fd, char *out, size_t bytes)
{
    char text[2 * FAILURE_BYTES_MAX] = "";
    out[0] = '\0';
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size == 0) {
        return;
    }
    const off_t begin =
        status.st_size > (off_t)sizeof(text) - 1 ? status.st_size - ((off_t)sizeof(text) - 1) : 0;
    const ssize_t count = pread(fd, text, sizeof(text) - 1, begin);
    if (count <= 0) {
        return;
    }
    text[count] = '\0';
    for (size_t end = (size_t)count; end > 0 && text[end - 1] == '\n'; end--) {
        text[end - 1] = '\0';
    }
    const char *last = strrchr(text, '\n');
    snprintf(out, bytes, "%s", last == NULL ? text : last + 1);
    if (ftruncate(fd, 0) == 0) {
        lseek(fd, 0, SEEK_SET);
    }
}
