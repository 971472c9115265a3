/* SPDX-License-Identifier: Apache-2.0 */
/* The search for one library, over blanks whose name no machine has; then what each library of the
 * vendor is refused for. A library stays loaded: every case is a process of its own. */
#include "consumer/vendor_library.h"

#include <dlfcn.h>

#include "consumer/cuda_api.h"
#include "consumer/nccl_api.h"
#include "support/suite.h"
#include "support/tree.h"

#define SONAME "libheadrace-blank.so.1"

static struct tree tree;
static struct library_want want;
static struct cuda_runtime runtime;
static struct err err;

static const char *blank(const char *path)
{
    static char out[PATH_MAX];
    snprintf(out, sizeof(out), "%s/blanks/%s", getenv("HR_BUILD_DIR"), path);
    return out;
}

static void setup(void)
{
    ck_assert_msg(getenv("HR_BUILD_DIR") != NULL, "HR_BUILD_DIR is not set");
    tree = tree_make();
    want = CUDA_RUNTIME_WANT;
    want.sonames[0] = SONAME;
    want.sonames[1] = NULL;
    want.folders = NULL;
    ck_assert_int_eq(setenv("HOME", tree.root, 1), 0);
    ck_assert_int_eq(setenv("PATH", "/nonexistent", 1), 0);
    ck_assert_int_eq(unsetenv("VIRTUAL_ENV"), 0);
    ck_assert_int_eq(unsetenv("CONDA_PREFIX"), 0);
}

static void teardown(void)
{
    tree_remove(&tree);
}

/* Puts a blank where pip puts it below a prefix. */
static void install(const char *prefix, const char *variant)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/",
             prefix);
    tree_folders(&tree, path);
    const char *link = tree_path(&tree, path);
    char file[2 * PATH_MAX];
    snprintf(file, sizeof(file), "%s" SONAME, link);
    ck_assert_int_eq(symlink(blank(variant), file), 0);
}

static enum status search(const char *path)
{
    return library_open(&want, path, &runtime, &runtime.found, &err);
}

static void expect_found(const char *path, enum library_origin origin, const char *version)
{
    ck_assert_msg(search(path) == OK, "%s", err.message);
    ck_assert_int_eq(runtime.found.origin, origin);
    ck_assert_str_eq(runtime.found.version_text, version);
    ck_assert_uint_eq(runtime.cudaEventQuery(NULL), CUDA_OK);
    ck_assert_int_eq(access(runtime.found.path, R_OK), 0);
}

static void expect_message(enum status status, const char *const *texts)
{
    ck_assert_int_eq(status, ERR_DEVICE);
    for (size_t i = 0; texts[i] != NULL; i++) {
        ck_assert_msg(strstr(err.message, texts[i]) != NULL, "no '%s' in: %s", texts[i],
                      err.message);
    }
}

#define EXPECT_REFUSED(status, ...) \
    expect_message((status), (const char *const[]){__VA_ARGS__, NULL})

/* ---- the order ---- */

START_TEST(nothing_there_says_what_to_install)
{
    EXPECT_REFUSED(search(NULL), "CUDA runtime: libheadrace-blank.so.1 not found",
                   "pip install nvidia-cuda-runtime-cu12", "--cuda-runtime");
    want.sonames[1] = "libheadrace-blank.so.2";
    EXPECT_REFUSED(search(""), SONAME " or libheadrace-blank.so.2 not found");
}
END_TEST

START_TEST(every_python_environment_is_looked_through)
{
    static const char *const PLACES[] = {"venv", "conda", "shell", ".local"};
    const char *place = PLACES[_i];
    install(place, "whole/" SONAME);
    if (_i == 0) {
        ck_assert_int_eq(setenv("VIRTUAL_ENV", tree_path(&tree, place), 1), 0);
    } else if (_i == 1) {
        ck_assert_int_eq(setenv("CONDA_PREFIX", tree_path(&tree, place), 1), 0);
    } else if (_i == 2) {
        char path[3 * PATH_MAX];
        tree_folders(&tree, "shell/bin/");
        ck_assert_int_eq(symlink("/bin/true", tree_path(&tree, "shell/bin/python3")), 0);
        snprintf(path, sizeof(path), "/nonexistent::%s", tree_path(&tree, "shell/bin"));
        ck_assert_int_eq(setenv("PATH", path, 1), 0);
    }
    expect_found(NULL, LIBRARY_PYTHON, "12.9");
}
END_TEST

START_TEST(the_system_goes_before_python)
{
    install(".local", "whole/" SONAME);
    char folders[PATH_MAX];
    snprintf(folders, sizeof(folders), "%s", blank("{none,other}"));
    want.folders = folders;
    expect_found(NULL, LIBRARY_SYSTEM, "12.1");
}
END_TEST

START_TEST(the_option_goes_before_the_system)
{
    char folders[PATH_MAX];
    snprintf(folders, sizeof(folders), "%s", blank("other"));
    want.folders = folders;
    install(".local", "other/" SONAME);
    expect_found(blank("whole/" SONAME), LIBRARY_OPTION, "12.9");
    ck_assert_str_eq(runtime.found.path, blank("whole/" SONAME));
}
END_TEST

START_TEST(what_is_loaded_goes_before_the_option)
{
    ck_assert_ptr_nonnull(dlopen(blank("other/" SONAME), RTLD_NOW | RTLD_LOCAL));
    expect_found(blank("whole/" SONAME), LIBRARY_LOADED, "12.1");
}
END_TEST

START_TEST(a_name_goes_before_a_later_one)
{
    char folders[PATH_MAX];
    snprintf(folders, sizeof(folders), "%s", blank("{none,whole}"));
    want.sonames[0] = "libheadrace-none.so.1";
    want.sonames[1] = SONAME;
    want.sonames[2] = NULL;
    want.folders = folders;
    expect_found(NULL, LIBRARY_SYSTEM, "12.9");
}
END_TEST

START_TEST(one_is_described_with_version_and_origin)
{
    char text[PATH_MAX];
    char wanted[2 * PATH_MAX];
    expect_found(blank("whole/" SONAME), LIBRARY_OPTION, "12.9");
    library_describe(&want, &runtime.found, text, sizeof(text));
    snprintf(wanted, sizeof(wanted), "CUDA runtime 12.9: %s (option)", blank("whole/" SONAME));
    ck_assert_str_eq(text, wanted);
}
END_TEST

/* ---- what does not fit ---- */

START_TEST(a_searched_one_that_does_not_fit_is_passed_over)
{
    char folders[PATH_MAX];
    snprintf(folders, sizeof(folders), "%s", blank("torn"));
    want.folders = folders;
    EXPECT_REFUSED(search(NULL), "torn/" SONAME ": it has no cudaEventQuery");
    install(".local", "whole/" SONAME);
    expect_found(NULL, LIBRARY_PYTHON, "12.9");
}
END_TEST

START_TEST(a_loaded_one_that_does_not_fit_is_an_error)
{
    ck_assert_ptr_nonnull(dlopen(blank("torn/" SONAME), RTLD_NOW | RTLD_LOCAL));
    install(".local", "whole/" SONAME);
    EXPECT_REFUSED(search(NULL), "torn/" SONAME ": it has no cudaEventQuery");
}
END_TEST

START_TEST(an_option_that_does_not_fit_is_an_error)
{
    install(".local", "whole/" SONAME);
    EXPECT_REFUSED(search(blank("torn/" SONAME)), "--cuda-runtime", "it has no cudaEventQuery");
    EXPECT_REFUSED(search(tree_path(&tree, "none")), "--cuda-runtime", "/none",
                   "No such file or directory");
}
END_TEST

START_TEST(a_file_that_is_no_library_is_named)
{
    tree_folders(&tree, "lib/");
    FILE *file = fopen(tree_path(&tree, "lib/" SONAME), "w");
    ck_assert_ptr_nonnull(file);
    fputs("no library\n", file);
    fclose(file);
    EXPECT_REFUSED(search(tree_path(&tree, "lib/" SONAME)), "--cuda-runtime", "lib/" SONAME);
    char folders[2 * PATH_MAX];
    snprintf(folders, sizeof(folders), "%s", tree_path(&tree, "lib"));
    want.folders = folders;
    EXPECT_REFUSED(search(NULL), "CUDA runtime: ", "lib/" SONAME);
}
END_TEST

/* ---- the vendor's libraries ---- */

START_TEST(whole_libraries_are_taken)
{
    struct cuda_driver driver;
    struct nvml nvml;
    struct nccl_api nccl;
    ck_assert_int_eq(cuda_driver_open(blank("whole/libcuda.so.1"), &driver, &err), OK);
    ck_assert_str_eq(driver.found.version_text, "12.9");
    ck_assert_int_eq(driver.found.version, 12090);
    ck_assert_int_eq(cuda_runtime_open(blank("whole/libcudart.so.12"), &driver, &runtime, &err),
                     OK);
    ck_assert_str_eq(runtime.found.version_text, "12.8");
    ck_assert_int_eq(nvml_open(blank("whole/libnvidia-ml.so.1"), &nvml, &err), OK);
    ck_assert_str_eq(nvml.found.version_text, "575.1");
    ck_assert_int_eq(nccl_open(blank("whole/libnccl.so.2"), &nccl, &err), OK);
    ck_assert_str_eq(nccl.found.version_text, "2.27.3");
}
END_TEST

START_TEST(torn_libraries_are_refused)
{
    struct cuda_driver driver;
    struct nvml nvml;
    struct nccl_api nccl;
    EXPECT_REFUSED(cuda_driver_open(blank("torn/libcuda.so.1"), &driver, &err),
                   "torn/libcuda.so.1: it has no cuLaunchKernel");
    EXPECT_REFUSED(cuda_runtime_open(blank("torn/libcudart.so.12"), NULL, &runtime, &err),
                   "torn/libcudart.so.12: it has no cudaEventQuery");
    EXPECT_REFUSED(nvml_open(blank("torn/libnvidia-ml.so.1"), &nvml, &err),
                   "torn/libnvidia-ml.so.1: it has no nvmlEventSetCreate");
    EXPECT_REFUSED(nccl_open(blank("torn/libnccl.so.2"), &nccl, &err),
                   "torn/libnccl.so.2: it has no ncclCommAbort");
}
END_TEST

START_TEST(old_and_unknown_versions_are_refused)
{
    struct cuda_driver driver;
    struct nccl_api nccl;
    EXPECT_REFUSED(cuda_driver_open(blank("old/libcuda.so.1"), &driver, &err), "old/libcuda.so.1",
                   "it has CUDA 11.8, wanted 12.0 or newer", "NVIDIA's driver");
    EXPECT_REFUSED(cuda_runtime_open(blank("old/libcudart.so.12"), NULL, &runtime, &err),
                   "it is version 11.8, wanted 12 or 13");
    EXPECT_REFUSED(cuda_runtime_open(blank("later/libcudart.so.13"), NULL, &runtime, &err),
                   "it is version 14.0, wanted 12 or 13");
    EXPECT_REFUSED(nccl_open(blank("old/libnccl.so.2"), &nccl, &err),
                   "it is version 2.13.4, wanted 2.14 or newer", "pip install nvidia-nccl-cu12");
}
END_TEST

START_TEST(a_runtime_newer_than_the_driver_is_refused)
{
    struct cuda_driver driver;
    ck_assert_int_eq(cuda_driver_open(blank("whole/libcuda.so.1"), &driver, &err), OK);
    EXPECT_REFUSED(cuda_runtime_open(blank("new/libcudart.so.13"), &driver, &runtime, &err),
                   "new/libcudart.so.13", "it is version 13.0, too new for the driver", "CUDA 12.9",
                   "pip install nvidia-cuda-runtime-cu12");
    ck_assert_int_eq(cuda_runtime_open(blank("new/libcudart.so.13"), NULL, &runtime, &err), OK);
}
END_TEST

START_TEST(one_too_new_for_the_driver_is_passed_over)
{
    char folders[PATH_MAX];
    snprintf(folders, sizeof(folders), "%s", blank("new"));
    want.folders = folders;
    install(".local", "whole/" SONAME);
    runtime.driver_version = 12020;
    expect_found(NULL, LIBRARY_PYTHON, "12.9");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vendor_library");
    TCase *order = tcase_create("order");
    tcase_add_checked_fixture(order, setup, teardown);
    tcase_add_test(order, nothing_there_says_what_to_install);
    tcase_add_loop_test(order, every_python_environment_is_looked_through, 0, 4);
    tcase_add_test(order, the_system_goes_before_python);
    tcase_add_test(order, the_option_goes_before_the_system);
    tcase_add_test(order, what_is_loaded_goes_before_the_option);
    tcase_add_test(order, a_name_goes_before_a_later_one);
    tcase_add_test(order, one_is_described_with_version_and_origin);
    tcase_add_test(order, a_searched_one_that_does_not_fit_is_passed_over);
    tcase_add_test(order, a_loaded_one_that_does_not_fit_is_an_error);
    tcase_add_test(order, an_option_that_does_not_fit_is_an_error);
    tcase_add_test(order, a_file_that_is_no_library_is_named);
    suite_add_tcase(suite, order);
    TCase *vendor = tcase_create("vendor");
    tcase_add_checked_fixture(vendor, setup, teardown);
    tcase_add_test(vendor, whole_libraries_are_taken);
    tcase_add_test(vendor, torn_libraries_are_refused);
    tcase_add_test(vendor, old_and_unknown_versions_are_refused);
    tcase_add_test(vendor, a_runtime_newer_than_the_driver_is_refused);
    tcase_add_test(vendor, one_too_new_for_the_driver_is_passed_over);
    suite_add_tcase(suite, vendor);
    return suite_main(suite);
}
