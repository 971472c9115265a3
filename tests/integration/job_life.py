#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Life and death of whole jobs: real producers, real ranks, pictures that headrace gen makes. What the stream digest
says is compared between runs: with kills, stops, resumes and without.

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

from cluster import BINARY, SLOW, Cluster, Process, read_file

SEED = int(os.environ.get("HR_SEED", time.time_ns()))
RESTART = ["--restarts", "1000"]
PROCESS_MIB = 32  # beside the printed budget: program, libraries, thread stacks, what malloc keeps for its threads


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"HR_SEED={SEED}", flush=True)
        cls.random = random.Random(SEED)
        cls.folder = tempfile.TemporaryDirectory(prefix="headrace pictures ")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.pictures = os.path.join(cls.folder.name, "pictures")
        subprocess.run([BINARY, "gen", cls.pictures, "--classes", "4", "--images", "240", "--seed", "1"], check=True,
                       timeout=300, stdout=subprocess.DEVNULL)

    def job(self, **changes):
        crop = [{"op": "decode"}, {"op": "random_resized_crop", "size": 64}, {"op": "horizontal_flip", "p": 0.5}]
        whole = [{"op": "decode"}, {"op": "resize", "size": 72}, {"op": "center_crop", "size": 64}]
        job = {"global_batch": 16, "epochs": 2, "seed": 3, "trainer": {"name": "synthetic", "step_ms": 0},
               "streams": {"train": {"data": "train", "pipeline": crop}, "eval": {"data": "test", "pipeline": whole}}}
        job.update(changes)
        return job

    def cluster(self, *arguments, data=None, **changes):
        options = {key: changes.pop(key) for key in ("folder", "cpu", "gpu") if key in changes}
        cluster = Cluster(["--data", data or self.pictures, *arguments], job=self.job(**changes), fake=False, **options)
        self.addCleanup(cluster.close)
        return cluster

    def report(self, cluster):
        with open(os.path.join(cluster.folder, "algo-1/output/headrace/report.json"), encoding="utf-8") as file:
            return json.load(file)

    def digests(self, cluster):
        return [(epoch["epoch"], epoch["digest"], epoch["eval_digest"]) for epoch in self.report(cluster)["epochs"]]

    def same_reports(self, cluster, other):
        """But for times."""
        for one, two in zip(self.report(cluster)["epochs"], self.report(other)["epochs"], strict=True):
            for key in one:
                if key == "loss":  # sums of the same numbers in another order
                    self.assertAlmostEqual(one[key], two[key], places=6)
                elif key != "images_per_s" and not key.startswith("wait_"):
                    self.assertEqual(one[key], two[key], (key, one, two))

    def model(self, cluster):
        """Place and model of the newest checkpoint; the history behind them holds times."""
        folder = os.path.join(cluster.folder, "algo-1/checkpoints")
        newest = max(os.listdir(folder), key=lambda name: int(re.findall(r"\d+", name)[0]))
        file = read_file(os.path.join(folder, newest))
        return file[:128 + int.from_bytes(file[112:120], "little")]

    def finish(self, cluster, code=0, seconds=120):
        self.assertEqual(cluster.wait(seconds), code, cluster.output())
        cluster.nobody_left()

    def wait_training(self, cluster):
        cluster.wait_for(r"serving rank", 4)
        cluster.wait_for(r"session began", 4)

    # ---- the digest ----

    def test_the_stream_is_the_same_for_any_number_of_producers(self):
        clusters = [self.cluster(cpu=1), self.cluster(cpu=3),
                    self.cluster("--layout", "homogeneous", "--threads", "1", cpu=0)]
        for cluster in clusters:
            self.finish(cluster)
        self.assertEqual(self.digests(clusters[0]), self.digests(clusters[1]))
        self.assertEqual(self.digests(clusters[0]), self.digests(clusters[2]))
        self.assertEqual(len(set(digest for _, digest, _ in self.digests(clusters[0]))), 2)

    def test_producers_killed_at_20_moments_do_not_change_the_stream(self):
        epochs = 120
        undisturbed = self.cluster(epochs=epochs)
        self.finish(undisturbed)
        # The kills take up to a minute, for a restart waits up to 2 s: no machine may be done before.
        cluster = self.cluster(*RESTART, epochs=epochs, trainer={"name": "synthetic", "step_ms": 40})
        self.wait_training(cluster)
        counted = 0
        kills = {"algo-2": 0, "algo-4": 0}
        while counted < 20:
            serving = [host for host in sorted(kills)
                       if len(cluster.find(rf"{host} .*serving rank")) >= 2 * (kills[host] + 1)]
            host = self.random.choice(serving or sorted(kills))
            # The producer serves both ranks; it has said so once for each of its lives.
            cluster.wait_for(rf"{host} .*serving rank", 2 * (kills[host] + 1))
            time.sleep(self.random.uniform(0, 0.3))
            os.kill(cluster.members("serve")[host][0], signal.SIGKILL)
            kills[host] += 1
            ends = cluster.wait_for(rf"{host}/0: session ended: .*\((\d+) leases", 2 * kills[host])[-2:]
            counted += any(int(match.group(1)) > 0 for match in ends)
        print(f"kills {kills}, {counted} of producers that held leases", flush=True)
        self.finish(cluster, seconds=240)
        self.assertEqual(self.digests(cluster), self.digests(undisturbed))
        self.assertEqual(len(self.digests(cluster)), epochs)

    def test_a_stopped_producer_that_comes_back_does_not_change_the_stream(self):
        undisturbed = self.cluster(epochs=20)
        cluster = self.cluster(epochs=20, trainer={"name": "synthetic", "step_ms": 20})
        self.wait_training(cluster)
        victim = cluster.members("serve")["algo-2"][0]
        os.kill(victim, signal.SIGSTOP)
        cluster.wait_for(r"algo-2/0: session ended", 2)
        os.kill(victim, signal.SIGCONT)
        cluster.wait_for(r"algo-2/0: session began", 4)
        self.finish(cluster)
        self.finish(undisturbed)
        self.assertEqual(self.digests(cluster), self.digests(undisturbed))

    def test_an_extra_producer_joins_a_running_job(self):
        cluster = self.cluster(*RESTART, epochs=30, trainer={"name": "synthetic", "step_ms": 20})
        self.wait_training(cluster)
        address = cluster.find(r"serving rank 0 at (127\.[\d.]+):(\d+)")[0]
        extra = Process([BINARY, "serve", "--connect", f"{address.group(1)}:{int(address.group(2)) - 1}", "--data-root",
                         self.pictures])
        self.addCleanup(extra.kill)
        extra.wait_for("serving rank", 2)
        cluster.wait_for("session began", 6)
        self.finish(cluster)
        self.assertEqual(extra.wait(30), 0, extra.output())
        undisturbed = self.cluster(epochs=30)
        self.finish(undisturbed)
        self.assertEqual(self.digests(cluster), self.digests(undisturbed))

    # ---- ends ----

    def test_a_killed_rank_ends_every_host_with_69(self):
        cluster = self.cluster(epochs=1000)
        self.wait_training(cluster)
        time.sleep(self.random.uniform(0, 1))
        os.kill(cluster.members("train")["algo-3"][0], signal.SIGKILL)
        self.finish(cluster, 69, 30)
        self.assertEqual(cluster.exit_codes(), dict.fromkeys(("algo-1", "algo-2", "algo-3", "algo-4"), 69))
        for host in cluster.exit_codes():
            self.assertIn("local rank 0 was killed by signal 9", cluster.failure(host))

    def test_the_cause_is_told_and_not_what_it_brought_about(self):
        cluster = self.cluster("--peer-timeout-s", "10", epochs=1000)
        self.wait_training(cluster)
        # Nobody can tell of the rank's death while its agent sleeps; rank 0 sees its link close.
        agent = cluster.members("run")["algo-3"][0]
        os.kill(agent, signal.SIGSTOP)
        os.kill(cluster.members("train")["algo-3"][0], signal.SIGKILL)
        cluster.wait_for("algo-1.* ring: rank 1 ")
        time.sleep(4)  # a consequence told now would be the job's reason 2 s later
        self.assertEqual(cluster.find("the job failed"), [], cluster.output())
        os.kill(agent, signal.SIGCONT)
        self.finish(cluster, 69, 30)
        for host in ("algo-1", "algo-2", "algo-3", "algo-4"):
            self.assertIn("local rank 0 was killed by signal 9", cluster.failure(host))

    def test_sigterm_stops_at_one_step_and_the_resumed_job_ends_as_if_nothing_had_been(self):
        copy = self.copy_of_the_pictures()
        folder = os.path.join(copy, "train", sorted(os.listdir(os.path.join(copy, "train")))[2])
        with open(os.path.join(folder, sorted(os.listdir(folder))[1]), "r+b") as file:
            file.truncate(100)  # the report counts it once an epoch, whenever the stops come
        changes = {"epochs": 12, "trainer": {"name": "reference"}, "data": copy}
        undisturbed = self.cluster(**changes)
        self.finish(undisturbed)
        cluster = self.cluster(**changes)
        stops = 0
        while stops < 5:
            cluster.wait_for("session began|: done")
            time.sleep(self.random.uniform(0, 1))
            agents = cluster.members("run").get(self.random.choice(["algo-1", "algo-2", "algo-3", "algo-4"]))
            if agents:
                os.kill(agents[0], signal.SIGTERM)
            self.finish(cluster, seconds=60)
            steps = {match.group(1) for match in cluster.find(r"stopped after step (\d+)$")}
            if not cluster.find("stopped at epoch"):
                break
            self.assertEqual(len(steps), 1, steps)
            stops += 1
            cluster = self.cluster("--resume", folder=cluster.folder, **changes)
        self.finish(cluster)
        self.assertGreater(stops, 0)
        self.same_reports(cluster, undisturbed)
        self.assertEqual({epoch["bad_samples"] for epoch in self.report(cluster)["epochs"]}, {1})
        self.assertEqual(self.model(cluster), self.model(undisturbed))  # every bit of every weight

    def test_sigterm_while_no_data_come_stops_before_the_step_that_waits(self):
        # One decoder and small pictures: ranks wait for data, often one for its data and the other one for the sum.
        crop = [{"op": "decode"}, {"op": "random_resized_crop", "size": 32}]
        changes = {"epochs": 20, "trainer": {"name": "reference"}, "cpu": 1,
                   "streams": {"train": {"data": "train", "pipeline": crop}}}
        arguments = ["--threads", "1"]
        undisturbed = self.cluster(*arguments, **changes)
        cluster = self.cluster(*arguments, **changes)
        for _ in range(2):
            cluster.wait_for("session began", 2)
            time.sleep(self.random.uniform(0, 0.5))
            for pids in cluster.members("serve").values():
                os.kill(pids[0], signal.SIGSTOP)
            cluster.wait_for("session ended", 2)
            os.kill(cluster.members("run")[self.random.choice(["algo-1", "algo-2", "algo-3"])][0],
                    signal.SIGTERM)
            self.finish(cluster, seconds=60)
            self.assertEqual(len({match.group(1) for match in cluster.find(r"stopped after step (\d+)$")}), 1)
            self.assertEqual(len(cluster.find("stopped at epoch")), 1, cluster.output())
            cluster = self.cluster("--resume", *arguments, folder=cluster.folder, **changes)
        self.finish(cluster)
        self.finish(undisturbed)
        self.same_reports(cluster, undisturbed)
        self.assertEqual(self.model(cluster), self.model(undisturbed))

    def test_an_evaluation_that_a_stop_left_out_is_made_up_for(self):
        streams = self.job()["streams"]  # few steps, many batches of evaluation
        streams["train"]["data"], streams["eval"]["data"] = streams["eval"]["data"], streams["train"]["data"]
        changes = {"epochs": 40, "trainer": {"name": "synthetic", "step_ms": 30}, "streams": streams}
        undisturbed = self.cluster(**changes)
        cluster = self.cluster(**changes)
        for _ in range(8):
            self.wait_training(cluster)
            time.sleep(self.random.uniform(0, 0.3))
            os.kill(cluster.members("run")["algo-3"][0], signal.SIGTERM)
            self.finish(cluster, seconds=60)
            left_out = self.report(cluster)["epochs"] and self.report(cluster)["epochs"][-1]["accuracy"] is None
            stopped_in_evaluation = left_out and cluster.find(r"stopped at epoch \d+ step 0$")
            cluster = self.cluster("--resume", folder=cluster.folder, **changes)
            if stopped_in_evaluation:
                break
        self.assertTrue(stopped_in_evaluation)
        self.finish(cluster)
        self.finish(undisturbed)
        self.same_reports(cluster, undisturbed)

    def test_a_stop_while_nobody_has_begun_is_a_good_end(self):
        cluster = self.cluster()
        stopped = set()
        while not cluster.find("all 2 ranks have joined") or len(stopped) < 2:
            for pids in cluster.members("serve").values():
                os.kill(pids[0], signal.SIGSTOP)
                stopped.add(pids[0])
        os.kill(cluster.members("run")["algo-3"][0], signal.SIGTERM)
        self.finish(cluster, seconds=30)
        cluster.wait_for("stopped after step 0", 4)

    def test_without_data_the_job_waits_and_then_says_who_was_last_seen(self):
        cluster = self.cluster("--starve-timeout-s", "3", epochs=1000)
        self.wait_training(cluster)
        for pids in cluster.members("serve").values():
            os.kill(pids[0], signal.SIGSTOP)
        self.finish(cluster, 69, 40)
        self.assertRegex(cluster.failure("algo-1"), "algo-[24]")

    def test_producers_do_not_outlive_their_ranks(self):
        cluster = self.cluster("--orphan-timeout-s", "3", "--restarts", "0", epochs=1000)
        self.wait_training(cluster)
        for pids in cluster.members("train").values():
            os.kill(pids[0], signal.SIGSTOP)
        self.finish(cluster, 69, 40)
        self.assertRegex(cluster.failure("algo-2") + cluster.failure("algo-4"), "orphan")

    def test_a_killed_local_leaves_nothing(self):
        cluster = self.cluster(epochs=1000)
        self.wait_training(cluster)
        self.assertEqual(len(cluster.family()), 1 + 4 + 4)
        os.kill(cluster.pid, signal.SIGKILL)
        cluster.nobody_left()

    def test_ctrl_c_is_a_good_end(self):
        cluster = self.cluster(epochs=1000)
        self.wait_training(cluster)
        os.killpg(cluster.pid, signal.SIGINT)
        self.finish(cluster)
        self.assertTrue(self.report(cluster)["stopped"])

    # ---- other data ----

    def test_a_producer_with_other_data_is_told_where_and_joins_when_they_are_right(self):
        copy = self.copy_of_the_pictures()
        folder = sorted(os.listdir(os.path.join(copy, "train")))[1]
        picture = os.path.join(copy, "train", folder, sorted(os.listdir(os.path.join(copy, "train", folder)))[3])
        surplus = os.path.join(copy, "train", folder, "surplus.jpg")
        shutil.copy(picture, surplus)
        cluster = self.cluster(epochs=100000, trainer={"name": "synthetic", "step_ms": 20})
        self.wait_training(cluster)
        address = cluster.find(r"serving rank 0 at (127\.[\d.]+):(\d+)")[0]
        serve = [BINARY, "serve", "--connect", f"{address.group(1)}:{int(address.group(2)) - 1}", "--data-root", copy]
        where = rf"stream train: .*; 1 of 64 buckets differ: \d+ \(only here: '{folder}/surplus\.jpg'\)"
        hopeless = Process([*serve, "--join-timeout-s", "1"])
        self.addCleanup(hopeless.kill)
        self.assertEqual(hopeless.wait(), 78, hopeless.output())
        self.assertRegex(hopeless.lines[-1], "still another data set than the job's.*" + where)
        patient = Process(serve)
        self.addCleanup(patient.kill)
        patient.wait_for(r"rank \d turned this producer away: " + where)
        self.assertRegex(cluster.output(), "turned away: stream train: a data set of")
        os.remove(surplus)
        patient.wait_for("serving rank", 2)
        os.killpg(cluster.pid, signal.SIGINT)
        self.finish(cluster)
        self.assertEqual(patient.wait(30), 0, patient.output())

    # ---- bad input ----

    def copy_of_the_pictures(self):
        folder = tempfile.TemporaryDirectory(prefix="headrace copy ")
        self.addCleanup(folder.cleanup)
        copy = os.path.join(folder.name, "pictures")
        shutil.copytree(self.pictures, copy, ignore=shutil.ignore_patterns(".headrace"))
        return copy

    def test_a_missing_folder_is_66(self):
        copy = self.copy_of_the_pictures()
        shutil.rmtree(os.path.join(copy, "train"))
        cluster = self.cluster(data=copy)
        self.finish(cluster, 66, 60)
        for host in ("algo-1", "algo-2", "algo-3", "algo-4"):
            self.assertIn(os.path.join(copy, "train"), cluster.failure(host))

    def test_an_empty_data_set_is_65(self):
        copy = self.copy_of_the_pictures()
        shutil.rmtree(os.path.join(copy, "train"))
        os.mkdir(os.path.join(copy, "train"))
        cluster = self.cluster(data=copy)
        self.finish(cluster, 65, 60)
        self.assertRegex(cluster.failure("algo-1"), "stream train.*empty")

    def test_a_corrupt_picture_is_named_once_and_replaced(self):
        copy = self.copy_of_the_pictures()
        folder = os.path.join(copy, "train", sorted(os.listdir(os.path.join(copy, "train")))[1])
        victim = os.path.join(folder, sorted(os.listdir(folder))[3])
        with open(victim, "r+b") as file:
            file.truncate(100)
        clusters = [self.cluster(data=copy), self.cluster(data=copy, cpu=1)]
        for cluster in clusters:
            self.finish(cluster)
            self.assertEqual([epoch["bad_samples"] for epoch in self.report(cluster)["epochs"]], [1, 1])
            name = os.path.join(os.path.basename(folder), os.path.basename(victim))
            self.assertEqual(len(cluster.find(re.escape(name))), 1, cluster.output())
        self.assertEqual(self.digests(clusters[0]), self.digests(clusters[1]))
        strict = self.cluster("--on-bad", "fail", data=copy)
        self.finish(strict, 65, 60)
        self.assertIn("on_bad", strict.failure("algo-1") + strict.failure("algo-3"))

    def test_more_bad_pictures_than_the_budget_fail_the_job(self):
        copy = self.copy_of_the_pictures()
        for folder, _, names in os.walk(os.path.join(copy, "train")):
            for name in sorted(names)[:10]:
                with open(os.path.join(folder, name), "r+b") as file:
                    file.truncate(100)
        cluster = self.cluster("--bad-budget", "5", data=copy)
        self.finish(cluster, 65, 60)
        self.assertIn("bad_budget", cluster.failure("algo-1") + cluster.failure("algo-3"))

    def test_data_outside_the_root_is_78(self):
        cluster = self.cluster(streams={"train": {"data": "../elsewhere"}})
        self.assertEqual(cluster.wait(), 78, cluster.output())

    # ---- memory ----

    def watch_memory(self, cluster, seconds=120):
        """Waits for the end; the peak resident memory, in MiB, of each rank and producer."""
        peaks = {}
        while cluster.process.poll() is None:
            for word in ("train", "serve"):
                for pids in cluster.members(word).values():
                    for pid in pids:
                        match = re.search(rb"VmHWM:\s+(\d+) kB", read_file(f"/proc/{pid}/status"))
                        if match:
                            peaks[word, pid] = int(match.group(1)) / 1024
            self.assertLess(time.monotonic() - cluster.begin, seconds * SLOW, cluster.output())
            time.sleep(0.1)
        return peaks

    def check_memory(self, cluster, code=0):
        peaks = self.watch_memory(cluster)
        self.assertEqual(cluster.wait(), code, cluster.output())
        cluster.nobody_left()
        feed = cluster.find(r"memory budget: feed in all: ([\d.]+) MiB")
        trainer = cluster.find(r"memory budget: trainer \w+ with its checkpoint: ([\d.]+) MiB")
        making = cluster.find(r"memory budget: (\d+) batches of ([\d.]+) MiB, read buffers ([\d.]+) MiB")
        budgets = {"train": float(feed[0].group(1)) + float(trainer[0].group(1)),
                   "serve": float(making[0].group(1)) * float(making[0].group(2)) + float(making[0].group(3))}
        self.assertEqual({word for word, _ in peaks}, {"train", "serve"})
        for (word, pid), peak in peaks.items():
            self.assertLess(peak, budgets[word] + PROCESS_MIB, f"{word} {pid}: budget {budgets[word]} MiB")
        return peaks

    def large(self, *arguments, **changes):
        """Batches of 4.6 MiB a rank, so that what is not bounded soon shows."""
        crop = [{"op": "decode"}, {"op": "random_resized_crop", "size": 224}]
        train = {"data": "train", "last": "partial", "pipeline": crop}
        return self.cluster(*arguments, global_batch=64, streams={"train": train}, **changes)

    def test_memory_stays_under_the_printed_budget_over_ten_times_more_steps(self):
        self.skip_memory_under_sanitizers()
        short = max(self.check_memory(self.large(epochs=3)).values())
        long = max(self.check_memory(self.large(epochs=30)).values())
        print(f"peaks {short:.0f} and {long:.0f} MiB", flush=True)
        self.assertLess(long, short + 16)

    def test_memory_stays_under_the_printed_budget_with_a_stalled_trainer(self):
        self.skip_memory_under_sanitizers()
        self.check_memory(self.large(epochs=4, trainer={"name": "synthetic", "step_ms": 500}))

    def test_memory_stays_under_the_printed_budget_with_a_large_gradient(self):
        self.skip_memory_under_sanitizers()
        gradient = {"name": "synthetic", "step_ms": 0, "grad_mb": 3 * PROCESS_MIB}
        peaks = self.check_memory(self.cluster(epochs=1, trainer=gradient))
        self.assertGreater(max(peaks.values()), 2 * PROCESS_MIB)  # so it was all there, and counted

    def test_memory_stays_under_the_printed_budget_with_a_hung_producer(self):
        self.skip_memory_under_sanitizers()
        cluster = self.large(epochs=20)
        self.wait_training(cluster)
        hung = cluster.members("serve")["algo-2"][0]
        os.kill(hung, signal.SIGSTOP)
        self.check_memory(cluster)
        self.assertEqual(cluster.exit_codes(), {})  # nor does it keep the job from its end

    def skip_memory_under_sanitizers(self):
        if os.environ.get("HR_SANITIZE"):
            self.skipTest("a sanitizer's own memory hides ours")


if __name__ == "__main__":
    unittest.main(verbosity=2)
