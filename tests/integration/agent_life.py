#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The life and death of a job's processes, with stand-ins for producers and ranks (fake_child.c): real agents, real
coordinator, real signals.

In a cluster of two and two the cpu hosts are algo-2 and algo-4, the gpu hosts algo-1 (coordinator, rank 0) and algo-3.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from cluster import BINARY, FAKE_CHILD, Cluster, Process, arguments_of, wait_until

LONG = {"FAKE_STEPS": "100000", "FAKE_STEP_MS": "20"}


class Life(unittest.TestCase):
    def cluster(self, *arguments, **options):
        cluster = Cluster(arguments, **options)
        self.addCleanup(cluster.close)
        return cluster

    def long_cluster(self, *arguments, environment=None, **options):
        """One that runs until something happens to it; returns when it trains."""
        cluster = self.cluster(*arguments, environment=dict(LONG, **(environment or {})), **options)
        cluster.wait_for("all . ranks have joined")
        cluster.wait_for("producer start 0", 2)
        return cluster

    def steps(self, cluster):
        return [int(match.group(1)) for match in cluster.find(r"rank \d+ took (\d+) steps")]

    # ---- the good end ----

    def test_a_job_ends_well_everywhere(self):
        cluster = self.cluster("--ranks-per-host", "2", environment={"FAKE_STEPS": "30"})
        self.assertEqual(cluster.wait(), 0, cluster.output())
        self.assertEqual(self.steps(cluster), [30] * 4)
        for host in ("algo-1", "algo-2", "algo-3", "algo-4"):
            cluster.wait_for(host + r" +\| .*: done$")
        cluster.wait_for(r"^algo-1 +gpu +trainer +0-1$")
        cluster.wait_for(r"^algo-2 +cpu +producer +-$")
        cluster.wait_for(r"^algo-3 +gpu +trainer +2-3$")
        self.assertEqual(cluster.exit_codes(), {})
        self.assertEqual(cluster.failure("algo-1"), "")
        cluster.nobody_left()

    def test_every_host_of_one_group_produces_and_trains(self):
        cluster = self.cluster("--layout", "homogeneous", environment={"FAKE_STEPS": "100"})
        starts = cluster.wait_for(r"producer start 0 pid \d+ nice (\d+)", 4)
        self.assertEqual([match.group(1) for match in starts], [str(os.nice(0) + 10)] * 4)
        self.assertEqual(cluster.wait(), 0, cluster.output())
        self.assertEqual(self.steps(cluster), [100] * 4)
        cluster.wait_for(r"^algo-4 +homogeneousCluster +both +3$")
        cluster.nobody_left()

    def test_two_clusters_at_once(self):
        clusters = [self.cluster(environment={"FAKE_STEPS": "50"}) for _ in range(2)]
        for cluster in clusters:
            self.assertEqual(cluster.wait(), 0, cluster.output())
            self.assertEqual(self.steps(cluster), [50, 50])

    def test_a_temporary_folder_is_removed(self):
        with tempfile.TemporaryDirectory() as parent:
            with open(os.path.join(parent, "job.json"), "w", encoding="utf-8") as file:
                json.dump({"global_batch": 4, "streams": {"train": {"data": "train"}}}, file)
            os.mkdir(os.path.join(parent, "tmp"))
            for keep in (False, True):
                done = subprocess.run(
                    [BINARY, "local", "--cpu-hosts", "1", "--gpu-hosts=1", *(["--keep"] if keep else []), "--config",
                     "job.json"], cwd=parent, capture_output=True, timeout=60, check=False,
                    env=dict(os.environ, TMPDIR=os.path.join(parent, "tmp"), HR_CHILD=FAKE_CHILD))
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertEqual(len(os.listdir(os.path.join(parent, "tmp"))), 1 if keep else 0)

    def test_folders_are_laid_out_as_the_platform_does(self):
        with tempfile.TemporaryDirectory(prefix="headrace data ") as data:
            for channel in ("train", "test", ".hidden"):
                os.mkdir(os.path.join(data, channel))
            cluster = self.cluster("--data", data)
            self.assertEqual(cluster.wait(), 0, cluster.output())
            config = os.path.join(cluster.folder, "algo-3/input/config")
            with open(os.path.join(config, "resourceconfig.json"), encoding="utf-8") as file:
                resources = json.load(file)
            with open(os.path.join(config, "hyperparameters.json"), encoding="utf-8") as file:
                hyperparameters = json.load(file)
            with open(os.path.join(config, "inputdataconfig.json"), encoding="utf-8") as file:
                channels = json.load(file)
            self.assertEqual(resources["current_host"], "algo-3")
            self.assertEqual(resources["current_group_name"], "gpu")
            self.assertNotEqual(resources["hosts"], sorted(resources["hosts"]))
            self.assertEqual(sorted(resources["hosts"]), ["algo-1", "algo-2", "algo-3", "algo-4"])
            groups = {group["instance_group_name"]: group for group in resources["instance_groups"]}
            self.assertEqual(groups["cpu"]["instance_type"], "ml.c5.18xlarge")
            self.assertEqual(groups["gpu"]["instance_type"], "ml.p3dn.24xlarge")
            self.assertEqual(sorted(groups["gpu"]["hosts"]), ["algo-1", "algo-3"])
            self.assertTrue(all(isinstance(value, str) for value in hyperparameters.values()))
            self.assertEqual(json.loads(hyperparameters["sagemaker_distribution_instance_groups"]), ["gpu"])
            self.assertEqual(sorted(channels), ["test", "train"])
            self.assertEqual(os.path.realpath(os.path.join(cluster.folder, "algo-3/input/data/train")),
                             os.path.realpath(os.path.join(data, "train")))

    # ---- producers ----

    def test_a_killed_producer_is_started_again(self):
        cluster = self.long_cluster()
        for start in range(1, 4):
            os.kill(cluster.members("serve")["algo-2"][0], signal.SIGKILL)
            cluster.wait_for(rf"algo-2 .*producer start {start} ")
        os.kill(cluster.members("run")["algo-4"][0], signal.SIGTERM)
        self.assertEqual(cluster.wait(), 0, cluster.output())
        self.assertEqual(cluster.exit_codes(), {})

    def test_restarts_are_bounded_and_the_job_goes_on(self):
        cluster = self.cluster("--restarts", "2",
                               environment={"FAKE_FAULT": "serve@algo-2:*:exit=70", "FAKE_STEPS": "150"})
        self.assertEqual(cluster.wait(), 0, cluster.output())
        self.assertEqual(len(cluster.find("algo-2 .*producer start")), 3)
        cluster.wait_for("algo-2 .*warning: the producer exited with code 70: told to exit; this host makes no more")
        self.assertEqual(self.steps(cluster), [150, 150])

    def test_a_failed_producer_host_can_end_the_job(self):
        cluster = self.cluster("--restarts", "1", "--producer-failure", "fail",
                               environment=dict(LONG, FAKE_FAULT="serve@algo-4:*:exit=74"))
        self.assertEqual(cluster.wait(), 74, cluster.output())
        self.assertEqual(cluster.exit_codes(), {"algo-1": 69, "algo-2": 69, "algo-3": 69, "algo-4": 74})
        self.assertRegex(cluster.failure("algo-4"), "^headrace: algo-4: the producer exited with code 74: told to exit")
        self.assertRegex(cluster.failure("algo-1"), "the job failed: algo-4: the producer exited with code 74")

    def test_without_any_producer_the_job_fails_at_once_with_the_first_reason(self):
        cluster = self.cluster(environment=dict(LONG, FAKE_FAULT="serve@algo-2:0:exit=66 serve@algo-4:0:exit=66"))
        self.assertEqual(cluster.wait(), 66, cluster.output())
        self.assertEqual(len(cluster.find("producer start")), 2)  # a missing input is not tried again
        self.assertRegex(cluster.failure("algo-1"), "no producer is left: algo-[24]: the producer exited with code 66")

    def test_a_sample_that_kills_a_decoder_twice_is_judged_before_the_next_start(self):
        faults = "serve@algo-2:0:crash=42 serve@algo-2:1:crash=42 serve@algo-2:2:exit=0"
        cluster = self.cluster(environment=dict(LONG, FAKE_FAULT=faults))
        cluster.wait_for("algo-2 .*verdict on sample 42 at start 2")
        self.assertEqual(cluster.find("verdict on sample 42 at start [01]"), [])
        os.kill(cluster.pid, signal.SIGTERM)
        self.assertEqual(cluster.wait(), 0, cluster.output())

    def test_a_kill_judges_no_sample(self):
        cluster = self.long_cluster()
        for start in (1, 2):
            os.kill(cluster.members("serve")["algo-2"][0], signal.SIGKILL)
            cluster.wait_for(f"algo-2 .*producer start {start} ")
        self.assertEqual(cluster.find("died while decoding|verdict"), [])

    # ---- ranks ----

    def test_a_killed_rank_ends_every_host_with_69(self):
        cluster = self.long_cluster("--ranks-per-host", "2")
        rank = [pid for pid in cluster.members("train")["algo-3"] if arguments_of(pid)[3] == "1"][0]
        os.kill(rank, signal.SIGKILL)
        self.assertEqual(cluster.wait(30), 69, cluster.output())
        self.assertEqual(cluster.exit_codes(), dict.fromkeys(("algo-1", "algo-2", "algo-3", "algo-4"), 69))
        self.assertRegex(cluster.failure("algo-3"), r"^headrace: algo-3: local rank 1 was killed by signal 9 \(Killed\)")
        for host in ("algo-1", "algo-2", "algo-4"):
            self.assertRegex(cluster.failure(host),
                             rf"^headrace: {host}: the job failed: algo-3: local rank 1 was killed by signal 9")
            self.assertLessEqual(len(cluster.failure(host)), 1024)
        cluster.nobody_left()

    def test_a_rank_that_fails_gives_its_host_and_local_its_code(self):
        cluster = self.cluster(environment=dict(LONG, FAKE_FAULT="rank1:3:exit=65"))
        self.assertEqual(cluster.wait(), 65, cluster.output())
        self.assertEqual(cluster.exit_codes(), {"algo-1": 69, "algo-2": 69, "algo-3": 65, "algo-4": 69})
        self.assertIn("exited with code 65: told to exit (exit code 65)", cluster.failure("algo-3"))

    def test_a_rank_that_only_lost_its_peer_is_not_the_cause(self):
        cluster = self.cluster(environment=dict(LONG, FAKE_FAULT="rank0:3:exit=69 rank1:3:exit=70"))
        self.assertEqual(cluster.wait(), 70, cluster.output())
        self.assertIn("algo-3: local rank 0 exited with code 70", cluster.failure("algo-1"))

    def test_what_a_rank_leaves_behind_goes_with_it(self):
        cluster = self.cluster(environment={"FAKE_FAULT": "rank0:1:leave rank1:1:leave"})
        self.assertEqual(cluster.wait(), 0, cluster.output())
        cluster.nobody_left(1)

    # ---- signals ----

    def test_sigterm_to_any_host_stops_all_ranks_at_the_same_step(self):
        for host in ("algo-4", "algo-1", "algo-3"):
            cluster = self.long_cluster("--ranks-per-host", "2")
            os.kill(cluster.members("run")[host][0], signal.SIGTERM)
            self.assertEqual(cluster.wait(), 0, cluster.output())
            steps = self.steps(cluster)
            self.assertEqual(len(steps), 4)
            self.assertEqual(len(set(steps)), 1, steps)
            self.assertEqual(len(cluster.find(rf": stopped after step {steps[0]}$")), 4)
            self.assertEqual(cluster.failure(host), "")
            cluster.nobody_left()

    def test_ctrl_c_stops_the_cluster(self):
        cluster = self.long_cluster()
        os.killpg(cluster.pid, signal.SIGINT)  # as a terminal does: the whole group of `local`
        self.assertEqual(cluster.wait(), 0, cluster.output())
        self.assertEqual(len(set(self.steps(cluster))), 1)
        cluster.nobody_left()

    def test_a_second_sigterm_ends_at_once(self):
        cluster = self.cluster(environment=dict(LONG, FAKE_FAULT="rank1:5:hang"))
        cluster.wait_for("all 2 ranks have joined")
        agent = cluster.members("run")["algo-3"][0]
        os.kill(agent, signal.SIGTERM)
        cluster.wait_for("algo-3 .*asking all ranks to stop")
        os.kill(agent, signal.SIGTERM)
        self.assertEqual(cluster.wait(30), 143, cluster.output())
        self.assertEqual(cluster.exit_codes()["algo-3"], 143)
        self.assertEqual(cluster.exit_codes()["algo-1"], 69)
        cluster.nobody_left()

    def test_a_killed_local_leaves_nothing(self):
        cluster = self.long_cluster("--ranks-per-host", "2", environment={"FAKE_FAULT": "rank0:50:hang"})
        self.assertGreaterEqual(len(cluster.family()), 1 + 4 + 2 + 4)
        os.kill(cluster.pid, signal.SIGKILL)
        self.assertEqual(cluster.wait(), -signal.SIGKILL)
        cluster.nobody_left()

    # ---- lost hosts ----

    def test_a_lost_coordinator_ends_everything(self):
        cluster = self.long_cluster()
        os.kill(cluster.members("run")["algo-1"][0], signal.SIGKILL)
        self.assertEqual(cluster.wait(30), 137, cluster.output())
        codes = cluster.exit_codes()
        self.assertEqual(codes, {"algo-1": 137, "algo-2": 69, "algo-3": 69, "algo-4": 69})
        self.assertIn("the coordinator at 127.", cluster.failure("algo-2"))
        cluster.nobody_left()

    def test_a_lost_host_ends_everything(self):
        cluster = self.long_cluster()
        os.kill(cluster.members("run")["algo-4"][0], signal.SIGKILL)
        self.assertEqual(cluster.wait(30), 137, cluster.output())
        self.assertEqual(cluster.exit_codes(), {"algo-1": 69, "algo-2": 69, "algo-3": 69, "algo-4": 137})
        self.assertIn("algo-4: agent was lost", cluster.failure("algo-2"))
        cluster.nobody_left()

    # ---- hosts one by one ----

    def kept(self, *arguments, **options):
        """A cluster that has ended, whose hosts are then started one by one."""
        cluster = self.cluster(*arguments, **options)
        self.assertEqual(cluster.wait(), 0, cluster.output())
        return cluster

    def start_host(self, cluster, host, *arguments, prefix=(), environment=None):
        process = Process([*prefix, BINARY, "run", "--config", cluster.job, *arguments],
                          dict(environment or {}, HR_CHILD=FAKE_CHILD,
                               SAGEMAKER_BASE_DIR=os.path.join(cluster.folder, host)))
        self.addCleanup(process.kill)
        return process

    def test_hosts_that_never_come_are_named(self):
        cluster = self.kept()
        alone = self.start_host(cluster, "algo-1", "--join-timeout-s", "3")
        self.assertEqual(alone.wait(30), 75, alone.output())
        self.assertIn("did not join within 3 s (join_timeout_s): algo-2, algo-3, algo-4", cluster.failure("algo-1"))
        other = self.start_host(cluster, "algo-2", "--join-timeout-s", "2")
        self.assertEqual(other.wait(30), 75, other.output())
        self.assertIn("no answer from the coordinator", cluster.failure("algo-2"))

    def test_a_stop_before_the_beginning(self):
        cluster = self.kept()
        waiting = self.start_host(cluster, "algo-3")
        waiting.wait_for("trainer")
        os.kill(waiting.pid, signal.SIGTERM)
        self.assertEqual(waiting.wait(20), 0, waiting.output())
        waiting.wait_for("stopped before the job began")
        first = self.start_host(cluster, "algo-1")
        second = self.start_host(cluster, "algo-2")
        second.wait_for(r"producer start \d")  # 1, or 0 where the kept cluster ended before it had one
        os.kill(second.pid, signal.SIGTERM)
        self.assertEqual(first.wait(20), 0, first.output())
        self.assertEqual(second.wait(20), 0, second.output())
        self.assertEqual(cluster.failure("algo-1"), "")

    def test_the_first_reason_stands_in_the_failure_file(self):
        cluster = self.kept()
        path = os.path.join(cluster.folder, "algo-2/output/failure")
        with open(path, "w", encoding="utf-8") as file:
            file.write("the user's own words")
        alone = self.start_host(cluster, "algo-2", "--join-timeout-s", "1")
        self.assertEqual(alone.wait(30), 75, alone.output())
        self.assertEqual(cluster.failure("algo-2"), "the user's own words")

    def test_a_port_in_use_is_71(self):
        cluster = self.kept()
        with open(os.path.join(cluster.folder, "algo-1/input/config/hyperparameters.json"), encoding="utf-8") as file:
            hyperparameters = json.load(file)
        address = json.loads(hyperparameters["headrace_hosts"])["algo-1"]
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((address, int(hyperparameters["headrace_port"])))
            taken.listen()
            alone = self.start_host(cluster, "algo-1")
            self.assertEqual(alone.wait(30), 71, alone.output())
        self.assertIn(f"{address} port {hyperparameters['headrace_port']}", cluster.failure("algo-1"))

    def test_another_configuration_on_one_host_names_both(self):
        cluster = self.kept()
        first = self.start_host(cluster, "algo-1")
        first.wait_for("trainer")
        second = self.start_host(cluster, "algo-3", "--seed", "5")
        self.assertEqual(second.wait(30), 78, second.output())
        self.assertEqual(first.wait(30), 78, first.output())
        for host in ("algo-1", "algo-3"):
            self.assertRegex(cluster.failure(host), "configuration differs between hosts: algo-1 .* algo-3")

    def test_as_pid_1(self):
        unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False,
                                                              capture_output=True).returncode != 0:
            self.skipTest("no namespaces here")
        cluster = self.kept("--layout", "homogeneous")
        hosts = [self.start_host(cluster, host, "train", prefix=unshare,
                                 environment=dict(LONG, FAKE_FAULT="rank0:2:leave rank1:2:leave"))
                 for host in ("algo-1", "algo-2", "algo-3", "algo-4")]
        hosts[0].wait_for("all 4 ranks have joined")
        inner = wait_until(lambda: [pid for pid in hosts[2].family() if arguments_of(pid)[1:2] == ["run"]
                                    and arguments_of(pid)[0] == BINARY], what="the agent")[0]
        with open(f"/proc/{inner}/status", encoding="utf-8") as file:
            self.assertEqual(re.search(r"NSpid:\s+\d+\s+(\d+)", file.read()).group(1), "1")
        os.kill(inner, signal.SIGTERM)
        for host in hosts:
            self.assertEqual(host.wait(), 0, host.output())
        self.assertEqual(len({line for host in hosts for line in self.steps(host)}), 1)

    def test_links_outside_loopback_have_to_be_asked_for(self):
        namespace = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c",
                     'ip link set lo up && ip addr add 10.9.0.1/24 dev lo && exec "$@"', "sh"]
        if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], check=False,
                                                              capture_output=True).returncode != 0:
            self.skipTest("no namespaces here")
        cluster = self.kept("--layout", "homogeneous", cpu=0, gpu=1)
        path = os.path.join(cluster.folder, "algo-1/input/config/hyperparameters.json")
        with open(path, encoding="utf-8") as file:
            hyperparameters = json.load(file)
        for address, arguments, code, part in (
                ("10.9.0.1", [], 78, "10.9.0.1 is outside loopback and links are not secured"),
                ("10.8.0.1", ["--insecure"], 78, "which is no address of interface lo"),
                ("10.9.0.1", ["--insecure"], 0, "links are not secured")):
            hyperparameters["headrace_hosts"] = json.dumps({"algo-1": address})
            with open(path, "w", encoding="utf-8") as file:
                json.dump(hyperparameters, file)
            host = self.start_host(cluster, "algo-1", *arguments, prefix=namespace)
            self.assertEqual(host.wait(), code, host.output())
            self.assertIn(part, host.output())
            if code == 0:  # said by every process at its start: the agent, the producer, the rank
                for who in ("algo-1", "algo-1/serve", "algo-1/train"):
                    host.wait_for(rf"headrace\[{who}\]: warning: links are not secured")
            else:
                self.assertIn(part, cluster.failure("algo-1"))
                os.remove(os.path.join(cluster.folder, "algo-1/output/failure"))

    # ---- mistakes of the user ----

    def test_mistakes_have_their_exit_codes(self):
        with tempfile.TemporaryDirectory() as folder:
            job = os.path.join(folder, "job.json")
            with open(job, "w", encoding="utf-8") as file:
                json.dump({"global_batch": 8, "streams": {"train": {"data": "train"}}}, file)
            cases = [
                (64, ["--cpu-host", "2"], "--cpu-host"),
                (64, ["--gpu-hosts", "x"], "--gpu-hosts: found \"x\""),
                (64, ["--cpu-hosts", "0", "--gpu-hosts", "0"], "0 hosts"),
                (64, ["--layout", "round"], "heterogeneous or homogeneous"),
                (64, ["--seeed", "1", "--config", job], "--seed"),
                (64, ["word", "--config", job], "'word' is no option"),
                (66, ["--data", "/nowhere", "--config", job], "data folder /nowhere"),
                (66, ["--config", "/nowhere.json"], "/nowhere.json"),
                (78, ["--roles", '{"cpu": "trainer"}', "--config", job], "produce"),
            ]
            for code, arguments, part in cases:
                done = subprocess.run([BINARY, "local", *arguments], capture_output=True, timeout=60, check=False,
                                      env=dict(os.environ, TMPDIR=folder))
                self.assertEqual(done.returncode, code, (arguments, done.stderr))
                self.assertIn(part, done.stderr.decode())
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertEqual(os.listdir(folder), ["job.json"])

    def test_a_batch_that_the_world_does_not_divide_is_78_everywhere(self):
        cluster = self.cluster("--global-batch", "7")
        self.assertEqual(cluster.wait(), 78, cluster.output())
        self.assertEqual(cluster.exit_codes(), dict.fromkeys(("algo-1", "algo-2", "algo-3", "algo-4"), 78))
        self.assertIn("global_batch 7 cannot be divided by the world size 2", cluster.failure("algo-4"))

    def test_run_without_a_cluster_file_is_78(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([BINARY, "run"], capture_output=True, timeout=60, check=False,
                                  env=dict(os.environ, SAGEMAKER_BASE_DIR=folder))
            self.assertEqual(done.returncode, 78, done.stderr)
            with open(os.path.join(folder, "output/failure"), encoding="utf-8") as file:
                self.assertIn("resourceconfig.json", file.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
