/* SPDX-License-Identifier: Apache-2.0 */
#include "common/cluster.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/suite.h"

static char base[64];

static void make_base(void)
{
    char path[256];
    snprintf(base, sizeof(base), "/tmp/headrace-cluster-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    snprintf(path, sizeof(path), "%s/input", base);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/input/config", base);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void remove_base(void)
{
    static const char *const NAMES[] = {"input/config/resourceconfig.json",
                                        "input/config/hyperparameters.json"};
    char path[256];
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        snprintf(path, sizeof(path), "%s/%s", base, NAMES[i]);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/input/config", base);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/input", base);
    rmdir(path);
    rmdir(base);
}

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/input/config/%s", base, name);
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
}

static struct config *with_roles(const char *group, const char *role)
{
    static struct config config;
    config.role_count = 0;
    if (group != NULL) {
        config.role_count = 1;
        snprintf(config.roles[0].group, sizeof(config.roles[0].group), "%s", group);
        snprintf(config.roles[0].role, sizeof(config.roles[0].role), "%s", role);
    }
    return &config;
}

static void assert_loads(const struct config *config, struct cluster *cluster)
{
    struct err err = {0};
    ck_assert_msg(cluster_load(base, config, cluster, &err) == OK, "%s", err.message);
}

static void assert_refused(const struct config *config, const char *message)
{
    struct cluster cluster;
    struct err err = {0};
    ck_assert_msg(cluster_load(base, config, &cluster, &err) == ERR_CONFIG, "%s", message);
    ck_assert_msg(strstr(err.message, message) != NULL, "'%s' is not in '%s'", message,
                  err.message);
    ck_assert_msg(strstr(err.message, "resourceconfig.json") != NULL, "%s", err.message);
    ck_assert_ptr_null(cluster.hosts);
}

#define GROUP(name, type, hosts) \
    "{\"instance_group_name\":\"" name "\",\"instance_type\":\"" type "\",\"hosts\":" hosts "}"

/* Two producers and two trainers, in the platform's odd orders. */
static void write_hetero(const char *current)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "{\"current_host\":\"%s\",\"network_interface_name\":\"ethwe\",\"hosts\":[\"algo-1\","
             "\"algo-10\",\"algo-2\",\"algo-3\"],\"instance_groups\":[" GROUP(
                 "prep", "ml.c5.18xlarge",
                 "[\"algo-3\",\"algo-1\"]") "," GROUP("dnn", "ml.p3dn.24xlarge",
                                                      "[\"algo-10\",\"algo-2\"]") "]}",
             current);
    write_file("resourceconfig.json", text);
}

static const struct cluster_host *host(const struct cluster *cluster, const char *name)
{
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        if (strcmp(cluster->hosts[i].name, name) == 0) {
            return &cluster->hosts[i];
        }
    }
    ck_abort_msg("no host %s", name);
}

START_TEST(families_decide_without_a_distribution)
{
    struct cluster cluster;
    write_hetero("algo-2");
    assert_loads(with_roles(NULL, NULL), &cluster);
    ck_assert_uint_eq(cluster.host_count, 4);
    ck_assert_uint_eq(cluster.trainer_count, 2);
    ck_assert_uint_eq(cluster.producer_count, 2);
    ck_assert_str_eq(cluster.network_interface, "ethwe");
    ck_assert_str_eq(cluster.base, base);
    ck_assert_int_eq(host(&cluster, "algo-1")->role, ROLE_PRODUCER);
    ck_assert_int_eq(host(&cluster, "algo-1")->trainer_index, -1);
    ck_assert_int_eq(host(&cluster, "algo-2")->role, ROLE_TRAINER);
    ck_assert_int_eq(host(&cluster, "algo-2")->trainer_index, 0);
    ck_assert_int_eq(host(&cluster, "algo-10")->trainer_index, 1);
    ck_assert_str_eq(host(&cluster, "algo-10")->group, "dnn");
    ck_assert_str_eq(host(&cluster, "algo-10")->instance_type, "ml.p3dn.24xlarge");
    ck_assert_str_eq(cluster.hosts[3].name, "algo-10");
    ck_assert_uint_eq(cluster.current, 1);
    ck_assert_str_eq(cluster_coordinator(&cluster)->name, "algo-2");
    ck_assert_ptr_nonnull(strstr(cluster.why, "ml.p3dn.24xlarge, whose family is one that trains"));
    cluster_fini(&cluster);
    ck_assert_ptr_null(cluster.hosts);
}
END_TEST

START_TEST(every_host_gets_the_same_answer)
{
    static const char *const NAMES[] = {"algo-1", "algo-2", "algo-3", "algo-10"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        struct cluster cluster;
        write_hetero(NAMES[i]);
        assert_loads(with_roles(NULL, NULL), &cluster);
        ck_assert_str_eq(cluster.hosts[cluster.current].name, NAMES[i]);
        ck_assert_int_eq(host(&cluster, "algo-3")->role, ROLE_PRODUCER);
        ck_assert_str_eq(cluster_coordinator(&cluster)->name, "algo-2");
        cluster_fini(&cluster);
    }
}
END_TEST

START_TEST(which_families_train)
{
    static const struct {
        const char *type;
        enum role role;
    } CASES[] = {
        {"ml.g5.xlarge", ROLE_TRAINER},    {"ml.p2.xlarge", ROLE_TRAINER},
        {"ml.trn1.2xlarge", ROLE_TRAINER}, {"p6e-gb200.36xlarge", ROLE_TRAINER},
        {"ml.t3.large", ROLE_PRODUCER},    {"ml.c5n.large", ROLE_PRODUCER},
        {"ml.m7i.large", ROLE_PRODUCER},   {"local", ROLE_PRODUCER},
        {"ml.tr.large", ROLE_PRODUCER},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[512];
        snprintf(
            text, sizeof(text),
            "{\"current_host\":\"a\",\"hosts\":[\"a\",\"b\",\"c\"],\"instance_groups\":[" GROUP(
                "x", "%s", "[\"a\"]") "," GROUP("p", "ml.p3.2xlarge",
                                                "[\"b\"]") "," GROUP("c", "ml.c5.large",
                                                                     "[\"c\"]") "]}",
            CASES[i].type);
        write_file("resourceconfig.json", text);
        struct cluster cluster;
        assert_loads(with_roles(NULL, NULL), &cluster);
        ck_assert_msg(host(&cluster, "a")->role == CASES[i].role, "%s", CASES[i].type);
        cluster_fini(&cluster);
    }
}
END_TEST

START_TEST(a_distribution_of_known_groups_decides)
{
    struct cluster cluster;
    write_hetero("algo-3");
    write_file("hyperparameters.json",
               "{\"sagemaker_distribution_instance_groups\":\"[\\\"prep\\\"]\"}");
    assert_loads(with_roles(NULL, NULL), &cluster);
    ck_assert_int_eq(host(&cluster, "algo-1")->role, ROLE_TRAINER);
    ck_assert_int_eq(host(&cluster, "algo-10")->role, ROLE_PRODUCER);
    ck_assert_ptr_nonnull(strstr(cluster.why, "names its group 'prep'"));
    cluster_fini(&cluster);
}
END_TEST

START_TEST(any_other_distribution_is_shown_and_refused)
{
    static const char *const CASES[][2] = {
        {"{\"sagemaker_distribution_instance_groups\":\"dnn\"}", "found \"dnn\", expected"},
        {"{\"sagemaker_distribution_instance_groups\":\"[\\\"dnn\\\",\\\"x\\\"]\"}",
         "found [\"dnn\",\"x\"], expected"},
        {"{\"sagemaker_distribution_instance_groups\":\"null\"}", "found null, expected"},
        {"{\"sagemaker_distribution_instance_groups\":\"[1]\"}", "found [1], expected"},
        {"{\"sagemaker_distribution_instance_groups\":\"[]\"}", "no host trains"},
        {"{\"sagemaker_distribution_instance_groups\":\"[\\\"dnn\\\",\\\"prep\\\"]\"}",
         "no host produces: all of group 'prep', 'dnn' train"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        write_hetero("algo-1");
        write_file("hyperparameters.json", CASES[i][0]);
        assert_refused(with_roles(NULL, NULL), CASES[i][1]);
    }
}
END_TEST

START_TEST(a_setting_wins_over_all_other_rules)
{
    struct cluster cluster;
    write_hetero("algo-1");
    assert_loads(with_roles("prep", "both"), &cluster);
    ck_assert_int_eq(host(&cluster, "algo-1")->role, ROLE_BOTH);
    ck_assert_int_eq(host(&cluster, "algo-1")->trainer_index, 0);
    ck_assert_int_eq(host(&cluster, "algo-10")->role, ROLE_TRAINER);
    ck_assert_uint_eq(cluster.trainer_count, 4);
    ck_assert_uint_eq(cluster.producer_count, 2);
    ck_assert_ptr_nonnull(strstr(cluster.why, "roles says so for its group 'prep'"));
    cluster_fini(&cluster);
    write_file("hyperparameters.json",
               "{\"sagemaker_distribution_instance_groups\":\"[\\\"dnn\\\"]\"}");
    assert_refused(with_roles("dnn", "producer"), "no host trains");
    assert_loads(with_roles("another cluster's", "producer"), &cluster);
    ck_assert_int_eq(host(&cluster, "algo-10")->role, ROLE_TRAINER);
    cluster_fini(&cluster);
}
END_TEST

START_TEST(one_group_does_both)
{
    struct cluster cluster;
    static const char *const FILES[] = {
        "{\"current_host\":\"algo-2\",\"hosts\":[\"algo-1\",\"algo-2\"]}",
        "{\"current_host\":\"algo-2\",\"hosts\":[\"algo-1\",\"algo-2\"],\"instance_groups\":[],"
        "\"network_interface_name\":null}",
        "{\"current_host\":\"algo-2\",\"hosts\":[\"algo-1\",\"algo-2\"],\"instance_groups\":"
        "[" GROUP("homogeneousCluster", "ml.c5.large", "[\"algo-2\",\"algo-1\"]") "]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        write_file("resourceconfig.json", FILES[i]);
        assert_loads(with_roles(NULL, NULL), &cluster);
        ck_assert_uint_eq(cluster.trainer_count, 2);
        ck_assert_uint_eq(cluster.producer_count, 2);
        ck_assert_str_eq(cluster.network_interface, "eth0");
        ck_assert_str_eq(cluster.hosts[0].group, "homogeneousCluster");
        ck_assert_ptr_nonnull(strstr(cluster.why, "every host produces and trains"));
        cluster_fini(&cluster);
    }
    assert_refused(with_roles("homogeneousCluster", "trainer"), "no host produces");
}
END_TEST

START_TEST(an_empty_group_needs_no_place)
{
    struct cluster cluster;
    write_file("resourceconfig.json",
               "{\"current_host\":\"a\",\"hosts\":[\"a\",\"b\"],\"instance_groups\":["
               "{\"instance_group_name\":\"idle\",\"hosts\":[]}," GROUP(
                   "c", "ml.c5.large", "[\"a\"]") "," GROUP("g", "ml.g5.large", "[\"b\"]") "]}");
    assert_loads(with_roles(NULL, NULL), &cluster);
    ck_assert_uint_eq(cluster.host_count, 2);
    cluster_fini(&cluster);
}
END_TEST

START_TEST(bad_files_are_refused_in_one_clear_line)
{
#define HOSTS  "{\"current_host\":\"a\",\"hosts\":[\"a\",\"b\"],\"instance_groups\":"
#define GROUPS "[" GROUP("c", "ml.c5.large", "[\"a\"]") "," GROUP("g", "ml.g5.large", "[\"b\"]") "]"
    static const char *const CASES[][2] = {
        {"", "line 1 column 1: found the end, expected a value"},
        {"[]", "the whole file: found [], expected an object"},
        {"{}", "current_host: found nothing, expected a text"},
        {"{\"current_host\":null}", "current_host: found null"},
        {"{\"current_host\":\"a\"}", "hosts: found nothing, expected a list of 1 to 4096"},
        {"{\"current_host\":\"a\",\"hosts\":\"a\"}", "hosts: found \"a\", expected a list"},
        {"{\"current_host\":\"a\",\"hosts\":[]}", "hosts: found []"},
        {"{\"current_host\":\"a\",\"hosts\":[\"a\",7]}", "hosts: found [\"a\",7]"},
        {"{\"current_host\":\"a\",\"hosts\":[\"a\",\"a\"]}", "hosts: found a twice"},
        {"{\"current_host\":\"c\",\"hosts\":[\"a\"]}", "current_host: found \"c\", expected one"},
        {"{\"current_host\":\"a\",\"hosts\":[\"a\"],\"network_interface_name\":7}",
         "network_interface_name: found 7"},
        {HOSTS "null}", "instance_groups: found null, expected a list of groups"},
        {HOSTS "[7]}", "instance_groups: found 7, expected a group"},
        {HOSTS "[{\"hosts\":[]}]}", "a group with a text instance_group_name"},
        {HOSTS "[{\"instance_group_name\":\"c\"}]}", "group 'c': hosts: found nothing"},
        {HOSTS "[" GROUP("c", "t", "[null]") "]}", "group 'c': hosts: found [null]"},
        {HOSTS "[" GROUP("c", "t", "[\"a\"]") "]}", "no group has the host b, expected one"},
        {HOSTS "[" GROUP("c", "t", "[\"a\",\"b\",\"c\"]") "]}",
         "group 'c' has the host c, which is not in hosts"},
        {HOSTS "[" GROUP("c", "t", "[\"a\"]") "," GROUP("c", "t", "[\"b\"]") "]}",
         "found two groups 'c'"},
        {HOSTS "[" GROUP("c", "c", "[\"a\"]") "," GROUP("g", "g", "[\"b\",\"a\"]") "]}",
         "the host a stands in group 'c' and in group 'g'"},
        {HOSTS
         "[{\"instance_group_name\":\"c\",\"hosts\":[\"a\"]}," GROUP("g", "g", "[\"b\"]") "]}",
         "group 'c': found no instance_type, expected one, or a role for the group"},
        {HOSTS "[" GROUP("c", "ml.c5.l", "[\"a\"]") "," GROUP("d", "ml.m5.l", "[\"b\"]") "]}",
         "no host trains: all of group 'c', 'd' produce; set roles, like {\"c\": \"trainer\"}"},
        {HOSTS GROUPS "} x", "expected nothing after the document"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        write_file("resourceconfig.json", CASES[i][0]);
        assert_refused(with_roles(NULL, NULL), CASES[i][1]);
    }
    write_file("resourceconfig.json", HOSTS GROUPS "}");
    struct cluster cluster;
    assert_loads(with_roles(NULL, NULL), &cluster);
    cluster_fini(&cluster);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    struct cluster cluster;
    struct err err = {0};
    ck_assert_int_eq(cluster_load(base, with_roles(NULL, NULL), &cluster, &err), ERR_MISSING);
    ck_assert_ptr_nonnull(strstr(err.message, "input/config/resourceconfig.json"));
}
END_TEST

START_TEST(a_thousand_hosts_load)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "{\"current_host\":\"algo-500\",\"hosts\":[");
    for (int i = 1000; i > 0; i--) {
        fprintf(out, "\"algo-%d\"%s", i, i > 1 ? "," : "],\"instance_groups\":[");
    }
    for (int group = 0; group < 2; group++) {
        fprintf(out, "{\"instance_group_name\":\"%s\",\"instance_type\":\"ml.%s\",\"hosts\":[",
                group == 0 ? "cpu" : "gpu", group == 0 ? "c5.large" : "p4d.24xlarge");
        for (int i = 1; i <= 500; i++) {
            fprintf(out, "\"algo-%d\"%s", 2 * i - group, i < 500 ? "," : "");
        }
        fprintf(out, "]}%s", group == 0 ? "," : "]}");
    }
    fclose(out);
    write_file("resourceconfig.json", text);
    free(text);
    struct cluster cluster;
    assert_loads(with_roles(NULL, NULL), &cluster);
    ck_assert_uint_eq(cluster.host_count, 1000);
    ck_assert_uint_eq(cluster.trainer_count, 500);
    ck_assert_uint_eq(cluster.current, 499);
    for (int32_t i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "algo-%d", i + 1);
        ck_assert_str_eq(cluster.hosts[i].name, name);
        ck_assert_int_eq(cluster.hosts[i].trainer_index, i % 2 == 0 ? i / 2 : -1);
    }
    cluster_fini(&cluster);
}
END_TEST

START_TEST(the_base_comes_from_the_environment)
{
    setenv("SAGEMAKER_BASE_DIR", "/somewhere", 1);
    ck_assert_str_eq(cluster_base(), "/somewhere");
    unsetenv("SAGEMAKER_BASE_DIR");
    ck_assert_str_eq(cluster_base(), "/opt/ml");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster");
    TCase *tc = tcase_create("cluster");
    tcase_add_checked_fixture(tc, make_base, remove_base);
    tcase_add_test(tc, families_decide_without_a_distribution);
    tcase_add_test(tc, every_host_gets_the_same_answer);
    tcase_add_test(tc, which_families_train);
    tcase_add_test(tc, a_distribution_of_known_groups_decides);
    tcase_add_test(tc, any_other_distribution_is_shown_and_refused);
    tcase_add_test(tc, a_setting_wins_over_all_other_rules);
    tcase_add_test(tc, one_group_does_both);
    tcase_add_test(tc, an_empty_group_needs_no_place);
    tcase_add_test(tc, bad_files_are_refused_in_one_clear_line);
    tcase_add_test(tc, a_missing_file_is_named);
    tcase_add_test(tc, a_thousand_hosts_load);
    tcase_add_test(tc, the_base_comes_from_the_environment);
    suite_add_tcase(suite, tc);
    return suite_main(suite);
}
