#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""./dev bench: decode and feed beside their baselines, in alternating rounds on the same cores; writes the README's tables.

usage: run.py BUILD_DIR IMAGES [--name NAME] [--rounds R] [--baseline SOURCE.c] [--write FILE]

Rows: the region decode of libjpeg-turbo with a hand-vectorised AVX-512 resize (--baseline, where the CPU has AVX-512),
that region decode of the same crops alone, without any resize, `headrace bench decode` on one core, a bare libzmq loop
with the same parts and checksums, and `headrace bench feed`.
Ratios come from one run: each round measures every row in turn. Nothing here decides pass or fail.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile


def json_of(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    return json.loads(result.stdout)


class Baseline:
    """The C baseline: counts come in on standard input, a line of JSON goes out for each."""

    def __init__(self, source, images, folder):
        binary = os.path.join(folder, "baseline")
        include = os.path.join(os.path.dirname(source), "../prototype")
        subprocess.run(["gcc", "-O3", "-march=native", "-w", "-I", include, "-o", binary, source, "-ljpeg", "-lm"],
                       check=True)
        self.process = subprocess.Popen(["taskset", "-c", "0", binary, images], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def measure(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return {"images_per_s": answer["images"] / answer["wall"],
                "cpu_s_per_1000_images": answer["cpu"] / answer["images"] * 1000}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        text = file.read()
    model = next(line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name"))
    level = "AVX-512" if "avx512bw" in text else "AVX2" if "avx2" in text else "SSE2"
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="utf-8") as file:
        congestion = file.read().strip()
    return f"{os.cpu_count()} cores of {model} ({level}), Linux {platform.release().split('-')[0]}, TCP {congestion}", level


def median(rounds, key):
    return statistics.median(r[key] for r in rounds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("images")
    parser.add_argument("--name", default="the pictures under the folder given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--baseline")
    parser.add_argument("--write")
    args = parser.parse_args()
    headrace = os.path.join(args.build, "headrace")
    description, level = machine()
    decode, floor, loop, feed, base = [], [], [], [], []
    flat = any(os.path.isfile(entry) for entry in os.scandir(args.images))  # decode_floor knows no folders
    with tempfile.TemporaryDirectory() as folder:
        baseline = Baseline(args.baseline, args.images, folder) if args.baseline and level == "AVX-512" else None
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            if baseline:
                base.append(baseline.measure(512))
            if flat:
                floor.append(json_of(["taskset", "-c", "0", os.path.join(args.build, "decode_floor"), args.images,
                                      "2"]))
            decode.append(json_of(["taskset", "-c", "0", headrace, "bench", "decode", args.images, "--threads", "1",
                                   "--rounds", "2", "--json"]))
            loop.append(json_of([os.path.join(args.build, "net_loop"), "--copy"]))
            feed.append(json_of([headrace, "bench", "feed", args.images, "--producers", "1", "--threads", "1",
                                 "--epochs", "8", "--batch", "64", "--json"]))
        if baseline:
            baseline.close()
    decode_cpu = median(decode, "cpu_s_per_1000_images")
    feed_cpu = median(feed, "cpu_s_per_1000_images")
    loop_cpu = median(loop, "cpu_s_per_1000_images")
    above = statistics.median(f["cpu_s_per_1000_images"] - d["cpu_s_per_1000_images"] for f, d in zip(feed, decode))
    columns = ["what", "images/s", "CPU s per 1,000 images", "ratio", "to"]
    rows = []
    if base:
        base_cpu = median(base, "cpu_s_per_1000_images")
        rows.append({"what": "baseline: libjpeg-turbo region decode, AVX-512 resize", "images/s": median(base, "images_per_s"),
                     "CPU s per 1,000 images": base_cpu})
    if floor:
        floor_cpu = median(floor, "cpu_s_per_1000_images")
        rows.append({"what": "libjpeg-turbo region decode alone", "images/s": median(floor, "images_per_s"),
                     "CPU s per 1,000 images": floor_cpu, "ratio": floor_cpu / decode_cpu,
                     "to": "`bench decode`, which resizes"})
    rows.append({"what": "`bench decode`, one core", "images/s": median(decode, "images_per_s"),
                 "CPU s per 1,000 images": decode_cpu,
                 **({"ratio": base_cpu / decode_cpu, "to": "baseline (aim: at least 0.8)"} if base else {})})
    rows.append({"what": "bare libzmq loop, same parts and checksums", "images/s": median(loop, "images_per_s"),
                 "CPU s per 1,000 images": loop_cpu})
    rows.append({"what": "`bench feed`, one producer of one thread, one rank", "images/s": median(feed, "images_per_s"),
                 "CPU s per 1,000 images": feed_cpu})
    rows.append({"what": "feed above decode", "CPU s per 1,000 images": above, "ratio": above / loop_cpu,
                 "to": "libzmq loop (aim: at most 1.3)"})
    for row in rows:
        print("  ".join(f"{key}: {value:.3f}" if isinstance(value, float) else f"{key}: {value}"
                        for key, value in row.items()))
    print(f"stream digest {feed[0]['stream_digest']}; wait p50 {median(feed, 'wait_p50_ms'):.2f} ms, "
          f"p99 {median(feed, 'wait_p99_ms'):.2f} ms; {description}")
    if len({f["stream_digest"] for f in feed}) != 1:
        sys.exit("the stream digest differs between rounds")
    if args.write:
        notes = [] if base else ["The AVX-512 baseline cannot run on this CPU, so decode has no ratio here."]
        with open(args.write, "w", encoding="utf-8") as file:
            json.dump({"command": "./dev bench", "machine": description, "data": args.name, "columns": columns,
                       "rows": rows, "notes": notes}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
