#!/usr/bin/env python3
"""Tests tools/gpu_check.sh on simulated machines: without a GPU, and with phases where something
is missing, differs, fails or takes too long."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/gpu_check"))
import phases
SMI = "#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 580.65.06, {capability}, 1980 MHz, 00000000:1B:00.0'\n"
# Writes the metrics of a run: losses that differ between the devices by the amount of the test.
VIADUCT = """#!/usr/bin/env python3
import json, os, sys
if sys.argv[1] == "version":
    print("libcudnn.so.9: CUDNN")
    sys.exit(0)
if sys.argv[1:3] == ["bench", "step"]:
    if "model.family=mixtral" in sys.argv:
        sys.exit("cuda: no memory for 123 bytes")
    print(json.dumps({"tokens_per_second": 1005.0, "tflops_per_rank": 400.0, "step_seconds": {"median": 0.5}}))
    sys.exit(0)
if sys.argv[1:3] == ["bench", "ops"]:
    print(json.dumps({"peak": "BF16 product", "peak_tflops": 700.0, "copy_gbytes_per_second": 4000.0, "ops": [
        {"op": "gemm", "kernel": "cublaslt", "shapes": "A", "seconds": 1e-3, "tflops": 350.0, "gbytes_per_second": 1.0, "bound": "product", "ceiling_fraction": 0.5},
        {"op": "add", "kernel": "elementwise", "shapes": "B", "seconds": 2e-4, "tflops": 0.0, "gbytes_per_second": 3000.0, "bound": "copy", "ceiling_fraction": 0.75}]}))
    sys.exit(0 if sys.argv[-2:] == ["--device", "cuda"] else "no device")
if sys.argv[1:3] == ["bench", "--calibrate"]:
    open(sys.argv[sys.argv.index("--out") + 1], "w").write("of " + sys.argv[-1])
    sys.exit(0)
if sys.argv[1] == "plan":
    assert open(sys.argv[sys.argv.index("--calibration") + 1]).read() == "of cuda" and "dgx-h200" in sys.argv
    print(json.dumps({"predicted": {"tokens_per_second_per_gpu": 1206.0}}))
    sys.exit(0)
folder = next(a.split("=")[1] for a in sys.argv if a.startswith("checkpoint.save="))
steps = int([a for a in sys.argv if a.startswith("train.train_iters=")][-1].split("=")[1])
cuda = "dist.device=cuda" in sys.argv
if cuda and not os.path.exists(os.environ["VIADUCT_CUDA_LIBRARY"]):
    sys.exit("no library")
with open(os.path.join(folder, "metrics.jsonl"), "w") as out:
    for step in range(steps):
        loss = 5 - 0.1 * step + (DIFFERENCE if cuda else 0)
        print(json.dumps({"step": step, "loss": loss, "step_seconds": 0.5, "tokens_per_second": 1000.0 + step, "tflops_per_rank": 400.0}), file=out)
"""


# Imitates a program of GoogleTest that has three tests, one of which fails or not.
TESTS = """#!/usr/bin/env python3
import os, sys
if REASON: sys.exit(print("skipped: no driver") or 77)
assert os.environ["VIADUCT_CUDA_LIBRARY"].endswith("library.so")
mine = [test for test in range(3) if test % int(os.environ["GTEST_TOTAL_SHARDS"]) == int(os.environ["GTEST_SHARD_INDEX"])]
failed = 1 if FAILS and 1 in mine else 0
if failed: print("[  FAILED  ] Isa/Gemm.Products/portable, where GetParam() = 0" + " " * 100000 + "\\n[  FAILED  ] 1 test, listed below:")
print(f"cuda:sm_90a: {len(mine) - failed} tests passed, {failed} failed")
sys.exit(failed)
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        (self.path / "library.so").write_text("")

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, text):
        file = self.path / name
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def viaduct(self, difference="0", cudnn="/usr/lib/libcudnn.so.9"):
        self.program("viaduct", VIADUCT.replace("DIFFERENCE", difference).replace("CUDNN", cudnn))

    def check(self, *more):
        return subprocess.run([*self.command(), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment())

    def command(self):
        return [ROOT / "tools/gpu_check.sh", "--viaduct", self.path / "viaduct", "--library", self.path / "library.so", "--tests", self.path / "tests",
                "--out", self.path / "out.json", "--calibration", self.path / "table.yaml"]

    def environment(self):
        return dict(os.environ, PATH=f"{self.path}:/usr/bin:/bin")

    def result(self):
        return json.loads((self.path / "out.json").read_text())["phases"]

    def test_says_that_there_is_no_gpu(self):
        self.program("nvidia-smi", "#!/bin/sh\necho 'No devices were found'\nexit 6\n")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "gpu_check: found no GPU (nvidia-smi: No devices were found); this check needs an NVIDIA GPU of compute "
                                      "capability 8.x, 9.0, 10.x, or 12.0 and newer, with its driver\n")

    def test_says_that_the_gpu_has_no_kernels(self):
        for capability in ("7.5", "11.0"):
            self.program("nvidia-smi", SMI.format(capability=capability))
            done = self.check()
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"of compute capability {capability}", done.stderr)

    def test_phases_are_done_skipped_and_failed(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.viaduct("1e-5")
        page = self.path / "page.md"
        page.write_text("before\n<!-- gpu_check: begin -->\nold\n<!-- gpu_check: end -->\nbehind\n")
        done = self.check("--page", str(page))
        found = self.result()
        self.assertAlmostEqual(found["steps beside the cpu, fp32"]["difference"], 1e-5)
        self.assertEqual({name for name, phase in found.items() if "beside the cpu" in name and phase["status"] != "done"},
                         {"steps beside the cpu, MXFP8", "steps beside the cpu, NVFP4"})
        self.assertEqual(found["steps beside the cpu, NVFP4"]["why"], "sm_90a has no products of this format")
        self.assertEqual(found["tests of ops and models"]["status"], "skipped")
        self.assertEqual(found["ops beside the ceilings"]["ops"][0]["op"], "gemm")
        self.assertEqual(found["calibration"]["status"], "done")
        self.assertEqual(found["steps, GPT-2 124M, BF16"]["tokens_per_second"], 1005)
        self.assertIn("no memory for 123 bytes", found["steps, Mixtral shape, 1 layer, BF16"]["why"])
        self.assertEqual(done.returncode, 1)  # because one phase failed
        text = page.read_text()
        self.assertTrue(text.startswith("before\n<!-- gpu_check: begin -->\nOne NVIDIA H200"), text)
        self.assertTrue(text.endswith("<!-- gpu_check: end -->\nbehind\n"))
        self.assertNotIn("old", text)
        self.assertIn("| tests of ops and models | skipped: ", text)
        self.assertIn("| `gemm` (cublaslt) of A | 1000 µs, 350 TFLOP/s, 50 % of the product |", text)
        self.assertIn("| `add` (elementwise) of B | 200 µs, 3.00 TB/s, 75 % of the copy |", text)
        self.assertIn("| GPT-2 124M, BF16, predicted from the calibration | 1206 tokens/s, +20 % of the measured rate |", text)
        # What must be known first comes first.
        order = list(found)
        self.assertEqual(order[:3], ["libraries", "first step", "products"])
        self.assertLess(order.index("steps beside the cpu, fp32"), order.index("steps, Llama-3-8B shape, 4 layers, BF16"))
        self.assertLess(order.index("steps, Mixtral shape, 1 layer, BF16"), order.index("tests of ops and models"))

    def test_the_ops_tests_run_in_shards(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.program("tests", TESTS.replace("REASON", "False").replace("FAILS", "False"))
        self.assertEqual(self.check("--only", "tests of ops and models").returncode, 0)
        self.assertEqual(self.result()["tests of ops and models"]["passed"], 3)

    def test_a_failed_test_is_named(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.program("tests", TESTS.replace("REASON", "False").replace("FAILS", "True"))
        self.assertEqual(self.check("--only", "tests of ops and models").returncode, 1)
        self.assertEqual(self.result()["tests of ops and models"]["why"], "2 tests passed, 1 failed: Isa/Gemm.Products/portable")

    def test_names_that_nothing_has_are_no_success(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.program("tests", "#!/bin/sh\necho '0 tests passed, 0 failed'\n")
        self.assertEqual(self.check("--only", "tests of ops and models").returncode, 1)
        self.assertIn("no test is called -*Gemm*", self.result()["tests of ops and models"]["why"])
        done = self.check("--only", "libraries,memcheck")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no phase libraries,memcheck, expected some of libraries; first step; products;", done.stderr)

    def test_tests_that_find_no_gpu_fail(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.program("tests", TESTS.replace("REASON", "True").replace("FAILS", "False"))
        self.assertEqual(self.check("--only", "tests of ops and models").returncode, 1)
        self.assertIn("exit with 77: skipped: no driver", self.result()["tests of ops and models"]["why"])

    def test_losses_that_are_not_the_cpus_fail(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.viaduct("1e-3")
        done = self.check("--only", "steps beside the cpu, fp32")
        self.assertEqual(done.returncode, 1)
        self.assertIn("differs by 1.0e-03 from the cpu's", self.result()["steps beside the cpu, fp32"]["why"])

    def test_without_cudnn_its_phase_is_skipped(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.viaduct(cudnn="not found; tried: libcudnn.so.9: no such file")
        name = "steps beside the cpu, bf16_mixed, attention by cuDNN"
        self.check("--only", name)
        self.assertEqual(self.result()[name], {"status": "skipped", "seconds": self.result()[name]["seconds"], "why": "cuDNN is not installed"})

    def test_a_phase_that_hangs_ends_with_all_its_programs_and_each_result_is_noted_at_once(self):
        noted = []
        check = phases.Phases(60, note=lambda: noted.append(list(check.results)))
        check.run("good", 10, lambda: {"rows": [phases.call(["echo", "x"])]})
        self.assertEqual(noted, [["good"]])
        # A program with one of its own.
        check.run("hangs", 0.3, lambda: phases.call(["sh", "-c", "sleep 1234567 & wait"]))
        check.run("next", 10, lambda: {"rows": []})
        self.assertEqual([phase["status"] for phase in check.results.values()], ["done", "failed", "done"])
        self.assertEqual(check.results["hangs"]["why"], "it did not end in its time")
        self.assertEqual(noted[1:], [["good", "hangs"], ["good", "hangs", "next"]])
        self.assertNotIn("sleep 1234567", subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, text=True).stdout)

    def test_a_check_that_goes_on_repeats_only_what_was_not_done(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.viaduct("1e-3")
        both = ["--only", "steps beside the cpu, fp32;steps beside the cpu, bf16_mixed"]
        self.check(*both)
        before = self.result()
        self.assertEqual([phase["status"] for phase in before.values()], ["failed", "done"])
        self.viaduct("1e-5")
        self.assertEqual(self.check(*both, "--continue").returncode, 0)
        after = self.result()
        self.assertEqual(after["steps beside the cpu, bf16_mixed"], before["steps beside the cpu, bf16_mixed"])
        self.assertEqual(after["steps beside the cpu, fp32"]["status"], "done")

    def test_nothing_runs_beyond_the_time(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.viaduct()
        self.assertEqual(self.check("--minutes", "0").returncode, 0)
        self.assertEqual({phase["status"] for phase in self.result().values()}, {"skipped"})


if __name__ == "__main__":
    unittest.main()
