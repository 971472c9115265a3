/* SPDX-License-Identifier: Apache-2.0 */
/* The memory policy of a thread, without libnuma, and what sysfs says of a device. */
#include "consumer/numa.h"

#include <ctype.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/limits.h"

enum { WORD_BITS = 8 * sizeof(unsigned long) };

int numa_node_of_pci(const char *sys, const char *id)
{
    char path[PATH_BYTES_MAX];
    char text[16] = "";
    const size_t length =
        (size_t)snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/numa_node", sys, id);
    if (length >= sizeof(path)) {
        return -1;
    }
    for (char *at = path + strlen(sys); *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    const bool is_read = fgets(text, sizeof(text), file) != NULL;
    (void)fclose(file);
    char *end = NULL;
    const long node = strtol(text, &end, 10);
    return is_read && end != text && node >= 0 && node < NUMA_NODES_MAX ? (int)node : -1;
}

/* The kernel takes one bit fewer than it is told of. */
static bool set_policy(const struct numa_policy *policy)
{
    return syscall(SYS_set_mempolicy, policy->mode, policy->nodes, NUMA_NODES_MAX + 1) == 0;
}

bool numa_prefer(int node, struct numa_policy *before)
{
    struct numa_policy wanted = {.mode = MPOL_PREFERRED};
    if (node < 0 || node >= NUMA_NODES_MAX) {
        return false;
    }
    wanted.nodes[node / WORD_BITS] = 1UL << (node % WORD_BITS);
    *before = (struct numa_policy){0};
    return syscall(SYS_get_mempolicy, &before->mode, before->nodes, NUMA_NODES_MAX, NULL, 0) == 0 &&
           set_policy(&wanted);
}

/* Where it cannot be set back, pages of this thread are slower, not wrong. */
void numa_restore(const struct numa_policy *before)
{
    (void)set_policy(before);
}
