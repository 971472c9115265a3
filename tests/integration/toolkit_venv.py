# SPDX-License-Identifier: Apache-2.0
"""A virtual environment with the platform's own toolkit, made once per build folder.

Only what Environment imports is installed: its other dependencies (numpy, scipy, gevent, ...) and its C extension,
which needs Python's headers, have no part in it.
"""
import fcntl
import glob
import os
import shutil
import subprocess
import sys
import tarfile

VERSION = "5.1.4"
PYTHON = "/usr/bin/python3"  # the system's, whatever other Python is on the path


class Unavailable(Exception):
    """The package index cannot be reached, or does not have it."""


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=600, check=False)
    if done.returncode != 0:
        raise Unavailable("%s: %s" % (" ".join(command), done.stdout.decode("utf-8", "replace")[-2000:]))


def unpack(archive, site):
    """The toolkit's Python files, and nothing else, from its source archive."""
    prefix = "sagemaker_training-%s/src/" % VERSION
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            name = member.name[len(prefix):]
            if not (member.isfile() and member.name.startswith(prefix) and name.endswith(".py")) or ".." in name:
                continue
            target = os.path.join(site, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as out:
                shutil.copyfileobj(tar.extractfile(member), out)


def make(folder):
    shutil.rmtree(folder, ignore_errors=True)
    run(PYTHON, "-m", "venv", folder)
    pip = os.path.join(folder, "bin", "pip")
    run(pip, "install", "--quiet", "--disable-pip-version-check", "boto3", "six")
    run(pip, "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:", "-d", folder,
        "sagemaker-training==" + VERSION)
    archive = glob.glob(os.path.join(folder, "sagemaker_training-*.tar.gz"))[0]
    unpack(archive, glob.glob(os.path.join(folder, "lib", "python3*", "site-packages"))[0])


def python(build_folder):
    """The path of a Python that has the toolkit."""
    folder = os.path.join(build_folder, "toolkit-" + VERSION)
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = os.path.join(folder, "made")
        if not os.path.exists(done):
            make(folder)
            with open(done, "w", encoding="ascii") as file:
                file.write(VERSION + "\n")
    return os.path.join(folder, "bin", "python")


def become(build_folder):
    """Runs this script again in the toolkit's Python; returns there. Skips without a package index, but not in CI."""
    if os.environ.get("HR_IN_TOOLKIT") == VERSION:
        return
    try:
        path = python(build_folder)
    except Unavailable as error:
        print("cannot install sagemaker-training==%s: %s" % (VERSION, error))
        sys.exit(1 if "CI" in os.environ else 77)
    sys.stdout.flush()
    os.execve(path, [path, "-B", *sys.argv], dict(os.environ, HR_IN_TOOLKIT=VERSION))
