#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`headrace env --gpu` over blanks of the vendor's libraries, and that the binary links none of the real ones.

usage: env_gpu.py            HR_BINARY, HR_BUILD_DIR
"""
import os
import subprocess
import tempfile
import unittest

BINARY = os.environ["HR_BINARY"]
BLANKS = os.path.join(os.environ["HR_BUILD_DIR"], "blanks")
LIBRARIES = {"cuda-driver": "libcuda.so.1", "cuda-runtime": "libcudart.so.12", "nvml": "libnvidia-ml.so.1",
             "nccl": "libnccl.so.2"}


def loader_finds(soname):
    listed = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return soname in listed


class EnvGpu(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="headrace-gpu-")
        self.addCleanup(self.home.cleanup)

    def gpu(self, *options, **variables):
        """Exit code, lines of stdout, stderr; no Python environment but the test's own."""
        environment = {"PATH": "/nonexistent", "HOME": self.home.name, "SAGEMAKER_BASE_DIR": self.home.name}
        for name in os.environ:  # what sanitizers need
            if name.endswith("SAN_OPTIONS"):
                environment[name] = os.environ[name]
        done = subprocess.run([BINARY, "env", "--gpu", *options], capture_output=True, text=True, timeout=60,
                              check=False, env={**environment, **variables})
        return done.returncode, done.stdout.splitlines(), done.stderr

    @staticmethod
    def paths(variant="whole", **other):
        return [word for option, name in LIBRARIES.items()
                for word in ("--" + option, os.path.join(BLANKS, other.get(option.replace("-", "_"), variant), name))]

    def test_it_links_none_of_them(self):
        listed = subprocess.run(["ldd", BINARY], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("libzmq", listed)
        for name in ("libcuda", "libnccl", "libnvidia", "libnvrtc"):
            self.assertNotIn(name, listed)

    def test_all_by_option(self):
        code, lines, err = self.gpu(*self.paths())
        self.assertEqual((code, err), (0, ""))
        images = lines.pop(4)
        image = "none" if "none (" in images else "compute_0" if "names only" in images else "sm_70"
        self.assertEqual(lines, [
            f"CUDA driver 12.9: {BLANKS}/whole/libcuda.so.1 (option)",
            f"CUDA runtime 12.8: {BLANKS}/whole/libcudart.so.12 (option)",
            f"NVML 575.1: {BLANKS}/whole/libnvidia-ml.so.1 (option)",
            f"NCCL 2.27.3: {BLANKS}/whole/libnccl.so.2 (option)",
            "GPU 0: blank card, sm_70, 0000:00:10.0, kernels: " + image,
            "GPU 1: blank card, sm_70, 0000:00:11.0, kernels: " + image])
        self.assertTrue(images.startswith("kernel images: "))

    def test_the_job_names_them_too(self):
        variables = {"HEADRACE_" + option.upper().replace("-", "_"): f"{BLANKS}/whole/{name}"
                     for option, name in LIBRARIES.items()}
        code, lines, err = self.gpu(**variables)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sum("(option)" in line for line in lines), 4)

    def test_by_the_loader(self):
        code, lines, err = self.gpu(LD_LIBRARY_PATH=BLANKS + "/whole")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sum("(system)" in line and BLANKS in line for line in lines), 4)

    def test_nccl_and_nvml_are_not_needed(self):
        code, lines, err = self.gpu(*self.paths(nvml="none", nccl="old"))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("--nvml", lines[2])
        self.assertIn("2.13.4, wanted 2.14", lines[3])
        self.assertEqual(len(lines), 7)

    def test_driver_and_runtime_are(self):
        for option, wanted in (("cuda_driver", "it has CUDA 11.8"), ("cuda_runtime", "it is version 11.8")):
            code, lines, err = self.gpu(*self.paths(**{option: "old"}))
            self.assertEqual((code, err.count("\n")), (71, 1))
            self.assertIn(wanted, err)
            self.assertEqual(len(lines), 5)

    def test_runtime_too_new_for_the_driver(self):
        code, _, err = self.gpu(*self.paths(), "--cuda-runtime", BLANKS + "/new/libcudart.so.13")
        self.assertEqual(code, 71)
        self.assertIn("too new for the driver", err)

    @unittest.skipIf(loader_finds("libcuda.so.1"), "this machine has NVIDIA's driver")
    def test_a_bare_host(self):
        code, lines, err = self.gpu()
        self.assertEqual((code, err.count("\n")), (71, 1))
        self.assertIn("CUDA driver: libcuda.so.1 not found: install NVIDIA's driver", lines[0])
        self.assertIn("NVML: libnvidia-ml.so.1 not found", lines[2])


if __name__ == "__main__":
    unittest.main()
