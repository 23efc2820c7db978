#!/usr/bin/python3
"""Tests benchmarks/hardware.py on simulated machines: a script replaces `viaduct` and the test programs."""

import importlib.util
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "benchmarks/hardware.py"
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("hardware", SCRIPT)
hardware = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hardware)

VIADUCT = """#!/usr/bin/python3
import json, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("viaduct 1 (Release)\\ncpu: built in; usable here: ISAS (Some CPU: AVX2)\\nWARNINGmpi: built in")
elif words[1] == "gemm":
    print(json.dumps({"tflops": 0.5, "peak": "P", "peak_tflops": 1.0, "peak_fraction": 0.5}))
elif words[1] == "attention":
    print(json.dumps({"forward": {"tflops": 0.25, "peak_fraction": 0.25}, "backward": {"tflops": 0.125, "peak_fraction": 0.125}, "peak": "P"}))
else:
    print(json.dumps({"tokens_per_second": 1234.0, "mfu": 0.75, "peak": "P, 1 TFLOP/s"}))
"""
# Imitates GoogleTest's report: one test on each of the instruction sets in the second list.
PROGRAM = """#!/usr/bin/python3
import json, sys
path = [w for w in sys.argv if w.startswith("--gtest_output=json:")][0].split(":", 1)[1]
tests = [{"name": "Adds/" + isa, "result": "COMPLETED"} for isa in TESTED]
if FAILS: tests[-1]["failures"] = [{"failure": "x"}]
json.dump({"testsuites": [{"name": "Isas/Gemm", "testsuite": tests}]}, open(path, "w"))
sys.exit(1 if FAILS else 0)
"""


class Machines(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.page = self.path / "page.md"
        self.page.write_text(f"# Page\n\n{hardware.PLACE}\n\n## Rest\n")

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, text):
        path = self.path / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_on(self, isas, tested=None, warning="", fails=False, more=()):
        self.program("viaduct", VIADUCT.replace("ISAS", ", ".join(isas)).replace("WARNING", f"cpu: WARNING: {warning}\\n" if warning else ""))
        for name in hardware.TESTS:
            self.program(name, PROGRAM.replace("TESTED", repr(list(tested or isas))).replace("FAILS", repr(fails)))
        return subprocess.run([str(SCRIPT), "--viaduct", str(self.path / "viaduct"), "--tests", str(self.path), "--page", str(self.page), *more],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_writes_one_section_a_machine_and_replaces_it(self):
        for isas in (["avx2"], ["avx2", "avx512"], ["avx2"]):
            done = self.run_on(isas)
            self.assertEqual(done.returncode, 0, done.stderr)
        page = self.page.read_text()
        cores = len(os.sched_getaffinity(0))
        name = f"Some CPU, {cores} core{'s' if cores != 1 else ''}: avx2"
        self.assertEqual(page.count(f"### {name}\n"), 1)
        self.assertEqual(page.count(f"### {name}, avx512\n"), 1)
        self.assertIn("| peak, P |  | 1.000 TFLOP/s |", page)
        self.assertIn("0.250 / 0.125 TFLOP/s", page)
        self.assertIn("1,234 tokens/s | 75 % of P", page)
        self.assertTrue(page.startswith("# Page\n") and page.endswith("## Rest\n"))
        self.assertEqual(page.count(hardware.PLACE), 1)

    def test_a_wrong_instruction_set_is_said_loudly(self):
        before = self.page.read_text()
        done = self.run_on(["avx2"], warning="AMX is not used: its products are WRONG")
        self.assertEqual(done.returncode, 1)
        self.assertIn("!!!!!!!! AMX is not used: its products are WRONG", done.stderr)
        self.assertEqual(self.page.read_text(), before)

    def test_a_failing_test_measures_nothing(self):
        done = self.run_on(["avx2"], fails=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Isas/Gemm.Adds/avx2 FAILED", done.stderr)
        self.assertNotIn("TFLOP", done.stdout)

    def test_an_instruction_set_without_tests_is_none_that_works(self):
        done = self.run_on(["avx2", "amx"], tested=["avx2"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("no test ran on amx", done.stderr)

    def test_a_first_look_writes_nothing(self):
        before = self.page.read_text()
        done = self.run_on(["avx2"], more=["--quick"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1,234 tokens/s", done.stdout)
        self.assertEqual(self.page.read_text(), before)


if __name__ == "__main__":
    unittest.main()
