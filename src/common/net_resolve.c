/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From names to numeric addresses. ZeroMQ would resolve a name itself, on its I/O thread, where a
 * name server that does not answer stops every link for tens of seconds; so it is given numbers
 * only. A look-up can hang in the C library beyond any time-out: it runs in a detached thread that
 * shares nothing with its caller but a counted block, and is left behind when the deadline passes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/net.h"

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
