/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads. The signals of a crash stay open, so that a crash record can be left. */
#include "common/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

enum status thread_start(const char *name, void *(*run)(void *context), void *context,
                         pthread_t *out, struct err *err)
{
    static const int CRASHES[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    for (size_t i = 0; i < ARRAY_LEN(CRASHES); i++) {
        sigdelset(&blocked, CRASHES[i]);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    errno = pthread_create(out, NULL, run, context);
    const bool started = errno == 0;
    if (!started) {
        err_errno(err, ERR_RESOURCE, "starting thread %s", name);
    } else {
        pthread_setname_np(*out, name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started ? OK : ERR_RESOURCE;
}

uint32_t thread_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}
