/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch over a local cluster's agents: one thread, one poll loop.
 *
 * When a host fails the others learn it through the coordinator and end within seconds; who does
 * not (a host that still waits for the failed one to come) is stopped. A peer that was lost (69) is
 * what all but the first notice, so another code that comes with it is the cause.
 */
#include "cli/local_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "common/clock.h"

enum {
    LINE_BYTES = 4096,
    FAILED_GRACE_S = 12, /* for the other hosts to end by themselves */
    STOPPED_GRACE_S = 5, /* then between SIGTERM and SIGKILL */
};

struct watched {
    const struct local_host *host;
    pid_t pid;     /* 0: ended */
    int output_fd; /* -1: at its end */
    size_t used;
    char line[LINE_BYTES];
};

struct watch {
    uint32_t count;
    struct watched *hosts;
    struct pollfd *fds; /* the signals, then one per host */
    size_t name_width;
    int signal_fd;
    int signals;         /* TERM and INT so far */
    int code;            /* of the first failure; 0: none */
    bool killing;        /* what ends from now on was ended by us */
    int64_t deadline_ns; /* 0: none; else the next signal to all that run */
    int next_signal;
    int *codes;
};

/* ---- output ---- */

static void show_line(const struct watch *watch, struct watched *host)
{
    char text[LINE_BYTES + HOST_BYTES_MAX + 8];
    const int count = snprintf(text, sizeof(text), "%-*s | %.*s\n", (int)watch->name_width,
                               host->host->name, (int)host->used, host->line);
    host->used = 0;
    /* One write a line, so that lines stay whole beside the output of others. */
    for (int done = 0; done < count;) {
        const ssize_t written = write(STDOUT_FILENO, text + done, (size_t)(count - done));
        if (written < 0 && errno != EINTR) {
            return; /* nobody reads any more; the job goes on */
        }
        done += written > 0 ? (int)written : 0;
    }
}

static void take_bytes(const struct watch *watch, struct watched *host, const char *bytes,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n') {
            show_line(watch, host);
            continue;
        }
        host->line[host->used++] = bytes[i];
        if (host->used == LINE_BYTES) {
            show_line(watch, host);
        }
    }
}

static void read_output(const struct watch *watch, struct watched *host)
{
    char bytes[LINE_BYTES];
    ssize_t count;
    while ((count = read(host->output_fd, bytes, sizeof(bytes))) > 0) {
        take_bytes(watch, host, bytes, (size_t)count);
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (host->used > 0) {
        show_line(watch, host);
    }
    close(host->output_fd);
    host->output_fd = -1;
}

/* ---- start ---- */

/* This process's environment with the host's base in front, where it is found first. */
static char **make_environ(const struct local_host *host, char *base, size_t base_bytes)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **list = calloc(count + 2, sizeof(*list));
    if (list == NULL) {
        return NULL;
    }
    snprintf(base, base_bytes, "SAGEMAKER_BASE_DIR=%s", host->base);
    list[0] = base;
    size_t used = 1;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "SAGEMAKER_BASE_DIR=", 19) != 0) {
            list[used++] = environ[i];
        }
    }
    return list;
}

static enum status start_host(struct watched *host, char *const *argv, struct err *err)
{
    char base[PATH_BYTES_MAX + 32];
    int ends[2];
    char **list = make_environ(host->host, base, sizeof(base));
    if (list == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory");
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(list);
        return err_errno(err, ERR_RESOURCE, "pipe");
    }
    const struct child_options options = {.path = "/proc/self/exe",
                                          .argv = argv,
                                          .environ_list = list,
                                          .output_fd = ends[1],
                                          .reason_fd = -1};
    const enum status status = child_start(&options, &host->pid, err);
    free(list);
    close(ends[1]);
    if (status != OK) {
        close(ends[0]);
        return status;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    host->output_fd = ends[0];
    return OK;
}

static enum status start_all(struct watch *watch, const struct local_plan *plan, int argc,
                             char **argv, struct err *err)
{
    char **words = calloc((size_t)argc + 2, sizeof(*words));
    if (words == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory");
    }
    static char program[] = "headrace";
    static char command[] = "run";
    words[0] = program;
    words[1] = command;
    for (int i = 1; i < argc; i++) {
        words[i + 1] = argv[i];
    }
    enum status status = OK;
    for (uint32_t i = 0; i < plan->count && status == OK; i++) {
        status = start_host(&watch->hosts[i], words, err);
    }
    free(words);
    return status;
}

/* ---- signals, ends and time ---- */

static void signal_all(const struct watch *watch, int number)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        if (watch->hosts[i].pid != 0) {
            /* The agent alone: it knows how to end its children. */
            kill(watch->hosts[i].pid, number);
        }
    }
}

static void on_stop_signal(struct watch *watch, int number)
{
    if (watch->signals++ == 0) {
        signal_all(watch, SIGTERM);
        return;
    }
    watch->killing = true;
    watch->code = EXIT_SIGNAL_BASE + number;
    signal_all(watch, SIGKILL);
}

static void on_host_end(struct watch *watch, uint32_t i, int wait_status)
{
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                            : EXIT_SIGNAL_BASE + WTERMSIG(wait_status);
    watch->hosts[i].pid = 0;
    watch->codes[i] = code;
    if (code == EXIT_OK || watch->killing) {
        return;
    }
    if (watch->code == 0 || watch->code == EXIT_PEER) {
        watch->code = code;
    }
    if (watch->deadline_ns == 0) {
        watch->deadline_ns = clock_now_ns() + FAILED_GRACE_S * NS_PER_S;
        watch->next_signal = SIGTERM;
    }
}

static void reap(struct watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        int wait_status;
        if (watch->hosts[i].pid != 0 &&
            waitpid(watch->hosts[i].pid, &wait_status, WNOHANG) == watch->hosts[i].pid) {
            on_host_end(watch, i, wait_status);
        }
    }
}

static void read_signals(struct watch *watch)
{
    struct signalfd_siginfo info;
    while (read(watch->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            on_stop_signal(watch, (int)info.ssi_signo);
        }
    }
    reap(watch);
}

static void check_deadline(struct watch *watch)
{
    if (watch->deadline_ns == 0 || clock_now_ns() < watch->deadline_ns) {
        return;
    }
    watch->killing = true;
    signal_all(watch, watch->next_signal);
    watch->next_signal = SIGKILL;
    watch->deadline_ns = clock_now_ns() + STOPPED_GRACE_S * NS_PER_S;
}

static bool all_gone(const struct watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        if (watch->hosts[i].pid != 0) {
            return false;
        }
    }
    return true;
}

static void loop(struct watch *watch)
{
    while (!all_gone(watch)) {
        watch->fds[0] = (struct pollfd){.fd = watch->signal_fd, .events = POLLIN};
        for (uint32_t i = 0; i < watch->count; i++) {
            watch->fds[i + 1] = (struct pollfd){.fd = watch->hosts[i].output_fd, .events = POLLIN};
        }
        poll(watch->fds, watch->count + 1, 1000);
        for (uint32_t i = 0; i < watch->count; i++) {
            if (watch->fds[i + 1].revents != 0) {
                read_output(watch, &watch->hosts[i]);
            }
        }
        read_signals(watch);
        check_deadline(watch);
    }
    for (uint32_t i = 0; i < watch->count; i++) {
        if (watch->hosts[i].output_fd >= 0) {
            read_output(watch, &watch->hosts[i]); /* what is left in the pipe */
        }
    }
}

static enum status init(struct watch *watch, const struct local_plan *plan, struct err *err)
{
    sigset_t signals;
    watch->signal_fd = -1;
    watch->hosts = calloc(plan->count, sizeof(*watch->hosts));
    watch->fds = calloc(plan->count + 1, sizeof(*watch->fds));
    if (watch->hosts == NULL || watch->fds == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory for %u hosts", plan->count);
    }
    watch->count = plan->count;
    for (uint32_t i = 0; i < plan->count; i++) {
        const size_t width = strlen(plan->hosts[i].name);
        watch->hosts[i].host = &plan->hosts[i];
        watch->hosts[i].output_fd = -1;
        watch->name_width = width > watch->name_width ? width : watch->name_width;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    watch->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (watch->signal_fd < 0) {
        return err_errno(err, ERR_RESOURCE, "signalfd");
    }
    return OK;
}

int local_watch(const struct local_plan *plan, int argc, char **argv, int *codes)
{
    struct watch watch = {.codes = codes};
    struct err err;
    enum status status = init(&watch, plan, &err);
    if (status == OK) {
        status = start_all(&watch, plan, argc, argv, &err);
        if (status != OK) {
            watch.killing = true;
            signal_all(&watch, SIGKILL);
        }
        loop(&watch);
    }
    if (status != OK) {
        fprintf(stderr, "headrace local: %s\n", err.message);
        watch.code = status_exit_code(status);
    }
    if (watch.signal_fd >= 0) {
        close(watch.signal_fd);
    }
    free(watch.hosts);
    free(watch.fds);
    return watch.code;
}
