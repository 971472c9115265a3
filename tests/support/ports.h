/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports for tests whose listeners must be known before they listen. From below the range from which
 * the kernel takes the ports of outgoing connections, or one of those may come between.
 */
#ifndef HEADRACE_TESTS_SUPPORT_PORTS_H
#define HEADRACE_TESTS_SUPPORT_PORTS_H

#include <arpa/inet.h>
#include <check.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORTS_FIRST = 16384, PORTS_COUNT = 16384 };

static inline bool port_is_free(const char *address, uint16_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
    ck_assert_int_eq(inet_pton(AF_INET, address, &own.sin_addr), 1);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    const bool free = bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0;
    close(fd);
    return free;
}

/* count different ports that nobody has at this address now. */
static inline void ports_pick(const char *address, uint32_t count, uint16_t *out)
{
    uint16_t random;
    ck_assert_int_eq(getrandom(&random, sizeof(random), 0), sizeof(random));
    for (uint32_t i = 0; i < count;) {
        const uint16_t port = (uint16_t)(PORTS_FIRST + random++ % PORTS_COUNT);
        if (port_is_free(address, port)) {
            out[i++] = port;
        }
    }
}

#endif
