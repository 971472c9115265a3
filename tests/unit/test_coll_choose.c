/* SPDX-License-Identifier: Apache-2.0 */
/* Which collective is chosen, for every option, device and number of ranks that matters. */
#include <string.h>

#include "consumer/coll.h"
#include "support/suite.h"

static const struct {
    const char *wanted;
    bool on_gpu;
    uint32_t world;
    const struct coll_ops *chosen; /* NULL: refused */
} ROWS[] = {
    {"auto", false, 1, &coll_local}, {"auto", false, 2, &coll_ring},
    {"auto", true, 1, &coll_local},  {"auto", true, 2, &coll_nccl},
    {"ring", false, 1, &coll_local}, {"ring", false, 2, &coll_ring},
    {"ring", true, 1, &coll_local},  {"ring", true, 2, &coll_ring},
    {"nccl", true, 1, &coll_nccl},   {"nccl", true, 2, &coll_nccl},
    {"nccl", false, 1, NULL},        {"nccl", false, 2, NULL},
};

START_TEST(the_option_the_device_and_the_world_decide)
{
    struct err err = {0};
    const struct coll_ops *ops = NULL;
    const enum status status =
        coll_choose(ROWS[_i].wanted, ROWS[_i].on_gpu, ROWS[_i].world, &ops, &err);
    ck_assert_ptr_eq(ops, ROWS[_i].chosen);
    ck_assert_int_eq(status, ROWS[_i].chosen == NULL ? ERR_CONFIG : OK);
    if (status != OK) {
        ck_assert_msg(strstr(err.message, "device cuda") != NULL, "%s", err.message);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll_choose");
    TCase *tc = tcase_create("choice");
    tcase_add_loop_test(tc, the_option_the_device_and_the_world_decide, 0, ARRAY_LEN(ROWS));
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
