#!/usr/bin/env python3
"""tools/fuzz_runs, on a simulated program: each planted fault is found, a program without one passes, and a seed repeats its case."""

import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, "tools/fuzz_runs/fuzz_runs.py")
sys.path.insert(0, os.path.dirname(TOOL))
sys.dont_write_bytecode = True

from configurations import random_configuration  # noqa: E402
from knobs import read_knobs  # noqa: E402

# Speaks as much of the command line as the tool uses. Losses follow from the step alone; FAULT says what goes wrong.
PROGRAM = '''#!{python}
import json, os, signal, sys, time
fault = os.environ.get("FAULT", "")
if sys.argv[1] == "knobs":
    def knob(name, type, default, allowed=""):
        return dict(name=name, kind="field", section=name.split(".")[0], type=type, default=default, allowed=allowed,
                    planned_values=[], state=dict(cpu="built"))
    rows = [knob("model.family", "string or auto", "auto", "llama|mixtral"),
            knob("mixed_precision.recipe", "string", "fp32", "fp32|bf16_mixed"),
            knob("optimizer.optimizer", "string", "adam", "adam|sgd"),
            knob("ddp.overlap_grad_reduce", "bool", True), knob("ddp.num_buckets", "int or null", None, "1 to 9")]
    print(json.dumps(dict(knobs=rows)))
    sys.exit(0)
if sys.argv[1] == "data":
    sys.exit(0)
if sys.argv[1] == "convert":
    sys.exit(1 if fault == "unreadable" and "--to-format" in sys.argv else 0)
given = dict(word.split("=", 1) for word in sys.argv[2:])
save, ranks = given["checkpoint.save"], int(given.get("dist.ranks", 1))
state = os.path.join(save, "latest")
done = int(open(state).read()) if os.path.exists(state) else 0
last = int(given.get("train.exit_interval", given["train.train_iters"]))
if fault == "crash" and ranks == 4:
    os.kill(os.getpid(), signal.SIGSEGV)
if fault == "hang" and ranks == 2:
    time.sleep(60)
if fault == "nameless" and ranks == 2:
    print("viaduct: error: this does not work")
    sys.exit(2)
if fault == "late" and ranks == 2:
    print("viaduct: error: rank 1: ddp.num_buckets: 3")
    sys.exit(2)
if "ddp.num_buckets" in given:
    print("viaduct: error: ddp.num_buckets: refused, which is no fault")
    sys.exit(2)
os.makedirs(save, exist_ok=True)
with open(os.path.join(save, "metrics.jsonl"), "a") as file:
    for step in range(done + 1, last + 1):
        wrong = (fault == "layout" and ranks == 4) or (fault == "resume" and done > 0)
        file.write(json.dumps(dict(step=step, loss=4.0 / step + 0.01 * wrong, grad_norm=1.0)) + "\\n")
if fault != "unsaved":
    open(state, "w").write(str(last))
'''


class FuzzRuns(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.program = os.path.join(self.folder.name, "viaduct")
        with open(self.program, "w") as file:
            file.write(PROGRAM.replace("{python}", sys.executable))
        os.chmod(self.program, 0o755)

    def tearDown(self):
        self.folder.cleanup()

    def fuzz(self, fault, *arguments):
        environment = dict(os.environ, FAULT=fault, TMPDIR=self.folder.name)
        command = [sys.executable, TOOL, "--binary", self.program, "--no-mpi", "--jobs", "2", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)

    def test_a_right_program_passes(self):
        done = self.fuzz("", "--minutes", "0.02", "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"seeds 7 to \d+: \d+ runs")
        self.assertIn("0 findings", done.stdout)
        self.assertEqual(os.listdir(self.folder.name), ["viaduct"], "nothing is left")

    def test_what_it_ran_is_logged(self):
        log = os.path.join(self.folder.name, "log")
        for seed in (40, 43):
            self.assertEqual(self.fuzz("", "--cases", "3", "--seed", str(seed), "--log", log).returncode, 0)
        with open(log) as file:
            rows = file.read().splitlines()
        self.assertEqual([row.split("|")[1].strip() for row in rows], ["40 to 42", "43 to 45"])

    def drawn(self):
        """A hundred configurations."""

        class Named:
            def conversations(self):
                return "CHATS"

            def base(self, form):
                return form

        knobs = read_knobs(self.program)
        return [random_configuration(random.Random(seed), knobs, False, Named()) for seed in range(100)]

    def test_settings_of_fine_tuning_are_drawn(self):
        drawn = [configuration.text() for configuration in self.drawn()]
        for setting in ("peft.scheme=lora", "dataset.packed_sequence_size=64", "[CHATS]", "checkpoint.pretrained_checkpoint=gguf"):
            self.assertTrue(any(setting in text for text in drawn), setting)
        for text in drawn:
            self.assertFalse("pretrained_checkpoint" in text and "model.hidden_size" in text, text)

    def test_runs_in_fp64_are_small(self):
        in_fp64 = [c.what for c in self.drawn() if c.what["mixed_precision.recipe"] == "fp64"]
        self.assertTrue(in_fp64)
        for what in in_fp64:
            self.assertLessEqual(what["model.seq_length"] * what["train.global_batch_size"], 256, what)
            self.assertEqual(what.get("model.hidden_size", 32), 32, what)  # a model that exists says its own
            self.assertEqual(what.get("dataset.packed_sequence_size", what["model.seq_length"]), what["model.seq_length"])

    def found(self, fault, message, *arguments):
        done = self.fuzz(fault, "--minutes", "0.5", "--first", "--seed", "1", *arguments)
        self.assertEqual(done.returncode, 1, f"{fault} was not found: {done.stdout}")
        self.assertIn(message, done.stdout)
        return int(re.search(r"FOUND by seed (\d+)", done.stdout).group(1))

    def test_planted_faults_are_found(self):
        self.found("crash", "ends with status -11", "--only", "layouts")
        self.found("nameless", "refused without the name of a field")
        self.found("late", "refused when the ranks are already running")
        self.found("unsaved", "nothing is saved", "--only", "layouts")
        self.found("unreadable", "the checkpoint cannot be read", "--only", "layouts")
        self.found("resume", "resumed: the loss differs", "--only", "resumes")
        self.found("hang", "does not end within 1 s", "--session-seconds", "1")

    def test_a_seed_repeats_its_case(self):
        seed = self.found("layout", "against one rank: the loss differs", "--only", "layouts")
        again = self.fuzz("layout", "--replay", str(seed), "--only", "layouts")
        self.assertEqual(again.returncode, 1, again.stdout)
        self.assertIn(f"FOUND by seed {seed} ", again.stdout)
        self.assertEqual(self.fuzz("", "--replay", str(seed), "--only", "layouts").returncode, 0)


if __name__ == "__main__":
    unittest.main()
