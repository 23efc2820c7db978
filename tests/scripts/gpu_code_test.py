#!/usr/bin/python3
"""Tests tools/gpu_code.py on simulated build reports and on short texts of machine code."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "tools/gpu_code.py"
sys.path.insert(0, str(ROOT / "tools/gpu_code"))
import kernels as code
import sass


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
         ("_ZN7viaduct4cuda25quantization_error_kernelILb1ELb0EEEvi", [READ]),
         ("_ZN7viaduct4cuda21quantize_tiles_kernelIfEEvi", [READ])]


def call(folder, text, *words, resources="", threads=""):
    """Runs the check with a fake cuobjdump that prints these texts."""
    for name, content in (("-sass", text), ("-res-usage", resources), ("-elf", threads)):
        Path(folder, name).write_text(content, encoding="utf-8")
    tool = Path(folder, "cuobjdump")
    tool.write_text(f"#!/bin/sh\ncat {folder}/$1\n", encoding="utf-8")
    tool.chmod(0o755)
    done = subprocess.run([str(SCRIPT), *words, "--code", "any.so"], capture_output=True, text=True, check=False, input="",
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    return done.returncode, done.stdout


class MachineCode(unittest.TestCase):

    def check(self, functions, elsewhere=()):
        """After the same kernels have become the budgets."""
        text = "".join(function(n, "sm_90a", *i) for n, i in functions) + "".join(function(n, "sm_80", *i) for n, i in elsewhere)
        with tempfile.TemporaryDirectory() as folder:
            call(folder, text, "-", "--write", "--budgets", folder)
            return call(folder, text, "--budgets", folder)

    def test_counts_what_is_right(self):
        self.assertEqual(self.check(WHOLE), (0, "machine code of 9 kernels: 0 problems\n"))
        self.assertEqual(self.check(WHOLE, [(WHOLE[4][0], ["EXIT"])]), (0, "machine code of 10 kernels: 0 problems\n"))

    def test_one_target_without_warpgroups_needs_none(self):
        others = [(name, instructions) for name, instructions in WHOLE if "warpgroups" not in name]
        self.assertEqual(self.check([], others), (0, "machine code of 7 kernels: 0 problems\n"))
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
        done = subprocess.run(["/usr/bin/python3", str(SCRIPT), "--code", "any.so", "--tools", "/no/such/folder"], capture_output=True, text=True,
                              check=False, env={**os.environ, "PATH": "/no/such/folder"})
        if not Path("/usr/local/cuda/bin/cuobjdump").exists():
            self.assertEqual((done.returncode, done.stdout[:22]), (0, "machine code: skipped,"))


# A kernel with a loop over tiles, in which a loop multiplies, and code behind its end: a subroutine that divides 64 bits.
LOOPS = """	code for sm_90a
		Function : _ZN7viaduct4cuda14forward_kernelEv
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128 R4, [R2.64] ;                       /* 0x00000a00ff017b82 */
                                                                                 /* 0x000fe20000000800 */
        /*0020*/                   LDSM.16.M88.4 R8, [R9] ;
        /*0030*/                   HMMA.16816.F32.BF16 R1, R2, R3, R1 ;
        /*0040*/                   HMMA.16816.F32.BF16 R1, R2, R3, R1 ;
        /*0050*/                   IADD3 R7, R7, 0x1, RZ ;
        /*0060*/                   NOP ;
        /*0070*/               @P0 BRA 0x20 ;
        /*0080*/                   STG.E.128 [R2.64], R4 ;
        /*0090*/               @P1 BRA 0x10 ;
        /*00a0*/                   EXIT ;
        /*00b0*/                   I2F.U64.RP R18, UR4 ;
        /*00c0*/                   RET.REL.NODEC R14 0x0 ;
        /*00d0*/                   BRA 0xd0;
        /*00e0*/                   NOP;
"""
RESOURCES = """arch = sm_90a
Resource usage:
 Function _ZN7viaduct4cuda14forward_kernelEv:
  REG:{registers} STACK:0 SHARED:{shared} LOCAL:0 CONSTANT[0]:556 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
THREADS = """.nv.info._ZN7viaduct4cuda14forward_kernelEv
	<0x11>
	Attribute:	EIATTR_MAX_THREADS
	Format:	EIFMT_SVAL
	Value:	0x80 0x1 0x1
"""


class Loops(unittest.TestCase):
    def loops(self, text):
        return sass.loops_of(next(sass.read(text.splitlines())))

    def test_a_loop_has_what_is_in_no_inner_one(self):
        outer, inner = self.loops(LOOPS)
        self.assertEqual((outer.header, outer.instructions, outer.products), (0x10, 3, 0))
        self.assertEqual((inner.header, inner.instructions, inner.products), (0x20, 5, 2))

    def test_code_that_returns_into_a_loop_from_behind_it_is_part_of_it_alone(self):
        # A rare case that the compiler puts behind the end, from where it jumps back: no loop over all that lies between.
        text = LOOPS.replace("IADD3 R7, R7, 0x1, RZ", "@!P2 BRA 0xb0").replace("I2F.U64.RP R18, UR4", "MOV R1, R2") \
            .replace("RET.REL.NODEC R14 0x0", "BRA 0x60")
        outer, inner = self.loops(text)
        self.assertEqual((outer.instructions, inner.instructions), (3, 7))

    def test_a_uniform_branch_with_a_condition_falls_through(self):
        outer, inner = self.loops(LOOPS.replace("@P0 BRA 0x20", "    BRA.U UP0, 0x20"))
        self.assertEqual((outer.instructions, inner.instructions), (3, 5))

    def test_what_is_reached_by_a_reconvergence_alone_is_reached(self):
        # The code that follows is that at the address that BSSY names.
        text = LOOPS.replace("LDC R1, c[0x0][0x28]", "BSSY B0, 0x10").replace("LDG.E.128 R4, [R2.64]", "LDS.U8 R4, [R2]") \
            .replace("        /*0010*/", "        /*0008*/                   EXIT ;\n        /*0010*/")
        self.assertEqual(self.loops(text)[0].bytes, 1)

    def test_divisions_are_counted_in_subroutines_too(self):
        self.assertEqual(self.loops(LOOPS.replace("LDSM.16.M88.4 R8, [R9]", "CALL.REL.NOINC 0xb0"))[1].divisions, 1)
        self.assertEqual(self.loops(LOOPS.replace("LDSM.16.M88.4 R8, [R9]", "I2F.U32.RP R11, R8"))[1].divisions, 1)
        self.assertEqual(self.loops(LOOPS.replace("LDSM.16.M88.4 R8, [R9]", "I2F.U32 R11, R8"))[1].divisions, 0)
        # A subroutine that does not divide, as that of a quotient of floating-point numbers.
        self.assertEqual(self.loops(LOOPS.replace("LDSM.16.M88.4 R8, [R9]", "CALL.REL.NOINC 0xb0").replace("I2F.U64.RP", "MUFU.RCP"))[1].divisions, 0)


class Budgets(unittest.TestCase):
    """A kernel made worse on purpose fails, and the message names what is worse."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.check(LOOPS, "-", "--write")

    def tearDown(self):
        self.folder.cleanup()

    def check(self, text, *words, registers=168, shared=2048):
        status, out = call(self.folder.name, text, "--budgets", self.folder.name, *words,
                           resources=RESOURCES.format(registers=registers, shared=shared), threads=THREADS)
        # The other kernels that the library must have are missing here.
        return [line for line in out.splitlines() if not line.startswith(("no kernel is called", "machine code"))]

    def test_todays_kernel_is_right(self):
        self.assertEqual(self.check(LOOPS), [])

    def test_more_instructions_for_a_product(self):
        worse = re.sub(r" NOP ;", " FADD R1, R2, R3 ;", LOOPS)
        self.assertEqual(self.check(worse), ["sm_90a: forward_kernel has 3 instructions per matrix instruction in a loop, its budget is 2.5"])

    def test_a_division_a_byte_and_local_memory_in_a_loop(self):
        for text, what in (("CALL.REL.NOINC 0xb0", "1 divisions of whole numbers"), ("LDS.U8 R8, [R9]", "1 loads and stores of one byte"),
                           ("STG.E.U8 [R9.64], R8", "1 loads and stores of one byte"), ("LDL.64 R8, [R1+0x8]", "1 loads and stores of local memory")):
            self.assertEqual(self.check(LOOPS.replace("LDSM.16.M88.4 R8, [R9]", text)),
                             [f"sm_90a: forward_kernel has {what} in loops, its budget is 0"])
        # Outside of loops they are free.
        self.assertEqual(self.check(LOOPS.replace("LDC R1, c[0x0][0x28]", "LDS.U8 R8, [R9]")), [])

    def test_more_instructions_for_an_element(self):
        # A thread has 64 elements; what is behind the end of the kernel is not reached.
        def code_of(count):
            ends = ["EXIT", *["MOV R1, R2"] * 500]
            return function("_ZN7viaduct4cuda21quantize_tiles_kernelIfEEvi", "sm_90a", *["LDG.E.128 R4, [R2.64]"] * count, *ends)
        self.check(LOOPS + code_of(127), "-", "--write")
        self.assertEqual(self.check(LOOPS + code_of(127)), [])
        self.assertEqual(self.check(LOOPS + code_of(191)), ["sm_90a: quantize_tiles_kernel<float> has 3 instructions per element, its budget is 2"])

    def test_fewer_blocks(self):
        found = "sm_90a: {} blocks of forward_kernel fit a multiprocessor ({} registers, {} bytes of shared memory), its budget is 3 (168, 1024)"
        self.assertEqual(self.check(LOOPS, registers=176), [found.format(2, 176, 1024)])
        self.assertEqual(self.check(LOOPS, shared=120000), [found.format(1, 168, 118976)])
        self.assertEqual(self.check(LOOPS, registers=128), ["sm_90a: 4 blocks of forward_kernel fit a multiprocessor, its budget is 3"])

    def test_a_kernel_without_a_budget_and_a_budget_without_a_kernel(self):
        self.assertEqual(self.check(LOOPS.replace("forward_kernel", "another_kernel")),
                         ["sm_90a: another_kernel has no budget: add it with --write",
                          "sm_90a: there is a budget of forward_kernel, which is no kernel"])

    def test_a_target_without_budgets(self):
        self.assertTrue(self.check(LOOPS.replace("sm_90a", "sm_80"))[0].startswith("sm_80: there are no budgets"))

    def test_spills_have_a_budget_as_well(self):
        reports = [kernel("_ZN7viaduct4cuda14forward_kernelEv", "sm_90a", spilled=bytes) for bytes in (32, 36)]
        Path(self.folder.name, "report").write_text(reports[0], encoding="utf-8")
        self.check(LOOPS, f"{self.folder.name}/report", "--write")
        self.assertEqual(run(reports[0], "--budgets", self.folder.name)[0], 0)
        self.assertIn("keeps 36 bytes of registers in memory, the limit is 32", run(reports[1], "--budgets", self.folder.name)[1])

    def test_blocks_by_registers_and_shared_memory_and_threads(self):
        self.assertEqual(code.Kernel("", "sm_90a", registers=32, threads=256).blocks, 8)
        self.assertEqual(code.Kernel("", "sm_89", registers=32, threads=256).blocks, 6)
        self.assertEqual(code.Kernel("", "sm_90a", registers=16, threads=32).blocks, 32)
        self.assertEqual(code.Kernel("", "sm_80", registers=168, threads=128).blocks, 3)
        self.assertEqual(code.Kernel("", "sm_90a", registers=255, threads=256).blocks, 1)
        self.assertEqual(code.Kernel("", "sm_90a", registers=32, threads=128, shared=52240).blocks, 4)

    def test_the_page_has_the_table_of_the_budgets(self):
        page = Path(self.folder.name, "page.md")
        shutil.copy(ROOT / "docs/cuda.md", page)
        subprocess.run([str(SCRIPT), "--page", str(page)], check=True)
        self.assertEqual(page.read_text(encoding="utf-8"), (ROOT / "docs/cuda.md").read_text(encoding="utf-8"), "run tools/gpu_code.py --page docs/cuda.md")


if __name__ == "__main__":
    unittest.main()
