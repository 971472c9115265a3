/* SPDX-License-Identifier: Apache-2.0 */
/* The watch's thread and the thread that aborts. Lock order: none, neither lock is taken under the
 * other. */
#include "consumer/coll_nccl_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

struct nccl_watch {
    const struct nccl_api *nccl;
    int64_t timeout_ns;
    nccl_stuck_fn stuck;
    pthread_t thread;

    pthread_mutex_t comm_mutex; /* the loan: held during one call */
    struct ncclComm *comm;

    pthread_mutex_t mutex; /* all below */
    pthread_cond_t changed;
    const char *call;    /* in progress; NULL: none */
    int64_t call_ns;     /* its deadline */
    int64_t flight_ns;   /* 0: nothing in flight */
    const char *overrun; /* what the watch aborted for; NULL: it was asked to */
    bool is_aborting;
    bool has_aborted; /* ncclCommAbort is back */
    bool is_over;     /* no more to be watched */
};

static void lock(pthread_mutex_t *mutex)
{
    CHECK(pthread_mutex_lock(mutex) == 0);
}

static void unlock(pthread_mutex_t *mutex)
{
    CHECK(pthread_mutex_unlock(mutex) == 0);
}

static void changed(struct nccl_watch *watch)
{
    CHECK(pthread_cond_broadcast(&watch->changed) == 0);
}

/* Waits for a change, at most until then; 0: for ever. */
static void await(struct nccl_watch *watch, int64_t until_ns)
{
    if (until_ns == 0) {
        CHECK(pthread_cond_wait(&watch->changed, &watch->mutex) == 0);
        return;
    }
    const struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    (void)pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
}

/* ---- the thread ---- */

static _Noreturn void end_process(struct nccl_watch *watch, const char *call, const char *what)
{
    struct err err = {0};
    (void)err_set(&err, ERR_PEER_GONE,
                  "NCCL: %s %s within %.1f s; only the end of this process helps", call, what,
                  (double)watch->timeout_ns / (double)NS_PER_S);
    if (watch->stuck != NULL) {
        watch->stuck(&err);
    }
    log_error("%s", err.message);
    _exit(EXIT_PEER);
}

static void *run_abort(void *context)
{
    struct nccl_watch *watch = context;
    lock(&watch->comm_mutex);
    struct ncclComm *comm = watch->comm;
    watch->comm = NULL;
    unlock(&watch->comm_mutex);
    if (comm != NULL) {
        const unsigned error = watch->nccl->ncclCommAbort(comm);
        if (error != NCCL_OK) { /* nothing is left to be done about it */
            log_warn("NCCL: ncclCommAbort: error %u", error);
        }
    }
    lock(&watch->mutex);
    watch->has_aborted = true;
    changed(watch);
    unlock(&watch->mutex);
    return NULL;
}

/* Under the lock, as it comes back. */
static void abort_in_time(struct nccl_watch *watch)
{
    pthread_t thread;
    if (thread_start("hr-nccl-abort", run_abort, watch, &thread, NULL) != OK) {
        end_process(watch, "ncclCommAbort", "could not be started");
    }
    const int64_t until_ns = clock_now_ns() + watch->timeout_ns;
    while (!watch->has_aborted && clock_now_ns() < until_ns) {
        await(watch, until_ns);
    }
    if (!watch->has_aborted) {
        end_process(watch, "ncclCommAbort", "has not returned");
    }
    unlock(&watch->mutex);
    CHECK(pthread_join(thread, NULL) == 0);
    lock(&watch->mutex);
    watch->flight_ns = 0;
    if (watch->call != NULL) { /* it has to see that and return */
        watch->call_ns = clock_now_ns();
    }
}

/* When patience ends; 0: there is nothing to wait for. */
static int64_t next_due(const struct nccl_watch *watch)
{
    int64_t due_ns = watch->flight_ns;
    if (watch->call != NULL && (due_ns == 0 || watch->call_ns < due_ns)) {
        due_ns = watch->call_ns;
    }
    return due_ns == 0 ? 0 : due_ns + watch->timeout_ns;
}

static void *run(void *context)
{
    struct nccl_watch *watch = context;
    lock(&watch->mutex);
    while (!watch->is_over || (watch->is_aborting && !watch->has_aborted)) {
        if (watch->is_aborting && !watch->has_aborted) {
            abort_in_time(watch);
            continue;
        }
        const int64_t due_ns = next_due(watch);
        if (due_ns == 0 || clock_now_ns() < due_ns) {
            await(watch, due_ns);
        } else if (!watch->is_aborting) {
            watch->overrun = watch->call == NULL ? "a bucket's sum" : watch->call;
            watch->is_aborting = true;
        } else { /* nothing is in flight after an abort, so it is a call */
            end_process(watch, watch->call, "has not returned after its deadline");
        }
    }
    unlock(&watch->mutex);
    return NULL;
}

/* ---- what the other threads do ---- */

void nccl_watch_begin(struct nccl_watch *watch, const char *call, int64_t deadline_ns)
{
    lock(&watch->mutex);
    watch->call = call;
    watch->call_ns = deadline_ns;
    changed(watch);
    unlock(&watch->mutex);
}

void nccl_watch_end(struct nccl_watch *watch)
{
    lock(&watch->mutex);
    watch->call = NULL;
    changed(watch);
    unlock(&watch->mutex);
}

void nccl_watch_flight(struct nccl_watch *watch, int64_t deadline_ns)
{
    lock(&watch->mutex);
    if (deadline_ns == 0 || watch->flight_ns == 0 || deadline_ns < watch->flight_ns) {
        watch->flight_ns = deadline_ns;
    }
    changed(watch);
    unlock(&watch->mutex);
}

void nccl_watch_adopt(struct nccl_watch *watch, struct ncclComm *comm)
{
    lock(&watch->comm_mutex);
    watch->comm = comm;
    unlock(&watch->comm_mutex);
}

struct ncclComm *nccl_watch_disown(struct nccl_watch *watch)
{
    lock(&watch->comm_mutex);
    struct ncclComm *comm = watch->comm;
    watch->comm = NULL;
    unlock(&watch->comm_mutex);
    return comm;
}

struct ncclComm *nccl_watch_enter(struct nccl_watch *watch)
{
    lock(&watch->comm_mutex);
    struct ncclComm *comm = watch->comm;
    if (comm == NULL) {
        unlock(&watch->comm_mutex);
    }
    return comm;
}

void nccl_watch_leave(struct nccl_watch *watch)
{
    unlock(&watch->comm_mutex);
}

void nccl_watch_abort(struct nccl_watch *watch)
{
    lock(&watch->mutex);
    watch->is_aborting = true;
    changed(watch);
    unlock(&watch->mutex);
}

enum status nccl_watch_aborted(struct nccl_watch *watch, struct err *err)
{
    lock(&watch->mutex);
    const bool is_aborting = watch->is_aborting;
    const char *overrun = watch->overrun;
    unlock(&watch->mutex);
    if (!is_aborting) {
        return OK;
    }
    if (overrun != NULL) {
        return err_set(err, ERR_TIMEOUT,
                       "NCCL: %s did not finish by its deadline and was aborted: another rank may "
                       "be stuck or gone",
                       overrun);
    }
    return err_set(err, ERR_CANCELLED, "NCCL: aborted");
}

/* ---- life ---- */

static void free_watch(struct nccl_watch *watch)
{
    CHECK(pthread_cond_destroy(&watch->changed) == 0);
    CHECK(pthread_mutex_destroy(&watch->mutex) == 0);
    CHECK(pthread_mutex_destroy(&watch->comm_mutex) == 0);
    free(watch);
}

enum status nccl_watch_start(const struct nccl_api *nccl, int64_t timeout_ns, nccl_stuck_fn stuck,
                             struct nccl_watch **out, struct err *err)
{
    struct nccl_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return err_errno(err, ERR_RESOURCE, "NCCL's watch");
    }
    watch->nccl = nccl;
    watch->timeout_ns = timeout_ns;
    watch->stuck = stuck;
    pthread_condattr_t monotonic;
    CHECK(pthread_condattr_init(&monotonic) == 0);
    CHECK(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&watch->changed, &monotonic) == 0);
    CHECK(pthread_condattr_destroy(&monotonic) == 0);
    CHECK(pthread_mutex_init(&watch->mutex, NULL) == 0);
    CHECK(pthread_mutex_init(&watch->comm_mutex, NULL) == 0);
    const enum status status = thread_start("hr-nccl", run, watch, &watch->thread, err);
    if (status != OK) {
        free_watch(watch);
        return status;
    }
    *out = watch;
    return OK;
}

void nccl_watch_stop(struct nccl_watch **watch)
{
    if (*watch == NULL) {
        return;
    }
    lock(&(*watch)->mutex);
    (*watch)->is_over = true;
    changed(*watch);
    unlock(&(*watch)->mutex);
    CHECK(pthread_join((*watch)->thread, NULL) == 0);
    free_watch(*watch);
    *watch = NULL;
}
