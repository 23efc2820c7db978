#!/usr/bin/env python3
"""Tests tools/gpu_check.sh on simulated machines: without a GPU, and with phases where something
is missing, differs, fails or takes too long."""

import json
import os
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMI = "#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 580.65.06, {capability}, 1980 MHz, 00000000:1B:00.0'\n"
# Writes the metrics of a run: losses that differ between the devices by the amount of the test.
VIADUCT = """#!/usr/bin/env python3
import json, os, sys
folder = next(a.split("=")[1] for a in sys.argv if a.startswith("checkpoint.save="))
steps = int([a for a in sys.argv if a.startswith("train.train_iters=")][-1].split("=")[1])
cuda = "dist.device=cuda" in sys.argv
if cuda and not os.path.exists(os.environ["VIADUCT_CUDA_LIBRARY"]):
    sys.exit("no library")
if "model.family=mixtral" in sys.argv:
    sys.exit("cuda: no memory for 123 bytes")
with open(os.path.join(folder, "metrics.jsonl"), "w") as out:
    for step in range(steps):
        loss = 5 - 0.1 * step + (DIFFERENCE if cuda else 0)
        print(json.dumps({"step": step, "loss": loss, "step_seconds": 0.5, "tokens_per_second": 1000.0 + step, "tflops_per_rank": 400.0}), file=out)
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

    def check(self, *more):
        return subprocess.run([ROOT / "tools/gpu_check.sh", "--viaduct", self.path / "viaduct", "--library", self.path / "library.so",
                               "--tests", self.path / "tests", "--out", self.path / "out.json", *more],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, PATH=f"{self.path}:/usr/bin:/bin"))

    def result(self):
        return json.loads((self.path / "out.json").read_text())["phases"]

    def test_says_that_there_is_no_gpu(self):
        self.program("nvidia-smi", "#!/bin/sh\necho 'No devices were found'\nexit 6\n")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "gpu_check: found no GPU (nvidia-smi: No devices were found); this check needs an NVIDIA GPU of compute "
                                      "capability 8.0 or newer, with its driver\n")

    def test_says_that_the_gpu_is_too_old(self):
        self.program("nvidia-smi", SMI.format(capability="7.5"))
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("of compute capability 7.5", done.stderr)

    def test_phases_are_done_skipped_and_failed(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.program("viaduct", VIADUCT.replace("DIFFERENCE", "1e-5"))
        page = self.path / "page.md"
        page.write_text("before\n<!-- gpu_check: begin -->\nold\n<!-- gpu_check: end -->\nbehind\n")
        done = self.check("--page", str(page))
        phases = self.result()
        self.assertEqual(phases["20 steps beside the cpu"]["status"], "done")
        self.assertAlmostEqual(phases["20 steps beside the cpu"]["differences"]["fp32"], 1e-5)
        self.assertEqual(phases["tests of ops"]["status"], "skipped")
        self.assertEqual(phases["ops beside the ceilings"]["status"], "skipped")
        self.assertEqual(phases["steps, GPT-2 124M, BF16"]["tokens_per_second"], 1005)
        self.assertIn("no memory for 123 bytes", phases["steps, Mixtral shape, 1 layer, BF16"]["why"])
        self.assertEqual(done.returncode, 1)  # because one phase failed
        text = page.read_text()
        self.assertTrue(text.startswith("before\n<!-- gpu_check: begin -->\nOne NVIDIA H200"), text)
        self.assertTrue(text.endswith("<!-- gpu_check: end -->\nbehind\n"))
        self.assertNotIn("old", text)
        self.assertIn("| tests of ops | skipped: ", text)

    def test_losses_that_are_not_the_cpus_fail(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.program("viaduct", VIADUCT.replace("DIFFERENCE", "1e-3"))
        done = self.check("--only", "20 steps beside the cpu")
        self.assertEqual(done.returncode, 1)
        self.assertIn("fp32 1.0e-03", self.result()["20 steps beside the cpu"]["why"])

    def test_nothing_runs_beyond_the_time(self):
        self.program("nvidia-smi", SMI.format(capability="9.0"))
        self.program("viaduct", VIADUCT.replace("DIFFERENCE", "0"))
        self.assertEqual(self.check("--minutes", "0").returncode, 0)
        self.assertEqual({phase["status"] for phase in self.result().values()}, {"skipped"})


if __name__ == "__main__":
    unittest.main()
