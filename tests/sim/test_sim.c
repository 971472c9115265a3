/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the simulator:
 *
 *   test_sim [--seeds N]           N worlds; the first seed is printed, and HR_SEED sets it
 *   test_sim --seed S [--trace] [--mutant NAME]
 *                                  one world, with all that happens in it
 *   test_sim --mutants [--seeds N] each rule is taken out in turn: every one must be noticed within
 *                                  N worlds (seeds 1 to N), or the simulator is too weak
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "consumer/sched_mutant.h"
#include "sim/sim.h"
#include "support/random.h"

static const struct {
    const char *name, *rule;
    uint32_t sched, sim;
} MUTANTS[] = {
#define X(name, rule) {#name, rule, SCHED_MUTANT_##name, 0},
    SCHED_MUTANTS(X)
#undef X
#define X(name, rule) {#name, rule, 0, SIM_MUTANT_##name},
        SIM_MUTANTS(X)
#undef X
};

/* The one rule that only saves work: without it everything still holds. */
static const char NOT_NOTICED[] = "NO_CANCEL";

static struct sim_counts counts;

/* ---- a world that ends the program: its seed is wanted all the same ---- */

static const int CRASHES[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
static struct sigaction before[ARRAY_LEN(CRASHES)]; /* a sanitizer's, if there is one */
static char crashed[96];                            /* what to say then */

/* Hands the signal on to whoever would have had it: it comes again when this returns. */
static void on_crash(int number)
{
    (void)!write(STDOUT_FILENO, crashed, strlen(crashed));
    for (size_t i = 0; i < ARRAY_LEN(CRASHES); i++) {
        if (CRASHES[i] == number) {
            (void)sigaction(number, &before[i], NULL);
        }
    }
    (void)raise(number);
}

/* On a stack of its own, for the other one may be what has run out. */
static void catch_crashes(void)
{
    static char stack[64 * 1024];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    (void)sigemptyset(&action.sa_mask);
    CHECK(sigaltstack(&own, NULL) == 0);
    for (size_t i = 0; i < ARRAY_LEN(CRASHES); i++) {
        CHECK(sigaction(CRASHES[i], &action, &before[i]) == 0);
    }
}

static bool run_one(uint64_t seed, uint32_t sched_mutant, uint32_t sim_mutant, bool trace)
{
    const struct sim_options options = {
        .seed = seed, .sched_mutant = sched_mutant, .sim_mutant = sim_mutant, .trace = trace};
    char text[SIM_TEXT_BYTES] = "";
    (void)snprintf(crashed, sizeof(crashed),
                   "seed %" PRIu64
                   ": the program crashed\nto see it: test_sim --trace --seed %" PRIu64 "\n",
                   seed, seed);
    if (sim_run(&options, &counts, text)) {
        return true;
    }
    printf("seed %" PRIu64 ": %s\n", seed, text);
    return false;
}

static int run_seeds(uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!run_one(first + i, 0, 0, false)) {
            printf("to see it: test_sim --trace --seed %" PRIu64 "\n", first + i);
            return EXIT_FAILURE;
        }
    }
    int zeros = 0;
#define X(name)                                           \
    printf("%-20s %12" PRIu64 "%s\n", #name, counts.name, \
           counts.name == 0 ? "  never happened" : "");   \
    zeros += counts.name == 0;
    SIM_COUNTS(X)
#undef X
    return zeros == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A process of its own for every mutant, for it may well fail a CHECK. Returns whether it was
 * noticed. */
static bool mutant_noticed(size_t which, uint64_t count)
{
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)freopen("/dev/null", "w", stderr);
        for (uint64_t seed = 1; seed <= count; seed++) {
            if (!run_one(seed, MUTANTS[which].sched, MUTANTS[which].sim, false)) {
                fflush(stdout);
                _exit(EXIT_FAILURE);
            }
        }
        _exit(EXIT_SUCCESS);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("test_sim");
        exit(EXIT_FAILURE);
    }
    if (WIFSIGNALED(status)) {
        printf("signal %d\n", WTERMSIG(status));
    }
    return !(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static int run_mutants(uint64_t count)
{
    int missed = 0;
    for (size_t i = 0; i < ARRAY_LEN(MUTANTS); i++) {
        if (strcmp(MUTANTS[i].name, NOT_NOTICED) == 0) {
            continue;
        }
        printf("%-20s ", MUTANTS[i].name);
        if (!mutant_noticed(i, count)) {
            printf("NOT NOTICED in %" PRIu64 " worlds; the rule: %s\n", count, MUTANTS[i].rule);
            missed++;
        }
    }
    return missed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static size_t mutant_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(MUTANTS); i++) {
        if (strcmp(MUTANTS[i].name, name) == 0) {
            return i;
        }
    }
    fprintf(stderr, "test_sim: no mutant is called %s\n", name);
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    uint64_t count = 500;
    uint64_t seed = 0;
    bool trace = false, mutants = false;
    size_t mutant = SIZE_MAX;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (strcmp(argv[i], "--mutants") == 0) {
            mutants = true;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            count = strtoull(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--mutant") == 0) {
            mutant = mutant_find(value);
            i++;
        } else {
            fprintf(stderr, "test_sim: unknown argument %s; see the head of test_sim.c\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    catch_crashes();
    if (mutants) {
        return run_mutants(count);
    }
    if (seed == 0) {
        return run_seeds(random_seed(), count);
    }
    const bool good = mutant == SIZE_MAX
                          ? run_one(seed, 0, 0, trace)
                          : run_one(seed, MUTANTS[mutant].sched, MUTANTS[mutant].sim, trace);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
