/* SPDX-License-Identifier: Apache-2.0 */
#include "consumer/checkpoint.h"

#include <sys/wait.h>

#include "support/suite.h"
#include "support/tree.h"

enum { MODEL_BYTES = 100000, HISTORY_BYTES = 1000 };

static struct tree tree;
static char dir[PATH_MAX + 16];
static uint8_t model[MODEL_BYTES];
static uint8_t history[HISTORY_BYTES];

static void setup(void)
{
    tree = tree_make();
    snprintf(dir, sizeof(dir), "%s/checkpoints", tree.root);
    for (size_t i = 0; i < sizeof(model); i++) {
        model[i] = (uint8_t)(i * 131 + (i >> 9));
    }
    for (size_t i = 0; i < sizeof(history); i++) {
        history[i] = (uint8_t)(i * 89 + 1);
    }
}

static void teardown(void)
{
    tree_remove(&tree);
}

static struct checkpoint_place place_at(uint32_t epoch, uint64_t step)
{
    return (struct checkpoint_place){.stream = "train",
                                     .plan_digest = 0x1234,
                                     .seed = 9,
                                     .step = step,
                                     .digest = 1000 * epoch + step,
                                     .epoch = epoch};
}

static struct checkpoint_body body(void)
{
    return (struct checkpoint_body){.model = model,
                                    .model_bytes = sizeof(model),
                                    .history = history,
                                    .history_bytes = sizeof(history)};
}

static void save(uint32_t epoch, uint64_t step)
{
    struct err err = {0};
    const struct checkpoint_place place = place_at(epoch, step);
    model[0] = (uint8_t)epoch;
    const struct checkpoint_body all = body();
    ck_assert_msg(checkpoint_save(dir, &place, &all, &err) == OK, "%s", err.message);
}

static enum status load(struct checkpoint *out, struct err *err)
{
    return checkpoint_load(dir, "train", 0x1234, 9, out, err);
}

static void check_loaded(uint32_t epoch, uint64_t step)
{
    struct err err = {0};
    struct checkpoint loaded = {0};
    ck_assert_msg(load(&loaded, &err) == OK, "%s", err.message);
    ck_assert_str_eq(loaded.place.stream, "train");
    ck_assert_uint_eq(loaded.place.epoch, epoch);
    ck_assert_uint_eq(loaded.place.step, step);
    ck_assert_uint_eq(loaded.place.digest, 1000 * epoch + step);
    ck_assert_uint_eq(loaded.model_bytes, sizeof(model));
    model[0] = (uint8_t)epoch;
    ck_assert_int_eq(memcmp(loaded.model, model, sizeof(model)), 0);
    ck_assert_uint_eq(loaded.history_bytes, sizeof(history));
    ck_assert_int_eq(memcmp(loaded.history, history, sizeof(history)), 0);
    checkpoint_fini(&loaded);
}

static const char *file_of(uint32_t number)
{
    static char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/checkpoint-%08u.hrc", dir, number);
    return path;
}

static void change_byte(const char *path, off_t at)
{
    uint8_t byte = 0;
    const int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

START_TEST(the_newest_is_loaded_and_two_are_kept)
{
    struct err err = {0};
    struct checkpoint none = {0};
    ck_assert_int_eq(load(&none, &err), ERR_MISSING);
    for (uint32_t epoch = 1; epoch <= 5; epoch++) {
        save(epoch, 7);
        check_loaded(epoch, 7);
    }
    ck_assert_int_ne(access(file_of(3), F_OK), 0);
    ck_assert_int_eq(access(file_of(4), F_OK), 0);
    ck_assert_int_eq(access(file_of(5), F_OK), 0);
}
END_TEST

START_TEST(a_damaged_file_is_refused_and_the_one_before_taken)
{
    save(1, 3);
    save(2, 4);
    static const off_t PLACES[] = {0,
                                   8,
                                   12,
                                   16,
                                   80,
                                   88,
                                   96,
                                   104,
                                   112,
                                   119,
                                   120,
                                   124,
                                   127,
                                   128,
                                   50000,
                                   128 + MODEL_BYTES,
                                   128 + MODEL_BYTES + HISTORY_BYTES};
    for (size_t i = 0; i < ARRAY_LEN(PLACES); i++) {
        change_byte(file_of(2), PLACES[i]);
        check_loaded(1, 3);
        change_byte(file_of(2), PLACES[i]);
        check_loaded(2, 4);
    }
    for (off_t length = 0; length < MODEL_BYTES; length += 33333) {
        ck_assert_int_eq(truncate(file_of(2), length), 0);
        check_loaded(1, 3);
    }
    struct err err = {0};
    struct checkpoint none = {0};
    ck_assert_int_eq(truncate(file_of(1), 100), 0);
    ck_assert_int_eq(load(&none, &err), ERR_DATA);
    ck_assert_msg(strstr(err.message, "checkpoint-00000002.hrc") != NULL, "%s", err.message);
}
END_TEST

START_TEST(a_file_of_another_job_is_refused_by_name)
{
    struct err err = {0};
    struct checkpoint none = {0};
    save(1, 3);
    ck_assert_int_eq(checkpoint_load(dir, "eval", 0x1234, 9, &none, &err), ERR_DATA);
    ck_assert_msg(strstr(err.message, "of stream train, not eval") != NULL, "%s", err.message);
    ck_assert_int_eq(checkpoint_load(dir, "train", 0x1235, 9, &none, &err), ERR_DATA);
    ck_assert_msg(strstr(err.message, "another plan") != NULL, "%s", err.message);
    ck_assert_int_eq(checkpoint_load(dir, "train", 0x1234, 10, &none, &err), ERR_DATA);
    ck_assert_msg(strstr(err.message, "seed 9") != NULL, "%s", err.message);
}
END_TEST

START_TEST(a_save_that_fails_leaves_the_others)
{
    struct err err = {0};
    const struct checkpoint_place place = place_at(2, 1);
    save(1, 3);
    /* A folder where the next file would be written: also root cannot open it for writing. */
    char blocked[2 * PATH_MAX];
    snprintf(blocked, sizeof(blocked), "%s/.checkpoint.next", dir);
    ck_assert_int_eq(mkdir(blocked, 0700), 0);
    const struct checkpoint_body all = body();
    ck_assert_int_eq(checkpoint_save(dir, &place, &all, &err), ERR_IO);
    check_loaded(1, 3);
    ck_assert_int_eq(rmdir(blocked), 0);
    ck_assert_int_eq(checkpoint_save("/proc/nowhere", &place, &all, &err), ERR_IO);
}
END_TEST

START_TEST(a_writer_killed_at_any_moment_leaves_a_whole_checkpoint)
{
    save(1, 3);
    for (int round = 0; round < 20; round++) {
        const pid_t pid = fork();
        if (pid == 0) {
            for (;;) {
                const struct checkpoint_place place = place_at(1, 3);
                model[0] = 1;
                const struct checkpoint_body all = body();
                if (checkpoint_save(dir, &place, &all, NULL) != OK) {
                    _exit(1);
                }
            }
        }
        ck_assert_int_gt(pid, 0);
        usleep((useconds_t)(1000 + 700 * round));
        kill(pid, SIGKILL);
        int end = 0;
        ck_assert_int_eq(waitpid(pid, &end, 0), pid);
        ck_assert(WIFSIGNALED(end));
        check_loaded(1, 3);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tc = tcase_create("checkpoint");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_newest_is_loaded_and_two_are_kept);
    tcase_add_test(tc, a_damaged_file_is_refused_and_the_one_before_taken);
    tcase_add_test(tc, a_file_of_another_job_is_refused_by_name);
    tcase_add_test(tc, a_save_that_fails_leaves_the_others);
    tcase_add_test(tc, a_writer_killed_at_any_moment_leaves_a_whole_checkpoint);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
