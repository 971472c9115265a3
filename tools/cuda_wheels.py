#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA's compilers and headers from PyPI, pinned, each set installed once into a folder of its own.

usage: cuda_wheels.py SET FOLDER     installs the set below FOLDER where it is not there yet; prints where it is

    nvrtc       NVRTC 12.9 with its headers: knows every card from the V100 on, needs no compiler of the host
    nvcc        the compiler of CUDA 13.0, where a machine has none: from sm_75 on, needs g++
    headers12   headers alone, for tests: CUDA 12.9, NVML and a NCCL for it
    headers13   the same of CUDA 13.0
"""
import fcntl
import glob
import os
import shutil
import subprocess
import sys
import zipfile

PYTHON = "/usr/bin/python3"  # the system's, whatever other Python is on the path
SETS = {  # to download: 93, 103, 171 and 197 MB; these two NCCLs are the smallest there are
    "nvrtc": ["nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79"],
    "nvcc": ["nvidia-cuda-nvcc==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-nvvm==13.0.88",
             "nvidia-cuda-runtime==13.0.96"],
    "headers12": ["nvidia-cuda-runtime-cu12==12.9.79", "nvidia-nvml-dev-cu12==12.9.79", "nvidia-nccl-cu12==2.19.3"],
    "headers13": ["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88", "nvidia-nvml-dev==13.0.87",
                  "nvidia-nccl-cu13==2.27.7"],
}


class Unavailable(Exception):
    """The package index cannot be reached, or does not have it."""


def run(*command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        raise Unavailable("%s: %s" % (" ".join(command), done.stdout.decode("utf-8", "replace")[-2000:]))


def unpack_headers(folder):
    """Of each wheel only the headers, and the wheel is gone: a NCCL has half a gigabyte besides."""
    for wheel in glob.glob(os.path.join(folder, "*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith("nvidia/") and name.endswith((".h", ".hpp")) and ".." not in name:
                    archive.extract(name, folder)
        os.unlink(wheel)


def make(name, folder):
    shutil.rmtree(folder, ignore_errors=True)
    run(PYTHON, "-m", "venv", folder)
    pip = (os.path.join(folder, "bin", "pip"),)
    quiet = ("--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary", ":all:")
    if name.startswith("headers"):
        for package in SETS[name]:  # one at a time: room on the disk for one only
            run(*pip, "download", *quiet, "-d", folder, package)
            unpack_headers(folder)
    else:
        run(*pip, "install", *quiet, *SETS[name])


def ready(name, parent):
    """Whether the set is there, in the versions wanted."""
    try:
        with open(os.path.join(parent, name, "made"), encoding="ascii") as file:
            return file.read().split() == SETS[name]
    except OSError:
        return False


def install(name, parent):
    """The folder of the set, made where it is not there yet."""
    folder = os.path.join(parent, name)
    os.makedirs(parent, exist_ok=True)
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready(name, parent):
            make(name, folder)
            with open(os.path.join(folder, "made"), "w", encoding="ascii") as file:
                file.write("\n".join(SETS[name]) + "\n")
    return folder


def one(folder, pattern):
    found = glob.glob(os.path.join(folder, "lib", "python3*", "site-packages", "nvidia", pattern))
    if len(found) != 1:
        raise Unavailable("%s: found %d of %s, expected one" % (folder, len(found), pattern))
    return found[0]


def compiler(name, parent):
    """The compiler's file, and the folder of its headers where it does not know it itself."""
    folder = install(name, parent)
    if name == "nvcc":
        return one(folder, "cu13/bin/nvcc"), ""
    return one(folder, "cuda_nvrtc/lib/libnvrtc.so.12"), one(folder, "cuda_runtime/include")


def includes(name, parent):
    """Every folder of headers of a set."""
    return sorted(glob.glob(os.path.join(install(name, parent), "nvidia", "*", "include")))


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SETS:
        print(__doc__, file=sys.stderr)
        return 64
    try:
        name, parent = sys.argv[1:]
        lines = includes(name, parent) if name.startswith("headers") else compiler(name, parent)
    except Unavailable as error:
        print("cuda_wheels: cannot install %s: %s" % (" ".join(SETS[sys.argv[1]]), error), file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
