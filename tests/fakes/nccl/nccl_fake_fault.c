/* SPDX-License-Identifier: Apache-2.0 */
/* Which call fails how: HR_FAKE_NCCL_FAULT. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fakes/nccl/nccl_fake.h"

static const char *const CALLS[] = {
#define NCCL_CALL(result, symbol, parameters) #symbol,
#include "consumer/nccl_calls.def"
};
static const char *const KINDS[] = {"", "fail", "stall", "hang", "late"};

static void tell(void)
{
    const char *fd = getenv("HR_FAKE_NCCL_FIRED");
    if (fd != NULL && write((int)strtol(fd, NULL, 10), "x", 1) != 1) {
        abort();
    }
}

/* One fault, "CALL:KIND:N", up to a comma or the end. */
static enum fault match(const char *fault, const char *call, unsigned number)
{
    const size_t len = strlen(call);
    if (strncmp(fault, call, len) != 0 || fault[len] != ':') {
        return FAULT_NONE;
    }
    const char *kind = fault + len + 1;
    const size_t kind_len = strcspn(kind, ":,");
    for (size_t i = 1; i < ARRAY_LEN(KINDS); i++) {
        if (strlen(KINDS[i]) == kind_len && strncmp(kind, KINDS[i], kind_len) == 0 &&
            kind[kind_len] == ':' && strtoul(kind + kind_len + 1, NULL, 10) == number) {
            return (enum fault)i;
        }
    }
    return FAULT_NONE;
}

enum fault fake_fault(enum fake_call call)
{
    static _Atomic unsigned counts[CALL_COUNT];
    const unsigned number = ++counts[call];
    enum fault found = FAULT_NONE;
    const char *fault = getenv("HR_FAKE_NCCL_FAULT");
    while (fault != NULL && found == FAULT_NONE) {
        found = match(fault, CALLS[call], number);
        fault = strchr(fault, ',');
        fault = fault == NULL ? NULL : fault + 1;
    }
    if (found != FAULT_NONE) {
        tell();
    }
    if (found == FAULT_STALL) {
        while (true) {
            pause();
        }
    }
    return found;
}
