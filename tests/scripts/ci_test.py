#!/usr/bin/env python3
"""tools/ci: what fits is run and what does not is left out and said, a failure stays a failure, and results of ctest are read right."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "ci"))
import ci
import disk
import limit as limits
import output
import phases
import report
import same_objects
import tests
import turns

COSTS = {"compile_seconds": 4.0, "phases": {"build": 100, "tests": 600, "torture": 130, "asan, readers of foreign bytes": 300},
         "tests": {"part.a.0": 20.0, "part.b.0": 30.0, "part.c.0": 10.0}}


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Script(phases.Phases):
    """Phases that take simulated time, and fail or are stopped where they are told to."""

    def __init__(self, clock, seconds, minutes=20, pace=1.0, turn=0):
        self.clock, self.seconds, self.ran = clock, seconds, []
        super().__init__(limits.Limit(minutes, 0, clock), COSTS, pace, turn, 2)

    def in_order(self):
        def phase(name):
            def function():
                self.ran.append(name)
                result = self.seconds.get(name, 1)
                if isinstance(result, Exception):
                    raise result
                self.clock.now += result
                return None
            return function
        return [(name, phase(name), needs) for name, _, needs in super().in_order()]


def run(script):
    with contextlib.redirect_stdout(io.StringIO()):
        return ci.run(script, script.limit)


class Runs(unittest.TestCase):
    def test_everything_fits(self):
        script = Script(Clock(), {})
        times, _, left_out, failed, ended = run(script)
        self.assertEqual((left_out, failed), ([], []))
        self.assertEqual(script.ran, [name for name, _, _ in script.in_order()])
        self.assertTrue(ended.issuperset(ci.NEEDED))
        self.assertEqual(len(times), len(script.ran))

    def test_what_cannot_end_is_not_started(self):
        # 1,090 of 1,200 seconds are gone, torture takes 130.
        script = Script(Clock(), {"tests": 1080})
        _, _, left_out, failed, _ = run(script)
        self.assertIn("torture", left_out)
        self.assertNotIn("torture", script.ran)
        self.assertEqual(failed, [])

    def test_a_slow_machine_leaves_more_out(self):
        slow = Script(Clock(), {"tests": 500}, pace=4.0)
        _, _, left_out, _, _ = run(slow)
        self.assertIn("asan, readers of foreign bytes", left_out)  # 1,200 s here, of 700 that are left
        fast = Script(Clock(), {"tests": 500})
        self.assertEqual(run(fast)[2], [])

    def test_what_needs_a_stopped_phase_is_left_out(self):
        script = Script(Clock(), {"build asan": output.Stopped()}, turn=1)
        _, _, left_out, failed, _ = run(script)
        for name in ("build asan", "asan, readers of foreign bytes", "build asan, other programs", "asan, other programs"):
            self.assertIn(name, left_out)
        self.assertIn("torture", script.ran)
        self.assertEqual(failed, [])

    def test_two_runs_have_every_phase(self):
        runs = [Script(Clock(), {}, turn=turn) for turn in (6, 7)]
        for script in runs:
            run(script)
        self.assertEqual(set(runs[0].ran) - set(runs[1].ran), {"build tsan", "tsan"})
        self.assertEqual(set(runs[1].ran) - set(runs[0].ran), {"build asan, other programs", "asan, other programs"})
        self.assertEqual([script.come_later() for script in runs], [phases.ASAN_OF_OTHERS, phases.TSAN])

    def test_a_failure_is_a_failure(self):
        script = Script(Clock(), {"build tsan": phases.Failed("cmake")})
        _, _, _, failed, _ = run(script)
        self.assertEqual(failed, ["build tsan"])
        self.assertIn("torture", script.ran)
        self.assertNotIn("tsan", script.ran)
        script = Script(Clock(), {"build": phases.Failed("cmake")})
        _, _, _, failed, ended = run(script)
        self.assertEqual((script.ran, failed), (["format", "build"], ["build"]))
        self.assertFalse(ended.issuperset(ci.NEEDED))


class Records(unittest.TestCase):
    def test_what_comes_in_other_runs_keeps_its_costs_at_this_pace(self):
        outcome = tests.Outcome()
        outcome.seconds = {"part.a.0": 7.0, "part.fast.0": 0.1}
        costs = {"phases": {"build": 100, "tsan": 20}, "tests": {"part.a.0": 20, "part.b.0": 30}}
        new = ci.recorded(costs, 0.5, [("build", 60.0), ("torture", "stopped after 9 s")], outcome, 2.5)
        self.assertEqual(new, {"compile_seconds": 2.5, "phases": {"build": 60, "tsan": 10}, "tests": {"part.a.0": 7.0, "part.b.0": 15.0}})


class Limits(unittest.TestCase):
    def test_time_before_the_script_counts(self):
        clock = Clock()
        clock.now = 160.0
        limit = limits.Limit(10, 100, clock)
        self.assertEqual((limit.passed(), limit.left()), (60, 540))

    def test_parts_take_turns(self):
        self.assertEqual(tests.that_fit(["part.a.0", "part.b.0", "part.c.0"], COSTS["tests"], 55), (["part.a.0", "part.b.0"], ["part.c.0"]))
        self.assertEqual(tests.that_fit(["part.c.0", "part.a.0", "part.new.0"], COSTS["tests"], 49), (["part.c.0", "part.a.0"], ["part.new.0"]))


class Disks(unittest.TestCase):
    def test_folders_without_room_are_named(self):
        free = {"/checkout": 40 * 2**30, "/tmp": 2.1 * 2**30}
        self.assertIsNone(disk.warning(["/checkout"], 16, free.get))
        line = disk.warning(["/checkout", "/tmp"], 16, free.get)
        self.assertIn("/tmp (2.1 GiB)", line)
        self.assertNotIn("/checkout", line)


class Commands(unittest.TestCase):
    def command(self, *arguments, **more):
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
            return output.command(["bash", "-c", *arguments], **more)

    def test_status_and_copy(self):
        copy = io.StringIO()
        self.assertEqual(self.command("echo one; exit 3", copy_to=copy), 3)
        self.assertEqual(copy.getvalue(), "one\n")

    def test_time_is_over(self):
        with self.assertRaises(output.Stopped):
            self.command("sleep 60 & sleep 60", seconds=0.2)

    def test_a_build_that_does_not_suffice_is_stopped(self):
        clock = Clock()
        progress = output.Progress(600, clock)
        clock.now = 170
        self.assertTrue(progress(b"[1/300] Building"))  # too early to say
        clock.now = 190
        self.assertTrue(progress(b"[100/300] Building"))  # 570 s
        self.assertTrue(progress(b"a warning"))
        self.assertFalse(progress(b"[90/300] Building"))  # 633 s
        with self.assertRaises(output.Stopped):
            self.command("echo '[1/300]'; sleep 60", line_seen=lambda line: False)


class Results(unittest.TestCase):
    def test_of_ctest(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w") as file:
                file.write('add_test(good "true")\nadd_test(bad "false")\nadd_test(skipped "bash" "-c" "exit 77")\n'
                           'set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)\n'
                           'add_test(hangs "sleep" "60")\nset_tests_properties(hangs PROPERTIES TIMEOUT 1)\n')
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                outcome = tests.run(folder, limits.Limit(60), 2, [])
            self.assertEqual(sorted(outcome.failed), ["bad", "hangs"])
            self.assertEqual((outcome.skipped, outcome.left_out, outcome.passed()), (["skipped"], [], 1))

    def test_stopped_tests_are_left_out_and_not_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w") as file:
                file.write("".join(f'add_test(slow{i} "sleep" "60")\nset_tests_properties(slow{i} PROPERTIES TIMEOUT 600)\n' for i in range(5)))
            limit = limits.Limit(1)
            limit.left = lambda: 60
            limit.begin -= 38  # ctest stops in about two seconds
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                outcome = tests.run(folder, limit, 2, [])
            self.assertEqual((outcome.failed, sorted(outcome.left_out)), ([], [f"slow{i}" for i in range(5)]))

    def test_no_time_starts_no_test(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w") as file:
                file.write('add_test(one "true")\n')
            self.assertEqual(tests.run(folder, limits.Limit(0.5), 2, []).left_out, ["one"])
            with self.assertRaises(SystemExit):
                tests.run(folder, limits.Limit(60), 2, ["-R", "missing"])


class Patterns(unittest.TestCase):
    def test_select_many_tests_and_no_others(self):
        # More than the two hundred names in fifty suites that a run leaves out, and some that differ by one character.
        names = [f"Suites/{'Long' * 5}{suite}.HasTheBits/case_{case}" for suite in range(60) for case in range(8)] + ["part.a.1", "part.a.10", "part_a.1"]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w") as file:
                file.write("".join(f'add_test("{name}" "true")\n' for name in names))
            chosen = names[: 8 * 60 : 2] + ["part.a.1"]
            self.assertEqual(list(tests.listed(folder, ["-R", tests.pattern(chosen)])), chosen)
            self.assertEqual(sorted(tests.listed(folder, ["-E", "^fuzz[.]|" + tests.pattern(chosen)])), sorted(set(names) - set(chosen)))
            with self.assertRaises(SystemExit) as refused:
                tests.listed(folder, ["-R", "(" * 40 + ")" * 40])
            self.assertIn("parenthes", str(refused.exception))


class Turns(unittest.TestCase):
    NAMES = ["Runs/Graphs.SameBits/a", "Runs/Graphs.SameBits/b", "Runs/Graphs.SameBits/c", "Runs/Graphs.SameBits/d", "Runs/Graphs.Other/a",
             "Short/One.Works/a", "Short/One.Works/b", "isa.avx2.test_x", "isa.avx512.test_x", "streams.20", "cuda.Isa/Sums.A/portable",
             "cuda.Isa/Sums.B/portable", "Plain.Test", "docs.page"]
    COSTS = {name: 1.0 if name.startswith("Short") else 20.0 for name in NAMES}

    def test_long_suites_come_whole_within_three_runs(self):
        runs = [set(self.NAMES) - {name for names in turns.come_later(self.NAMES, self.COSTS, turn).values() for name in names} for turn in (7, 8, 9)]
        self.assertEqual(set.union(*runs), set(self.NAMES))
        always = {"Runs/Graphs.Other/a", "Short/One.Works/a", "Short/One.Works/b", "streams.20", "Plain.Test", "docs.page"}
        self.assertEqual(set.intersection(*runs), always)
        self.assertEqual(sum(map(len, runs)), 3 * len(always) + len(self.NAMES) - len(always))

    def test_suites_without_recorded_costs_run_whole(self):
        self.assertEqual(turns.come_later(self.NAMES, {}, 1), {})


class SameObjects(unittest.TestCase):
    def test_finds_what_no_sanitizer_instruments_and_another_command_compiles(self):
        with tempfile.TemporaryDirectory() as root:
            for folder, flags in (("asan", {"same": "-O1", "other": "-O1 -Wno-error", "code": "-fsanitize=address"}),
                                  ("release", {"same": "-O1", "other": "-O1", "code": "-O3"})):
                path = os.path.join(root, folder)
                os.mkdir(path)
                with open(os.path.join(path, "compile_commands.json"), "w") as file:
                    # Each is compiled a second time, as kernels are, without a sanitizer and by one command.
                    json.dump([{"file": f"{path}/{name}.cpp", "command": f"c++ {more} -o {path}/{kind}/{name}.o"}
                               for name, flag in flags.items() for kind, more in (("first", flag), ("again", "-O2"))], file)
            self.assertEqual(same_objects.different(os.path.join(root, "asan"), os.path.join(root, "release")), ["/other.cpp"])


class Reports(unittest.TestCase):
    def test_lines(self):
        outcome = tests.Outcome()
        outcome.seconds = {"part.a.0": 45.0, "part.c.0": 10.0, "bad": 5.0}
        outcome.failed, outcome.left_out = ["bad"], ["part.b.0"]
        text = "\n".join(report.lines([("build", 100.0), ("tsan", "stopped after 9 s")], outcome, ["torture"], COSTS, 1.0, 2760))
        for part in ("   100 s  build", "     -    tsan: stopped after 9 s", "   45.0 s  75.0 %  part.a.0", "  +25.0 s  part.a.0",
                     "warning: 46 minutes", "left out for lack of time: torture, part.b.0", "failed: bad", "2 passed, 1 failed, 0 skipped"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
