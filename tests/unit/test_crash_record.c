/* SPDX-License-Identifier: Apache-2.0 */
#include "common/crash_record.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/suite.h"

static char path[64];

static void setup(void)
{
    snprintf(path, sizeof(path), "/tmp/headrace-crash-XXXXXX");
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
}

static void teardown(void)
{
    unlink(path);
}

/* A child that ends itself with `number` while decoding sample 77 of stream 1 in thread 2 (or not
 * decoding). */
static void run_child(int number, bool decoding)
{
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        struct crash_record *record = NULL;
        if (crash_record_new(path, 4, &record, NULL) != OK ||
            crash_record_arm(record, NULL) != OK) {
            _exit(99);
        }
        crash_record_enter(record, 0, 0, 5);
        crash_record_leave(record, 0);
        crash_record_enter(record, 2, 1, 77);
        if (!decoding) {
            crash_record_leave(record, 2);
        }
        kill(getpid(), number);
        _exit(98);
    }
    int state = 0;
    ck_assert_int_eq(waitpid(pid, &state, 0), pid);
    ck_assert(WIFSIGNALED(state));
    ck_assert_int_eq(WTERMSIG(state), number);
}

static bool read_back(uint32_t *stream, uint64_t *sample)
{
    bool found = false;
    struct err err = {0};
    ck_assert_int_eq(crash_record_read(path, &found, stream, sample, &err), OK);
    return found;
}

START_TEST(a_crash_in_a_decoder_names_the_sample)
{
    static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++) {
        uint32_t stream = 0;
        uint64_t sample = 0;
        run_child(SIGNALS[i], true);
        ck_assert(read_back(&stream, &sample));
        ck_assert_uint_eq(stream, 1);
        ck_assert_uint_eq(sample, 77);
    }
}
END_TEST

START_TEST(a_kill_or_a_crash_elsewhere_names_nothing)
{
    uint32_t stream = 0;
    uint64_t sample = 0;
    ck_assert(!read_back(&stream, &sample)); /* no file */
    run_child(SIGKILL, true);
    ck_assert(!read_back(&stream, &sample));
    run_child(SIGSEGV, false);
    ck_assert(!read_back(&stream, &sample));
}
END_TEST

START_TEST(a_damaged_record_is_refused)
{
    run_child(SIGSEGV, true);
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    fseek(file, 12, SEEK_SET);
    const uint32_t absurd = 1000;
    fwrite(&absurd, sizeof(absurd), 1, file);
    fclose(file);
    bool found = false;
    uint32_t stream = 0;
    uint64_t sample = 0;
    struct err err = {0};
    ck_assert_int_eq(crash_record_read(path, &found, &stream, &sample, &err), ERR_DATA);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crash_record");
    TCase *tc = tcase_create("crash_record");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_crash_in_a_decoder_names_the_sample);
    tcase_add_test(tc, a_kill_or_a_crash_elsewhere_names_nothing);
    tcase_add_test(tc, a_damaged_record_is_refused);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
