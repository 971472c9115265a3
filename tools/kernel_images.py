#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles one file of kernels to its images: a cubin for every architecture wanted, PTX of the last one.

usage: kernel_images.py --nvrtc LIBRARY | --nvcc PROGRAM  [-I FOLDER]... --architectures 70,75,... FILE.cu OUT
       kernel_images.py --nvrtc LIBRARY | --nvcc PROGRAM  --list       prints the architectures that it knows, of ours
       kernel_images.py --version ...                                  what it is

Writes OUT.sm_70.cubin, ..., OUT.ptx and OUT.log, the compiler's words: ptxas tells there what every kernel needs.
Contraction of multiplications and additions is off, so that the kernels' twins on the host can be exact.
"""
import argparse
import concurrent.futures
import ctypes
import os
import re
import subprocess
import sys

WANTED = (70, 75, 80, 86, 89, 90, 100, 120)  # from the V100 on
OPTIONS = ["--fmad=false", "--std=c++17"]


class Failed(Exception):
    """The compiler refused, or is not there."""


class Nvrtc:
    """The compiler as a library: needs no other program, and no headers of the host."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise Failed("%s: %s" % (name, self.library.nvrtcGetErrorString(result).decode()))

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return "NVRTC %d.%d" % (major.value, minor.value)

    def known(self):
        count = ctypes.c_int()
        self.call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self.call("nvrtcGetSupportedArchs", found)
        return list(found)

    def read(self, what, program):
        size = ctypes.c_size_t()
        self.call("nvrtcGet%sSize" % what, program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.call("nvrtcGet" + what, program, text)
        return text.raw

    def compile(self, path, target, folders):
        """The image and what the compiler said. target: sm_70 for a cubin, compute_70 for PTX."""
        with open(path, "rb") as file:
            source = file.read()
        options = ["--gpu-architecture=" + target, *OPTIONS, *("-I" + folder for folder in folders)]
        if target.startswith("sm_"):
            options.append("--ptxas-options=-v")
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source, os.fspath(path).encode(), 0, None, None)
        try:
            words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            result = self.library.nvrtcCompileProgram(program, len(options), words)
            log = self.read("ProgramLog", program).rstrip(b"\0").decode("utf-8", "replace")
            if result != 0:
                raise Failed(log or self.library.nvrtcGetErrorString(result).decode())
            image = self.read("CUBIN", program) if target.startswith("sm_") else self.read("PTX", program)
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return image, log


class Nvcc:
    """The toolkit's compiler: needs a C++ compiler of the host beside it."""

    def __init__(self, path):
        self.path = path

    def run(self, *words):
        done = subprocess.run([self.path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise Failed("%s: %s" % (self.path, done.stdout))
        return done.stdout

    def version(self):
        return "nvcc " + re.search(r"release (\d+\.\d+)", self.run("--version")).group(1)

    def known(self):
        return [int(name) for name in re.findall(r"sm_(\d+)\b", self.run("--list-gpu-code"))]

    def compile(self, path, target, folders):
        kind = "-cubin" if target.startswith("sm_") else "-ptx"
        out = "%s.%s.%d" % (os.path.join(os.environ.get("TMPDIR", "/tmp"), os.path.basename(path)), target, os.getpid())
        try:
            log = self.run(kind, "-arch=" + target, *OPTIONS, "--resource-usage",
                           *("-I" + folder for folder in folders), "-o", out, path)
            with open(out, "rb") as file:
                return file.read(), log
        finally:
            if os.path.exists(out):
                os.unlink(out)


def architectures(compiler):
    known = set(compiler.known())
    return [number for number in WANTED if number in known]


def spills(log):
    """The kernels that ptxas had to keep registers of in memory, as (kernel, architecture, bytes)."""
    found = []
    kernel = None
    for line in log.splitlines():
        name = re.search(r"Compiling entry function '(\w+)' for 'sm_(\w+)'", line)
        if name:
            kernel = name.groups()
        spill = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if spill and spill.groups() != ("0", "0"):
            found.append((*(kernel or ("unknown", "unknown")), int(spill.group(1)) + int(spill.group(2))))
    return found


def write(path, content):
    """Whole or not at all."""
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)


def build(compiler, numbers, folders, source, out):
    targets = ["sm_%d" % number for number in numbers] + ["compute_%d" % numbers[-1]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda target: compiler.compile(source, target, folders), targets))
    for target, (image, _) in zip(targets[:-1], results):
        write("%s.%s.cubin" % (out, target), image)
    write(out + ".ptx", results[-1][0].rstrip(b"\0") + b"\0")  # the driver takes it as a text
    write(out + ".log", "".join(log for _, log in results).encode())


def main():
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--nvrtc")
    which.add_argument("--nvcc")
    parser.add_argument("-I", dest="folders", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--architectures")
    parser.add_argument("source", nargs="?")
    parser.add_argument("out", nargs="?")
    words = parser.parse_args()
    try:
        compiler = Nvrtc(words.nvrtc) if words.nvrtc else Nvcc(words.nvcc)
        if words.version:
            print(compiler.version())
        elif words.list:
            print(",".join(map(str, architectures(compiler))))
        elif words.architectures and words.out:
            build(compiler, [int(word) for word in words.architectures.split(",")], words.folders, words.source,
                  words.out)
        else:
            parser.error("--list, --version, or --architectures, a source and where images go")
    except (Failed, OSError) as error:
        print("kernel_images: %s: %s" % (words.source or words.nvrtc or words.nvcc, error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
