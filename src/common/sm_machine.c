/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the vendors' tools with bounded output and a deadline, and counts in what they print. */
#include "common/sm_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/limits.h"

/* ---- a tool's output ---- */

/* Starts the tool in a process group of its own, stdout into a pipe. false: it cannot be started.
 */
static bool start_tool(const char *const argv[], int write_fd, pid_t *pid_out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return false;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return false;
    }
    const bool is_ready =
        posix_spawn_file_actions_adddup2(&actions, write_fd, STDOUT_FILENO) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP) == 0 &&
        posix_spawnattr_setpgroup(&attributes, 0) == 0;
    const bool is_started = is_ready && posix_spawnp(pid_out, argv[0], &actions, &attributes,
                                                     (char *const *)argv, environ) == 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return is_started;
}

static enum status refuse_silence(const char *tool, struct err *err)
{
    return err_set(err, ERR_TIMEOUT, "%s did not answer in time", tool);
}

/* Reads until the end, the deadline or the limit. out has SM_MACHINE_OUTPUT_BYTES_MAX + 1 bytes. */
static enum status read_output(int fd, const char *tool, int64_t deadline_ns, char *out,
                               struct err *err)
{
    size_t len = 0;
    for (;;) {
        const int64_t left_ms = (deadline_ns - clock_now_ns()) / NS_PER_MS;
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        const int ready = left_ms <= 0 ? 0 : poll(&entry, 1, (int)left_ms);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return refuse_silence(tool, err);
        }
        const ssize_t count = read(fd, out + len, SM_MACHINE_OUTPUT_BYTES_MAX - len);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0 || len + (size_t)count == SM_MACHINE_OUTPUT_BYTES_MAX) {
            len += count > 0 ? (size_t)count : 0;
            out[len] = '\0';
            return OK;
        }
        len += (size_t)count;
    }
}

/* Waits for the tool, whose output has ended, and kills it at the deadline. */
static enum status wait_for_exit(pid_t pid, const char *tool, int64_t deadline_ns, int *result_out,
                                 struct err *err)
{
    const struct timespec pause = {.tv_nsec = 2 * NS_PER_MS};
    while (waitpid(pid, result_out, WNOHANG) != pid) {
        if (clock_now_ns() > deadline_ns) {
            return refuse_silence(tool, err);
        }
        nanosleep(&pause, NULL);
    }
    return OK;
}

static void kill_tool(pid_t pid)
{
    int result = 0;
    kill(-pid, SIGKILL);
    while (waitpid(pid, &result, 0) < 0 && errno == EINTR) {
    }
}

/* A started tool's output; NULL where it fails. */
static enum status collect_output(pid_t pid, int fd, const char *tool, int64_t deadline_ns,
                                  char **out, struct err *err)
{
    int result = 0;
    char *output = calloc(1, SM_MACHINE_OUTPUT_BYTES_MAX + 1);
    enum status status = output != NULL ? read_output(fd, tool, deadline_ns, output, err)
                                        : err_set(err, ERR_RESOURCE, "no memory for %s", tool);
    close(fd);
    if (status == OK) {
        status = wait_for_exit(pid, tool, deadline_ns, &result, err);
    }
    if (status != OK) {
        kill_tool(pid);
    }
    if (status != OK || result != 0) {
        free(output);
        return status;
    }
    *out = output;
    return OK;
}

/* Runs a tool and hands its output out, which the caller frees; NULL where it is missing or fails.
 */
static enum status run_tool(const char *const argv[], int64_t deadline_ms, char **out,
                            struct err *err)
{
    int pipe_fds[2];
    pid_t pid = 0;
    *out = NULL;
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return err_errno(err, ERR_RESOURCE, "cannot make a pipe for %s", argv[0]);
    }
    const bool is_started = start_tool(argv, pipe_fds[1], &pid);
    close(pipe_fds[1]);
    if (!is_started) {
        close(pipe_fds[0]);
        return OK;
    }
    const int64_t deadline_ns = clock_now_ns() + deadline_ms * NS_PER_MS;
    return collect_output(pid, pipe_fds[0], argv[0], deadline_ns, out, err);
}

/* ---- what it says ---- */

static enum status count_gpus(int64_t deadline_ms, int64_t *count_out, struct err *err)
{
    static const char *const COMMAND[] = {"nvidia-smi", "--list-gpus", NULL};
    char *output = NULL;
    *count_out = 0;
    TRY(run_tool(COMMAND, deadline_ms, &output, err));
    for (const char *line = output; line != NULL && *line != '\0';) {
        *count_out += strncmp(line, "GPU ", 4) == 0;
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    free(output);
    return OK;
}

static bool sum_neurons(const struct json *devices, int64_t *sum_out)
{
    if (json_kind(devices) != JSON_LIST) {
        return false;
    }
    *sum_out = 0;
    for (const struct json *device = json_first(devices); device != NULL;
         device = json_next(device)) {
        const struct json *count = json_get(device, "nc_count");
        int64_t cores = 0;
        if (json_kind(device) != JSON_OBJECT ||
            (count != NULL && (!json_to_integer(count, &cores) || cores < 0 || cores > 1000000))) {
            return false;
        }
        *sum_out += cores;
    }
    return true;
}

static enum status count_neurons(int64_t deadline_ms, int64_t *count_out, struct err *err)
{
    static const char *const COMMAND[] = {"neuron-ls", "-j", NULL};
    char *output = NULL;
    *count_out = 0;
    TRY(run_tool(COMMAND, deadline_ms, &output, err));
    if (output == NULL) {
        return OK;
    }
    struct json *devices = NULL;
    enum status status = json_parse(output, &devices, err);
    free(output);
    if (status != OK) {
        err_prefix(err, "neuron-ls -j");
        return err_restate(err, ERR_CONFIG);
    }
    if (!sum_neurons(devices, count_out)) {
        status = err_set(err, ERR_CONFIG,
                         "neuron-ls -j: found no list of devices with an integer nc_count");
    }
    json_free(&devices);
    return status;
}

static bool is_in_path(const char *program)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        char name[PATH_BYTES_MAX];
        struct stat info;
        const size_t len = strcspn(path, ":");
        const int count = snprintf(name, sizeof(name), "%.*s/%s", len == 0 ? 1 : (int)len,
                                   len == 0 ? "." : path, program);
        if (count < (int)sizeof(name) && stat(name, &info) == 0 && S_ISREG(info.st_mode) &&
            access(name, X_OK) == 0) {
            return true;
        }
        path += len + (path[len] == ':');
    }
    return false;
}

enum status sm_machine_probe(bool with_neurons, int64_t deadline_ms, struct sm_machine *out,
                             struct err *err)
{
    struct sm_machine machine = {.num_cpus = sysconf(_SC_NPROCESSORS_ONLN),
                                 .has_smddprun = is_in_path("smddprun"),
                                 .has_smddpmprun = is_in_path("smddpmprun")};
    TRY(count_gpus(deadline_ms, &machine.num_gpus, err));
    if (with_neurons) {
        TRY(count_neurons(deadline_ms, &machine.num_neurons, err));
    }
    *out = machine;
    return OK;
}

/* ---- the file ---- */

static enum status read_count(const struct json *root, const char *path, const char *key,
                              int64_t *out, struct err *err)
{
    const struct json *value = json_get(root, key);
    if (value != NULL && json_to_integer(value, out) && *out >= 0) {
        return OK;
    }
    char found[NAME_BYTES_MAX];
    json_describe(value, found, sizeof(found));
    return err_set(err, ERR_CONFIG, "%s: %s: found %s, expected a count", path, key, found);
}

static bool read_flag(const struct json *root, const char *key)
{
    const struct json *value = json_get(root, key);
    return value != NULL && json_truth(value);
}

enum status sm_machine_read(const char *path, struct sm_machine *out, struct err *err)
{
    struct json *root = NULL;
    const enum status read = json_read_file(path, &root, err);
    if (read != OK) {
        return read == ERR_DATA ? err_restate(err, ERR_CONFIG) : read;
    }
    struct sm_machine machine = {.has_smddprun = read_flag(root, "is_smddprun_installed"),
                                 .has_smddpmprun = read_flag(root, "is_smddpmprun_installed")};
    enum status status = read_count(root, path, "num_cpus", &machine.num_cpus, err);
    if (status == OK) {
        status = read_count(root, path, "num_gpus", &machine.num_gpus, err);
    }
    if (status == OK) {
        status = read_count(root, path, "num_neurons", &machine.num_neurons, err);
    }
    if (status == OK) {
        *out = machine;
    }
    json_free(&root);
    return status;
}
