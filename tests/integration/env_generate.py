# SPDX-License-Identifier: Apache-2.0
"""Cluster files at random: mostly what the platform writes, often odd, sometimes broken. A function of the seed."""
import json
import random

NAMES = ["algo-1", "algo-2", "algo-10", "gpu", "cpu", "data_group", "dnn group", "gpu_big", "\u00fcber", "\u540d\u524d",
         "it's", 'say "x"', "back\\slash", "tab\there", "new\nline", "\x7f", "stra\u00dfe", "\ufb01n", "\u0149x",
         "\u01c6", "\U0001f600", "\U00010428", "a=b", "x/y", "..", "-", "--v", "", "A", "a", "Batch-Size", "LR",
         "lr", "\u00ff", "\u0130i", "\u2028", "\u00a0", "\u200b", "$(id)", "`id`", "%s%n", "x" * 64]
RARE_NAMES = ["\ud800", "\udc80", "\ud83d", "nul\0", "/abs", "\ue000", "\U000e0001"]
TYPES = ["ml.c5.xlarge", "ml.p3dn.24xlarge", "ml.trn1.32xlarge", "ml.g5.xlarge", "local", "", "\u00fc"]
FLAGS = ["sagemaker_mpi_enabled", "sagemaker_parameter_server_enabled", "sagemaker_distributed_dataparallel_enabled",
         "sagemaker_pytorch_ddp_enabled", "sagemaker_pytorch_xla_multi_worker_enabled",
         "sagemaker_multi_worker_mirrored_strategy_enabled", "sagemaker_torch_distributed_enabled"]
OWN = ["sagemaker_program", "sagemaker_submit_directory", "sagemaker_region", "sagemaker_enable_cloudwatch_metrics",
       "sagemaker_job_name", "sagemaker_container_log_level", "sagemaker_s3_output", "default_user_module_name",
       "_tuning_objective_metric"]
NUMBERS = ["0", "-0", "0.0", "-0.0", "1", "-1", "256", "1e2", "1E16", "1e-5", "0.10", "3.0", "1e400", "-1e400",
           "5e-324", "9007199254740993", "9223372036854775808", "18446744073709551616", "-9223372036854775809",
           "12345678901234567890123", "0.1e-6", "123456789.123456789", "1.7976931348623157e308", "NaN", "Infinity",
           "-Infinity", "1e22", "1e15", "9999999999999998.0", "2.5e-3", "4.35", "0.000123"]
BARE = ["resnet50", "007", "1e", "True", "None", "nan", "", " ", "[1,", "{", "\"", "'a'", "1 2", "0x10", "+1", ".5",
        "s3://bucket/key", "--flag", "\ufeff1", "[1]\v", "\u0661", "train.py", "sub/train.py", ".py", "a.py.py"]


class Raw(str):
    """Text that stands in the document as it is: a number's spelling."""


class Pairs(list):
    """An object as a list of key and value, so that keys may repeat."""


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def name(self):
        roll = self.random.random()
        if roll < 0.04:
            return self.random.choice(RARE_NAMES)
        if roll < 0.2:
            return "".join(chr(self.point()) for _ in range(self.random.randint(0, 6)))
        if roll < 0.3:
            return self.random.choice(NAMES) + self.random.choice(NAMES)
        return self.random.choice(NAMES)

    def point(self):
        high = self.random.choice([0x7F, 0xFF, 0x24F, 0x3000, 0xFFFF, 0x1FFFF, 0x10FFFF])
        point = self.random.randint(1, high)
        return point if not 0xD800 <= point <= 0xDFFF else 0x61

    def number(self):
        roll = self.random.random()
        if roll < 0.5:
            return Raw(self.random.choice(NUMBERS))
        if roll < 0.65:
            return Raw(str(self.random.randint(-2**70, 2**70)))
        if roll < 0.75:
            return Raw(repr(self.random.choice([1, -1]) * 2.0 ** self.random.randint(-1074, 1023)))
        digits = "".join(self.random.choice("0123456789") for _ in range(self.random.randint(1, 20)))
        exponent = "e%+d" % self.random.randint(-340, 320) if self.chance(60) else ""
        return Raw("%d.%s%s" % (self.random.randint(-20, 20), digits, exponent))

    def value(self, depth=0):
        roll = self.random.random()
        if depth < 5 and roll < 0.15:
            return [self.value(depth + 1) for _ in range(self.random.randint(0, 4))]
        if depth < 5 and roll < 0.3:
            return Pairs((self.name(), self.value(depth + 1)) for _ in range(self.random.randint(0, 4)))
        if roll < 0.4:
            return self.random.choice([True, False, None])
        return self.number() if roll < 0.7 else self.name()

    # ---- writing ----

    def blanks(self):
        return self.random.choice(["", "", "", " ", "\n", "\t \r\n"])

    def quoted(self, text):
        """Any spelling of a text: raw, \\u in either case, short escapes."""
        out = []
        for char in text:
            point = ord(char)
            if self.chance(15) or char in "\"\\" or point < 0x20 or 0xD800 <= point <= 0xDFFF:
                escape = json.dumps(char)[1:-1]
                out.append(escape.upper().replace("\\U", "\\u") if "\\u" in escape and self.chance(50) else escape)
            else:
                out.append(char)
        return '"%s"' % "".join(out)

    def dump(self, value):
        before, after = self.blanks(), self.blanks()
        if isinstance(value, Raw):
            body = str(value)
        elif isinstance(value, str):
            body = self.quoted(value)
        elif isinstance(value, Pairs):
            body = "{%s}" % ",".join(
                self.blanks() + self.quoted(key) + self.blanks() + ":" + self.dump(item) for key, item in value)
        elif isinstance(value, list):
            body = "[%s]" % ",".join(self.dump(item) for item in value)
        else:
            body = json.dumps(value)
        return before + body + after

    # ---- the files ----

    def hosts(self, count):
        hosts = ["algo-%d" % i for i in range(1, count + 1)]
        self.random.shuffle(hosts)
        if self.chance(10):
            hosts = [self.name() for _ in hosts]
        if self.chance(5) and hosts:
            hosts.append(self.random.choice(hosts))
        if self.chance(2):
            hosts.append(self.value())
        return hosts

    def groups(self, hosts):
        names = [self.name() if self.chance(40) else self.random.choice(["gpu", "cpu", "gpu_big", "prep"])
                 for _ in range(self.random.choice([0, 1, 1, 2, 2, 2, 3, 5]))]
        rest = list(hosts)
        groups = []
        for index, name in enumerate(names):
            count = len(rest) if index == len(names) - 1 else self.random.randint(0, len(rest))
            group = Pairs([("instance_group_name", name), ("instance_type", self.random.choice(TYPES)),
                           ("hosts", rest[:count])])
            rest = rest[count:]
            if self.chance(10):
                group.append((self.name(), self.value()))
            self.random.shuffle(group)
            if self.chance(4):
                group = Pairs((key, item) for key, item in group if key != self.random.choice(["hosts", "instance_type"]))
            if self.chance(2):
                group = self.replace(group, "hosts", self.value())
            if self.chance(1):
                group = self.replace(group, "instance_group_name", self.value())
            groups.append(group if not self.chance(0.5) else self.value())
        return names, groups

    @staticmethod
    def replace(pairs, key, value):
        return Pairs((name, value if name == key else item) for name, item in pairs)

    def resources(self):
        hosts = self.hosts(self.random.choice([1, 2, 3, 4, 11]))
        names, groups = self.groups(hosts)
        pairs = Pairs([
            ("current_host", self.random.choice(hosts) if hosts and self.chance(90) else self.name()),
            ("current_instance_type", self.random.choice(TYPES + ["ml.trn2.48xlarge"])),
            ("current_group_name", self.random.choice(names) if names and self.chance(85) else self.name()),
            ("hosts", hosts),
            ("instance_groups", groups),
            ("network_interface_name", self.random.choice(["eth0", "ethwe", None])),
            ("topology", self.random.choice([None, [], [Pairs([("hostName", "algo-1"), ("capacityUnitId", "1")])]])),
        ])
        pairs = Pairs(pair for pair in pairs if not self.chance(6))
        if self.chance(15):
            pairs = self.replace(pairs, self.random.choice(pairs)[0] if pairs else "", self.value())
        if self.chance(10):
            pairs.append((self.random.choice(["hosts", "current_host", "x", self.name()]), self.value()))
        if self.chance(10) and pairs:
            pairs.append(self.random.choice(pairs))
        self.random.shuffle(pairs)
        return names, pairs

    def hyperparameter(self):
        """Mostly as the platform's SDK writes it: JSON inside a text."""
        roll = self.random.random()
        if roll < 0.65:
            return self.dump(self.value())
        if roll < 0.85:
            return self.random.choice(BARE)
        return self.name() if roll < 0.95 else self.value()

    def distribution(self, names):
        some = [name for name in names if self.chance(50)]
        return self.random.choice([
            self.dump(some), self.dump(some), self.dump(some + [self.name()]), self.dump([]),
            self.random.choice(names) if names else "gpu", self.name(), self.dump(Pairs((name, 1) for name in some)),
            self.dump(self.value()), self.dump(Raw("1")) if self.chance(30) else self.dump(some)])

    def hyperparameters(self, names):
        pairs = Pairs((self.name(), self.hyperparameter()) for _ in range(self.random.randint(0, 8)))
        if self.chance(45):
            pairs.append(("sagemaker_distribution_instance_groups", self.distribution(names)))
        for flag in FLAGS:
            if self.chance(8):
                pairs.append((flag, self.random.choice(["true", "false", "False", "0", "1", "0.0", "\"\"", "null"])))
        for own in OWN:
            if self.chance(15):
                text = self.dump(self.random.choice(["train.py", "job", "eu-west-1", "launch.sh", self.name()]))
                pairs.append((own, text if self.chance(85) else self.hyperparameter()))
        if self.chance(15):
            pairs.append(("sagemaker_" + self.name(), self.hyperparameter()))
        if self.chance(15) and pairs:
            pairs.append((self.random.choice(pairs)[0], self.hyperparameter()))
        self.random.shuffle(pairs)
        return pairs

    def inputs(self):
        roll = self.random.random()
        if roll < 0.03:
            return [self.name() for _ in range(3)]
        if roll < 0.05:
            return self.value()
        modes = ["File", "FastFile", "Pipe"]
        return Pairs((self.random.choice(["train", "val-set", "train.v2", "Train", self.name()]),
                      Pairs([("TrainingInputMode", self.random.choice(modes)), ("RecordWrapperType", "None")])
                      if self.chance(90) else self.value()) for _ in range(self.random.randint(0, 4)))

    def spoil(self, data):
        """Sometimes the bytes are no longer a document."""
        kind = self.random.choice(["cut", "trailing", "bom", "byte", "empty", "missing", "comma", "number"])
        middle = self.random.randint(0, len(data))
        return {
            "cut": data[:middle], "trailing": data + b" x", "bom": b"\xef\xbb\xbf" + data,
            "byte": data[:middle] + bytes([self.random.choice([0, 0x0B, 0x80, 0xFF, 0xC0])]) + data[middle:],
            "empty": b"", "missing": None, "comma": data.rstrip()[:-1] + b",}",
            "number": data.replace(b"1", b"01", 1),
        }[kind]

    def case(self):
        """File name to bytes (None: no file), the machine, and the process's variables."""
        names, resources = self.resources()
        files = {"resourceconfig.json": resources, "hyperparameters.json": self.hyperparameters(names),
                 "inputdataconfig.json": self.inputs()}
        files = {name: self.dump(value).encode("utf-8") for name, value in files.items()}
        if self.chance(4):
            name = self.random.choice(sorted(files))
            files[name] = self.spoil(files[name])
        machine = {"num_cpus": self.random.randint(1, 192), "num_gpus": self.random.randint(0, 8),
                   "num_neurons": self.random.choice([0, 2, 64]),
                   "is_smddprun_installed": self.chance(10), "is_smddpmprun_installed": self.chance(10)}
        return files, machine, self.variables()

    def variables(self):
        choices = {
            "TRAINING_JOB_NAME": ["job-1", "", b"\xff\xc3\xbc\xed\xa0\x80"],
            "SAGEMAKER_PROGRAM": ["train.py", "", "a.b.py", ".py", "launch.sh", b"\x80.py"],
            "SAGEMAKER_TRAINING_MODULE": ["my_module:main", ""],
            "SAGEMAKER_SUBMIT_DIRECTORY": ["/ignored"],
            "SAGEMAKER_CONTAINER_LOG_LEVEL": ["20", " +1_0 ", "-5", "x", "", "1__0", "1.0", "_1", "1_"],
            "SM_HP_MP_PARAMETERS": ["{}", "", "{\"a\": 1}", "x"],
        }
        return {name: self.random.choice(values) for name, values in choices.items() if self.chance(12)}
