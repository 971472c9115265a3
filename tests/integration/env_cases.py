#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`headrace env` on recorded cases: what sagemaker-training's Environment gave for them, value for value.

usage: env_cases.py            HR_BINARY: the program; HR_SOURCE_DIR: where tests/data lies
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import env_support

FAILURES = []


def check(name, holds, detail=""):
    if not holds:
        FAILURES.append("%s: %s" % (name, detail))


def revive(value, base):
    """The recorded values as Python's: {"float": "NaN"} is that float, and /opt/ml stands for the base."""
    if isinstance(value, dict):
        if list(value) == ["float"]:
            return float(value["float"])
        return {key: revive(item, base) for key, item in value.items()}
    if isinstance(value, list):
        return [revive(item, base) for item in value]
    return value.replace("/opt/ml", base) if isinstance(value, str) else value


def check_error(name, binary, base, machine, extra):
    for options in ((), ("--vars",), ("--export",)):
        code, out, err = env_support.run_env(binary, base, machine, extra, *options)
        check(name, env_support.is_clear_error(code, out, err, base), "exit %d, %r, %r" % (code, out[:200], err))


def check_case(binary, base, case):
    name, given = case["id"], case["given"]
    machine = env_support.write_files(base, given)
    extra = given.get("process_env", {})
    if "error" in case.get("expected", {}) or "expected_error" in case:
        check_error(name, binary, base, machine, extra)
        return
    code, out, err = env_support.run_env(binary, base, machine, extra)
    check(name, code == 0 and err == "", "exit %d, %r" % (code, err))
    if code != 0:
        return
    properties = json.loads(out)
    if "expected_ok" in case:
        wanted = revive(case["expected_ok"], base)
        for line in env_support.differences({key: properties.get(key) for key in wanted}, wanted):
            check(name, False, line)
        return
    for line in env_support.differences(properties, revive(case["expected"]["properties"], base)):
        check(name, False, line)
    code, out, err = env_support.run_env(binary, base, machine, extra, "--vars")
    check(name, code == 0 and err == "", "exit %d, %r" % (code, err))
    for line in env_support.differences(json.loads(out), revive(case["expected"]["env_vars"], base)):
        check(name, False, line)
    check_export(name, binary, base, machine, extra, json.loads(out))


def check_export(name, binary, base, machine, extra, variables):
    """A shell that reads the export lines has the same values; what it cannot hold is a comment."""
    code, out, err = env_support.run_env(binary, base, machine, extra, "--export")
    check(name, code == 0 and err == "", "exit %d, %r" % (code, err))
    script = out + "\nenv -0 | grep -z '^SM_'"
    done = subprocess.run(["/bin/sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    check(name, done.stderr == b"", "the shell says %r" % done.stderr)
    seen = dict(item.split("=", 1) for item in done.stdout.decode("utf-8", "surrogateescape").split("\0") if item)
    exported = {key: value for key, value in variables.items() if key.isascii() and key.isidentifier()}
    for line in env_support.differences(seen, exported):
        check(name, False, "--export: " + line)
    for key in variables.keys() - exported.keys():
        check(name, "\n# %s=" % key in "\n" + out, "--export: no comment for %s" % key)


def main():
    binary = os.environ["HR_BINARY"]
    with open(os.path.join(os.environ["HR_SOURCE_DIR"], "tests/data/resourceconfig.json"), encoding="utf-8") as file:
        cases = json.load(file)
    base = tempfile.mkdtemp(prefix="headrace env ")  # a blank in the path on purpose
    try:
        for case in cases["cases"] + cases["variants"]:
            check_case(binary, base, case)
    finally:
        shutil.rmtree(base)
    for line in FAILURES:
        print(line)
    print("%d cases, %d differences" % (len(cases["cases"] + cases["variants"]), len(FAILURES)))
    return 1 if FAILURES or not cases["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
