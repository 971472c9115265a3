#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: training.py stream|faults|resume|refusal|memory

Whole jobs: real producers, real ranks, real pictures. What must hold: the stream and the model are the same however
the work is split and whoever dies; stops and crashes resume; bad input ends with its own exit code; memory stays within
the printed budget.

In a cluster of two and two the cpu hosts are algo-2 and algo-4, the gpu hosts algo-1 (coordinator, rank 0) and algo-3.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster import BINARY, SLOW, Cluster, read_file, wait_until

SEED = int(os.environ.get("HR_SEED", time.time_ns() % 2**32))
PIPELINE = [{"op": "decode"}, {"op": "random_resized_crop", "size": 64}, {"op": "horizontal_flip"}]
EVAL_PIPELINE = [{"op": "decode"}, {"op": "resize", "size": 72}, {"op": "center_crop", "size": 64}]

# What a process may use beyond its printed budget: program, libraries, stacks, decoders' scratch, the allocator's own.
PROCESS_MIB = 32


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


class Faults(Job):
    """What is killed, stopped or late leaves no mark in the stream."""

    EPOCHS = 250

    @staticmethod
    def made(**options):
        return job(trainer="synthetic", epochs=Faults.EPOCHS, streams={"train": {"data": "train", "pipeline": PIPELINE}},
                   **options)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cluster = Cluster(["--data", cls.data], job=cls.made(), fake=False, gpu=1)
        cls.addClassCleanup(cluster.close)
        if cluster.wait(120) != 0:
            raise AssertionError(cluster.output())
        cls.expected = digests(report_of(cluster))

    def compare_epochs(self, cluster):
        """The finished epochs of a job that was stopped; at least one."""
        report = report_of(cluster)
        whole = [entry for entry, epoch in zip(digests(report), report["epochs"]) if epoch["steps"] == 10]
        self.assertGreater(len(whole), 0)
        self.assertEqual(whole, self.expected[:len(whole)])

    def leases_lost(self, cluster):
        """How many leases each session that ended by a broken connection held."""
        return [int(match.group(1)) for match in cluster.find(r"session ended: (?!it said BYE).*\((\d+) leases")]

    def test_killed_producers_change_nothing(self):
        """Kill -9 at random moments, until 20 kills (5 under sanitizers) have hit a producer that held live leases."""
        wanted = 20 if SLOW == 1 else 5
        chance = random.Random(SEED)
        # Fewer batches than the ranks could take, so that every producer always has leases.
        cluster = self.cluster("--threads", "1", "--restarts", "1000", job=self.made(), cpu=4)
        cluster.wait_for(r"serving rank \d", 8, 60)
        hosts = dict.fromkeys(cluster.members("serve"), 0)  # and how often each was killed
        hits = 0
        while hits < wanted and sum(hosts.values()) < 5 * wanted:
            time.sleep(chance.uniform(0, 0.2))
            served = {host: len(cluster.find(rf"^{host} .*serving rank")) for host in hosts}
            alive = [host for host in hosts if served[host] == 2 * (hosts[host] + 1)]
            self.assertIsNone(cluster.process.poll(), "the job has ended before the kills\n" + cluster.output())
            if not alive:
                continue
            host = chance.choice(alive)
            lost = self.leases_lost(cluster)
            os.kill(cluster.members("serve")[host][0], signal.SIGKILL)
            hosts[host] += 1
            wait_until(lambda n=len(lost): len(self.leases_lost(cluster)) >= n + 2, what="both ranks see the death")
            hits += any(leases > 0 for leases in self.leases_lost(cluster)[len(lost):])
        took = time.monotonic() - cluster.begin
        print(f"{sum(hosts.values())} kills, {hits} with live leases, in {took:.1f} s", flush=True)
        self.assertGreaterEqual(hits, wanted)
        os.kill(cluster.members("run")["algo-1"][0], signal.SIGTERM)
        self.assertEqual(cluster.wait(), 0, cluster.output())
        self.compare_epochs(cluster)

    def test_a_hung_producer_changes_nothing(self):
        cluster = self.cluster("--step-ms", "40", job=self.made())
        cluster.wait_for(r"serving rank \d", 4)
        hung = cluster.members("serve")["algo-2"][0]
        os.kill(hung, signal.SIGSTOP)
        cluster.wait_for(r"session ended: silence", 2, 60)
        cluster.wait_for(r"headrace: epoch=(\d+); epoch_loss", len(cluster.find("epoch_loss")) + 3, 60)
        os.kill(hung, signal.SIGCONT)
        cluster.wait_for(r"algo-2.*serving rank \d", 4, 60)
        os.kill(cluster.members("run")["algo-3"][0], signal.SIGTERM)
        self.assertEqual(cluster.wait(), 0, cluster.output())
        self.compare_epochs(cluster)

    def test_a_killed_rank_ends_every_host_with_69(self):
        cluster = self.cluster("--step-ms", "40", job=self.made())
        cluster.wait_for("epoch_loss", 1, 60)
        begin = time.monotonic()
        os.kill(cluster.members("train")["algo-3"][0], signal.SIGKILL)
        self.assertEqual(cluster.wait(30), 69, cluster.output())
        self.assertLess(time.monotonic() - begin, 10 * SLOW)
        self.assertEqual(set(cluster.exit_codes().values()), {69}, cluster.output())
        self.assertEqual(len(cluster.exit_codes()), 4)
        cluster.nobody_left()


class Resume(Job):
    def uninterrupted(self, **options):
        return learned(report_of(self.finished(job=job(**options))))

    def stop(self, cluster):
        os.kill(cluster.members("run")["algo-3"][0], signal.SIGTERM)
        self.assertEqual(cluster.wait(90), 0, cluster.output())
        (where,) = cluster.find(r"stopped at epoch (\d+) step (\d+)")
        self.assertTrue(report_of(cluster)["stopped"])
        return int(where.group(1)), int(where.group(2))

    def test_a_stopped_job_goes_on_as_if_it_had_not_been(self):
        whole = self.uninterrupted(epochs=6)
        with tempfile.TemporaryDirectory(prefix="headrace resume ") as folder:
            cluster = self.cluster(job=job(epochs=6), folder=folder)
            cluster.wait_for("epoch_loss", 2, 60)
            epoch, step = self.stop(cluster)
            parts = {entry[0]: entry for entry in learned(report_of(cluster)) if entry[0] < epoch}
            again = self.finished("--resume", job=job(epochs=6), folder=folder)
            again.wait_for(rf"resuming at epoch {epoch} step {step}$")
            rest = learned(report_of(again))
        self.assertEqual(rest[0][0], epoch)
        self.assertEqual(rest[0][4:], whole[epoch - 1][4:], "digests of the epoch that was cut")
        self.assertEqual(rest[0][3], whole[epoch - 1][3], "accuracy after it")
        for entry in [*parts.values(), *rest[1:]]:
            self.assertEqual(entry, whole[entry[0] - 1])

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
    """What training itself refuses; what agents and producers refuse is in bad_input.py."""

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


class Memory(Job):
    """Peak resident memory of every process stays within its printed budget and a constant."""

    def watch(self, cluster, peaks, end):
        while not end.is_set():
            for word in ("train", "serve"):
                for host, pids in cluster.members(word).items():
                    for pid in pids:
                        match = re.search(rb"VmHWM:\s+(\d+) kB", read_file(f"/proc/{pid}/status"))
                        if match:
                            key = (word, host, pid)
                            peaks[key] = max(peaks.get(key, 0), int(match.group(1)) / 1024)
            time.sleep(0.1)

    def peaks_of(self, *arguments, made, during=None):
        peaks, end = {}, threading.Event()
        cluster = self.cluster(*arguments, job=made)
        watcher = threading.Thread(target=self.watch, args=(cluster, peaks, end))
        watcher.start()
        try:
            if during is not None:
                during(cluster)
            self.assertEqual(cluster.wait(240), 0, cluster.output())
        finally:
            end.set()
            watcher.join()
        return cluster, peaks

    def check(self, cluster, peaks):
        ranks = {match.group(1): float(match.group(2)) for match in
                 cluster.find(r"^(algo-\d+) .*memory budget: feed in all: ([\d.]+) MiB")}
        producers = {match.group(1): float(match.group(2)) * float(match.group(3)) + float(match.group(4)) for match in
                     cluster.find(r"^(algo-\d+) .*budget: (\d+) batches of ([\d.]+) MiB, read buffers ([\d.]+) MiB")}
        self.assertEqual({word for word, _, _ in peaks}, {"train", "serve"})
        for (word, host, _), peak in sorted(peaks.items()):
            budget = (ranks if word == "train" else producers)[host]
            print(f"{word} on {host}: peak {peak:.1f} MiB, budget {budget:.1f} + {PROCESS_MIB} MiB", flush=True)
            self.assertLessEqual(peak, budget + PROCESS_MIB)
        return max(peaks.values())

    def setUp(self):
        if os.environ.get("HR_SANITIZE"):
            self.skipTest("the sanitizers' memory would be measured")

    @staticmethod
    def large(epochs):
        """Batches of 4.6 MiB a rank, so that what is not bounded shows."""
        pipeline = [{"op": "decode"}, {"op": "random_resized_crop", "size": 224}]
        return job(trainer="synthetic", epochs=epochs, global_batch=64,
                   streams={"train": {"data": "train", "pipeline": pipeline, "last": "partial"}})

    def test_ten_times_more_steps_take_no_more_memory(self):
        peaks = [self.check(*self.peaks_of(made=self.large(epochs))) for epochs in (3, 30)]
        self.assertLessEqual(peaks[1], peaks[0] + 16)

    def test_a_stalled_trainer(self):
        def stall(cluster):
            cluster.wait_for("epoch_loss", 1, 60)
            (rank,) = cluster.members("train")["algo-3"]
            os.kill(rank, signal.SIGSTOP)
            time.sleep(4)
            os.kill(rank, signal.SIGCONT)
        self.check(*self.peaks_of("--peer-timeout-s", "20", made=self.large(20), during=stall))
        self.check(*self.peaks_of("--step-ms", "500", made=self.large(4)))

    def test_a_hung_producer(self):
        def hang(cluster):
            cluster.wait_for("epoch_loss", 1, 60)
            (producer,) = cluster.members("serve")["algo-2"]
            for _ in range(3):
                os.kill(producer, signal.SIGSTOP)
                time.sleep(2.5)
                os.kill(producer, signal.SIGCONT)
                time.sleep(0.5)
        self.check(*self.peaks_of("--step-ms", "50", made=self.large(60), during=hang))


PARTS = {"stream": Stream, "faults": Faults, "resume": Resume, "refusal": Refusal, "memory": Memory}

if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(PARTS[sys.argv[1]])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
