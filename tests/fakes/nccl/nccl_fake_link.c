/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's sockets: abstract Unix ones, so that nothing is left behind. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fakes/nccl/nccl_fake.h"

enum { LISTENERS_MAX = 16, BACKLOG = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char id[32];
    int fd;
} listeners[LISTENERS_MAX];

struct hello {
    uint32_t rank, size;
    int32_t version;
};

/* ---- ids ---- */

static socklen_t name_of(const char *id, struct sockaddr_un *out)
{
    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, id, strlen(id));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(id));
}

bool fake_listen(char id[32])
{
    uint64_t random = 0;
    struct sockaddr_un name;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        return false;
    }
    snprintf(id, 32, "fake-nccl-%016llx", (unsigned long long)random);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const socklen_t length = name_of(id, &name);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, BACKLOG) != 0) {
        return false;
    }
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < LISTENERS_MAX && listeners[i].id[0] != '\0') {
        i++;
    }
    const bool has_room = i < LISTENERS_MAX;
    if (has_room) {
        snprintf(listeners[i].id, sizeof(listeners[i].id), "%s", id);
        listeners[i].fd = fd;
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

int fake_take_listener(const char *id)
{
    int fd = -1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < LISTENERS_MAX; i++) {
        if (strcmp(listeners[i].id, id) == 0) {
            fd = listeners[i].fd;
            listeners[i].id[0] = '\0';
        }
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

/* ---- moving bytes ---- */

/* False: aborted. */
static bool await(struct ncclComm *comm, int fd, short events)
{
    struct pollfd fds[] = {{.fd = comm->abort_fd, .events = POLLIN}, {.fd = fd, .events = events}};
    while (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno == EINTR) {
    }
    return fds[0].revents == 0;
}

bool fake_is_aborted(struct ncclComm *comm)
{
    struct pollfd fd = {.fd = comm->abort_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

void fake_await_abort(struct ncclComm *comm)
{
    struct pollfd fd = {.fd = comm->abort_fd, .events = POLLIN};
    while (poll(&fd, 1, -1) != 1) {
    }
}

static bool lost(struct ncclComm *comm, uint32_t rank)
{
    if (!fake_is_aborted(comm)) {
        snprintf(comm->last, sizeof(comm->last), "fake: connection closed by rank %u", rank);
    }
    return false;
}

bool fake_send(struct ncclComm *comm, uint32_t rank, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    while (count > 0) {
        if (!await(comm, comm->peers[rank], POLLOUT)) {
            return false;
        }
        const ssize_t sent = send(comm->peers[rank], at, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return lost(comm, rank);
        }
        at += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static bool receive(struct ncclComm *comm, int fd, uint32_t rank, void *bytes, size_t count)
{
    uint8_t *at = bytes;
    while (count > 0) {
        if (!await(comm, fd, POLLIN)) {
            return false;
        }
        const ssize_t got = recv(fd, at, count, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return lost(comm, rank);
        }
        at += got > 0 ? got : 0;
        count -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

bool fake_receive(struct ncclComm *comm, uint32_t rank, void *bytes, size_t count)
{
    return receive(comm, comm->peers[rank], rank, bytes, count);
}

/* ---- connecting ---- */

static bool accept_rank(struct ncclComm *comm, const struct hello *own)
{
    struct hello hello;
    if (!await(comm, comm->listen_fd, POLLIN)) {
        return false;
    }
    const int fd = accept4(comm->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 || !receive(comm, fd, 0, &hello, sizeof(hello))) {
        return false;
    }
    if (hello.size != own->size || hello.rank == 0 || hello.rank >= own->size ||
        comm->peers[hello.rank] >= 0) {
        snprintf(comm->last, sizeof(comm->last), "fake: rank %u of %u among %u ranks", hello.rank,
                 hello.size, own->size);
        return false;
    }
    comm->peers[hello.rank] = fd;
    if (hello.version != own->version) {
        snprintf(comm->last, sizeof(comm->last), "fake: mismatched NCCL versions %d and %d",
                 own->version, hello.version);
        return false;
    }
    return true;
}

static bool connect_hub(struct ncclComm *comm)
{
    struct sockaddr_un name;
    const socklen_t length = name_of(comm->id, &name);
    comm->peers[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (comm->peers[0] < 0 || connect(comm->peers[0], (struct sockaddr *)&name, length) != 0) {
        snprintf(comm->last, sizeof(comm->last), "fake: no rank 0 at %s", comm->id);
        return false;
    }
    return true;
}

/* Nobody is connected before all are: rank 0 sends a byte at the end. */
bool fake_link(struct ncclComm *comm)
{
    const char *version = getenv("HR_FAKE_NCCL_VERSION");
    const struct hello own = {.rank = comm->rank,
                              .size = comm->size,
                              .version = version == NULL ? 0 : (int32_t)strtol(version, NULL, 10)};
    uint8_t go = 1;
    if (comm->rank != 0) {
        return connect_hub(comm) && fake_send(comm, 0, &own, sizeof(own)) &&
               fake_receive(comm, 0, &go, 1);
    }
    for (uint32_t i = 1; i < comm->size; i++) {
        if (!accept_rank(comm, &own)) {
            return false;
        }
    }
    for (uint32_t i = 1; i < comm->size; i++) {
        if (!fake_send(comm, i, &go, 1)) {
            return false;
        }
    }
    return true;
}
