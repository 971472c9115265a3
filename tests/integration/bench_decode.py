#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""headrace bench decode as a user meets it: figures that fit together, bad pictures named once, exit codes.

usage: bench_decode.py   (HR_BINARY names the program)
"""
import json
import os
import struct
import subprocess
import tempfile
import unittest
import zlib

BINARY = os.environ["HR_BINARY"]


def png(width, height):
    """A gray PNG, written by hand: no picture library is needed."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class BenchDecode(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="headrace test ")
        self.addCleanup(self.folder.cleanup)
        self.root = self.folder.name

    def put(self, path, data):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data)

    def bench(self, *arguments, status=0, **environment):
        done = subprocess.run([BINARY, "bench", "decode", *arguments], capture_output=True, text=True, timeout=100,
                              env=dict(os.environ, **environment), check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def put_pictures(self):
        for i in range(12):
            self.put(f"class {i % 3}/{i}.png", png(30 + i, 20 + 2 * i))

    def test_figures_fit_together(self):
        self.put_pictures()
        done = self.bench(self.root, "--threads", "2", "--rounds", "2", "--json")
        found = json.loads(done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual((found["images"], found["bad_images"], found["threads"], found["rounds"]), (12, 0, 2, 2))
        self.assertGreater(found["images_per_s"], 0)
        self.assertAlmostEqual(found["images_per_s_per_core"], found["images_per_s"] / 2, delta=0.1)
        for key in ("cpu_s_per_1000_images", "read_us", "decode_us", "augment_us"):
            self.assertGreater(found[key], 0, key)
        self.assertRegex(found["fingerprint"], "^[0-9a-f]{16}$")
        self.assertRegex(found["versions"], "libjpeg-turbo.*libpng")
        self.assertIn("images/s per core", self.bench(self.root, "--rounds", "1").stdout)

    def test_bad_pictures_are_named_once_and_not_timed(self):
        self.put_pictures()
        self.put("class 1/torn.png", png(64, 64)[:-40])
        self.put("class 2/page.jpg", b"<html>404</html>")
        done = self.bench(self.root, "--rounds", "3", "--json")
        self.assertEqual(json.loads(done.stdout)["bad_images"], 2)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertRegex(lines[0], r"class 1/torn\.png: PNG: ")
        self.assertRegex(lines[1], r"class 2/page\.jpg: .*HTML")

    def test_levels_can_be_chosen(self):
        self.put_pictures()
        found = json.loads(self.bench(self.root, "--rounds", "1", "--json", HEADRACE_CPU="scalar").stdout)
        self.assertEqual(found["cpu"], "scalar")
        self.assertIn("sse9", self.bench(self.root, status=78, HEADRACE_CPU="sse9").stderr)

    def test_one_clear_error(self):
        self.put("only/page.jpg", b"<html>")
        for arguments, status, text in (([self.root], 65, "none of 1 pictures"),
                                        ([os.path.join(self.root, "absent")], 66, "absent"),
                                        ([], 64, "which folder"),
                                        ([self.root, "--threads", "0"], 64, "from 1 to"),
                                        ([self.root, "--rounds"], 64, "--rounds takes a number"),
                                        ([self.root, "--thread", "1"], 64, "--thread")):
            done = self.bench(*arguments, status=status)
            self.assertEqual(done.stdout, "")
            self.assertIn(text, done.stderr.splitlines()[-1])

    def test_photographs(self):
        photographs = os.environ.get("HR_IMAGES") or os.path.join(os.environ["HR_SOURCE_DIR"], "../shared/images")
        if not os.path.isdir(photographs):
            self.skipTest("no photographs: set HR_IMAGES to a folder of them")
        environment = {"XDG_CACHE_HOME": self.root}
        found = json.loads(self.bench(photographs, "--rounds", "1", "--json", **environment).stdout)
        self.assertEqual(found["bad_images"], 0)
        self.assertGreater(found["images"], 0)


if __name__ == "__main__":
    unittest.main()
