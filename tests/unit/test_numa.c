/* SPDX-License-Identifier: Apache-2.0 */
/* Memory nodes: what sysfs says of a device, and a thread's policy set and set back. */
#include "consumer/numa.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/suite.h"
#include "support/tree.h"

static const char FILE_NAME[] = "bus/pci/devices/0000:3b:00.0/numa_node";

START_TEST(sysfs_tells_the_node)
{
    static const struct {
        const char *text;
        int node;
    } CASES[] = {{"0\n", 0}, {"1\n", 1}, {"17", 17},     {"-1\n", -1},
                 {"", -1},   {"x", -1},  {"1024\n", -1}, {"99999999999999999999\n", -1}};
    const struct tree tree = tree_make();
    ck_assert_int_eq(numa_node_of_pci(tree.root, "0000:3b:00.0"), -1);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        tree_write(&tree, FILE_NAME, CASES[i].text, strlen(CASES[i].text));
        ck_assert_int_eq(numa_node_of_pci(tree.root, "0000:3B:00.0"), CASES[i].node);
    }
    ck_assert_int_eq(numa_node_of_pci(tree.root, "0000:3c:00.0"), -1);
    tree_remove(&tree);
}
END_TEST

static void policy_now(struct numa_policy *out)
{
    *out = (struct numa_policy){0};
    ck_assert_int_eq(syscall(SYS_get_mempolicy, &out->mode, out->nodes, NUMA_NODES_MAX, NULL, 0),
                     0);
}

START_TEST(a_thread_s_policy_is_set_and_set_back)
{
    struct numa_policy before;
    struct numa_policy now;
    ck_assert(!numa_prefer(-1, &before));
    ck_assert(!numa_prefer(NUMA_NODES_MAX, &before));
    if (!numa_prefer(0, &before)) {
        puts("skipped: this system does not let a memory policy be set");
        return;
    }
    policy_now(&now);
    ck_assert_int_eq(now.mode, MPOL_PREFERRED);
    ck_assert_uint_eq(now.nodes[0], 1);
    numa_restore(&before);
    policy_now(&now);
    ck_assert_int_eq(now.mode, before.mode);
    ck_assert_int_eq(memcmp(now.nodes, before.nodes, sizeof(now.nodes)), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numa");
    TCase *tc = tcase_create("numa");
    tcase_add_test(tc, sysfs_tells_the_node);
    tcase_add_test(tc, a_thread_s_policy_is_set_and_set_back);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
