#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""headrace index as a user meets it: output, exit codes, what is written where.

usage: cmd_index.py   (HR_BINARY names the program)
"""
import json
import os
import subprocess
import tempfile
import unittest

BINARY = os.environ["HR_BINARY"]


class Index(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="headrace test ")
        self.root = os.path.realpath(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def put(self, path, count=1):
        full = os.fsencode(os.path.join(self.root, path)) if isinstance(path, str) else path
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(b"x" * count)

    def run_index(self, *arguments, status=0, cwd=None):
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(self.root, "cache"))
        done = subprocess.run([BINARY, "index", *arguments], capture_output=True, cwd=cwd or self.root, timeout=60,
                              env=environment, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        if status != 0:
            self.assertEqual(done.stdout, b"")
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith(b"headrace index: "), done.stderr)
            return done.stderr.decode()
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode(errors="replace")

    def test_json_holds_what_is_there(self):
        self.put("data/cat/1.jpg", 10)
        self.put("data/cat/2.PNG", 0)
        self.put("data/d\"og\n/1.jpeg")
        self.put(os.fsencode(self.root) + b"/data/\xff/1.jpg")
        self.put("data/readme.txt")
        got = json.loads(self.run_index("data", "--json"))
        self.assertEqual(got["folder"], os.path.join(self.root, "data"))
        self.assertEqual(got["index"], os.path.join(self.root, "data/.headrace/index"))
        self.assertTrue(os.path.isfile(got["index"]))
        self.assertEqual(got["samples"], 4)
        self.assertTrue(got["built"])
        self.assertEqual([(c["label"], c["name"], c["samples"]) for c in got["classes"]],
                         [(0, "cat", 2), (1, "d\"og\n", 1), (2, "\udcff", 1)])
        self.assertRegex(got["digest"], "^[0-9a-f]{16}$")
        self.assertEqual(len(got["buckets"]), 64)
        self.assertEqual(got["notes"], ["left out 1 (not named like a picture): 'readme.txt'"])
        self.assertEqual(json.loads(self.run_index("data", "--json", "--rebuild"))["digest"], got["digest"])

    def test_text_names_digest_and_place(self):
        self.put("data/a/1.jpg")
        text = self.run_index("data", "--rebuild")
        for line in ("samples  1\n", "classes  1: a 1\n", "data/.headrace/index (built, "):
            self.assertIn(line, text)
        self.put("flat/1.jpg")
        self.assertIn("classes  0 (a flat folder: no labels)\n", self.run_index("flat"))

    def test_a_link_may_lead_as_far_as_data_root(self):
        self.put("store/1.jpg")
        os.makedirs(os.path.join(self.root, "data/a"))
        os.symlink("../../store/1.jpg", os.path.join(self.root, "data/a/1.jpg"))
        self.assertIn("left out 1 (a link that leads outside data_root), for instance a/1.jpg", self.run_index("data", status=65))
        self.assertIn("samples  1\n", self.run_index("data", "--data-root", "."))
        self.assertIn("samples  1\n", self.run_index("../data", "--data-root=..", cwd=os.path.join(self.root, "store")))

    def test_bad_input_is_one_line_and_its_exit_code(self):
        os.makedirs(os.path.join(self.root, "empty"))
        self.put("data/a/1.jpg")
        self.assertIn("'--rebuid'; did you mean --rebuild?", self.run_index("data", "--rebuid", status=64))
        self.assertIn("which folder?", self.run_index(status=64))
        self.assertIn("one folder at a time", self.run_index("data", "empty", status=64))
        self.assertIn("--data-root needs", self.run_index("data", "--data-root", status=64))
        self.assertIn("the data set is empty", self.run_index("empty", status=65))
        self.assertIn("No such file", self.run_index("missing", status=66))
        self.assertIn("it is no folder", self.run_index("data/a/1.jpg", status=66))
        self.assertIn("outside data_root", self.run_index("data", "--data-root", "empty", status=78))


if __name__ == "__main__":
    unittest.main()
