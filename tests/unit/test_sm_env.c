/* SPDX-License-Identifier: Apache-2.0 */
/* The values themselves are compared with the toolkit's own in tests/integration/env_*.py. */
#include "common/sm_env.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/sm_files.h"
#include "common/sm_machine.h"
#include "support/suite.h"

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/headrace-env-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    static const char *const NAMES[] = {"nvidia-smi", "neuron-ls", "smddprun", "machine.json"};
    char path[256];
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, NAMES[i]);
        unlink(path);
    }
    rmdir(dir);
}

static char *write_file(const char *name, const char *text, mode_t mode)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}

static enum status probe(const char *gpu_script, const char *neuron_script,
                         struct sm_machine *machine, struct err *err)
{
    char path[256];
    remove_dir();
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", dir);
    setenv("PATH", path, 1);
    if (gpu_script != NULL) {
        write_file("nvidia-smi", gpu_script, 0700);
    }
    if (neuron_script != NULL) {
        write_file("neuron-ls", neuron_script, 0700);
    }
    return sm_machine_probe(true, 1000, machine, err);
}

START_TEST(tools_are_asked_and_counted)
{
    static const struct {
        const char *gpu_script, *neuron_script;
        int64_t gpus, neurons;
    } CASES[] = {
        {NULL, NULL, 0, 0},
        {"#!/bin/sh\n[ \"$*\" = --list-gpus ] && echo 'GPU 0: A (UUID: x)\n  MIG 1g\nGPU 1: B'\n",
         "#!/bin/sh\n[ \"$*\" = -j ] && echo '[{\"nc_count\": 2}, {}, {\"nc_count\": 32}]'\n", 2,
         34},
        {"#!/bin/sh\necho 'GPU 0: A'; exit 9\n", "#!/bin/sh\necho '[{\"nc_count\": 2}]'; exit 1\n",
         0, 0},
        {"#!/bin/sh\necho 'No devices GPU '; printf 'GPU 7'; echo no >&2\n",
         "#!/bin/sh\necho '[]'\n", 1, 0},
        {"#!/bin/sh\nyes 'GPU 1'\n", NULL, 0, 0},
        {"not a program", NULL, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct sm_machine machine = {0};
        struct err err = {0};
        ck_assert_msg(probe(CASES[i].gpu_script, CASES[i].neuron_script, &machine, &err) == OK,
                      "case %zu: %s", i, err.message);
        ck_assert_int_eq(machine.num_gpus, CASES[i].gpus);
        ck_assert_int_eq(machine.num_neurons, CASES[i].neurons);
        ck_assert_int_eq(machine.num_cpus, sysconf(_SC_NPROCESSORS_ONLN));
        ck_assert(!machine.has_smddprun);
    }
}
END_TEST

START_TEST(launchers_are_looked_for_in_the_path)
{
    struct sm_machine machine = {0};
    struct err err = {0};
    ck_assert_int_eq(probe(NULL, NULL, &machine, &err), OK);
    write_file("smddprun", "#!/bin/sh\n", 0600);
    ck_assert_int_eq(sm_machine_probe(false, 1000, &machine, &err), OK);
    ck_assert(!machine.has_smddprun);
    write_file("smddprun", "#!/bin/sh\n", 0700);
    ck_assert_int_eq(sm_machine_probe(false, 1000, &machine, &err), OK);
    ck_assert(machine.has_smddprun);
    ck_assert(!machine.has_smddpmprun);
}
END_TEST

START_TEST(what_neuron_ls_should_not_print_is_refused)
{
    static const char *const OUTPUTS[] = {"{", "{}", "[1]", "[{\\\"nc_count\\\": \\\"2\\\"}]", ""};
    for (size_t i = 0; i < ARRAY_LEN(OUTPUTS); i++) {
        char script[128];
        struct sm_machine machine;
        struct err err = {0};
        snprintf(script, sizeof(script), "#!/bin/sh\necho \"%s\"\n", OUTPUTS[i]);
        ck_assert_msg(probe(NULL, script, &machine, &err) == ERR_CONFIG, "%s", OUTPUTS[i]);
        ck_assert_msg(strncmp(err.message, "neuron-ls -j: ", 14) == 0, "%s", err.message);
    }
}
END_TEST

START_TEST(a_hung_tool_is_killed_at_the_deadline)
{
    static const char *const SCRIPTS[] = {"#!/bin/sh\nsleep 600 & wait\n",
                                          "#!/bin/sh\nexec >&-\nsleep 600 & wait\n"};
    for (size_t i = 0; i < ARRAY_LEN(SCRIPTS); i++) {
        struct sm_machine machine;
        struct err err = {0};
        const int64_t start_ns = clock_now_ns();
        ck_assert_int_eq(probe(SCRIPTS[i], NULL, &machine, &err), ERR_TIMEOUT);
        ck_assert_str_eq(err.message, "nvidia-smi did not answer in time");
        ck_assert_int_lt(clock_now_ns() - start_ns, 60 * NS_PER_S);
    }
}
END_TEST

START_TEST(a_file_stands_in_for_the_machine)
{
    static const char *const BAD[][2] = {
        {"{\"num_cpus\":4,\"num_gpus\":1}", "machine.json: num_neurons: found nothing"},
        {"{\"num_cpus\":\"4\",\"num_gpus\":1,\"num_neurons\":0}", "num_cpus: found \"4\""},
        {"{\"num_cpus\":4,\"num_gpus\":-1,\"num_neurons\":0}", "num_gpus: found -1"},
        {"[]", "num_cpus: found nothing"},
        {"", "machine.json: line 1 column 1"},
    };
    struct sm_machine machine = {0};
    struct err err = {0};
    char *path = write_file("machine.json",
                            "{\"num_cpus\":96,\"num_gpus\":8,\"num_neurons\":3,"
                            "\"is_smddpmprun_installed\":true}",
                            0600);
    ck_assert_int_eq(sm_machine_read(path, &machine, &err), OK);
    ck_assert_int_eq(machine.num_cpus, 96);
    ck_assert_int_eq(machine.num_gpus, 8);
    ck_assert_int_eq(machine.num_neurons, 3);
    ck_assert(machine.has_smddpmprun && !machine.has_smddprun);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        path = write_file("machine.json", BAD[i][0], 0600);
        ck_assert_int_eq(sm_machine_read(path, &machine, &err), ERR_CONFIG);
        ck_assert_msg(strstr(err.message, BAD[i][1]) != NULL, "%s", err.message);
    }
    unlink(path);
    ck_assert_int_eq(sm_machine_read(path, &machine, &err), ERR_MISSING);
}
END_TEST

START_TEST(paths_join_as_in_python)
{
    static const char *const CASES[][3] = {
        {"/opt/ml", "input", "/opt/ml/input"},
        {"/opt/ml/", "input", "/opt/ml/input"},
        {"/", "x", "/x"},
        {"", "x", "x"},
        {"/opt/ml", "/x", "/x"},
        {"/opt/ml", "", "/opt/ml/"},
        {"", "", ""},
    };
    char out[16];
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        ck_assert(sm_path_join(CASES[i][0], CASES[i][1], out, sizeof(out)));
        ck_assert_str_eq(out, CASES[i][2]);
    }
    ck_assert(!sm_path_join("/opt/ml", "12345678", out, sizeof(out)));
}
END_TEST

START_TEST(a_list_for_execve_leaves_out_what_no_environment_holds)
{
    struct json *vars = NULL;
    struct err err = {0};
    char **list = NULL;
    ck_assert_int_eq(json_parse("{\"SM_A-B\":\"1\\n2\",\"SM_C=D\":\"x\",\"SM_E\":\"\\u0000\","
                                "\"SM_F\":\"\\ud800\",\"SM_G\":\"\\udcff\",\"SM_\\u00dc\":\"\"}",
                                &vars, &err),
                     OK);
    ck_assert_int_eq(sm_env_list(vars, &list, &err), OK);
    ck_assert_str_eq(list[0], "SM_A-B=1\n2");
    ck_assert_str_eq(list[1], "SM_G=\xFF");
    ck_assert_str_eq(list[2], "SM_\xC3\x9C=");
    ck_assert_ptr_null(list[3]);
    sm_env_list_free(&list);
    ck_assert_ptr_null(list);
    sm_env_list_free(&list);
    json_free(&vars);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sm_env");
    TCase *tc = tcase_create("sm_env");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, tools_are_asked_and_counted);
    tcase_add_test(tc, launchers_are_looked_for_in_the_path);
    tcase_add_test(tc, what_neuron_ls_should_not_print_is_refused);
    tcase_add_test(tc, a_hung_tool_is_killed_at_the_deadline);
    tcase_add_test(tc, a_file_stands_in_for_the_machine);
    tcase_add_test(tc, paths_join_as_in_python);
    tcase_add_test(tc, a_list_for_execve_leaves_out_what_no_environment_holds);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
