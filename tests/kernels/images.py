#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels' images, built both ways; and our declarations of CUDA, NVML and NCCL against the vendor's headers.

usage: images.py       HR_SOURCE_DIR, HR_BUILD_DIR: everything from PyPI and the two builds go there, and stay
"""
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["HR_SOURCE_DIR"]
BUILD = os.environ["HR_BUILD_DIR"]
HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
sys.path.insert(0, os.path.join(SOURCE, "tools"))
# pylint: disable=wrong-import-position
import cuda_wheels  # noqa: E402
import kernel_images  # noqa: E402

KERNELS = {os.path.basename(path)[:-len(".cu")] for path in glob.glob(os.path.join(SOURCE, "kernels", "*.cu"))}
EM_CUDA = 190
OUR_OWN = {"CUDA_PCI_ID_BYTES", "CUDA_NAME_BYTES"}  # sizes of buffers, of which the vendor knows nothing


def wheels_folder():
    """The developer's, where it has the compiler already, else the build's own."""
    shared = os.path.join(SOURCE, ".venv-cuda")
    return shared if cuda_wheels.ready("nvrtc", shared) else os.path.join(BUILD, "cuda-wheels")


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=800, check=False)
    return done.returncode, done.stdout


def configure(folder, way, wheels):
    return run("cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", "-DHEADRACE_TESTS=ON", "-DHEADRACE_CUDA=" + way,
               "-DHEADRACE_CUDA_WHEELS=" + wheels)


def cubin_architecture(image):
    """From the ELF header: 70 of sm_70."""
    if image[:4] != b"\x7fELF" or struct.unpack_from("<H", image, 18)[0] != EM_CUDA:
        return None
    flags = struct.unpack_from("<I", image, 48)[0]
    return flags & 0xFF if image[8] < 8 else flags >> 8 & 0xFF


class Way:
    """The tests of one way of building; WAY names it, COMPILER is what drives it."""
    WAY = ""
    COMPILER = None

    @classmethod
    def setUpClass(cls):
        cls.build = os.path.join(BUILD, "images-" + cls.WAY)
        code, said = configure(cls.build, cls.WAY, wheels_folder())
        if code == 0:
            code, said = run("cmake", "--build", cls.build, "--target", "image_tool", "--", "--quiet")
        if code != 0:
            raise AssertionError(said)
        cls.folder = tempfile.TemporaryDirectory(prefix="headrace-images-")
        code, cls.description = run(os.path.join(cls.build, "image_tool"), cls.folder.name)
        if code != 0:
            raise AssertionError(cls.description)
        with open(os.path.join(cls.build, "CMakeCache.txt"), encoding="utf-8") as file:
            path = re.search(r"^HEADRACE_CUDA_COMPILER:INTERNAL=(.+)$", file.read(), re.M).group(1)
        cls.compiler = cls.COMPILER(path)
        cls.numbers = kernel_images.architectures(cls.compiler)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def embedded(self, name):
        with open(os.path.join(self.folder.name, name), "rb") as file:
            return file.read()

    def test_every_kernel_has_every_architecture(self):
        self.assertTrue(KERNELS)
        wanted = {f"{name}.sm_{number}.cubin" for name in KERNELS for number in self.numbers}
        wanted |= {name + ".ptx" for name in KERNELS}
        self.assertEqual(set(os.listdir(self.folder.name)), wanted)
        names = " ".join("sm_%d" % number for number in self.numbers)
        self.assertEqual(self.description.strip(),
                         f"{self.compiler.version()}, {names} compute_{self.numbers[-1]}")

    def test_what_is_embedded_is_what_was_compiled(self):
        for name in os.listdir(self.folder.name):
            with open(os.path.join(self.build, "images", name), "rb") as file:
                self.assertEqual(self.embedded(name), file.read(), name)

    def test_the_flags_tell_the_architecture(self):
        for name in KERNELS:
            for number in self.numbers:
                self.assertEqual(cubin_architecture(self.embedded(f"{name}.sm_{number}.cubin")), number, name)

    def test_ptx_is_of_the_last_and_a_text(self):
        for name in KERNELS:
            text = self.embedded(name + ".ptx")
            self.assertIn(b".target sm_%d\n" % self.numbers[-1], text)
            self.assertEqual((text[-1:], text.count(b"\0")), (b"\0", 1))

    def test_nothing_spills(self):
        for name in KERNELS:
            with open(os.path.join(self.build, "images", name + ".log"), encoding="utf-8") as file:
                log = file.read()
            self.assertEqual(kernel_images.spills(log), [])
            with open(os.path.join(self.folder.name, name + ".ptx"), encoding="ascii") as file:
                entries = set(re.findall(r"\.entry (\w+)", file.read()))
            told = re.findall(r"Compiling entry function '(\w+)' for 'sm_(\d+)'", log)
            self.assertEqual(sorted(told), sorted((entry, str(number)) for entry in entries
                                                  for number in self.numbers), "the compiler told of others")
            self.assertEqual(log.count("bytes spill stores"), len(told), log)

    def test_a_kernel_that_spills_is_caught(self):
        _, log = self.compiler.compile(os.path.join(HERE, "spill.cu"), "sm_%d" % self.numbers[0], [])
        self.assertEqual([(kernel, number) for kernel, number, _ in kernel_images.spills(log)],
                         [("spill", str(self.numbers[0]))])

    def test_nothing_is_contracted(self):
        target = "compute_%d" % self.numbers[0]
        image, _ = self.compiler.compile(os.path.join(HERE, "spill.cu"), target, [])
        self.assertNotIn(b"fma", image)
        options = kernel_images.OPTIONS
        try:
            kernel_images.OPTIONS = [word for word in options if word != "--fmad=false"]
            image, _ = self.compiler.compile(os.path.join(HERE, "spill.cu"), target, [])
        finally:
            kernel_images.OPTIONS = options
        self.assertIn(b"fma", image)

    def test_a_kernel_that_does_not_compile_is_an_error(self):
        broken = os.path.join(self.folder.name + "-broken.cu")
        self.addCleanup(os.unlink, broken)
        with open(broken, "w", encoding="ascii") as file:
            file.write('extern "C" __global__ void broken(float *out) { *out = nothing; }\n')
        with self.assertRaises(kernel_images.Failed) as caught:
            self.compiler.compile(broken, "sm_%d" % self.numbers[0], [])
        self.assertIn("nothing", str(caught.exception))


class Wheels(Way, unittest.TestCase):
    WAY = "wheels"
    COMPILER = kernel_images.Nvrtc

    def test_all_cards_from_the_v100_on(self):
        self.assertEqual(self.numbers, [70, 75, 80, 86, 89, 90, 100, 120])


class Toolkit(Way, unittest.TestCase):
    WAY = "toolkit"
    COMPILER = kernel_images.Nvcc

    def test_some_cards(self):
        self.assertIn(90, self.numbers)


class Headers(unittest.TestCase):
    """vendor_headers.c compiles only where our declarations and the vendor's agree."""

    def compile(self, name, *first):
        folders = cuda_wheels.includes(name, wheels_folder())
        self.assertGreater(len(folders), 1)
        for compiler in ("gcc", "clang-14"):
            yield compiler, run(compiler, "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                                *("-I" + folder for folder in first), "-I" + os.path.join(SOURCE, "src"), "-I" + SOURCE,
                                *(word for folder in folders for word in ("-isystem", folder)),
                                os.path.join(HERE, "vendor_headers.c"))

    def test_they_agree(self):
        for name in ("headers12", "headers13"):
            for compiler, (code, said) in self.compile(name):
                self.assertEqual(code, 0, f"{name} {compiler}: {said}")

    def test_every_constant_is_compared(self):
        with open(os.path.join(HERE, "vendor_headers.c"), encoding="utf-8") as file:
            compared = file.read()
        for name in ("cuda_api.h", "nccl_api.h"):
            with open(os.path.join(SOURCE, "src", "consumer", name), encoding="utf-8") as file:
                constants = re.findall(r"^ +((?:CUDA|NVML|NCCL)_\w+) = ", file.read(), re.M)
            self.assertGreater(len(constants), 9)
            for constant in constants:
                if constant not in OUR_OWN:
                    self.assertTrue(f"SAME({constant}, " in compared, constant + " is not in vendor_headers.c")

    def test_a_difference_is_found(self):
        def change(name, old, new):
            with open(os.path.join(SOURCE, "src", "consumer", name), encoding="utf-8") as file:
                text = file.read()
            self.assertIn(old, text)
            with open(os.path.join(folder, "consumer", name), "w", encoding="utf-8") as file:
                file.write(text.replace(old, new, 1))

        for name, old, new in (("cuda_calls.def", "(void **memory, size_t bytes)", "(void **memory, int bytes)"),
                               ("cuda_calls.def", "(struct CUmod_st *module)", "(void)"),
                               ("cuda_calls.def", "struct nvmlEventSet_st **set", "struct nvmlEventSet_st *set"),
                               ("nccl_calls.def", "unsigned *result", "int *result"),
                               ("cuda_api.h", "CUDA_NOT_READY = 600", "CUDA_NOT_READY = 601"),
                               ("cuda_api.h", "unsigned long long data;", "unsigned data;"),
                               ("nccl_api.h", "NCCL_IN_PROGRESS = 7", "NCCL_IN_PROGRESS = 8")):
            with tempfile.TemporaryDirectory(prefix="headrace-images-") as folder:
                os.mkdir(os.path.join(folder, "consumer"))
                change(name, old, new)
                for compiler, (code, said) in self.compile("headers12", folder):
                    self.assertNotEqual(code, 0, f"{old} {compiler}: {said}")


class Configuration(unittest.TestCase):
    def test_a_plain_build_has_none_and_needs_nothing(self):
        with tempfile.TemporaryDirectory(prefix="headrace-images-") as folder:
            code, said = configure(folder, "auto", os.path.join(folder, "none"))
            self.assertEqual(code, 0, said)
            self.assertIn("Kernel images: off", said)
            self.assertFalse(os.path.exists(os.path.join(folder, "none")))

    def test_an_unknown_way_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="headrace-images-") as folder:
            code, said = configure(folder, "nvcc", folder)
        self.assertNotEqual(code, 0)
        self.assertIn("expected auto, wheels, toolkit, off or fake", " ".join(said.split()))


def main():
    try:
        for name in ("nvrtc", "headers12", "headers13"):
            cuda_wheels.install(name, wheels_folder())
    except cuda_wheels.Unavailable as error:
        print("cannot install CUDA's compiler and headers: %s" % error)
        sys.exit(1 if "CI" in os.environ else SKIPPED)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
