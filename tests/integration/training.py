#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What jobs learn: the stream and the model are the same however the work is split; a job that was killed goes on from
its checkpoint; what training refuses ends with its own exit code. Life and death: job_life.py.

In a cluster of two and two the cpu hosts are algo-2 and algo-4, the gpu hosts algo-1 (coordinator, rank 0) and algo-3.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import BINARY, SLOW, Cluster, read_file

SEED = int(os.environ.get("HR_SEED", time.time_ns() % 2**32))
PIPELINE = [{"op": "decode"}, {"op": "random_resized_crop", "size": 64}, {"op": "horizontal_flip"}]
EVAL_PIPELINE = [{"op": "decode"}, {"op": "resize", "size": 72}, {"op": "center_crop", "size": 64}]


def job(**options):
    made = {"global_batch": 16, "epochs": 2, "seed": 5, "learning_rate": 0.02,
            "streams": {"train": {"data": "train", "pipeline": PIPELINE},
                        "eval": {"data": "test", "pipeline": EVAL_PIPELINE}}}
    made.update(options)
    return made


def report_of(cluster, host="algo-1"):
    text = read_file(os.path.join(cluster.folder, host, "output/headrace/report.json"))
    return json.loads(text) if text else {"epochs": [], "stopped": None}


def digests(report):
    return [(epoch["epoch"], epoch["digest"]) for epoch in report["epochs"]]


def learned(report):
    """All that must be equal, bit for bit, between runs of one world size."""
    return [(epoch["epoch"], epoch["steps"], epoch["loss"], epoch["accuracy"], epoch["digest"], epoch["eval_digest"])
            for epoch in report["epochs"]]


class Job(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="headrace training ")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.data = os.path.join(cls.temporary.name, "data")
        subprocess.run([BINARY, "gen", cls.data, "--classes", "4", "--images", "200", "--seed", "3"], check=True,
                       stdout=subprocess.DEVNULL, timeout=120 * SLOW)
        print(f"HR_SEED={SEED}", flush=True)

    def cluster(self, *arguments, data=None, **options):
        options.setdefault("job", job())
        cluster = Cluster(["--data", data or self.data, *arguments], fake=False, **options)
        self.addCleanup(cluster.close)
        return cluster

    def finished(self, *arguments, code=0, seconds=120, **options):
        cluster = self.cluster(*arguments, **options)
        self.assertEqual(cluster.wait(seconds), code, cluster.output())
        cluster.nobody_left()
        return cluster


class Stream(Job):
    def test_the_split_of_the_work_changes_nothing(self):
        first = learned(report_of(self.finished()))
        self.assertEqual([entry[0] for entry in first], [1, 2])
        self.assertEqual([entry[1] for entry in first], [10, 10])
        for arguments, options in ((["--threads", "1"], {"cpu": 3}), (["--layout", "homogeneous"], {"cpu": 0}),
                                   (["--ranks-per-host", "2"], {"cpu": 1, "gpu": 1})):
            with self.subTest(arguments=arguments, **options):
                self.assertEqual(learned(report_of(self.finished(*arguments, **options))), first)

    def test_another_world_size_sees_the_same_batches(self):
        streams = {tuple((epoch["digest"], epoch["eval_digest"]) for epoch in report_of(self.finished(gpu=gpu))["epochs"])
                   for gpu in (1, 2, 4)}
        self.assertEqual(len(streams), 1)

    def test_another_seed_is_another_stream(self):
        runs = [report_of(self.finished(job=job(seed=seed, epochs=1), cpu=1, gpu=1)) for seed in (5, 6)]
        self.assertNotEqual(digests(runs[0]), digests(runs[1]))
        self.assertEqual(runs[0]["epochs"][0]["steps"], runs[1]["epochs"][0]["steps"])

    def test_metric_lines_can_be_matched(self):
        cluster = self.finished("--step-ms", "600", job=job(trainer="synthetic", epochs=1), gpu=1)
        lines = [match.group(1) for match in cluster.find(r"^algo-1 +\| (headrace: epoch=.*)")]
        self.assertGreaterEqual(len(lines), 2, cluster.output())
        for line in lines:
            self.assertRegex(line, r"^headrace:( [a-z_]+=[^ ;]+;)+$")
            self.assertLess(len(line), 4096)
        for name in ("loss", "images_per_s", "wait_share", "epoch_loss", "digest", "accuracy"):
            self.assertTrue(any(re.search(rf" {name}=([-0-9a-f.]+);", line) for line in lines), name)


class Resume(Job):
    def uninterrupted(self, **options):
        return learned(report_of(self.finished(job=job(**options))))

    def test_a_signal_to_a_rank_stops_the_job_too(self):
        cluster = self.cluster(job=job(epochs=1000))
        cluster.wait_for("epoch_loss", 1, 60)
        os.kill(cluster.members("train")["algo-3"][0], signal.SIGTERM)
        self.assertEqual(cluster.wait(90), 0, cluster.output())
        cluster.wait_for(r"stopped at epoch \d+ step \d+$")
        self.assertTrue(report_of(cluster)["stopped"])
        cluster.nobody_left()

    def test_killed_jobs_go_on_from_their_checkpoint(self):
        whole = self.uninterrupted(epochs=5)
        chance = random.Random(SEED)
        arguments = ["--resume", "--checkpoint-interval-s", "0.05"]
        with tempfile.TemporaryDirectory(prefix="headrace resume ") as folder:
            for _ in range(4):
                cluster = self.cluster(*arguments, job=job(epochs=5), folder=folder)
                cluster.wait_for("serving rank", 1, 60)
                time.sleep(chance.uniform(0.05, 0.6))
                cluster.kill()
            last = self.finished(*arguments, job=job(epochs=5), folder=folder)
            rest = learned(report_of(last))
        for entry in rest:
            self.assertEqual(entry[3:], whole[entry[0] - 1][3:], last.output())

    def test_another_job_s_checkpoint_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="headrace resume ") as folder:
            self.finished(job=job(epochs=1), folder=folder, cpu=1, gpu=1)
            cluster = self.finished("--resume", job=job(epochs=1, seed=6), folder=folder, cpu=1, gpu=1, code=65)
            self.assertIn("checkpoint", cluster.failure("algo-1"))

    def test_a_finished_job_has_nothing_to_do(self):
        with tempfile.TemporaryDirectory(prefix="headrace resume ") as folder:
            self.finished(job=job(epochs=1), folder=folder, cpu=1, gpu=1)
            cluster = self.finished("--resume", job=job(epochs=1), folder=folder, cpu=1, gpu=1)
            cluster.wait_for("all 1 epochs are done already")


class Refusal(Job):
    """What training itself refuses; what agents and producers refuse is in agent_life.py and job_life.py."""

    def copy(self):
        folder = tempfile.TemporaryDirectory(prefix="headrace bad ")
        self.addCleanup(folder.cleanup)
        data = os.path.join(folder.name, "data")
        shutil.copytree(self.data, data, ignore=shutil.ignore_patterns(".headrace"))
        return data

    def pictures(self, data):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(data, "train"))
                      for name in names if name.endswith(".jpg"))

    def test_pictures_without_labels_cannot_train_a_network(self):
        data = self.copy()
        for victim in self.pictures(data):
            os.rename(victim, os.path.join(data, "train", os.path.basename(os.path.dirname(victim)) +
                                           os.path.basename(victim)))
        for name in os.listdir(os.path.join(data, "train")):
            path = os.path.join(data, "train", name)
            if os.path.isdir(path):
                shutil.rmtree(path)
        made = job()
        del made["streams"]["eval"]
        self.finished(data=data, job=made, cpu=1, gpu=1, code=65)
        self.finished("--trainer", "synthetic", data=data, job=made, cpu=1, gpu=1)

    def test_a_data_set_smaller_than_a_batch_is_65(self):
        cluster = self.finished("--global-batch", "1024", code=65)
        self.assertIn("160 samples", cluster.output())

    def test_producers_with_other_data_are_turned_away_and_both_named(self):
        with tempfile.TemporaryDirectory(prefix="headrace data ") as folder:
            for host in ("algo-2", "algo-4"):
                shutil.copytree(self.data, os.path.join(folder, host, "input/data"))
            os.unlink(self.pictures(os.path.join(folder, "algo-4/input/data"))[0])
            cluster = Cluster(["--join-timeout-s", "6"], job=job(), fake=False, folder=folder)
            self.addCleanup(cluster.close)
            self.assertEqual(cluster.wait(120), 65, cluster.output())
            cluster.wait_for(r"stream train: producer algo-\d/0 has 1\d\d samples.*but algo-\d/0 has 1\d\d")
            cluster.wait_for(r"turned this producer away", 2)
            for name in ("algo-2/0", "algo-4/0"):
                self.assertIn(name, cluster.failure("algo-1"))

    def test_a_device_that_is_not_there_is_an_error(self):
        cluster = self.finished("--device", "cuda", code=71, cpu=1, gpu=1)
        self.assertIn("cuda", cluster.failure("algo-1"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
