/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for `headrace serve` and `headrace train` under a real agent: joins the job and behaves
 * as it is told. A rank takes FAKE_STEPS steps of FAKE_STEP_MS, all ranks together; a producer
 * waits for the end. FAKE_FAULT holds faults, separated by blanks:
 *
 *   WHO:WHEN:WHAT   WHO   rank0, rank1, ... or serve@HOST
 *                   WHEN  a rank's step; for producers the number of the start, from 0, or *
 *                   WHAT  exit=CODE, signal=NUMBER, hang (ignores everything but SIGKILL),
 *                         crash=SAMPLE (SEGV in a decoder), leave (a grandchild that stays)
 *
 * Starts of a producer are counted in files below the host's base. It says on stdout what it does.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/failure.h"
#include "cli/join.h"
#include "common/clock.h"
#include "common/crash_record.h"

static const char *word;         /* serve or train */
static const char *crash_record; /* --crash-record */
static volatile sig_atomic_t stop_signals;

static _Noreturn void end(int code, const char *text)
{
    fprintf(stderr, "fake %s: %s\n", word, text);
    reason_say(text);
    exit(code);
}

static _Noreturn void end_for(const struct err *err)
{
    end(status_exit_code(err->status), err->message);
}

static void on_stop(int number)
{
    stop_signals++;
}

static int64_t soon(void)
{
    return clock_now_ns() + 60 * NS_PER_S;
}

static uint64_t number_from(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text == NULL ? fallback : strtoull(text, NULL, 10);
}

/* ---- faults ---- */

static void crash(uint64_t sample)
{
    struct crash_record *record = NULL;
    struct err err;
    if (crash_record_new(crash_record, 1, &record, &err) != OK ||
        crash_record_arm(record, &err) != OK) {
        end_for(&err);
    }
    crash_record_enter(record, 0, 0, sample);
    raise(SIGSEGV);
}

static void hang(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (;;) {
        pause();
    }
}

/* In its process group, but with another parent once this process is gone. */
static void leave_grandchild(void)
{
    if (fork() == 0) {
        signal(SIGTERM, SIG_IGN);
        for (;;) {
            pause();
        }
    }
}

static void commit(const char *what)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (strncmp(what, "exit=", 5) == 0) {
        end((int)strtol(what + 5, NULL, 10), "told to exit");
    }
    if (strncmp(what, "signal=", 7) == 0) {
        raise((int)strtol(what + 7, NULL, 10));
    }
    if (strncmp(what, "crash=", 6) == 0) {
        crash(strtoull(what + 6, NULL, 10));
    }
    if (strcmp(what, "hang") == 0) {
        hang();
    }
    if (strcmp(what, "leave") == 0) {
        leave_grandchild();
    }
}

static void commit_faults(const char *who, uint64_t when)
{
    char prefix[HOST_BYTES_MAX + 64];
    char any[HOST_BYTES_MAX + 64];
    char list[4096];
    snprintf(list, sizeof(list), "%s", getenv("FAKE_FAULT") == NULL ? "" : getenv("FAKE_FAULT"));
    snprintf(prefix, sizeof(prefix), "%s:%llu:", who, (unsigned long long)when);
    snprintf(any, sizeof(any), "%s:*:", who);
    char *save = NULL;
    for (char *fault = strtok_r(list, " ", &save); fault != NULL;
         fault = strtok_r(NULL, " ", &save)) {
        if (strncmp(fault, prefix, strlen(prefix)) == 0) {
            commit(fault + strlen(prefix));
        } else if (strncmp(fault, any, strlen(any)) == 0) {
            commit(fault + strlen(any));
        }
    }
}

/* ---- the two roles ---- */

static void take_steps(struct coord_client *client, const struct roster *roster, uint32_t rank)
{
    const uint64_t steps = number_from("FAKE_STEPS", 20);
    const uint64_t step_ms = number_from("FAKE_STEP_MS", 20);
    struct err err;
    char who[32];
    uint64_t step = 0;
    snprintf(who, sizeof(who), "rank%u", rank);
    for (; step < steps; step++) {
        bool may = false;
        if (coord_may_begin(client, step, soon(), &may, &err) != OK) {
            end_for(&err);
        }
        if (!may) {
            break;
        }
        commit_faults(who, step);
        usleep((useconds_t)(step_ms * 1000));
        if (coord_barrier(client, "step", roster->rank_count, soon(), &err) != OK) {
            end_for(&err);
        }
    }
    printf("rank %u took %llu steps\n", rank, (unsigned long long)step);
    fflush(stdout);
}

static int train(struct member *member, uint32_t local_rank)
{
    struct err err;
    struct coord_client *client = NULL;
    struct roster roster;
    const uint16_t port = (uint16_t)(member->config.port + 1 + 2 * (int64_t)local_rank);
    const struct coord_join join = {.kind = COORD_RANK,
                                    .local_rank = local_rank,
                                    .port = port,
                                    .ring_port = (uint16_t)(port + 1)};
    if (member_join(member, &join, soon(), &client, &err) != OK) {
        end_for(&err);
    }
    const enum status status = coord_roster(client, soon(), &roster, &err);
    if (status == ERR_CANCELLED) {
        coord_close(&client);
        return EXIT_OK;
    }
    if (status != OK) {
        end_for(&err);
    }
    uint32_t rank = 0;
    while (strcmp(roster.ranks[rank].host, member->host->name) != 0) {
        rank++;
    }
    take_steps(client, &roster, rank + local_rank);
    roster_fini(&roster);
    coord_close(&client);
    return EXIT_OK;
}

static uint64_t count_start(const struct member *member)
{
    char path[2 * PATH_BYTES_MAX];
    for (uint64_t start = 0;; start++) {
        snprintf(path, sizeof(path), "%s/start-%llu", member->cluster.base,
                 (unsigned long long)start);
        const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0666);
        if (fd >= 0) {
            close(fd);
            return start;
        }
    }
}

static int serve(struct member *member)
{
    struct err err;
    struct coord_client *client = NULL;
    struct coord_event event;
    char who[HOST_BYTES_MAX + 16];
    const uint64_t start = count_start(member);
    const struct coord_join join = {.kind = COORD_PRODUCER, .fingerprint = 1};
    if (member_join(member, &join, soon(), &client, &err) != OK) {
        end_for(&err);
    }
    printf("producer start %llu pid %d nice %d\n", (unsigned long long)start, (int)getpid(),
           getpriority(PRIO_PROCESS, 0));
    fflush(stdout);
    snprintf(who, sizeof(who), "serve@%s", member->host->name);
    while (coord_next_event(client, &event) == OK && event.kind == COORD_EVENT_VERDICT) {
        printf("verdict on sample %llu at start %llu\n", (unsigned long long)event.sample,
               (unsigned long long)start);
        fflush(stdout);
    }
    commit_faults(who, start);
    for (;;) {
        if (stop_signals > 0) {
            break;
        }
        if (coord_next_event(client, &event) != OK) {
            usleep(20000);
            continue;
        }
        if (event.kind == COORD_EVENT_DONE) {
            break;
        }
        if (event.kind == COORD_EVENT_FAIL || event.kind == COORD_EVENT_LOST) {
            end(EXIT_PEER, event.text);
        }
    }
    coord_close(&client);
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    struct err err;
    struct member member;
    uint32_t local_rank = 0;
    int rest = 0;
    word = argc > 1 ? argv[1] : "nothing";
    const bool trains = strcmp(word, "train") == 0;
    if (!trains && strcmp(word, "serve") != 0) {
        return EXIT_USAGE;
    }
    if (trains) {
        local_rank = (uint32_t)strtoul(argv[3], NULL, 10);
    } else {
        crash_record = argv[3];
    }
    signal(SIGTERM, on_stop);
    /* argv: program, word, its own option and value, then run's. */
    if (member_load(argc - 3, argv + 3, word, &member, &rest, &err) != OK ||
        member_resolve(&member, NULL, soon(), &err) != OK) {
        end_for(&err);
    }
    const int code = trains ? train(&member, local_rank) : serve(&member);
    member_fini(&member);
    return code;
}
