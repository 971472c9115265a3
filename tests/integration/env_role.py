#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`headrace env --role` and its command line: the same role on all hosts, its reason, and clear refusals.

usage: env_role.py            HR_BINARY
"""
import json
import os
import shutil
import sys
import tempfile

import env_support

BINARY = os.environ["HR_BINARY"]
FAILURES = []


def expect(name, holds, *found):
    if not holds:
        FAILURES.append("%s: %r" % (name, found))


def group(name, kind, *hosts):
    return {"instance_group_name": name, "instance_type": kind, "hosts": list(hosts)}


def role(base, host, groups, hyperparameters=None, options=(), variables=None):
    """Exit code, stdout and stderr of --role on one host."""
    hosts = sorted(name for entry in groups for name in entry["hosts"])
    current = next((entry["instance_group_name"] for entry in groups if host in entry["hosts"]), None)
    env_support.write_files(base, {
        "resourceconfig": {"current_host": host, "current_group_name": current, "hosts": hosts,
                           "instance_groups": groups},
        "hyperparameters": hyperparameters or {}, "inputdataconfig": {}})
    return env_support.run_env(BINARY, base, None, variables or {}, "--role", *options)


def expect_roles(name, base, groups, wanted, **more):
    for host, word in wanted.items():
        code, out, err = role(base, host, groups, **more)
        expect("%s on %s" % (name, host), code == 0 and err == "" and out.count("\n") == 1, code, out, err)
        words = out.split()
        expect("%s on %s" % (name, host), len(words) > 3 and words[0] == word and words[1] == "because", out)


def expect_refusal(name, result, wanted_code, *texts):
    code, out, err = result
    expect(name, code == wanted_code and out == "" and err.count("\n") == 1, code, out, err)
    for text in texts:
        expect(name, text in err, text, err)


HETERO = [group("prep", "ml.c5.18xlarge", "algo-3", "algo-1"), group("dnn", "ml.p3dn.24xlarge", "algo-10", "algo-2")]
BY_FAMILY = {"algo-1": "producer", "algo-3": "producer", "algo-2": "trainer", "algo-10": "trainer"}


def check_rules(base):
    expect_roles("families", base, HETERO, BY_FAMILY)
    names = {"sagemaker_distribution_instance_groups": json.dumps(["prep"])}
    expect_roles("distribution", base, HETERO, {"algo-1": "trainer", "algo-10": "producer"}, hyperparameters=names)
    expect_roles("one group", base, [group("homogeneousCluster", "ml.p3.2xlarge", "algo-2", "algo-1")],
                 {"algo-1": "both", "algo-2": "both"})
    setting = '{"prep": "both"}'
    expect_roles("--roles", base, HETERO, {"algo-1": "both", "algo-2": "trainer"}, options=("--roles", setting))
    expect_roles("HEADRACE_ROLES", base, HETERO, {"algo-1": "both"}, variables={"HEADRACE_ROLES": setting})
    expect_roles("headrace_roles", base, HETERO, {"algo-1": "both"}, hyperparameters={"headrace_roles": setting})
    job = os.path.join(base, "job.json")
    with open(job, "w", encoding="utf-8") as file:
        json.dump({"streams": {"train": {"data": "train"}}, "roles": {"prep": "both"}}, file)
    expect_roles("--config", base, HETERO, {"algo-1": "both"}, options=("--config", job))


def check_refusals(base):
    odd = {"sagemaker_distribution_instance_groups": "dnn"}
    expect_refusal("distribution that is no list", role(base, "algo-1", HETERO, odd), 78, '"dnn"', "expected a JSON list")
    two = [group("a", "ml.c5.xlarge", "algo-1"), group("b", "ml.m5.xlarge", "algo-2")]
    expect_refusal("no trainer", role(base, "algo-1", two), 78, "no host trains", "'a', 'b'", "set roles")
    two = [group("a", "ml.g5.xlarge", "algo-1"), group("b", "ml.p4d.24xlarge", "algo-2")]
    expect_refusal("no producer", role(base, "algo-1", two), 78, "no host produces", "set roles")
    two = [group("a", "ml.c5.xlarge", "algo-1"), {"instance_group_name": "b", "hosts": ["algo-2"]}]
    expect_refusal("no type", role(base, "algo-1", two), 78, "group 'b'", 'roles {"b": "trainer"}')
    expect_refusal("unknown host", role(base, "algo-7", HETERO), 78, 'current_host: found "algo-7"')
    expect_refusal("unknown option", role(base, "algo-1", HETERO, options=("--rols", "{}")), 64, "--rols", "--roles?")
    expect_refusal("bad value", role(base, "algo-1", HETERO, options=("--seed=x",)), 78, "--seed: found 'x'")
    expect_refusal("unknown hyperparameter", role(base, "algo-1", HETERO, {"headrace_sed": "1"}), 78, "headrace_seed?")
    expect_refusal("missing config", role(base, "algo-1", HETERO, options=("--config", base + "/none")), 78, "/none")


def check_command_line(base):
    run = env_support.run_env
    for options in (("--varz",), ("--vars", "word"), ("--machine",)):
        expect_refusal(" ".join(options), run(BINARY, base, None, {}, *options), 64, "headrace env: ")
    expect_refusal("nearest name", run(BINARY, base, None, {}, "--machin", "x"), 64, "did you mean --machine?")
    code, out, err = run(BINARY, base, None, {}, "--help")
    expect("--help", code == 0 and err == "" and "--export" in out and "--machine" in out, code, out, err)
    machine = env_support.write_files(base, {"resourceconfig": {"current_host": "a", "hosts": ["a"]},
                                             "hyperparameters": {"headrace_seed": "no number"},
                                             "inputdataconfig": {}})
    code, out, err = run(BINARY, base, machine, {"HEADRACE_SEED": "none"})
    expect("the environment comes out whatever the job's options", code == 0 and err == "", code, out, err)
    expect_refusal("no cluster file", run(BINARY, base + "/none", machine, {}), 78, base + "/none/input/config/")
    code, out, err = run(BINARY, base, None, {})
    found = json.loads(out or "{}").get("num_cpus")
    expect("the machine is asked without --machine", code == 0 and found == os.cpu_count(), code, found, err)


def main():
    base = tempfile.mkdtemp(prefix="headrace-role-")
    try:
        check_rules(base)
        check_refusals(base)
        check_command_line(base)
    finally:
        shutil.rmtree(base)
    for line in FAILURES:
        print(line)
    print("%d failures" % len(FAILURES))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
