/* SPDX-License-Identifier: Apache-2.0 */
/* Random valid messages of the coordinator, for property tests and fuzz seeds. */
#ifndef HEADRACE_TESTS_SUPPORT_RANDOM_COORD_MSG_H
#define HEADRACE_TESTS_SUPPORT_RANDOM_COORD_MSG_H

#include "common/coord_msg.h"
#include "support/random.h"

/* A valid message of that type, zero where its fields are unused. */
void random_coord_msg(struct random_state *random, enum coord_msg_type type, struct coord_msg *out);

#endif
