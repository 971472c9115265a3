/* SPDX-License-Identifier: Apache-2.0 */
/* Random valid messages for property tests and fuzz seeds. */
#ifndef HEADRACE_TESTS_SUPPORT_RANDOM_MSG_H
#define HEADRACE_TESTS_SUPPORT_RANDOM_MSG_H

#include "common/msg.h"
#include "support/random.h"

/* A valid message of that type, zero where its fields are unused. */
struct msg random_msg(struct random_state *random, enum msg_type type);
/* The same values in every field that the type has. */
bool msg_equal(const struct msg *a, const struct msg *b);

#endif
