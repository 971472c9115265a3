/* SPDX-License-Identifier: Apache-2.0 */
/* headrace env: the training environment as JSON, as SM_* variables, this host's role, or its GPUs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/cmd_env.h"
#include "common/cluster.h"
#include "common/sm_env.h"
#include "common/sm_files.h"
#include "common/text.h"

enum form { FORM_PROPERTIES, FORM_VARS, FORM_EXPORT, FORM_ROLE, FORM_GPU };

struct request {
    enum form form;
    const char *machine_path;
};

/* ---- --export ---- */

static bool is_shell_name(const char *name)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char MORE[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return name[0] != '\0' && strchr(LETTERS, name[0]) != NULL && name[strspn(name, MORE)] == '\0';
}

/* Within single quotes a shell takes every byte but the quote itself. */
static void print_export(const char *name, const char *bytes)
{
    printf("export %s='", name);
    for (const char *p = bytes; *p != '\0'; p++) {
        if (*p == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*p);
        }
    }
    puts("'");
}

/* One line whatever the name and value hold: both are escaped as in JSON. */
static void print_comment(const char *name, const char *value)
{
    static const char PLAIN[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/ ";
    fputs("# ", stdout);
    if (name[strspn(name, PLAIN)] == '\0') {
        fputs(name, stdout);
    } else {
        json_write_quoted(stdout, name);
    }
    putchar('=');
    json_write_quoted(stdout, value);
    putchar('\n');
}

static enum status print_exports(const struct json *vars, struct err *err)
{
    for (const struct json *m = json_first(vars); m != NULL; m = json_next(m)) {
        char *bytes = strdup(json_text(m));
        if (bytes == NULL) {
            return err_set(err, ERR_RESOURCE, "no memory for a variable");
        }
        if (is_shell_name(json_key(m)) && text_to_bytes(bytes)) {
            print_export(json_key(m), bytes);
        } else {
            print_comment(json_key(m), json_text(m));
        }
        free(bytes);
    }
    return OK;
}

/* ---- the forms ---- */

static enum status print_json(const struct json *json, struct err *err)
{
    TRY(json_write(stdout, json, &JSON_COMPACT, err));
    putchar('\n');
    return OK;
}

static enum status print_vars(const struct json *properties, enum form form, struct err *err)
{
    struct json *vars = NULL;
    TRY(sm_env_vars(properties, &vars, err));
    const enum status status = form == FORM_VARS ? print_json(vars, err) : print_exports(vars, err);
    json_free(&vars);
    return status;
}

static enum status print_environment(const struct request *request, struct err *err)
{
    struct json *properties = NULL;
    TRY(sm_env_load(cluster_base(), request->machine_path, &properties, err));
    const enum status status = request->form == FORM_PROPERTIES
                                   ? print_json(properties, err)
                                   : print_vars(properties, request->form, err);
    json_free(&properties);
    return status;
}

static enum status print_role(const struct config *config, struct err *err)
{
    struct cluster cluster;
    TRY(cluster_load(cluster_base(), config, &cluster, err));
    printf("%s %s\n", role_name(cluster.hosts[cluster.current].role), cluster.why);
    cluster_fini(&cluster);
    return OK;
}

/* ---- the command ---- */

/*
 * Takes the command's own options out of argv, whose other words move up, and returns how many are
 * left.
 */
static enum status take_own_options(int argc, char **argv, struct request *request, int *argc_out,
                                    struct err *err)
{
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--vars") == 0) {
            request->form = FORM_VARS;
        } else if (strcmp(argv[i], "--export") == 0) {
            request->form = FORM_EXPORT;
        } else if (strcmp(argv[i], "--role") == 0) {
            request->form = FORM_ROLE;
        } else if (strcmp(argv[i], "--gpu") == 0) {
            request->form = FORM_GPU;
        } else if (strcmp(argv[i], "--machine") == 0) {
            if (i + 1 == argc) {
                return err_set(err, ERR_USAGE, "--machine: a file has to follow");
            }
            request->machine_path = argv[++i];
        } else if (strncmp(argv[i], "--machine=", strlen("--machine=")) == 0) {
            request->machine_path = argv[i] + strlen("--machine=");
        } else {
            argv[kept++] = argv[i];
        }
    }
    *argc_out = kept;
    return OK;
}

/*
 * Only the role and the libraries' paths depend on the job's options; the environment has to come
 * out whatever they are, so that for it the command line alone is checked.
 */
static enum status load_config(int argc, char **argv, enum form form, struct config *config,
                               struct err *err)
{
    static const char *const OWN[] = {"vars", "export", "role", "gpu", "machine", NULL};
    char path[PATH_BYTES_MAX];
    char *no_variables[] = {NULL};
    int rest_count = 0;
    sm_file_path(cluster_base(), SM_HYPERPARAMETERS, path, sizeof(path));
    const bool follows_job = form == FORM_ROLE || form == FORM_GPU;
    const struct config_sources sources = {
        .argc = argc,
        .argv = argv,
        .environ_list = follows_job ? NULL : no_variables,
        .hyperparameters_path = follows_job ? path : NULL,
        .own_options = OWN,
    };
    TRY(config_load(&sources, config, &rest_count, err));
    if (rest_count > 0) {
        config_fini(config);
        return err_set(err, ERR_USAGE, "found '%s', expected an option", argv[0]);
    }
    return OK;
}

static enum status print_form(const struct request *request, const struct config *config,
                              struct err *err)
{
    switch (request->form) {
    case FORM_ROLE:
        return print_role(config, err);
    case FORM_GPU:
        return env_print_gpu(config, err);
    default:
        return print_environment(request, err);
    }
}

static enum status run(int argc, char **argv, struct err *err)
{
    struct request request = {0};
    struct config config;
    int left = 0;
    TRY(take_own_options(argc, argv, &request, &left, err));
    TRY(load_config(left, argv, request.form, &config, err));
    enum status status = print_form(&request, &config, err);
    config_fini(&config);
    if (status == OK && fflush(stdout) != 0) {
        status = err_errno(err, ERR_IO, "cannot write to stdout");
    }
    return status;
}

/* Without a cluster file nothing is configured: that is a configuration error like a bad one. */
static int cmd_env_run(int argc, char **argv)
{
    struct err err = {0};
    const enum status status = run(argc, argv, &err);
    if (status == ERR_MISSING) {
        (void)err_restate(&err, ERR_CONFIG);
    }
    return status == OK ? EXIT_OK : cmd_fail("env", &err);
}

const struct cmd cmd_env = {
    "env",
    "print the training environment, the SM_* variables, this host's role or its GPUs",
    cmd_env_run,
    "usage: headrace env [--vars | --export | --role | --gpu] [--machine FILE] [OPTION...]\n\n"
    "Reads the cluster's files under $SAGEMAKER_BASE_DIR (default /opt/ml) and prints\n"
    "  (nothing)   every property of the training environment, one JSON object\n"
    "  --vars      every SM_* variable, one JSON object\n"
    "  --export    the variables that a shell can hold as export lines, the others as comments\n"
    "  --role      this host's role (producer, trainer or both), then why\n"
    "  --gpu       CUDA's libraries, NVML and NCCL: where each was found and its version, or what "
    "to\n"
    "              install; then the GPUs. Exit code 71 if device cuda could not be used\n\n"
    "  --machine FILE  for tests: take the machine from FILE instead of asking it, like\n"
    "                  {\"num_cpus\": 4, \"num_gpus\": 1, \"num_neurons\": 0}\n\n"
    "--role and --gpu follow the job's options (--config, --roles, --cuda-runtime, ...); see "
    "headrace run --help.\n",
};
