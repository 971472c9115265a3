/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From names to numeric addresses. ZeroMQ would resolve a name itself, on its I/O thread, where a
 * name server that does not answer stops every link for tens of seconds; so it is given numbers
 * only. A look-up can hang in the C library beyond any time-out: it runs in a detached thread that
 * shares nothing with its caller but a pair of sockets, one end each, and is left behind when the
 * deadline passes. Invariant: at most one look-up of a call is under way.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/net.h"

enum {
    BACKOFF_MIN_MS = 100, /* doubles up to */
    BACKOFF_MAX_MS = 5000,
    PROGRESS_S = 30, /* between lines */
};

/* A numeric address of either family, as bytes. */
struct numeric {
    int family; /* AF_INET, AF_INET6; AF_UNSPEC: none */
    uint8_t bytes[16];
};

static struct numeric parse(const char *address)
{
    struct numeric n = {.family = AF_INET};
    if (inet_pton(AF_INET, address, n.bytes) == 1) {
        return n;
    }
    n.family = inet_pton(AF_INET6, address, n.bytes) == 1 ? AF_INET6 : AF_UNSPEC;
    return n;
}

bool net_address_is_numeric(const char *address)
{
    return parse(address).family != AF_UNSPEC;
}

bool net_address_is_loopback(const char *address)
{
    const struct numeric n = parse(address);
    if (n.family == AF_INET) {
        return n.bytes[0] == 127;
    }
    return n.family == AF_INET6 && memcmp(n.bytes, &in6addr_loopback, sizeof(n.bytes)) == 0;
}

static struct numeric from_sockaddr(const struct sockaddr *sa)
{
    struct numeric n = {.family = AF_UNSPEC};
    if (sa == NULL) {
        return n;
    }
    if (sa->sa_family == AF_INET) {
        n.family = AF_INET;
        memcpy(n.bytes, &((const struct sockaddr_in *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        n.family = AF_INET6;
        memcpy(n.bytes, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
    }
    return n;
}

static bool inside(const struct numeric *n, const struct ifaddrs *entry)
{
    const struct numeric own = from_sockaddr(entry->ifa_addr);
    const struct numeric mask = from_sockaddr(entry->ifa_netmask);
    if (own.family != n->family || mask.family != n->family) {
        return false;
    }
    for (size_t i = 0; i < sizeof(n->bytes); i++) {
        if (((n->bytes[i] ^ own.bytes[i]) & mask.bytes[i]) != 0) {
            return false;
        }
    }
    return true;
}

bool net_address_on_interface(const char *address, const char *interface_name)
{
    if (net_address_is_loopback(address)) {
        return true;
    }
    const struct numeric n = parse(address);
    struct ifaddrs *entries = NULL;
    if (n.family == AF_UNSPEC || getifaddrs(&entries) != 0) {
        return false;
    }
    bool found = false;
    for (const struct ifaddrs *entry = entries; entry != NULL && !found; entry = entry->ifa_next) {
        found = strcmp(entry->ifa_name, interface_name) == 0 && inside(&n, entry);
    }
    freeifaddrs(entries);
    return found;
}

/* ---- names ---- */

struct lookup { /* the thread's own */
    int fd;     /* where the answer goes */
    char name[HOST_BYTES_MAX];
};

struct answer {
    int error; /* 0, or an EAI_ code, and then */
    int cause; /* errno for EAI_SYSTEM */
    char address[ADDR_BYTES_MAX];
};

/* An IPv4 address where there is one: listeners are on IPv4 unless told otherwise. */
static void choose(const struct addrinfo *list, struct answer *answer)
{
    static const int FAMILIES[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < ARRAY_LEN(FAMILIES); i++) {
        for (const struct addrinfo *entry = list; entry != NULL; entry = entry->ai_next) {
            const struct numeric n = from_sockaddr(entry->ai_addr);
            if (n.family == FAMILIES[i] &&
                inet_ntop(n.family, n.bytes, answer->address, sizeof(answer->address)) != NULL) {
                return;
            }
        }
    }
    answer->error = EAI_NONAME;
}

static void *look_up(void *argument)
{
    struct lookup *lookup = argument;
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct answer answer = {.error = getaddrinfo(lookup->name, NULL, &hints, &list)};
    answer.cause = errno;
    if (answer.error == 0) {
        choose(list, &answer);
        freeaddrinfo(list);
    }
    /* Nobody may be there any more to hear it. */
    (void)send(lookup->fd, &answer, sizeof(answer), MSG_NOSIGNAL);
    close(lookup->fd);
    free(lookup);
    return NULL;
}

/* Starts a look-up; its answer can be read from *fd_out. */
static enum status begin_lookup(const char *name, int *fd_out, struct err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return err_errno(err, ERR_RESOURCE, "socket pair for looking up %s", name);
    }
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (lookup == NULL) {
        err_set(err, ERR_RESOURCE, "no memory for looking up %s", name);
        goto close_ends;
    }
    lookup->fd = ends[1];
    snprintf(lookup->name, sizeof(lookup->name), "%s", name);

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    pthread_t thread;
    const int failed = pthread_create(&thread, NULL, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        err_set(err, ERR_RESOURCE, "thread for looking up %s: %s", name, strerror(failed));
        goto free_lookup;
    }
    pthread_detach(thread);
    *fd_out = ends[0];
    return OK;

free_lookup:
    free(lookup);
close_ends:
    close(ends[0]);
    close(ends[1]);
    return ERR_RESOURCE;
}

static int ms_until(int64_t time_ns)
{
    const int64_t ms = (time_ns - clock_now_ns() + NS_PER_MS - 1) / NS_PER_MS;
    return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int)ms;
}

/* ERR_TIMEOUT: the thread is left to itself. */
static enum status await_answer(int fd, int64_t deadline_ns, struct answer *out)
{
    for (;;) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        const int ready = poll(&item, 1, ms_until(deadline_ns));
        if (ready > 0) {
            CHECK(recv(fd, out, sizeof(*out), 0) == (ssize_t)sizeof(*out));
            return OK;
        }
        if (ready == 0 && clock_now_ns() >= deadline_ns) {
            return ERR_TIMEOUT;
        }
    }
}

/* Waits, but not past the deadline. */
static void back_off(int ms, int64_t deadline_ns)
{
    const int64_t end_ns = clock_now_ns() + ms * NS_PER_MS;
    const int64_t until_ns = end_ns < deadline_ns ? end_ns : deadline_ns;
    while (clock_now_ns() < until_ns) {
        (void)poll(NULL, 0, ms_until(until_ns));
    }
}

enum status net_resolve(const char *name, int64_t deadline_ns, char out[ADDR_BYTES_MAX],
                        struct err *err)
{
    if (net_address_is_numeric(name)) {
        snprintf(out, ADDR_BYTES_MAX, "%s", name);
        return OK;
    }
    if (name[0] == '\0' || strlen(name) >= HOST_BYTES_MAX) {
        return err_set(err, ERR_CONFIG, "host name of %zu bytes, allowed 1 to %d", strlen(name),
                       HOST_BYTES_MAX - 1);
    }
    const int64_t begin_ns = clock_now_ns();
    int64_t progress_ns = begin_ns;
    char reason[128] = "the look-up did not return";
    for (int wait_ms = BACKOFF_MIN_MS;; wait_ms *= 2) {
        int fd = -1;
        TRY(begin_lookup(name, &fd, err));
        struct answer answer;
        const enum status status = await_answer(fd, deadline_ns, &answer);
        close(fd);
        if (status == OK && answer.error == 0) {
            snprintf(out, ADDR_BYTES_MAX, "%s", answer.address);
            return OK;
        }
        if (status == OK) {
            snprintf(reason, sizeof(reason), "%s",
                     answer.error == EAI_SYSTEM ? strerror(answer.cause)
                                                : gai_strerror(answer.error));
        }
        const int64_t now_ns = clock_now_ns();
        if (now_ns >= deadline_ns) {
            return err_set(err, ERR_TIMEOUT,
                           "host %s has no address after %" PRId64
                           " s: %s; check the name, or give "
                           "its address (option hosts)",
                           name, (now_ns - begin_ns) / NS_PER_S, reason);
        }
        if (now_ns >= progress_ns) {
            log_info("waiting for the name of host %s (%s), %" PRId64 " s left", name, reason,
                     (deadline_ns - now_ns) / NS_PER_S);
            progress_ns = now_ns + PROGRESS_S * NS_PER_S;
        }
        wait_ms = wait_ms < BACKOFF_MAX_MS ? wait_ms : BACKOFF_MAX_MS;
        back_off(wait_ms, deadline_ns);
    }
}
