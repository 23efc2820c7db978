#!/usr/bin/python3
"""Tests benchmarks/precision_curves.py on simulated curves, and with a script that replaces `viaduct` and writes metrics."""

import importlib.util
import json
import stat
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "benchmarks/precision_curves.py"
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("precision_curves", SCRIPT)
curves = importlib.util.module_from_spec(spec)
spec.loader.exec_module(curves)

# Seeds 1 and 2 differ by 0.2; MXFP8 is 0.1 above BF16, NVFP4 1 above it.
VIADUCT = """#!/usr/bin/python3
import json, sys
from pathlib import Path
words = sys.argv[1:]
if words[0] == "train":
    settings = dict(word.split("=", 1) for word in words[2:])
    folder = Path(settings["checkpoint.save"].strip('"'))
    folder.mkdir(parents=True)
    above = {"bf16_mixed": 0, "bf16_with_mxfp8_mixed": 0.1, "bf16_with_nvfp4_mixed": 1}[settings["mixed_precision"]]
    loss = 2 + 0.2 * int(settings["rng.seed"]) + above
    rows = [{"step": i, "loss": loss + 1 / (i + 1)} for i in range(int(settings["train.train_iters"]))]
    rows.append({"step": rows[-1]["step"], "validation_loss": loss})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
    with open(folder.parent / "calls", "a") as calls:
        calls.write(settings["mixed_precision"] + "\\n")
"""


class PrecisionCurves(unittest.TestCase):
    def run_script(self, folder, *more):
        program = Path(folder) / "viaduct"
        program.write_text(VIADUCT)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return subprocess.run([str(SCRIPT), "--viaduct", str(program), "--folder", folder, "--svg", f"{folder}/curves.svg", "--steps", "40", "--seeds",
                               "1", "2", "--recipe-seeds", "2", "--window", "10", *more], capture_output=True, text=True)

    def test_the_band_is_twice_the_deviation_over_seeds(self):
        (train, train_width), (valid, valid_width) = curves.band_of([([9, 2, 4], 1.0), ([9, 4, 6], 3.0)], 2)
        self.assertAlmostEqual(train, 4)
        self.assertAlmostEqual(train_width, 2 * 2 ** 0.5)
        self.assertAlmostEqual(valid, 2)
        self.assertAlmostEqual(valid_width, 2 * 2 ** 0.5)

    def test_a_running_mean_is_that_of_the_last_steps(self):
        self.assertEqual(curves.averaged([1, 3, 5, 7], 2), [1, 2, 4, 6])

    def test_a_recipe_above_the_band_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            good = self.run_script(folder, "--recipes", "bf16_with_mxfp8_mixed")
            self.assertEqual(good.returncode, 0, good.stderr)
            self.assertIn("| BF16, 2 seeds: mean ± twice the deviation | 2.328 ± 0.283 | | 2.300 ± 0.283 | | |", good.stdout)
            self.assertIn("| `bf16_with_mxfp8_mixed` | 2.428 | +0.100 | 2.400 | +0.100 (+0.100, +0.100) | yes |", good.stdout)
            bad = self.run_script(folder, "--recipes", "bf16_with_mxfp8_mixed", "bf16_with_nvfp4_mixed")
            self.assertEqual(bad.returncode, 1)
            self.assertIn("above the band of BF16: bf16_with_nvfp4_mixed\n", bad.stderr)
            # Complete runs are not repeated.
            self.assertEqual((Path(folder) / "calls").read_text().split(),
                             2 * ["bf16_mixed"] + 2 * ["bf16_with_mxfp8_mixed"] + 2 * ["bf16_with_nvfp4_mixed"])
            picture = Path(folder) / "curves.svg"
            self.assertLess(picture.stat().st_size, 100_000)
            lines = ElementTree.parse(picture).findall("{http://www.w3.org/2000/svg}polyline")
            self.assertEqual([len(line.get("points").split()) for line in lines], [30, 30])

    def test_one_seed_is_no_band(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_script(folder, "--seeds", "1").returncode, 2)


if __name__ == "__main__":
    unittest.main()
