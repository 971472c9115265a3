/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of one host. Their command lines are in child.h. */
#include "cli/agent_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/failure.h"
#include "common/clock.h"
#include "common/sm_machine.h"

/* On a host that also trains, batches are made with what the ranks leave. */
enum { NICE_BESIDE_RANKS = 10 };

static const char *program(void)
{
    const char *child = getenv("HR_CHILD");
    return child != NULL ? child : "/proc/self/exe";
}

/* ---- command line and environment ---- */

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        free(list[i]);
    }
    free(list);
}

/* `head` words, then argv[1..argc). NULL: out of memory. */
static char **build_argv(const char *const *head, size_t head_count, int argc, char **argv)
{
    char **list = calloc(head_count + (size_t)argc + 1, sizeof(*list));
    if (list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i + 1 < head_count + (size_t)argc; i++) {
        list[i] = strdup(i < head_count ? head[i] : argv[i - head_count + 1]);
        if (list[i] == NULL) {
            free_list(list);
            return NULL;
        }
    }
    return list;
}

/* This process's, with the place for last words. NULL: out of memory. */
static char **build_environ(int reason_fd)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **list = calloc(count + 2, sizeof(*list));
    if (list == NULL) {
        return NULL;
    }
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "HR_REASON_FD=", 13) == 0) {
            continue;
        }
        list[used] = strdup(environ[i]);
        if (list[used++] == NULL) {
            free_list(list);
            return NULL;
        }
    }
    if (asprintf(&list[used], "HR_REASON_FD=%d", reason_fd) < 0) {
        list[used] = NULL;
        free_list(list);
        return NULL;
    }
    return list;
}

/* ---- the list ---- */

static enum status init_producer(struct process *process, const struct member *member, int argc,
                                 char **argv, struct err *err)
{
    process->is_producer = true;
    process->nice = (member->host->role & ROLE_TRAINER) != 0 ? NICE_BESIDE_RANKS : 0;
    process->crash_fd = memfd_create("headrace-crash", MFD_CLOEXEC);
    if (process->crash_fd < 0) {
        return err_errno(err, ERR_RESOURCE, "crash record");
    }
    /* The child finds it by its parent's descriptor: no file to clean up, whoever is killed. */
    snprintf(process->crash_record, sizeof(process->crash_record), "/proc/%d/fd/%d", (int)getpid(),
             process->crash_fd);
    const char *const head[] = {"headrace", "serve", "--crash-record", process->crash_record};
    process->argv = build_argv(head, ARRAY_LEN(head), argc, argv);
    return OK;
}

static void init_rank(struct process *process, uint32_t local_rank, int argc, char **argv)
{
    char number[16];
    process->local_rank = local_rank;
    snprintf(number, sizeof(number), "%u", local_rank);
    const char *const head[] = {"headrace", "train", "--local-rank", number};
    process->argv = build_argv(head, ARRAY_LEN(head), argc, argv);
}

/* Of so many GPUs, those that CUDA_VISIBLE_DEVICES leaves to the ranks. */
static int64_t visible_gpus(int64_t gpus)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    int64_t listed = 0;
    if (at == NULL) {
        return gpus;
    }
    while (*at != '\0' && *at != '-') { /* an entry of -1 hides all that follow */
        listed++;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return listed < gpus ? listed : gpus;
}

/* As many as the options say, else one per GPU, else one. */
static enum status count_ranks(const struct member *member, uint32_t *out, struct err *err)
{
    const struct config *config = &member->config;
    *out = 0;
    if ((member->host->role & ROLE_TRAINER) == 0) {
        return OK;
    }
    *out = config->ranks_per_host > 0 ? (uint32_t)config->ranks_per_host : 1;
    if (config->ranks_per_host > 0 || strcmp(config->device, "host") == 0) {
        return OK;
    }
    struct sm_machine machine;
    TRY(sm_machine_probe(false, SM_MACHINE_DEADLINE_MS, &machine, err));
    const int64_t gpus = visible_gpus(machine.num_gpus);
    if (gpus > 0) {
        *out = gpus < RANKS_MAX ? (uint32_t)gpus : RANKS_MAX;
    }
    return OK;
}

enum status processes_init(struct processes *out, const struct member *member, int argc,
                           char **argv, struct err *err)
{
    const uint32_t producers = (member->host->role & ROLE_PRODUCER) != 0 ? 1 : 0;
    TRY(count_ranks(member, &out->rank_count, err));
    out->count = producers + out->rank_count;
    out->list = calloc(out->count + 1, sizeof(*out->list));
    if (out->list == NULL) {
        return err_set(err, ERR_RESOURCE, "out of memory for %u processes", out->count);
    }
    for (uint32_t i = 0; i < out->count; i++) {
        struct process *process = &out->list[i];
        process->start_ns = 1;
        process->crash_fd = -1;
        process->reason_fd = reason_open();
        process->environ_list = build_environ(process->reason_fd);
        if (i < producers) {
            TRY(init_producer(process, member, argc, argv, err));
        } else {
            init_rank(process, i - producers, argc, argv);
        }
        if (process->argv == NULL || process->environ_list == NULL) {
            return err_set(err, ERR_RESOURCE, "out of memory for a command line");
        }
    }
    return OK;
}

void processes_fini(struct processes *processes)
{
    for (uint32_t i = 0; i < processes->count && processes->list != NULL; i++) {
        struct process *process = &processes->list[i];
        CHECK(process->pid == 0);
        free_list(process->argv);
        free_list(process->environ_list);
        if (process->reason_fd > 0) {
            close(process->reason_fd);
        }
        if (process->crash_fd > 0) {
            close(process->crash_fd);
        }
    }
    free(processes->list);
    memset(processes, 0, sizeof(*processes));
}

enum status process_start(struct process *process, struct err *err)
{
    const struct child_options options = {.path = program(),
                                          .argv = process->argv,
                                          .environ_list = process->environ_list,
                                          .nice = process->nice,
                                          .output_fd = -1,
                                          .reason_fd = process->reason_fd};
    process->started_ns = clock_now_ns();
    return child_start(&options, &process->pid, err);
}

struct process *processes_find(const struct processes *processes, pid_t pid)
{
    for (uint32_t i = 0; i < processes->count; i++) {
        if (processes->list[i].pid == pid) {
            return &processes->list[i];
        }
    }
    return NULL;
}

uint32_t processes_running(const struct processes *processes)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < processes->count; i++) {
        running += processes->list[i].pid != 0 ? 1 : 0;
    }
    return running;
}

bool processes_ranks_ended_well(const struct processes *processes)
{
    for (uint32_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->list[i];
        if (!process->is_producer && (process->pid != 0 || !process->ended_well)) {
            return false;
        }
    }
    return true;
}

void processes_signal(const struct processes *processes, int number)
{
    for (uint32_t i = 0; i < processes->count; i++) {
        if (processes->list[i].pid != 0) {
            child_signal(processes->list[i].pid, number);
        }
    }
}
