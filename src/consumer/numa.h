/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory near a device, on machines with more than one memory node, by the system's own calls.
 * Where the system does not say or does not allow it, memory comes from anywhere: slower, not
 * wrong.
 */
#ifndef HEADRACE_CONSUMER_NUMA_H
#define HEADRACE_CONSUMER_NUMA_H

#include "common/base.h"

enum { NUMA_NODES_MAX = 1024, NUMA_WORDS = NUMA_NODES_MAX / (8 * sizeof(unsigned long)) };

/* What a thread's new pages are taken from. */
struct numa_policy {
    int mode;
    unsigned long nodes[NUMA_WORDS];
};

/* The node of a PCI device ("0000:3B:00.0", in either case) below sys ("/sys"); -1: not known, or
 * there is one node only. */
int numa_node_of_pci(const char *sys, const char *id);

/* From now on this thread's new pages come from the node while it has any. False, and nothing is
 * changed: the system does not allow it. */
MUST_USE bool numa_prefer(int node, struct numa_policy *before);
void numa_restore(const struct numa_policy *before);

#endif
