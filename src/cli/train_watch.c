/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher's thread. The mutex guards what main and watcher share; nothing is called under it.
 */
#include "cli/train_watch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

enum { GRACE_MS = 500 }; /* the agent waits a second before it sends signals */

struct train_watch {
    struct coord_client *coord;
    int signal_fd, quit_fd;
    int failed_fd; /* eventfd: `failed` is set */
    pthread_t thread;
    int signals; /* heard so far; the watcher's own */

    pthread_mutex_t mutex;
    struct feed *feed;
    const struct coll_ops *coll_ops;
    struct coll *coll;
    bool failed;
    int code;
    struct err err;
};

enum status train_watch_signals(int *fd_out, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        return err_errno(err, ERR_RESOURCE, "signalfd");
    }
    *fd_out = fd;
    return OK;
}

static void raise_flag(int fd)
{
    const uint64_t one = 1;
    CHECK(write(fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

/* ---- ending the main thread's waits ---- */

/* Safe at any time: aborting and closing may repeat. */
static void end_waits(struct train_watch *watch)
{
    CHECK(pthread_mutex_lock(&watch->mutex) == 0);
    const bool failed = watch->failed;
    struct feed *feed = watch->feed;
    const struct coll_ops *coll_ops = watch->coll_ops;
    struct coll *coll = watch->coll;
    CHECK(pthread_mutex_unlock(&watch->mutex) == 0);
    if (!failed) {
        return;
    }
    if (coll != NULL) {
        coll_ops->abort(coll);
    }
    if (feed != NULL) {
        feed_close(feed);
    }
}

void train_watch_attach(struct train_watch *watch, struct feed *feed,
                        const struct coll_ops *coll_ops, struct coll *coll)
{
    CHECK(pthread_mutex_lock(&watch->mutex) == 0);
    watch->feed = feed;
    watch->coll_ops = coll_ops;
    watch->coll = coll;
    CHECK(pthread_mutex_unlock(&watch->mutex) == 0);
    end_waits(watch);
}

static bool has_failed(struct train_watch *watch)
{
    CHECK(pthread_mutex_lock(&watch->mutex) == 0);
    const bool failed = watch->failed;
    CHECK(pthread_mutex_unlock(&watch->mutex) == 0);
    return failed;
}

/* The first one stands. The watcher ends the main thread's waits when it sees it. */
static void note_failure(struct train_watch *watch, int code, enum status status, const char *text)
{
    CHECK(pthread_mutex_lock(&watch->mutex) == 0);
    if (!watch->failed) {
        watch->failed = true;
        watch->code = code;
        (void)err_set(&watch->err, status, "%s", text);
    }
    CHECK(pthread_mutex_unlock(&watch->mutex) == 0);
    raise_flag(watch->failed_fd);
}

static void set_failed(struct train_watch *watch, int code, enum status status, const char *text)
{
    note_failure(watch, code, status, text);
    end_waits(watch);
}

void train_watch_fail(struct train_watch *watch, const struct err *err)
{
    note_failure(watch, status_exit_code(err->status), err->status, err->message);
}

/* Nobody has begun: what the main thread waits for (data, other ranks) need not come any more. */
static void on_early_stop(struct train_watch *watch)
{
    set_failed(watch, EXIT_OK, ERR_CANCELLED, "the job was stopped before its first step");
}

/* No rank can finish the step that the main thread is in. It leaves the collective; for data it
 * does not wait much longer by itself. */
static void leave_step(struct train_watch *watch)
{
    CHECK(pthread_mutex_lock(&watch->mutex) == 0);
    const struct coll_ops *coll_ops = watch->coll_ops;
    struct coll *coll = watch->coll;
    CHECK(pthread_mutex_unlock(&watch->mutex) == 0);
    if (coll != NULL) {
        coll_ops->abort(coll);
    }
}

/* ---- events ---- */

static void on_stop_at(struct train_watch *watch, uint64_t step)
{
    struct coord_stop_state stop;
    coord_stop_state(watch->coord, &stop);
    if (stop.given_up && stop.begun > stop.step) {
        leave_step(watch);
    } else if (!stop.given_up && step == 0) {
        on_early_stop(watch);
    }
}

static void read_events(struct train_watch *watch)
{
    struct coord_event event;
    while (coord_next_event(watch->coord, &event) == OK) {
        switch (event.kind) {
        case COORD_EVENT_FAIL:
        case COORD_EVENT_LOST:
            set_failed(watch, event.code, ERR_PEER_GONE, event.text);
            break;
        case COORD_EVENT_STOP_AT:
            on_stop_at(watch, event.step);
            break;
        case COORD_EVENT_DONE:
        case COORD_EVENT_VERDICT: /* the producers' business */
            break;
        }
    }
}

static void read_signals(struct train_watch *watch)
{
    struct signalfd_siginfo info;
    while (read(watch->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        watch->signals++;
        if (watch->signals > 1) {
            _exit(EXIT_SIGNAL_BASE + (int)info.ssi_signo);
        }
        log_info("%s: asking all ranks to stop at the same step", strsignal((int)info.ssi_signo));
        coord_stop(watch->coord);
    }
}

static void *run(void *context)
{
    struct train_watch *watch = context;
    struct pollfd fds[] = {
        {.fd = watch->quit_fd, .events = POLLIN},
        {.fd = watch->signal_fd, .events = POLLIN},
        {.fd = coord_event_fd(watch->coord), .events = POLLIN},
        {.fd = watch->failed_fd, .events = POLLIN},
    };
    while (!has_failed(watch)) {
        (void)poll(fds, ARRAY_LEN(fds), -1); /* EINTR: nothing is readable, so again */
        if (fds[0].revents != 0) {
            return NULL;
        }
        read_signals(watch);
        read_events(watch);
    }
    end_waits(watch);
    if (poll(fds, 1, GRACE_MS) == 0) {
        (void)cmd_fail("train", &watch->err);
        _exit(watch->code);
    }
    return NULL;
}

void train_watch_await(struct train_watch *watch, int64_t timeout_ns)
{
    struct pollfd fd = {.fd = watch->failed_fd, .events = POLLIN};
    const int64_t deadline_ns = clock_now_ns() + timeout_ns;
    int64_t left_ns = timeout_ns;
    while (left_ns > 0 && poll(&fd, 1, (int)(left_ns / NS_PER_MS + 1)) <= 0) {
        left_ns = deadline_ns - clock_now_ns();
    }
}

/* ---- start and stop ---- */

static void free_watch(struct train_watch *watch)
{
    if (watch->quit_fd >= 0) {
        CHECK(close(watch->quit_fd) == 0);
    }
    if (watch->failed_fd >= 0) {
        CHECK(close(watch->failed_fd) == 0);
    }
    free(watch);
}

enum status train_watch_start(struct coord_client *coord, int signal_fd, struct train_watch **out,
                              struct err *err)
{
    struct train_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return err_errno(err, ERR_RESOURCE, "watcher");
    }
    watch->coord = coord;
    watch->signal_fd = signal_fd;
    watch->quit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->failed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->quit_fd < 0 || watch->failed_fd < 0) {
        const enum status status = err_errno(err, ERR_RESOURCE, "eventfds of the watcher");
        free_watch(watch);
        return status;
    }
    CHECK(pthread_mutex_init(&watch->mutex, NULL) == 0);
    const enum status status = thread_start("hr-watch", run, watch, &watch->thread, err);
    if (status != OK) {
        free_watch(watch);
        return status;
    }
    *out = watch;
    return OK;
}

bool train_watch_stop(struct train_watch *watch, int *code_out, struct err *err)
{
    raise_flag(watch->quit_fd);
    CHECK(pthread_join(watch->thread, NULL) == 0);
    CHECK(pthread_mutex_lock(&watch->mutex) == 0);
    const bool failed = watch->failed;
    if (failed) {
        *code_out = watch->code;
        *err = watch->err;
    }
    CHECK(pthread_mutex_unlock(&watch->mutex) == 0);
    return failed;
}

void train_watch_free(struct train_watch **watch)
{
    struct train_watch *w = *watch;
    if (w == NULL) {
        return;
    }
    CHECK(pthread_mutex_destroy(&w->mutex) == 0);
    free_watch(w);
    *watch = NULL;
}
