#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding and resampling against Pillow itself, in a virtual environment made once per build folder.

usage: pillow.py SAMPLE_TOOL    (HR_BUILD_DIR: where the environment goes; HR_IMAGES: photographs, when there are some;
                                 HR_SEED: the seed, else fresh and printed)
"""
import fcntl
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

VERSION = "13.0.0"
PYTHON = "/usr/bin/python3"  # the system's, whatever other Python is on the path
SEED = int(os.environ.get("HR_SEED") or time.time_ns())
SKIPPED = 77
TRAIN = '[{"op":"decode"},{"op":"random_resized_crop","size":[90,70]},{"op":"horizontal_flip","p":0.5}]'
EVAL = '[{"op":"decode"},{"op":"resize","size":80},{"op":"center_crop","size":64}]'
BLACK_BORDER = '[{"op":"decode"},{"op":"resize","size":[40,50]},{"op":"center_crop","size":[60,61]}]'


def make_environment(folder):
    """Pillow and nothing else; CalledProcessError without a package index."""
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([PYTHON, "-m", "venv", folder],
                    [os.path.join(folder, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
                     "--no-deps", "--only-binary", ":all:", "Pillow==" + VERSION]):
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                       check=True)


def become():
    """Runs this script again in the environment's Python, and returns there. Skips without one, but not in CI."""
    if os.environ.get("HR_IN_PILLOW") == VERSION:
        return
    folder = os.path.join(os.environ["HR_BUILD_DIR"], "pillow-" + VERSION)
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not os.path.exists(os.path.join(folder, "made")):
                make_environment(folder)
                with open(os.path.join(folder, "made"), "w", encoding="ascii"):
                    pass
        except subprocess.CalledProcessError as error:
            print("cannot install Pillow==%s: %s" % (VERSION, error.stdout.decode("utf-8", "replace")[-2000:]))
            sys.exit(1 if "CI" in os.environ else SKIPPED)
    python = os.path.join(folder, "bin", "python")
    os.execve(python, [python, "-B", *sys.argv], dict(os.environ, HR_IN_PILLOW=VERSION))


become()
TOOL = sys.argv.pop(1)
# pylint: disable=wrong-import-position
from PIL import Image, ImageChops  # noqa: E402


def noise(rng, mode, size):
    """Ramps under coarse noise: every value and frequency, and no two channels alike."""
    width, height = size
    bands = []
    for _ in range({"L": 1, "RGB": 3, "CMYK": 4}[mode]):
        coarse = Image.frombytes("L", (7, 5), rng.randbytes(35)).resize(size, Image.Resampling.BICUBIC)
        fine = Image.frombytes("L", size, rng.randbytes(width * height))
        bands.append(Image.blend(coarse, fine, 0.15))
    return Image.merge(mode, bands) if len(bands) > 1 else bands[0]


class Pillow(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(SEED)
        self.folder = tempfile.TemporaryDirectory(prefix="headrace test ")
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "picture")
        self.out = os.path.join(self.folder.name, "raw")

    def tool(self, *words):
        done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [int(word) for word in done.stdout.split()]

    def raw(self, size):
        with open(self.out, "rb") as file:
            return Image.frombytes("RGB", size, file.read())

    def assert_within(self, bound, got, want, what):
        self.assertEqual(got.size, want.size, what)
        worst = max(high for _, high in ImageChops.difference(got, want).getextrema())
        self.assertLessEqual(worst, bound, what)

    def assert_decodes(self, bound, what, path=None):
        path = path or self.file
        size = self.tool("decode", path, self.out)
        with Image.open(path) as picture:
            self.assert_within(bound, self.raw(tuple(size)), picture.convert("RGB"), what)

    def size(self):
        return self.rng.randint(1, 150), self.rng.randint(1, 150)

    def test_jpeg(self):
        for i in range(6):
            for mode in ("RGB", "L", "CMYK"):
                for options in ({"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True},
                                {"optimize": True, "quality": 98}, {"quality": 5}):
                    picture = noise(self.rng, mode, self.size())
                    picture.save(self.file, "JPEG", **options)
                    self.assert_decodes(0, f"{i} {mode} {picture.size} {options}")

    def test_png(self):
        for _ in range(8):
            gray, rgb = noise(self.rng, "L", self.size()), noise(self.rng, "RGB", self.size())
            pictures = {"1": gray.convert("1"), "L": gray, "LA": gray.convert("LA"), "P": rgb.convert("P"),
                        "16 colours": rgb.quantize(16), "RGB": rgb, "RGBA": rgb.convert("RGBA")}
            pictures["LA"].putalpha(gray)
            pictures["RGBA"].putalpha(noise(self.rng, "L", rgb.size))
            for name, picture in pictures.items():
                picture.save(self.file, "PNG")
                self.assert_decodes(0, f"{name} {picture.size}")
            pictures["P"].save(self.file, "PNG", transparency=3)
            self.assert_decodes(0, "P with a transparent colour")

    def test_photographs(self):
        folder = os.environ.get("HR_IMAGES") or os.path.join(os.environ["HR_SOURCE_DIR"], "../shared/images")
        if not os.path.isdir(folder):
            self.skipTest("no photographs: set HR_IMAGES to a folder of them")
        names = [name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
        for name in self.rng.sample(names, min(40, len(names))):
            self.assert_decodes(0, name, os.path.join(folder, name))

    def test_our_restatement_is_exact(self):
        """The oracle of the C tests: Pillow's resampling to the bit."""
        for _ in range(60):
            width, height = self.rng.randint(1, 400), self.rng.randint(1, 300)
            picture = noise(self.rng, "RGB", (width, height))
            picture.save(self.file, "PNG")
            x, y = self.rng.randrange(width), self.rng.randrange(height)
            w, h = self.rng.randint(1, width - x), self.rng.randint(1, height - y)
            target = self.rng.randint(1, 250), self.rng.randint(1, 250)
            self.tool("oracle", self.file, x, y, w, h, *target, self.out)
            # Horizontally first in two steps, since newer versions choose the order by the shapes.
            across = picture.crop((x, y, x + w, y + h)).resize((target[0], h), Image.Resampling.BILINEAR)
            want = across.resize(target, Image.Resampling.BILINEAR)
            self.assert_within(0, self.raw(target), want, f"{w}x{h} to {target}")

    def test_samples_are_within_one(self):
        """Whole pipelines over JPEG files; which rectangle was drawn is taken from us, all else from Pillow."""
        for i in range(90):
            picture = noise(self.rng, "RGB", (self.rng.randint(20, 500), self.rng.randint(20, 400)))
            picture.save(self.file, "JPEG", subsampling=i % 3)
            pipeline = (TRAIN, EVAL, BLACK_BORDER)[i // 3 % 3]
            numbers = self.tool("make", self.file, pipeline, i, self.out)
            x, y, w, h, scaled_w, scaled_h, window_x, window_y, width, height, mirror = numbers
            with Image.open(self.file) as file:
                want = file.crop((x, y, x + w, y + h)).resize((scaled_w, scaled_h), Image.Resampling.BILINEAR)
            want = want.crop((window_x, window_y, window_x + width, window_y + height))
            if mirror:
                want = want.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            self.assert_within(1, self.raw((width, height)), want, f"{pipeline} {picture.size} {numbers}")


if __name__ == "__main__":
    print("HR_SEED=%d" % SEED, flush=True)
    unittest.main()
