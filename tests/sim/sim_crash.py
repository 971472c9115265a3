#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A simulated world that crashes the simulator names its seed, whatever the signal, and ends as a crash does."""
import os
import signal
import subprocess
import sys
import unittest

TEST_SIM = sys.argv.pop(1)
SEED = 7


class Crash(unittest.TestCase):
    def test_the_seed_is_named_and_the_signal_stays(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
            with self.subTest(number=number):
                sim = subprocess.Popen([TEST_SIM, "--seed", str(SEED), "--trace"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, bufsize=0, pipesize=4096)
                begin = sim.stdout.read(1)  # of its trace, which does not fit into the pipe: the world goes on
                os.kill(sim.pid, number)
                output, errors = sim.communicate(timeout=100)
                self.assertTrue(begin)
                self.assertIn(f"seed {SEED}: the program crashed".encode(), output)
                self.assertIn(f"test_sim --trace --seed {SEED}".encode(), output)
                if os.environ.get("HR_SANITIZE"):
                    self.assertNotEqual(sim.returncode, 0)  # the sanitizer's report and its exit code
                else:
                    self.assertEqual(sim.returncode, -number, errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
