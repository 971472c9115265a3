# SPDX-License-Identifier: Apache-2.0
"""Local clusters for integration tests: start them, read what they print, do things to their processes, and make sure
that nothing is left of them. Everything that waits waits for a condition, with a deadline.
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid

BINARY = os.environ["HR_BINARY"]
FAKE_CHILD = os.path.join(os.environ["HR_BUILD_DIR"], "fake_child")
SLOW = 5 if os.environ.get("HR_SANITIZE") else 1


def wait_until(condition, seconds=30, what="condition"):
    """The condition's first true value; fails loudly at the deadline."""
    deadline = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds * SLOW} s: {what}")
        time.sleep(0.02)


def read_file(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


class Process:
    """A program whose output is read as it comes, and whose whole family is known by a mark in its environment."""

    def __init__(self, command, environment=None, cwd=None):
        self.mark = uuid.uuid4().hex
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("HEADRACE_", "FAKE_"))}
        variables.update(environment or {}, HR_TEST_MARK=self.mark)
        self.lines = []
        self.begin = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd,
                                        env=variables, start_new_session=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        return "\n".join(self.lines)

    def find(self, pattern):
        return [match for line in list(self.lines) for match in [re.search(pattern, line)] if match]

    def wait_for(self, pattern, count=1, seconds=30):
        """The first `count` matches, as soon as there are so many."""
        def found():
            matches = self.find(pattern)
            if len(matches) < count and self.process.poll() is not None and not self.reader.is_alive():
                raise AssertionError(f"ended with {self.process.returncode} before {pattern!r}:\n{self.output()}")
            return matches if len(matches) >= count else None
        try:
            return wait_until(found, seconds, f"{count} times {pattern!r}")[:count]
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output()}") from None

    def wait(self, seconds=60):
        try:
            code = self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {seconds * SLOW} s:\n{self.output()}") from None
        self.reader.join(10)
        return code

    def family(self):
        """Pids of all living processes that were started by this one, itself included, whoever their parent is now."""
        pids = []
        for name in os.listdir("/proc"):
            if name.isdigit() and self.mark.encode() in read_file(f"/proc/{name}/environ"):
                pids.append(int(name))
        return pids

    def nobody_left(self, seconds=15):
        wait_until(lambda: not self.family(), seconds, "no process left")

    def kill(self):
        """For cleaning up: everything, at once."""
        for pid in self.family():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process.stdout.close()


def arguments_of(pid):
    return [word.decode(errors="replace") for word in read_file(f"/proc/{pid}/cmdline").split(b"\0")]


def base_of(pid):
    match = re.search(rb"SAGEMAKER_BASE_DIR=([^\0]*)", read_file(f"/proc/{pid}/environ"))
    return os.path.basename(match.group(1).decode()) if match else ""


class Cluster(Process):
    """`headrace local` in a folder of its own."""

    def __init__(self, arguments=(), job=None, fake=True, environment=None, folder=None, cpu=2, gpu=2):
        self.temporary = None
        if folder is None:
            self.temporary = tempfile.TemporaryDirectory(prefix="headrace test ")
            folder = self.temporary.name
        self.folder = folder
        self.job = os.path.join(folder, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job or {"global_batch": 8, "streams": {"train": {"data": "train"}}}, file)
        variables = dict(environment or {})
        if fake:
            variables["HR_CHILD"] = FAKE_CHILD
        super().__init__([BINARY, "local", "--cpu-hosts", str(cpu), "--gpu-hosts", str(gpu), "--dir", folder,
                          "--config", self.job, *arguments], variables)

    def members(self, word):
        """Pids by host of the processes of one kind: "run" (the agents), "serve", "train"."""
        found = {}
        for pid in self.family():
            arguments = arguments_of(pid)
            if len(arguments) > 1 and arguments[1] == word:
                found.setdefault(base_of(pid), []).append(pid)
        return found

    def failure(self, host):
        return read_file(os.path.join(self.folder, host, "output/failure")).decode()

    def exit_codes(self):
        """Of the hosts that failed, as the table says."""
        return {match.group(1): int(match.group(2)) for match in self.find(r"^(algo-\d+) ended with exit code (\d+)")}

    def close(self):
        self.kill()
        if self.temporary is not None:
            self.temporary.cleanup()
