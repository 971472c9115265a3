#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input gets one clear error and nothing is lost: what is wrong, where, and the exit code, through the real job."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from cluster import BINARY, Cluster, Process, SLOW

PIPELINE = [{"op": "decode"}, {"op": "random_resized_crop", "size": 32}, {"op": "horizontal_flip"}]


def job(**changes):
    streams = {"train": {"data": "train", "pipeline": PIPELINE}}
    return {"global_batch": 8, "epochs": 2, "seed": 5, "trainer": "synthetic", "streams": streams, **changes}


def stream(data):
    return {"streams": {"train": {"data": data, "pipeline": PIPELINE}}}


def run(data, the_job, *options, cpu=1, gpu=1):
    """Runs a job to its end: exit code, output, report (None when no epoch was finished)."""
    cluster = Cluster(["--data", data, *options], job=the_job, fake=False, cpu=cpu, gpu=gpu)
    try:
        code = cluster.wait(120)
        cluster.nobody_left()
        report = None
        for host in os.listdir(cluster.folder):
            path = os.path.join(cluster.folder, host, "output/headrace/report.json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    report = json.load(file)
        return code, cluster.output(), report
    finally:
        cluster.close()


def expect(what, code, output, wanted_code, *texts):
    missing = [text for text in texts if text not in output]
    if code != wanted_code or missing:
        raise AssertionError(f"{what}: exit code {code}, wanted {wanted_code}; missing: {missing}\n{output}")
    print(f"ok: {what}")


def test_folders(data):
    code, output, _ = run(data, job(**stream("nowhere")))
    expect("missing data folder", code, output, 66, "stream train", "nowhere: No such file or directory")
    os.makedirs(os.path.join(data, "empty"), exist_ok=True)
    code, output, _ = run(data, job(**stream("empty")))
    expect("empty data set", code, output, 65, "stream train", "the data set is empty")
    for outside in ("/etc", "../../etc"):
        code, output, _ = run(data, job(**stream(outside)))
        expect(f"data outside data_root: {outside}", code, output, 78, outside, "data_root")


def test_options(data):
    code, output, _ = run(data, job(), "--global-bach", "8")
    expect("unknown option", code, output, 64, "--global-bach", "did you mean --global-batch")
    code, output, _ = run(data, job(epocs=3))
    expect("unknown key of the job's file", code, output, 78, "epocs", "did you mean epochs")
    code, output, _ = run(data, job(global_batch=9), gpu=2)
    expect("a global batch that the world does not divide", code, output, 78, "global_batch 9", "world size 2")


def pictures_of(data):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(data, "train"))
                  for name in names if ".headrace" not in folder)


def test_corrupt_picture(data):
    broken = os.path.join(os.path.dirname(data), "broken")
    shutil.copytree(data, broken)
    victims = pictures_of(broken)[3:5]
    for path in victims:
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.write(b"\0" * size)
    digests = set()
    for producers in (1, 2):
        code, output, report = run(broken, job(), cpu=producers)
        expect(f"corrupt pictures, {producers} producers", code, output, 0)
        for path in victims:
            named = output.count(os.path.basename(os.path.dirname(path)) + "/" + os.path.basename(path))
            if named != 1:
                raise AssertionError(f"{path} was named {named} times\n{output}")
        bad = sum(epoch["bad_samples"] for epoch in report["epochs"])
        if bad < 2:
            raise AssertionError(f"{bad} bad samples were counted\n{report}")
        digests.add(tuple(epoch["digest"] for epoch in report["epochs"]))
    if len(digests) != 1:
        raise AssertionError(f"the stream with substitutes depends on the producers: {digests}")
    code, output, _ = run(broken, job(on_bad="fail"))
    expect("on_bad=fail", code, output, 65, os.path.basename(victims[0])[:4], "on_bad")
    code, output, _ = run(broken, job(bad_budget=1))
    expect("more bad samples than the budget", code, output, 65, "bad_budget")


def test_different_data_sets(data):
    """A producer with another data set joins a running job: it is turned away, both sides are named, the job goes on."""
    other = os.path.join(os.path.dirname(data), "other")
    shutil.copytree(data, other)
    os.remove(pictures_of(other)[0])
    the_job = job(epochs=6, step_ms=30)
    cluster = Cluster(["--data", data], job=the_job, fake=False, cpu=1, gpu=1)
    guest = None
    try:
        port = int(cluster.wait_for(r"serving rank 0 at [\d.]+:(\d+)", seconds=60)[0].group(1)) - 1
        address = cluster.find(r"serving rank 0 at ([\d.]+):")[0].group(1)
        guest = Process([BINARY, "serve", "--connect", f"{address}:{port}", "--data-root", other, "--index", "7"])
        guest.wait_for(r"turned this producer away: .*samples with digest [0-9a-f]{16}, but the job's has", seconds=60)
        cluster.wait_for(r"/7: turned away: .*samples with digest [0-9a-f]{16}, but the job's has", seconds=60)
        code = cluster.wait(120)
        expect("a producer with another data set", code, cluster.output(), 0)
    finally:
        if guest is not None:
            guest.kill()
        cluster.close()


def test_port_in_use(folder):
    """Somebody has the coordinator's port."""
    base = os.path.join(folder, "one host")
    config = os.path.join(base, "input/config")
    os.makedirs(config)
    files = {"resourceconfig": {"current_host": "algo-1", "current_instance_type": "ml.c5.xlarge",
                                "current_group_name": "homogeneousCluster", "hosts": ["algo-1"],
                                "instance_groups": [{"instance_group_name": "homogeneousCluster",
                                                     "instance_type": "ml.c5.xlarge", "hosts": ["algo-1"]}],
                                "network_interface_name": "lo"},
             "hyperparameters": {}, "inputdataconfig": {}}
    for name, content in files.items():
        with open(os.path.join(config, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(content, file)
    with open(os.path.join(base, "job.json"), "w", encoding="utf-8") as file:
        json.dump(job(hosts={"algo-1": "127.0.0.1"}), file)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        agent = Process([BINARY, "run", "--config", os.path.join(base, "job.json"), "--port", str(port)],
                        {"SAGEMAKER_BASE_DIR": base})
        try:
            code = agent.wait(60)
            agent.nobody_left()
        finally:
            agent.kill()
    expect("port in use", code, agent.output(), 71, str(port), "Address already in use")
    with open(os.path.join(base, "output/failure"), encoding="utf-8") as file:
        expect("and in the failure file", code, file.read(), 71, str(port))


def main():
    with tempfile.TemporaryDirectory(prefix="headrace bad ") as folder:
        data = os.path.join(folder, "data")
        subprocess.run([BINARY, "gen", data, "--classes", "2", "--images", "60", "--seed", "3"], check=True,
                       timeout=60 * SLOW)
        test_folders(data)
        test_options(data)
        test_corrupt_picture(data)
        test_different_data_sets(data)
        test_port_in_use(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
