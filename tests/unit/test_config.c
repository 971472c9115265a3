/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config.h"

#include <string.h>
#include <unistd.h>

#include "support/suite.h"

enum { ARGUMENTS_MAX = 16 };

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/headrace-config-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    char path[128];
    static const char *const FILES[] = {"job.json", "other.json", "hyperparameters.json"};
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, FILES[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* Writes a file in the test's folder and returns its path. */
static char *file(const char *name, const char *content)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    fputs(content, out);
    fclose(out);
    return path;
}

/* All sources of one load; words and variables end with NULL. */
struct given {
    const char *file;
    const char *hyperparameters;
    const char *variables[ARGUMENTS_MAX];
    const char *words[ARGUMENTS_MAX];
};

static enum status load(const struct given *given, struct config *config, int *rest_out,
                        struct err *err)
{
    const char *words[ARGUMENTS_MAX + 1] = {"command"};
    int count = 1;
    while (given->words[count - 1] != NULL) {
        words[count] = given->words[count - 1];
        count++;
    }
    const struct config_sources sources = {
        .argc = count,
        .argv = (char **)words,
        .environ_list = (char **)given->variables,
        .hyperparameters_path = given->hyperparameters == NULL
                                    ? NULL
                                    : file("hyperparameters.json", given->hyperparameters),
        .config_path = given->file == NULL ? NULL : file("job.json", given->file),
    };
    return config_load(&sources, config, rest_out, err);
}

static void assert_loads(const struct given *given, struct config *config)
{
    struct err err = {0};
    int rest = 0;
    ck_assert_msg(load(given, config, &rest, &err) == OK, "%s", err.message);
    ck_assert_int_eq(rest, 0);
}

static void assert_refused(const struct given *given, enum status status, const char *message)
{
    struct err err = {0};
    struct config config;
    int rest = 0;
    ck_assert_msg(load(given, &config, &rest, &err) == status, "%s: %s", message, err.message);
    ck_assert_msg(strstr(err.message, message) != NULL, "'%s' is not in '%s'", message,
                  err.message);
    ck_assert_ptr_null(config.hosts);
}

START_TEST(without_sources_there_are_defaults)
{
    struct config config;
    assert_loads(&(struct given){0}, &config);
    ck_assert_int_eq(config.global_batch, 256);
    ck_assert_double_eq(config.learning_rate, 0.05);
    ck_assert_str_eq(config.trainer, "reference");
    ck_assert(!config.insecure);
    ck_assert_uint_eq(config.stream_count, 0);
    ck_assert_str_eq(config.data_root, "/opt/ml/input/data");
    ck_assert_str_eq(config.checkpoint_dir, "/opt/ml/checkpoints");
    config_fini(&config);
}
END_TEST

START_TEST(folders_follow_the_base)
{
    struct config config;
    assert_loads(&(struct given){.variables = {"SAGEMAKER_BASE_DIR=/b"}}, &config);
    ck_assert_str_eq(config.data_root, "/b/input/data");
    ck_assert_str_eq(config.checkpoint_dir, "/b/checkpoints");
    config_fini(&config);
    assert_loads(&(struct given){.variables = {"SAGEMAKER_BASE_DIR="}}, &config);
    ck_assert_str_eq(config.data_root, "input/data");
    config_fini(&config);
}
END_TEST

START_TEST(the_stronger_source_wins)
{
    static const struct given ALL = {
        .file = "{\"seed\":1,\"epochs\":1,\"slots\":11,\"threads\":1}",
        .hyperparameters = "{\"headrace_seed\":\"2\",\"headrace_epochs\":\"2\","
                           "\"headrace_slots\":\"12\",\"learning_rate\":\"x\"}",
        .variables = {"HEADRACE_SEED=3", "HEADRACE_EPOCHS=3", "HEAD=1", "HEADRACE_CPU=scalar"},
        .words = {"--seed", "4"},
    };
    struct config config;
    assert_loads(&ALL, &config);
    ck_assert_int_eq(config.seed, 4);
    ck_assert_int_eq(config.epochs, 3);
    ck_assert_int_eq(config.slots, 12);
    ck_assert_int_eq(config.threads, 1);
    ck_assert_double_eq(config.learning_rate, 0.05);
    config_fini(&config);
}
END_TEST

START_TEST(the_config_file_is_named_by_the_strongest_source)
{
    char *other = file("other.json", "{\"seed\":7}");
    char variable[256];
    char hyperparameters[256];
    snprintf(variable, sizeof(variable), "HEADRACE_CONFIG=%s", other);
    snprintf(hyperparameters, sizeof(hyperparameters), "{\"headrace_config\":\"%s\"}", other);
    struct config config;
    assert_loads(&(struct given){.file = "{\"seed\":1}", .variables = {variable}}, &config);
    ck_assert_int_eq(config.seed, 7);
    assert_loads(&(struct given){.file = "{\"seed\":1}", .hyperparameters = hyperparameters},
                 &config);
    ck_assert_int_eq(config.seed, 7);
    assert_loads(
        &(struct given){.variables = {"HEADRACE_CONFIG=/nowhere"}, .words = {"--config", other}},
        &config);
    ck_assert_int_eq(config.seed, 7);
    assert_refused(&(struct given){.words = {"--config=/nowhere/job.json"}}, ERR_MISSING,
                   "/nowhere/job.json");
}
END_TEST

START_TEST(the_command_line_hands_other_words_back)
{
    const char *words[] = {"run", "--seed=5", "one", "--insecure", "two", "--global-batch",
                           "64",  "-",        "--",  "--seed",     "9",   NULL};
    char *no_variables[] = {NULL};
    const struct config_sources sources = {
        .argc = 11, .argv = (char **)words, .environ_list = no_variables};
    struct config config;
    struct err err = {0};
    int rest = 0;
    ck_assert_int_eq(config_load(&sources, &config, &rest, &err), OK);
    ck_assert_int_eq(rest, 5);
    ck_assert_str_eq(words[0], "one");
    ck_assert_str_eq(words[1], "two");
    ck_assert_str_eq(words[2], "-");
    ck_assert_str_eq(words[3], "--seed");
    ck_assert_str_eq(words[4], "9");
    ck_assert_int_eq(config.seed, 5);
    ck_assert_int_eq(config.global_batch, 64);
    ck_assert(config.insecure);
}
END_TEST

START_TEST(unknown_names_are_answered_with_the_nearest)
{
    assert_refused(&(struct given){.words = {"--global-batsh", "4"}}, ERR_USAGE,
                   "--global-batsh: no such option; did you mean --global-batch?");
    assert_refused(&(struct given){.words = {"-seed"}}, ERR_USAGE, "did you mean --seed?");
    assert_refused(&(struct given){.words = {"--seed"}}, ERR_USAGE, "a value has to follow");
    assert_refused(&(struct given){.variables = {"HEADRACE_SEAD=4"}}, ERR_CONFIG,
                   "HEADRACE_SEAD: no such option; did you mean HEADRACE_SEED?");
    assert_refused(&(struct given){.hyperparameters = "{\"headrace_stream\":1}"}, ERR_CONFIG,
                   "did you mean hyperparameter headrace_streams?");
    assert_refused(&(struct given){.file = "{\"epoch\":1}"}, ERR_CONFIG,
                   "job.json: epoch: no such option; did you mean epochs?");
    assert_refused(&(struct given){.file = "{\"config\":\"x\"}"}, ERR_CONFIG, "no such option");
}
END_TEST

START_TEST(bad_values_name_source_option_and_what_is_allowed)
{
    assert_refused(&(struct given){.words = {"--slots=2"}}, ERR_CONFIG,
                   "--slots: found '2', expected an integer from 3 to 256");
    assert_refused(&(struct given){.words = {"--seed", "9007199254740992"}}, ERR_CONFIG, "--seed");
    assert_refused(&(struct given){.words = {"--seed", "1x"}}, ERR_CONFIG, "found '1x'");
    assert_refused(&(struct given){.words = {"--seed", ""}}, ERR_CONFIG, "found ''");
    assert_refused(&(struct given){.words = {"--insecure=maybe"}}, ERR_CONFIG, "true or false");
    assert_refused(&(struct given){.variables = {"HEADRACE_MOMENTUM=nan"}}, ERR_CONFIG,
                   "HEADRACE_MOMENTUM: found 'nan', expected a number from 0 to 1");
    assert_refused(&(struct given){.variables = {"HEADRACE_DEVICE=gpu"}}, ERR_CONFIG,
                   "expected one of auto|host|cuda");
    assert_refused(&(struct given){.file = "{\"seed\":\"1\"}"}, ERR_CONFIG,
                   "job.json: seed: found \"1\", expected an integer");
    assert_refused(&(struct given){.file = "{\"seed\":1.5}"}, ERR_CONFIG, "found 1.5");
    assert_refused(&(struct given){.file = "{\"insecure\":1}"}, ERR_CONFIG, "found 1");
    assert_refused(&(struct given){.file = "{\"device\":null}"}, ERR_CONFIG, "found null");
    assert_refused(&(struct given){.file = "[]"}, ERR_CONFIG, "expected an object");
    assert_refused(&(struct given){.file = "{\"seed\":1"}, ERR_CONFIG, "job.json: line 1 column");
    assert_refused(&(struct given){.hyperparameters = "{\"headrace_seed\":\"-1\"}"}, ERR_CONFIG,
                   "hyperparameter headrace_seed: found '-1'");
}
END_TEST

START_TEST(hyperparameters_are_read_as_the_toolkits_write_them)
{
    static const struct given GIVEN = {
        .hyperparameters =
            "{\"headrace_seed\":\"\\\"5\\\"\",\"headrace_device\":\"\\\"host\\\"\","
            "\"headrace_on_bad\":\"fail\",\"headrace_hedge\":\"True\",\"headrace_slots\":7,"
            "\"headrace_data_root\":\"1e2\",\"headrace_insecure\":true,"
            "\"headrace_trainer\":\"{\\\"name\\\":\\\"synthetic\\\",\\\"step_ms\\\":2.5}\","
            "\"headrace_roles\":\"{\\\"g\\\":\\\"both\\\"}\",\"x\":[{}],\"sagemaker_y\":null}"};
    struct config config;
    assert_loads(&GIVEN, &config);
    ck_assert_int_eq(config.seed, 5);
    ck_assert_str_eq(config.device, "host");
    ck_assert_str_eq(config.on_bad, "fail");
    ck_assert(config.hedge);
    ck_assert_int_eq(config.slots, 7);
    ck_assert_str_eq(config.data_root, "1e2");
    ck_assert(config.insecure);
    ck_assert_str_eq(config.trainer, "synthetic");
    ck_assert_double_eq(config.step_ms, 2.5);
    ck_assert_str_eq(config.roles[0].group, "g");
    ck_assert_str_eq(config.roles[0].role, "both");
}
END_TEST

static const char WHOLE_FILE[] =
    "{ \"global_batch\": 256, \"epochs\": 3, \"seed\": 1, \"data_root\": \"/opt/ml/input/data\","
    "\"streams\": {"
    "\"eval\":  { \"data\": \"test\", \"shuffle\": \"none\", \"last\": \"partial\", \"pipeline\": ["
    "{\"op\": \"decode\"}, {\"op\": \"resize\", \"size\": 256}, {\"op\": \"center_crop\", "
    "\"size\": 224} ] },"
    "\"train\": { \"data\": \"train\", \"shuffle\": \"full\", \"last\": \"drop\", \"pipeline\": ["
    "{\"op\": \"decode\"}, {\"op\": \"random_resized_crop\", \"size\": 224}, "
    "{\"op\": \"horizontal_flip\", \"p\": 0.5} ] } },"
    "\"trainer\": { \"name\": \"reference\", \"learning_rate\": 0.125 },"
    "\"roles\": { \"data_group\": \"producer\" },"
    "\"hosts\": { \"algo-1\": \"127.0.0.11\", \"algo-2\": \"::1\" } }";

START_TEST(the_whole_file_is_read)
{
    struct config config;
    assert_loads(&(struct given){.file = WHOLE_FILE}, &config);
    ck_assert_int_eq(config.epochs, 3);
    ck_assert_double_eq(config.learning_rate, 0.125);
    ck_assert_uint_eq(config.stream_count, 2);
    ck_assert_str_eq(config.streams[0].name, "train");
    ck_assert_str_eq(config.streams[1].name, "eval");
    ck_assert_int_eq(config.streams[0].last, LAST_DROP);
    ck_assert_int_eq(config.streams[1].shuffle, SHUFFLE_NONE);
    ck_assert_str_eq(config.streams[1].data, "test");
    ck_assert_ptr_eq(config_stream(&config, "eval"), &config.streams[1]);
    ck_assert_ptr_null(config_stream(&config, "test"));
    ck_assert_uint_eq(config.role_count, 1);
    ck_assert_uint_eq(config.host_count, 2);
    ck_assert_str_eq(config.hosts[1].name, "algo-2");
    ck_assert_str_eq(config.hosts[1].address, "::1");
    config_fini(&config);
    ck_assert_ptr_null(config.hosts);
}
END_TEST

START_TEST(a_stream_needs_only_its_data)
{
    struct config config;
    assert_loads(&(struct given){.file =
                                     "{\"streams\":{\"test\":{\"data\":\"t\"},\"train\":{\"data\":"
                                     "\"/opt/ml/input/data/./a//b/../c/\"}}}"},
                 &config);
    ck_assert_str_eq(config.streams[0].data, "a/c");
    ck_assert_int_eq(config.streams[0].shuffle, SHUFFLE_FULL);
    ck_assert_int_eq(config.streams[0].last, LAST_DROP);
    ck_assert_uint_eq(config.streams[0].pipeline.op_count, 3);
    ck_assert_int_eq(config.streams[1].shuffle, SHUFFLE_NONE);
    ck_assert_int_eq(config.streams[1].last, LAST_PARTIAL);
    ck_assert_int_eq(config.streams[1].pipeline.ops[2].kind, OP_CENTER_CROP);
}
END_TEST

START_TEST(mistakes_in_streams_roles_and_hosts_are_named)
{
#define TRAIN(rest) "{\"streams\":{\"train\":{\"data\":\"d\"" rest "}}}"
    static const char *const CASES[][2] = {
        {"{\"streams\":{\"train\":{}}}", "streams.train.data: found nothing, expected a folder"},
        {"{\"streams\":{\"train\":{\"data\":\"\"}}}", "streams.train.data: found \"\""},
        {"{\"streams\":[]}", "streams: found [], expected an object"},
        {"{\"streams\":{\"a b\":{\"data\":\"d\"}}}", "the name may hold letters"},
        {"{\"streams\":{\"a\":4}}", "streams.a: found 4"},
        {"{\"streams\":{\"a\":{\"data\":\"../x\"}}}", "found '../x', expected a folder below"},
        {"{\"streams\":{\"a\":{\"data\":\"x/../..\"}}}", "expected a folder below data_root"},
        {"{\"streams\":{\"a\":{\"data\":\"/etc\"}}}", "below data_root '/opt/ml/input/data'"},
        {"{\"streams\":{\"a\":{\"data\":\"/opt/ml/input/data2\"}}}", "expected a folder below"},
        {TRAIN(",\"shufle\":1"), "streams.train: no key 'shufle'; did you mean 'shuffle'?"},
        {TRAIN(",\"shuffle\":\"some\""), "streams.train.shuffle: found \"some\", expected one of"},
        {TRAIN(",\"last\":null"), "streams.train.last: found null"},
        {TRAIN(",\"pipeline\":[]"), "streams.train.pipeline: found []"},
        {"{\"streams\":{\"1\":{\"data\":\"d\"},\"2\":{\"data\":\"d\"},\"3\":{\"data\":\"d\"},"
         "\"4\":{\"data\":\"d\"},\"5\":{\"data\":\"d\"},\"6\":{\"data\":\"d\"},\"7\":{\"data\":"
         "\"d\"},\"8\":{\"data\":\"d\"},\"9\":{\"data\":\"d\"}}}",
         "found 9 streams, at most 8"},
        {"{\"roles\":{\"g\":\"train\"}}", "roles[\"g\"]: found \"train\", expected one of"},
        {"{\"hosts\":{\"h\":\"example.org\"}}", "hosts[\"h\"]: found \"example.org\", expected"},
        {"{\"hosts\":{\"\":\"::1\"}}", "a host's name has 1 to"},
        {"{\"trainer\":{\"lr\":1}}", "trainer.lr: no such option of a trainer"},
        {"{\"trainer\":{\"momentum\":2}}", "trainer.momentum: found 2"},
        {"{\"trainer\":{\"momentum\":1},\"momentum\":1}", "given twice"},
        {"{\"trainer\":\"none\"}", "expected one of reference|synthetic"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        assert_refused(&(struct given){.file = CASES[i][0]}, ERR_CONFIG, CASES[i][1]);
    }
    assert_refused(&(struct given){.words = {"--roles", "x"}}, ERR_CONFIG,
                   "--roles: line 1 column 1");
}
END_TEST

static uint64_t digest_of(const struct given *given)
{
    struct config config;
    assert_loads(given, &config);
    const uint64_t digest = config_digest(&config);
    config_fini(&config);
    return digest;
}

START_TEST(the_digest_covers_what_shapes_the_streams_and_no_more)
{
    const uint64_t digest = digest_of(&(struct given){.file = WHOLE_FILE});
    const struct given same = {.file = WHOLE_FILE,
                               .words = {"--epochs", "9", "--slots=9", "--roles", "{}"}};
    ck_assert_uint_eq(digest_of(&same), digest);
    static const char *const CHANGES[] = {
        "--seed=2",
        "--global-batch=128",
        "--streams={\"train\":{\"data\":\"train\"}}",
        "--streams={\"train\":{\"data\":\"train\"},\"eval\":{\"data\":\"tests\"}}",
        "--streams={\"train\":{\"data\":\"train\",\"last\":\"partial\"},\"eval\":{\"data\":"
        "\"test\"}}",
        "--streams={\"train\":{\"data\":\"train\",\"shuffle\":\"none\"},\"eval\":{\"data\":"
        "\"test\"}}",
        "--streams={\"train\":{\"data\":\"train\"},\"eval\":{\"data\":\"test\",\"pipeline\":"
        "[{\"op\":\"decode\"},{\"op\":\"center_crop\",\"size\":224}]}}",
        "--streams={\"train\":{\"data\":\"train\"},\"evil\":{\"data\":\"test\"}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(CHANGES); i++) {
        const struct given changed = {.file = WHOLE_FILE, .words = {CHANGES[i]}};
        ck_assert_msg(digest_of(&changed) != digest, "%s", CHANGES[i]);
    }
    const struct given respelt = {.file = WHOLE_FILE,
                                  .words = {"--streams={\"train\":{\"data\":\"./train\"},"
                                            "\"eval\":{\"data\":\"/opt/ml/input/data/test\"}}"}};
    ck_assert_uint_eq(digest_of(&respelt), digest);
}
END_TEST

static char *printed(void (*print)(void *))
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    print(out);
    fclose(out);
    return text;
}

START_TEST(help_and_table_name_every_option)
{
    static const char *const NAMES[] = {
#define OPTION(field, kind, default_text, min, max, help) #field,
#include "common/config.def"
#undef OPTION
        "config",
        "streams",
        "roles",
        "hosts",
    };
    char *help = printed(config_print_help);
    char *table = printed(config_print_markdown);
    ck_assert_ptr_nonnull(strstr(help, "  --global-batch INTEGER  samples of one step"));
    ck_assert_ptr_nonnull(strstr(help, "(default: 256)\n"));
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        char row[NAME_BYTES_MAX + 8];
        snprintf(row, sizeof(row), "\n| `%s` |", NAMES[i]);
        ck_assert_msg(strstr(table, row) != NULL, "%s", row);
    }
    free(help);
    free(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tc = tcase_create("config");
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, without_sources_there_are_defaults);
    tcase_add_test(tc, folders_follow_the_base);
    tcase_add_test(tc, the_stronger_source_wins);
    tcase_add_test(tc, the_config_file_is_named_by_the_strongest_source);
    tcase_add_test(tc, the_command_line_hands_other_words_back);
    tcase_add_test(tc, unknown_names_are_answered_with_the_nearest);
    tcase_add_test(tc, bad_values_name_source_option_and_what_is_allowed);
    tcase_add_test(tc, hyperparameters_are_read_as_the_toolkits_write_them);
    tcase_add_test(tc, the_whole_file_is_read);
    tcase_add_test(tc, a_stream_needs_only_its_data);
    tcase_add_test(tc, mistakes_in_streams_roles_and_hosts_are_named);
    tcase_add_test(tc, the_digest_covers_what_shapes_the_streams_and_no_more);
    tcase_add_test(tc, help_and_table_name_every_option);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
