#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`headrace env` and `--vars` against the real toolkit: recorded cases, special ones, and cluster files at random.

usage: env_toolkit.py [COUNT]       HR_BINARY, HR_SOURCE_DIR, HR_BUILD_DIR; HR_SEED: the seed to repeat
"""
import collections
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import env_generate
import env_support
import toolkit_venv

TRN2 = "trn2.48xlarge"


class Toolkit:
    """The toolkit's Environment on a base folder, with the machine's answers put in front of its probes."""

    def __init__(self, base):
        os.environ["SAGEMAKER_BASE_DIR"] = base  # looked at when the module is loaded
        from sagemaker_training import environment
        self.module = environment
        self.probed = (environment.subprocess.check_output, environment.subprocess.run,
                       environment.multiprocessing.cpu_count)
        self.before = {key: value for key, value in os.environb.items()}

    def fake_machine(self, machine):
        def check_output(command):
            if command[0] == "nvidia-smi":
                return b"".join(b"GPU %d: A\n  MIG 1g\n" % i for i in range(machine["num_gpus"]))
            return json.dumps([{"nc_count": machine["num_neurons"]}, {}]).encode()

        def run(command, **_):
            if not machine.get("is_%s_installed" % command[1], False):
                raise subprocess.CalledProcessError(1, command)
            return subprocess.CompletedProcess(command, 0, stdout="/bin/x\n")

        self.module.subprocess.check_output = check_output
        self.module.subprocess.run = run
        self.module.multiprocessing.cpu_count = lambda: machine["num_cpus"]

    def restore(self):
        (self.module.subprocess.check_output, self.module.subprocess.run,
         self.module.multiprocessing.cpu_count) = self.probed
        os.environb.clear()
        os.environb.update(self.before)

    def ask(self, machine, variables):
        """Properties and variables as JSON would give them back; an exception where it raises one."""
        if machine is not None:
            self.fake_machine(machine)
        for name, value in variables.items():
            os.environb[name.encode()] = os.fsencode(value)
        try:
            environment = self.module.Environment()
            properties = json.loads(json.dumps(dict(environment)))
            return properties, json.loads(json.dumps(environment.to_env_vars()))
        except Exception as error:  # whatever it is, it is a crash
            return error, None
        finally:
            self.restore()


def is_stricter(base):
    """Where headrace refuses by its own documented rule: a group whose name is no text."""
    try:
        with open(os.path.join(base, "input/config/resourceconfig.json"), encoding="utf-8") as file:
            groups = json.load(file).get("instance_groups", [])
        return any(not isinstance(group["instance_group_name"], str) for group in groups)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


class Comparison:
    def __init__(self, binary, base):
        self.binary, self.base = binary, base
        self.toolkit = Toolkit(base)
        self.counts = collections.Counter()
        self.failures = 0

    def fail(self, name, text):
        self.failures += 1
        if self.failures > 20:
            return
        print("%s: %s" % (name, text[:2000].encode("ascii", "backslashreplace").decode()))
        for file in ("resourceconfig.json", "hyperparameters.json", "inputdataconfig.json"):
            path = os.path.join(self.base, "input/config", file)
            if self.failures <= 5 and os.path.exists(path):
                with open(path, "rb") as data:
                    print("  %s: %r" % (file, data.read(3000)))

    def write(self, files, machine):
        folder = os.path.join(self.base, "input", "config")
        os.makedirs(folder, exist_ok=True)
        for name, data in files.items():
            path = os.path.join(folder, name)
            if os.path.exists(path):
                os.unlink(path)
            if data is not None:
                with open(path, "wb") as file:
                    file.write(data)
        path = os.path.join(self.base, "machine.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(machine, file)
        return path

    def compare(self, name, files, machine, variables):
        if TRN2.encode() in files.get("resourceconfig.json", b"") if files.get("resourceconfig.json") else False:
            machine = dict(machine, num_neurons=64)  # the toolkit knows this type without asking
        path = self.write(files, machine)
        self.judge(name, path, self.toolkit.ask(machine, variables), variables)

    def judge(self, name, machine_path, wanted, variables):
        stricter = is_stricter(self.base)
        self.counts["stricter" if stricter else type(wanted[0]).__name__] += 1
        forms = (((), wanted[0]), (("--vars",), wanted[1]))
        if isinstance(wanted[0], Exception) or stricter:
            options, _ = forms[sum(self.counts.values()) % 2]  # both refuse at the same place
            found = env_support.run_env(self.binary, self.base, machine_path, variables, *options)
            if not env_support.is_clear_error(*found, self.base):
                self.fail(name, "the toolkit raises %r, headrace gives %r" % (wanted[0], found))
            return
        for options, expected in forms:
            code, out, err = env_support.run_env(self.binary, self.base, machine_path, variables, *options)
            if code != 0 or err != "":
                self.fail(name, "the toolkit is content, headrace exits %d: %s" % (code, err))
                continue
            for line in env_support.differences(json.loads(out), expected):
                self.fail(name, line)


def document(value):
    return json.dumps(value).encode()


def plain(**changed):
    """The files of an ordinary one-host job, with some replaced."""
    files = {"resourceconfig": {"current_host": "algo-1", "hosts": ["algo-1"]}, "hyperparameters": {},
             "inputdataconfig": {}}
    files.update(changed)
    return {name + ".json": document(value) for name, value in files.items()}


def special_cases():
    """What chance would hit too seldom."""
    letters = [chr(point) for point in range(0x110000) if chr(point).upper() != chr(point)]
    yield "every letter with an upper case", plain(hyperparameters={letter + "x": "1" for letter in letters},
                                                   inputdataconfig={letter: {} for letter in letters})
    edges = [point for point in range(1, 0x110000) if chr(point).isprintable() != chr(point - 1).isprintable()]
    edges = "".join(chr(point - 1) + chr(point) for point in edges if not 0xD7FF <= point <= 0xE000)
    yield "every edge of the printable", plain(hyperparameters={"x": json.dumps([edges, "'\"", "'", "\\", "\ud800"])})
    doubles = []
    for exponent in range(-1074, 1024):
        bits = struct.unpack("<Q", struct.pack("<d", 2.0 ** exponent))[0]
        doubles += [struct.unpack("<d", struct.pack("<Q", bits + step))[0] for step in (0, 1)]
        doubles += [struct.unpack("<d", struct.pack("<Q", bits - 1))[0]] if bits > 0 else []
    yield "doubles beside every power of two", plain(hyperparameters={"x": json.dumps(doubles)})
    yield "every power of ten", plain(hyperparameters={"x": "[%s]" % ",".join("1e%d" % e for e in range(-330, 310))})
    hosts = ["algo-%d" % i for i in range(1, 1001)]
    groups = [{"instance_group_name": name, "instance_type": "ml." + kind, "hosts": part}
              for name, kind, part in (("gpu", "p4d.24xlarge", hosts[::2]), ("cpu", "c5.xlarge", hosts[1::2]))]
    yield "a thousand hosts", plain(
        resourceconfig={"current_host": "algo-500", "hosts": sorted(hosts), "instance_groups": groups},
        hyperparameters={"sagemaker_distribution_instance_groups": '["gpu"]'})
    lines = {"instance_group_name": "new\nline"}
    yield "a refused name of two lines", plain(
        resourceconfig={"current_host": "a", "hosts": ["a"], "current_group_name": "new\nline",
                        "instance_groups": [lines]})
    yield "digits at the limit", plain(hyperparameters={"ok": "9" * 4300, "text": "9" * 4301})
    yield "32 levels", plain(hyperparameters={"x": "[" * 32 + "]" * 32, "text": "[" * 40})


ODD_VALUES = [None, True, 0, 1.5, "", "ab", [], ["ab"], [7], {}, {"ab": 1}]
OWN_KEYS = ["sagemaker_job_name", "sagemaker_region", "sagemaker_program", "sagemaker_submit_directory",
            "sagemaker_container_log_level"]


def odd_cases():
    """Every key with a value of every type, under every type of distribution."""
    group = {"instance_group_name": "ab", "instance_type": "ml.c5.xlarge", "hosts": ["algo-1"]}
    resources = {"current_host": "algo-1", "current_instance_type": "ml.c5.xlarge", "current_group_name": "ab",
                 "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0", "topology": None,
                 "instance_groups": [group, dict(group, instance_group_name="cd", hosts=["algo-2"])]}
    for distribution in (None, '["ab"]', "ab", '{"ab": 1}', "7"):
        hyperparameters = {} if distribution is None else {"sagemaker_distribution_instance_groups": distribution}
        for key in resources:
            rest = {name: value for name, value in resources.items() if name != key}
            yield "no %s, distribution %s" % (key, distribution), plain(
                resourceconfig=rest, hyperparameters=hyperparameters)
            for value in ODD_VALUES:
                yield "%s %r, distribution %s" % (key, value, distribution), plain(
                    resourceconfig=dict(rest, **{key: value}), hyperparameters=hyperparameters)
    for value in ODD_VALUES:
        yield "hosts of a group %r" % (value,), plain(
            resourceconfig=dict(resources, instance_groups=[dict(group, hosts=value)]),
            hyperparameters={"sagemaker_mpi_enabled": "true"})
        yield "group %r" % (value,), plain(resourceconfig=dict(resources, instance_groups=[value]))
        yield "channels %r" % (value,), plain(inputdataconfig=value)
        yield "hyperparameters %r" % (value,), plain(hyperparameters=value)
        yield "resources %r" % (value,), plain(resourceconfig=value)
        yield "flag %r" % (value,), plain(resourceconfig=resources, hyperparameters={"sagemaker_mpi_enabled": value})
        for key in OWN_KEYS:
            yield "%s %r" % (key, value), plain(hyperparameters={key: json.dumps(value)})


def probe_cases(comparison):
    """The real probes on both sides, with tools of our own in front in the path."""
    tools = [
        {},
        {"nvidia-smi": "echo 'GPU 0: A'; echo '  MIG'; echo 'GPU 1: B'", "neuron-ls": "echo '[{\"nc_count\":2},{}]'"},
        {"nvidia-smi": "echo 'GPU 0: A'; exit 3", "neuron-ls": "exit 1", "smddprun": ""},
        {"nvidia-smi": "printf 'GPU 0: A'", "neuron-ls": "echo '[]'", "smddpmprun": ""},
        {"neuron-ls": "echo broken"},
        {"neuron-ls": "echo '{\"nc_count\":2}'"},
        {"neuron-ls": "echo '[7]'"},
    ]
    comparison.write(plain(), {})
    for index, scripts in enumerate(tools):
        folder = tempfile.mkdtemp(prefix="tools", dir=comparison.base)
        for name, script in scripts.items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n%s\n" % script)
            os.chmod(path, 0o755)
        variables = {"PATH": folder + ":/usr/bin:/bin"}
        wanted = comparison.toolkit.ask(None, variables)
        if isinstance(wanted[0], Exception):
            code, out, err = env_support.run_env(comparison.binary, comparison.base, None, variables)
            if code != 78 or out != "" or not err.startswith("headrace env: neuron-ls -j: "):
                comparison.fail("probe %d" % index, "the toolkit raises %r, headrace: %d %r" % (wanted[0], code, err))
            comparison.counts["probes"] += 1
            continue
        comparison.judge("probe %d" % index, None, wanted, variables)


def recorded_cases(comparison):
    path = os.path.join(os.environ["HR_SOURCE_DIR"], "tests/data/resourceconfig.json")
    with open(path, encoding="utf-8") as file:
        cases = json.load(file)
    for case in cases["cases"] + cases["variants"]:
        given = case["given"]
        files = {}
        for name in ("resourceconfig", "hyperparameters", "inputdataconfig"):
            value = given[name]
            if isinstance(value, dict) and "raw_text" in value:
                files[name + ".json"] = value["raw_text"].encode()
            else:
                files[name + ".json"] = None if value is None else document(value)
        machine = given.get("machine", {"num_cpus": 4, "num_gpus": 0, "num_neurons": 0})
        comparison.compare(case["id"], files, machine, given.get("process_env", {}))


def main():
    toolkit_venv.become(os.environ["HR_BUILD_DIR"])
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seed = int(os.environ.get("HR_SEED") or time.time_ns())
    print("HR_SEED=%d" % seed)
    for name in [name for name in os.environ if name.startswith(("SM_", "SAGEMAKER_", "AWS_", "TRAINING_"))]:
        del os.environ[name]
    base = tempfile.mkdtemp(prefix="headrace-env-")
    try:
        comparison = Comparison(os.environ["HR_BINARY"], base)
        recorded_cases(comparison)
        machine = {"num_cpus": 2, "num_gpus": 1, "num_neurons": 0}
        for name, files in [*special_cases(), *odd_cases()]:
            comparison.compare(name, files, machine, {})
        probe_cases(comparison)
        print("recorded, special and odd cases:", dict(comparison.counts))
        comparison.counts.clear()
        for index in range(count):
            generator = env_generate.Generator("%d/%d" % (seed, index))
            comparison.compare("case %d of seed %d" % (index, seed), *generator.case())
    finally:
        shutil.rmtree(base)
    print("%d cases: %s; %d differences" % (count, dict(comparison.counts), comparison.failures))
    content = comparison.counts["dict"]
    if count >= 500 and not count // 2 < content < count:
        print("the generator has lost its balance: too many or too few cases that the toolkit accepts")
        return 1
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
