#!/usr/bin/python3
"""Tests tools/gpu_code.py on simulated build reports."""

import os
import subprocess
import tempfile
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


def function(name, target, *instructions):
    lines = "".join(f"        /*{16 * i:04x}*/                   {text} ;\n" for i, text in enumerate(instructions))
    return f"\tcode for {target}\n\t\tFunction : {name}\n{lines}"


GROUP_PRODUCT, GROUP_CODES = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24", "QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24"
COPY, PRODUCT, READ = "LDGSTS.E.BYPASS.128 [R1], [R2.64]", "HMMA.16816.F32.BF16 R1, R2, R3, R1", "@!P0 LDG.E.128 R4, [R2.64]"
# Names as c++filt prints them.
WHOLE = [("_ZN7viaduct4cuda18elementwise_kernelILi8EEEvi", [READ]),
         ("_ZN7viaduct4cuda14forward_kernelINS0_4Bf16ELi64ELi64EEEvi", [COPY, PRODUCT]),
         ("_ZN7viaduct4cuda13scores_kernelINS0_4Bf16ELi64EEEvi", [COPY, PRODUCT]),
         ("_ZN7viaduct4cuda19grouped_gemm_kernelINS0_3F16ELb0ELb0ELb1EEEvi", [COPY, PRODUCT]),
         ("_ZN7viaduct4cuda25grouped_warpgroups_kernelINS0_3F16ELb0ELb0EEEvi", [COPY, GROUP_PRODUCT]),
         ("_ZN7viaduct4cuda30grouped_code_warpgroups_kernelINS0_4E4m3ELb0ELb0ELb0EEEvi", [GROUP_CODES]),
         ("_ZN7viaduct4cuda14forward_kernelINS0_4CodeELi64ELi64EEEvi", [READ, PRODUCT]),
         ("_ZN7viaduct4cuda25quantization_error_kernelILb1ELb0EEEvi", [READ])]


class MachineCode(unittest.TestCase):
    """Tests with a fake cuobjdump that prints a given text."""

    def check(self, functions, elsewhere=()):
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(folder, "cuobjdump")
            text = "".join(function(n, "sm_90a", *i) for n, i in functions) + "".join(function(n, "sm_80", *i) for n, i in elsewhere)
            Path(folder, "text").write_text(text, encoding="utf-8")
            tool.write_text(f"#!/bin/sh\ncat {folder}/text\n", encoding="utf-8")
            tool.chmod(0o755)
            done = subprocess.run([str(SCRIPT), "--code", "any.so"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        return done.returncode, done.stdout

    def test_counts_what_is_right(self):
        self.assertEqual(self.check(WHOLE), (0, "machine code of 8 kernels: 0 problems\n"))
        self.assertEqual(self.check(WHOLE, [(WHOLE[4][0], ["EXIT"])]), (0, "machine code of 9 kernels: 0 problems\n"))

    def test_one_target_without_warpgroups_needs_none(self):
        others = [(name, instructions) for name, instructions in WHOLE if "warpgroups" not in name]
        self.assertEqual(self.check([], others), (0, "machine code of 6 kernels: 0 problems\n"))
        self.assertEqual(self.check(others)[0], 1)

    def test_a_narrow_read_fails_and_names_the_kernel(self):
        status, out = self.check([(WHOLE[0][0], ["LDG.E R4, [R2.64]", "STG.E.128 [R2.64], R4"])] + WHOLE[1:])
        self.assertEqual(status, 1)
        self.assertIn("sm_90a: elementwise_kernel<8> has no reads of 16 bytes", out)

    def test_products_without_matrix_units_fail(self):
        status, out = self.check(WHOLE[:1] + [(WHOLE[1][0], [COPY, "FFMA R1, R2, R3, R1"]), WHOLE[2]])
        self.assertEqual(status, 1)
        self.assertIn("forward_kernel<Bf16, 64, 64> has no products of the matrix units", out)
        status, out = self.check(WHOLE[:4] + [(WHOLE[4][0], [COPY, PRODUCT]), WHOLE[5]])
        self.assertEqual(status, 1)
        self.assertIn("sm_90a: grouped_warpgroups_kernel<F16, false, false> has no products of warpgroups", out)

    def test_a_kernel_that_is_renamed_fails(self):
        status, out = self.check(WHOLE[:2])
        self.assertEqual(status, 1)
        self.assertIn("no kernel is called", out)

    def test_is_skipped_without_cuobjdump(self):
        done = subprocess.run(["/usr/bin/python3", str(SCRIPT), "--code", "any.so"], capture_output=True, text=True,
                              check=False, env={**os.environ, "PATH": "/no/such/folder"})
        if not Path("/usr/local/cuda/bin/cuobjdump").exists():
            self.assertEqual((done.returncode, done.stdout[:22]), (0, "machine code: skipped,"))


if __name__ == "__main__":
    unittest.main()
