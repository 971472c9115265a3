#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on the fake CUDA (tests/fakes/cuda_fake.h): two hosts with two GPUs each train what hosts without GPUs do; a GPU
that fails ends its rank at once; what is missing is said. Sums over the ring, and over the fake NCCL (tests/fakes/nccl).

usage: cuda_local.py         HR_BINARY, HR_BUILD_DIR
"""
import os
import re
import subprocess
import tempfile
import unittest

from cluster import BINARY, SLOW, Cluster
from training import report_of

FAKES = os.path.join(os.environ["HR_BUILD_DIR"], "cuda_fake")
PATHS = ["--cuda-driver", f"{FAKES}/libcuda.so.1", "--cuda-runtime", f"{FAKES}/libcudart.so.12",
         "--nvml", f"{FAKES}/libnvidia-ml.so.1"]
NCCL = os.path.join(os.environ["HR_BUILD_DIR"], "fakes/libnccl.so.2")
PIPELINE = [{"op": "decode"}, {"op": "random_resized_crop", "size": 32}]


def job(**options):
    made = {"global_batch": 16, "epochs": 1, "seed": 5, "log_level": "debug",
            "streams": {"train": {"data": "train", "pipeline": PIPELINE},
                        "eval": {"data": "test", "pipeline": PIPELINE}}}
    made.update(options)
    return made


def learned(cluster):
    return [(epoch["steps"], epoch["loss"], epoch["digest"], epoch["eval_digest"], epoch["accuracy"])
            for epoch in report_of(cluster)["epochs"]]


class CudaLocal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="headrace cuda ")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.data = os.path.join(cls.temporary.name, "data")
        subprocess.run([BINARY, "gen", cls.data, "--classes", "4", "--images", "96", "--seed", "3"], check=True,
                       stdout=subprocess.DEVNULL, timeout=120 * SLOW)

    def cluster(self, *arguments, environment=None, cpu=1, gpu=2, ranks=2, **options):
        options.setdefault("job", job())
        cluster = Cluster(["--data", self.data, "--ranks-per-host", str(ranks), *PATHS, *arguments], fake=False,
                          cpu=cpu, gpu=gpu, environment=environment, **options)
        self.addCleanup(cluster.close)
        return cluster

    def finished(self, *arguments, code=0, **options):
        cluster = self.cluster(*arguments, **options)
        self.assertEqual(cluster.wait(60), code, cluster.output())
        cluster.nobody_left()
        return cluster

    def on_gpus(self, *arguments):
        """What was learned, and what every rank's fake did: a list of dictionaries."""
        log = os.path.join(self.temporary.name, "log")
        cluster = self.finished("--device", "cuda", "--collective", "ring", *arguments, environment={
            "HR_FAKE_CUDA_LOG": log, "HR_FAKE_CUDA_LATENCY_US": "500", "HR_FAKE_CUDA_MBPS": "200",
            "HR_FAKE_CUDA_NODE": "0"})
        with open(log, encoding="utf-8") as file:
            lines = [dict(word.split("=") for word in line.split()) for line in file]
        os.unlink(log)
        self.assertEqual(sorted(int(line["gpu"]) for line in lines), [0, 0, 1, 1], cluster.output())
        for line in lines:
            self.assertEqual(line["memories_or_streams_left"], "0")
            self.assertEqual(line["pinned"], "3")  # one piece a stream, and the trainer's
            self.assertGreater(int(line["kernels"]), 0)
            if not cluster.find("the system does not let it be chosen"):
                self.assertEqual(line["near"], "3")
        self.assertEqual(len(cluster.find(r"device cuda: GPU [01] \(0000:F[01]:00.0\), sm_70, memory node 0$")), 4)
        return learned(cluster), lines

    def assert_same(self, got, wanted):
        """Steps and digests to the bit, losses and accuracies within the bounds of docs/GPU.md."""
        for one, other in zip(got, wanted, strict=True):
            self.assertEqual((one[0], one[2:4]), (other[0], other[2:4]))
            self.assertAlmostEqual(one[1], other[1], delta=1e-3 * other[1])
            self.assertAlmostEqual(one[4], other[4], delta=0.01)

    def test_gpus_learn_what_hosts_learn(self):
        host = self.finished("--device", "auto", environment={"HR_FAKE_CUDA_GPUS": "0"})
        self.assertEqual(len(host.find(r"device auto: no GPU, batches stay on the host \(cuInit: ")), 4)
        batches, whole = self.on_gpus()
        self.assert_same(batches, learned(host))
        self.assertGreater(batches[0][0], 2)
        parts, pieces = self.on_gpus("--stage-copy", "part")
        self.assertEqual(parts, batches)
        # Every byte of every batch went to a GPU, whichever way; rank 0's checkpoints came back from it.
        copied, copied_as_parts = (sorted(int(line["bytes"]) for line in lines) for lines in (whole, pieces))
        self.assertEqual(copied, copied_as_parts)
        self.assertEqual(len(set(copied)), 2, copied)
        self.assertGreaterEqual(int(whole[0]["copies"]), batches[0][0])

    def over_nccl(self, *arguments, fault="", nccl=NCCL, **options):
        return self.finished("--device", "cuda", "--nccl", nccl, *arguments,
                             environment={"HR_FAKE_NCCL_FAULT": fault}, **options)

    def test_nccl_sums_what_the_ring_sums(self):
        host = self.finished("--device", "host")
        cluster = self.over_nccl()
        self.assertEqual(len(cluster.find(
            re.escape(f"NCCL 2.27.3 ({NCCL}), 4 ranks, NCCL_SOCKET_IFNAME==lo, network plugin: none"))), 1,
            cluster.output())
        self.assert_same(learned(cluster), learned(host))

    def test_an_error_of_nccls_ends_the_job(self):
        for fault in ("ncclAllReduce:late:3", "ncclAllReduce:late:3,ncclCommAbort:stall:1"):
            with self.subTest(fault=fault):
                cluster = self.over_nccl(fault=fault, code=69)
                self.assertIn("fake: a late error", cluster.failure("algo-1"))

    def differing(self, setting, *arguments):
        """What the job failed with where the second trainer host has another environment."""
        child = os.path.join(self.temporary.name, "child")
        with open(child, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\ncase \"$SAGEMAKER_BASE_DIR\" in */algo-2) export " + setting + ";; esac\n"
                       f"exec '{BINARY}' \"$@\"\n")
        os.chmod(child, 0o755)
        cluster = self.finished("--nccl", NCCL, *arguments, ranks=1, code=78, environment={"HR_CHILD": child})
        return cluster.failure("algo-1") + cluster.failure("algo-2")

    def test_ranks_that_differ_are_named(self):
        told = self.differing("CUDA_VISIBLE_DEVICES=", "--device", "auto")  # sees no GPU: would take the ring
        self.assertIn("collective (1 ring, 2 nccl: on a GPU)", told)
        for host in ("algo-1", "algo-2"):
            self.assertIn(host, told)
        told = self.differing("HR_FAKE_NCCL_VERSION=22602", "--device", "cuda")
        self.assertIn("NCCL: ranks differ: NCCL=2.27.3 on rank 0 (algo-1, GPU 0000:F0:00.0), NCCL=2.26.2 on rank 1 (algo-2",
                      told)

    def test_ranks_need_nccl_or_the_ring(self):
        cluster = self.over_nccl(nccl="/nonexistent/libnccl.so.2", code=71)
        self.assertIn("4 ranks on GPUs need NCCL (or collective ring): --nccl: NCCL: /nonexistent/libnccl.so.2",
                      cluster.failure("algo-1"))
        cluster = self.finished("--device", "host", "--collective", "nccl", code=78)
        self.assertIn("collective nccl sums on GPUs, but this rank has none", cluster.failure("algo-1"))

    def test_a_gpu_that_fails_ends_its_rank_whatever_it_does(self):
        """The main thread sleeps for ten minutes in its first step; the feed's thread finds out."""
        cluster = self.finished(
            "--device", "cuda", "--trainer", "synthetic", "--step-ms", "600000", code=71, gpu=1, ranks=1,
            environment={"HR_FAKE_CUDA_FAIL": "cudaMemcpyAsync:3:719", "HR_FAKE_CUDA_XID": "79"})
        told = re.search(r"stream \w+, step \d+, slot \d: GPU 0 \(0000:F0:00.0\): cudaMemcpyAsync: "
                         r"cudaErrorLaunchFailure \(unspecified launch failure\); Xid 79", cluster.failure("algo-1"))
        self.assertIsNotNone(told, cluster.output())

    def test_a_kernel_that_cannot_be_launched_is_named_with_its_step(self):
        cluster = self.finished("--device", "cuda", code=71, gpu=1, ranks=1,
                                environment={"HR_FAKE_CUDA_FAIL": "cuLaunchKernel:50:719"})
        self.assertRegex(cluster.failure("algo-1"), r"GPU 0 \(0000:F0:00.0\): cuLaunchKernel of \w+ in step 1: "
                         r"cudaErrorLaunchFailure")

    def test_a_checkpoint_moves_between_host_and_gpu(self):
        """A job that is resumed twice: its second epoch on GPUs, and all on the host."""
        def resumed(folder, *devices):
            for epoch, device in enumerate(devices):
                cluster = self.finished(
                    "--device", device, "--collective", "ring", "--checkpoint-dir", os.path.join(self.temporary.name, folder),
                    *(["--resume"] if epoch > 0 else []), job=job(epochs=epoch + 1))
            self.assertTrue(cluster.find(r"resuming at epoch \d"), cluster.output())
            return learned(cluster)
        self.assert_same(resumed("moved", "host", "cuda", "host"), resumed("stayed", "host", "host", "host"))

    def test_more_ranks_than_gpus(self):
        cluster = self.finished("--device", "cuda", code=71, gpu=1, ranks=2, environment={"HR_FAKE_CUDA_GPUS": "1"})
        self.assertIn("device cuda: GPU 1 does not exist, this process sees 1", cluster.failure("algo-1"))

    def test_a_library_that_is_missing_is_named(self):
        for device in ("cuda", "auto"):
            cluster = self.finished("--device", device, "--cuda-runtime", "/nonexistent/libcudart.so.12", code=71, gpu=1,
                                    ranks=1)
            said = cluster.failure("algo-1")
            self.assertIn("device cuda: --cuda-runtime: CUDA runtime: /nonexistent/libcudart.so.12", said)
            self.assertEqual("device auto found a GPU (device=host does without)" in said, device == "auto")

    def test_one_rank_for_each_gpu_that_is_visible(self):
        smi = os.path.join(self.temporary.name, "nvidia-smi")
        with open(smi, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nfor i in 0 1 2 3; do echo \"GPU $i: fake\"; done\n")
        os.chmod(smi, 0o755)
        for visible, ranks in ((None, 4), ("2,0", 2), ("1,-1,0", 1), ("", 1)):
            environment = {"PATH": self.temporary.name + ":" + os.environ["PATH"], "HEADRACE_RANKS_PER_HOST": "0",
                           "FAKE_STEPS": "3"}
            if visible is not None:
                environment["CUDA_VISIBLE_DEVICES"] = visible
            with self.subTest(visible=visible):
                cluster = Cluster(environment=environment, cpu=1, gpu=1)
                self.addCleanup(cluster.close)
                self.assertEqual(cluster.wait(), 0, cluster.output())
                self.assertEqual(len(cluster.find(r"rank \d+ took \d+ steps")), ranks, cluster.output())


if __name__ == "__main__":
    unittest.main()
