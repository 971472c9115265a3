#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""headrace gen as a user meets it: what it writes, that it writes the same again, and what it never touches.

usage: cmd_gen.py   (HR_BINARY names the program)
"""
import hashlib
import os
import signal
import struct
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ["HR_BINARY"]
SMALL = ("--classes", "4", "--images", "40", "--seed", "7")


def frame(jpeg):
    """(width, height, luma sampling or None for gray, progressive) out of a JPEG's frame header."""
    at = 2
    while True:
        marker, length = struct.unpack_from(">HH", jpeg, at)
        if marker in (0xFFC0, 0xFFC2):
            height, width, components = struct.unpack_from(">HHB", jpeg, at + 5)
            sampling = divmod(jpeg[at + 11], 16) if components == 3 else None
            return width, height, sampling, marker == 0xFFC2
        at += 2 + length


class Gen(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="headrace test ")
        self.root = os.path.realpath(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def path(self, *names):
        return os.path.join(self.root, *names)

    def run_gen(self, *arguments, status=0, **options):
        done = subprocess.run([BINARY, "gen", *arguments], capture_output=True, cwd=self.root, timeout=100, text=True,
                              check=False, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        if status != 0:
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("headrace gen: "), done.stderr)
            return done.stderr
        self.assertEqual(done.stderr, "")
        return done.stdout

    def files(self, name):
        """relative path -> SHA-256 of the bytes, of every picture."""
        found = {}
        for folder, _, names in os.walk(self.path(name)):
            for file_name in names:
                if not file_name.startswith("."):
                    path = os.path.join(folder, file_name)
                    with open(path, "rb") as file:
                        found[os.path.relpath(path, self.path(name))] = hashlib.sha256(file.read()).hexdigest()
        return found

    def test_the_same_options_give_the_same_files_on_any_number_of_cores(self):
        self.run_gen("one", *SMALL, preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
        self.run_gen("all", *SMALL)
        files = self.files("one")
        self.assertEqual(len(files), 40)
        self.assertEqual(len(set(files.values())), 40)
        self.assertEqual(files, self.files("all"))
        self.run_gen("other", *SMALL[:-1], "8")
        self.assertFalse(set(files.values()) & set(self.files("other").values()))

    def test_classes_are_even_in_both_halves(self):
        out = self.run_gen("a folder", "--classes=4", "--images=40")
        self.assertIn("40 pictures of 4 classes, 32 for training and 8 for testing", out)
        classes = sorted(os.listdir(self.path("a folder", "train")))
        self.assertEqual(len(classes), 4)
        self.assertEqual(classes, sorted(os.listdir(self.path("a folder", "test"))))
        for name in classes:
            self.assertEqual(len(os.listdir(self.path("a folder", "train", name))), 8)
            self.assertEqual(len(os.listdir(self.path("a folder", "test", name))), 2)

    def test_pictures_are_as_varied_as_photographs(self):
        self.run_gen("d", "--images", "150")
        frames, sizes = [], []
        for name in self.files("d"):
            with open(self.path("d", name), "rb") as file:
                bytes_read = file.read()
            frames.append(frame(bytes_read))
            sizes.append(len(bytes_read))
        widths, heights, samplings, progressive = zip(*frames)
        self.assertLessEqual(max(widths + heights), 600)
        self.assertGreater(min(widths + heights), 250)
        self.assertGreater(len(set(zip(widths, heights))), 130)
        self.assertTrue(any(w < h for w, h in zip(widths, heights)))
        self.assertEqual(set(samplings), {(2, 2), (2, 1), (1, 1), None})
        self.assertTrue(any(progressive) and not all(progressive))
        self.assertGreater(max(sizes), 3 * min(sizes))
        self.assertTrue(40e3 < sum(sizes) / len(sizes) < 150e3)

    def test_a_whole_data_set_is_left_alone(self):
        self.run_gen("d", *SMALL)
        picture = self.path("d", sorted(self.files("d"))[0])
        os.utime(picture, (1, 1))
        self.assertIn("they were there already", self.run_gen("d", *SMALL))
        self.assertEqual(os.stat(picture).st_mtime, 1)

    def test_an_interrupted_one_is_finished(self):
        self.run_gen("whole", "--images", "150")
        with subprocess.Popen([BINARY, "gen", "d", "--images", "150"], cwd=self.root) as child:
            deadline = time.monotonic() + 60
            while len(self.files("d")) < 3:
                self.assertLess(time.monotonic(), deadline)
            child.send_signal(signal.SIGKILL)
        self.assertLess(len(self.files("d")), 150)
        self.assertNotIn("already", self.run_gen("d", "--images", "150"))
        self.assertEqual(self.files("d"), self.files("whole"))

    def test_two_at_once_do_not_collide(self):
        children = [subprocess.Popen([BINARY, "gen", "d", *SMALL], cwd=self.root, stdout=subprocess.PIPE, text=True)
                    for _ in range(4)]
        out = [child.communicate(timeout=100)[0] for child in children]
        self.assertEqual([child.returncode for child in children], [0] * 4)
        self.assertEqual(sum("already" in text for text in out), 3)
        self.run_gen("alone", *SMALL)
        self.assertEqual(self.files("d"), self.files("alone"))

    def test_nothing_else_is_written_over(self):
        os.mkdir(self.path("mine"))
        with open(self.path("mine", "thesis.txt"), "w", encoding="utf-8") as file:
            file.write("years of work")
        message = self.run_gen("mine", *SMALL, status=64)
        self.assertIn("it holds 'thesis.txt'", message)
        self.assertEqual(os.listdir(self.path("mine")), ["thesis.txt"])
        self.assertIn("Not a directory", self.run_gen("mine/thesis.txt", *SMALL, status=64))
        self.run_gen("d", *SMALL)
        before = self.files("d")
        message = self.run_gen("d", *SMALL[:-1], "8", status=64)
        self.assertIn("classes 4, images 40, seed 7", message)
        self.assertIn("classes 4, images 40, seed 8", message)
        self.assertEqual(self.files("d"), before)

    def test_an_empty_folder_will_do(self):
        os.mkdir(self.path("d"))
        self.run_gen("d", *SMALL)
        self.assertEqual(len(self.files("d")), 40)

    def test_errors_say_what_is_wanted(self):
        self.assertIn("which folder", self.run_gen(status=64))
        self.assertIn("did you mean --classes?", self.run_gen("d", "--clases", "4", status=64))
        self.assertIn("from 2 to 64", self.run_gen("d", "--classes", "65", status=64))
        self.assertIn("found 'x'", self.run_gen("d", "--seed=x", status=64))
        self.assertIn("found 'nothing'", self.run_gen("d", "--seed", status=64))
        self.assertIn("at least 40", self.run_gen("d", "--images", "39", status=64))
        self.assertIn("one folder at a time", self.run_gen("d", "e", status=64))
        self.assertIn("No such file or directory", self.run_gen("no/such/d", *SMALL, status=66))
        self.assertEqual(os.listdir(self.root), [])

    def test_a_full_disk_is_said(self):
        def limit():
            import resource
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        message = self.run_gen("d", *SMALL, status=74, preexec_fn=limit)
        self.assertIn("cannot write d/train/", message)
        self.run_gen("d", *SMALL)
        self.assertEqual(len(self.files("d")), 40)


if __name__ == "__main__":
    unittest.main()
