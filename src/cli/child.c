/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a child. Between fork and exec only async-signal-safe calls are allowed, for other
 * threads of this process may hold any lock at the moment of the fork; everything that needs memory
 * is done before.
 */
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/limits.h"

/* As execvp looks for it. ERR_MISSING. */
static enum status find_program(const char *name, char out[PATH_BYTES_MAX], struct err *err)
{
    if (strchr(name, '/') != NULL) {
        snprintf(out, PATH_BYTES_MAX, "%s", name);
        return OK;
    }
    const char *path = getenv("PATH");
    for (const char *at = path == NULL ? "/usr/bin:/bin" : path; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        snprintf(out, PATH_BYTES_MAX, "%.*s/%s", (int)length, length == 0 ? "." : at, name);
        if (access(out, X_OK) == 0) {
            return OK;
        }
        at += length + (at[length] == ':' ? 1 : 0);
    }
    return err_set(err, ERR_MISSING, "program %s is in no folder of PATH", name);
}

/* In the child; returns only when something failed, with errno. */
static void become(const struct child_options *options, const char *path, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_DFL); /* fails for two of them, which have no other */
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return;
    }
    if (getppid() != parent) {
        _exit(EXIT_SIGNAL_BASE + SIGKILL); /* it died before the line above */
    }
    if (setpgid(0, 0) != 0) {
        return;
    }
    if (options->nice != 0) {
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + options->nice);
    }
    if (options->output_fd >= 0 && (dup2(options->output_fd, STDOUT_FILENO) < 0 ||
                                    dup2(options->output_fd, STDERR_FILENO) < 0)) {
        return;
    }
    if (options->reason_fd >= 0 && fcntl(options->reason_fd, F_SETFD, 0) != 0) {
        return;
    }
    if (sigprocmask(SIG_SETMASK, &none, NULL) != 0) {
        return;
    }
    execve(path, options->argv, options->environ_list);
}

/* What the child says through the pipe when it cannot become the program; 0: it has. */
static int read_failure(int fd)
{
    int failure = 0;
    ssize_t count;
    do {
        count = read(fd, &failure, sizeof(failure));
    } while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof(failure) ? failure : 0;
}

enum status child_start(const struct child_options *options, pid_t *pid_out, struct err *err)
{
    char path[PATH_BYTES_MAX];
    int report[2]; /* closed by a successful exec */
    TRY(find_program(options->path, path, err));
    if (pipe2(report, O_CLOEXEC) != 0) {
        return err_errno(err, ERR_RESOURCE, "starting %s: pipe", path);
    }
    const pid_t parent = getpid();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    /* No handler of ours may run in the child. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0) {
        become(options, path, parent);
        const int failure = errno;
        if (write(report[1], &failure, sizeof(failure)) < 0) {
            _exit(EXIT_INTERNAL);
        }
        _exit(EXIT_RESOURCE);
    }
    const int fork_error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        errno = fork_error;
        return err_errno(err, ERR_RESOURCE, "starting %s: fork", path);
    }
    const int failure = read_failure(report[0]);
    close(report[0]);
    if (failure != 0) {
        waitpid(pid, NULL, 0);
        errno = failure;
        return err_errno(err, failure == ENOENT ? ERR_MISSING : ERR_RESOURCE, "starting %s", path);
    }
    *pid_out = pid;
    return OK;
}

void child_signal(pid_t pid, int number)
{
    if (kill(-pid, number) != 0) {
        kill(pid, number); /* its group is not there yet */
    }
}

void child_end_group(pid_t pid)
{
    kill(-pid, SIGKILL);
}

void child_describe(int wait_status, char *out, size_t bytes)
{
    if (WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        snprintf(out, bytes, "was killed by signal %d (%s)", number, strsignal(number));
        return;
    }
    snprintf(out, bytes, "exited with code %d", WEXITSTATUS(wait_status));
}
