#!/usr/bin/python3
"""tools/gpu_code.py on a made-up report of a build."""

import subprocess
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "tools/gpu_code.py"


def kernel(name, target, registers=40, spilled=0):
    return f"""ptxas info    : Compiling entry function '{name}' for '{target}'
ptxas info    : Function properties for {name}
    {spilled} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, 2048 bytes smem, 408 bytes cmem[0]
"""


def run(report, *words):
    done = subprocess.run([str(SCRIPT), *words], input="[1/9] Building CUDA object x.o\n" + report, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout


class GpuCode(unittest.TestCase):
    def test_counts_what_is_right(self):
        status, out = run(kernel("first", "sm_80") + kernel("first", "sm_90a") + kernel("_Z3addi", "sm_80", spilled=16) +
                          kernel("_Z3addi", "sm_90a"))
        self.assertEqual((status, out), (0, "2 kernels for 2 targets, 0 problems\n"))

    def test_a_spill_fails_and_names_the_kernel(self):
        status, out = run(kernel("first", "sm_80") + kernel("second", "sm_80", spilled=24))
        self.assertEqual(status, 1)
        self.assertIn("sm_80: second keeps 24 bytes of registers in memory, the limit is 16", out)
        self.assertEqual(run(kernel("second", "sm_80", spilled=24), "--limit", "24")[0], 0)

    def test_a_target_without_a_kernel_fails(self):
        status, out = run(kernel("first", "sm_80") + kernel("first", "sm_90a") + kernel("second", "sm_80"))
        self.assertEqual(status, 1)
        self.assertIn("sm_90a: second was not compiled", out)

    def test_nothing_compiled_fails(self):
        self.assertEqual(run("ninja: no work to do.\n")[0], 1)

    def test_prints_a_table(self):
        out = run(kernel("first", "sm_100a", 30) + kernel("first", "sm_80", 31) + kernel("other", "sm_80") +
                  kernel("other", "sm_100a"), "--table", "first")[1]
        self.assertIn("| kernel | sm_80 | sm_100a |\n|---|---|---|\n| `first` | 31 | 30 |\n", out)


if __name__ == "__main__":
    unittest.main()
