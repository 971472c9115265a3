# SPDX-License-Identifier: Apache-2.0
"""What the tests of `headrace env` share: writing a cluster's files, running the program, reading what it prints."""
import json
import math
import os
import subprocess

KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH")


def clean_environment(base, extra):
    """No SM_*, SAGEMAKER_* or AWS_* variables but those of the case."""
    env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    env["SAGEMAKER_BASE_DIR"] = base
    env.update(extra)
    return env


def write_files(base, given):
    """Lays the three files and the machine; a value {"raw_text": ...} is written as it is, None is no file."""
    folder = os.path.join(base, "input", "config")
    os.makedirs(folder, exist_ok=True)
    for name in ("resourceconfig", "hyperparameters", "inputdataconfig"):
        path = os.path.join(folder, name + ".json")
        value = given[name]
        if os.path.exists(path):
            os.unlink(path)
        if value is None:
            continue
        raw = value["raw_text"] if isinstance(value, dict) and "raw_text" in value else json.dumps(value)
        with open(path, "w", encoding="utf-8") as file:
            file.write(raw)
    machine = os.path.join(base, "machine.json")
    with open(machine, "w", encoding="utf-8") as file:
        json.dump(given.get("machine", {"num_cpus": 4, "num_gpus": 0, "num_neurons": 0}), file)
    return machine


def run_env(binary, base, machine, extra, *options):
    """Returns exit code, stdout and stderr of headrace env."""
    command = [binary, "env", *options]
    if machine is not None:
        command += ["--machine", machine]
    done = subprocess.run(command, env=clean_environment(base, extra), stdin=subprocess.DEVNULL, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "replace")


def same(a, b):
    """Equality that tells 1 from 1.0 and from True, and takes NaN as equal to itself; order of keys is free."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return a == b and (not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b))


def differences(found, wanted):
    """Lines that name every key whose value differs."""
    lines = []
    for key in sorted(found.keys() | wanted.keys()):
        if key not in found or key not in wanted or not same(found[key], wanted[key]):
            lines.append("%s: found %r, wanted %r" % (key, found.get(key, "nothing"), wanted.get(key, "nothing")))
    return lines


def is_clear_error(code, out, err, base):
    """One line on stderr that names the place and what was found and expected, nothing on stdout, exit code 78."""
    return (code == 78 and out == "" and err.count("\n") == 1 and err.startswith("headrace env: ")
            and ("expected" in err or "No such file" in err)
            and (base in err or "SAGEMAKER_CONTAINER_LOG_LEVEL" in err))
