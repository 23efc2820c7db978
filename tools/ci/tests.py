"""Runs of ctest that end before the limit, and what they say of each test."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree

import output

RESULT = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) .*?(Passed|Not Run|\*\*\*\S.*?) +([0-9.]+) sec")


class Outcome:
    """What became of tests: seconds of each by name, names of those that failed, were skipped, or were left out for lack of time."""

    def __init__(self):
        self.seconds, self.failed, self.skipped, self.left_out = {}, [], [], []

    def add(self, other):
        self.seconds.update(other.seconds)
        self.failed += other.failed
        self.skipped += other.skipped
        self.left_out += other.left_out

    def passed(self):
        return len(self.seconds) - len(self.failed) - len(self.skipped)


def pattern(names):
    """A regular expression of ctest for these tests alone. It has one group, since CMake refuses an expression of more than some 30."""
    return "^(" + "|".join(names).replace(".", "[.]") + ")$"


def listed(folder, arguments):
    """The tests that ctest would run: {name: its own time limit in seconds}."""
    listing = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1", *arguments], check=True, capture_output=True, text=True)
    # ctest exits with 0 for an expression that it cannot read, and says so where the list would be.
    if not listing.stdout.startswith("{"):
        raise SystemExit(f"ci: ctest lists no tests of {folder}: {(listing.stderr or listing.stdout)[:500]}")
    tests = {}
    for test in json.loads(listing.stdout)["tests"]:
        limits = [p["value"] for p in test.get("properties", []) if p["name"] == "TIMEOUT"]
        tests[test["name"]] = float(limits[0]) if limits else 1500.0
    return tests


def read_results(folder, tests):
    """The outcome that the last run of ctest in a build folder wrote into results.xml. A test that was stopped before its own time
    limit was stopped by the limit of the whole run, and is left out."""
    outcome = Outcome()
    ran = set()
    for case in xml.etree.ElementTree.parse(os.path.join(folder, "results.xml")).getroot().iter("testcase"):
        name, seconds, status = case.get("name"), float(case.get("time")), case.get("status")
        if status == "fail" and stopped_early(folder, name, seconds, tests):
            continue
        ran.add(name)
        outcome.seconds[name] = seconds
        if status == "fail":
            outcome.failed.append(name)
        elif status in ("notrun", "disabled"):
            outcome.skipped.append(name)
    outcome.left_out = [name for name in tests if name not in ran]
    return outcome


def stopped_early(folder, name, seconds, tests):
    with open(os.path.join(folder, "results.log"), errors="replace") as log:
        for line in log:
            found = RESULT.match(line)
            if found and found[1] == name:
                return found[2].startswith("***Timeout") and seconds < tests.get(name, 0) - 1
    return False


def run(folder, limit, cores, arguments, command=None):
    """Runs the tests that ctest's arguments select, at most until the limit, and returns their outcome. `command` runs ctest in
    the folder with further arguments; without one, ctest is called."""
    tests = listed(folder, arguments)
    if not tests:
        raise SystemExit(f"ci: no test in {folder} is selected by {' '.join(arguments)}")
    if limit.left() < 40:  # ctest would take a stop time that has passed for tomorrow's
        outcome = Outcome()
        outcome.left_out = list(tests)
        return outcome
    # Some tests mostly wait, so one more test runs at a time than there are cores.
    command = command or ["ctest", "--test-dir", folder, "-j", str(cores + 1), "--output-on-failure", "--no-tests=error"]
    with open(os.path.join(folder, "results.log"), "w") as log:
        output.command([*command, "--stop-time", limit.stop_time(), "--output-junit", "results.xml", *arguments], copy_to=log)
    return read_results(folder, tests)


def program(path, limit):
    """Runs a whole GoogleTest program as one entry, at most until the limit."""
    outcome, begin, name = Outcome(), limit.passed(), os.path.basename(path)
    try:
        if output.command([path, "--gtest_brief=1"], limit.left()) != 0:
            outcome.failed.append(name)
        outcome.seconds[name] = limit.passed() - begin
    except output.Stopped:
        outcome.left_out.append(name)
    return outcome


def that_fit(names, costs, seconds):
    """The tests that take at most `seconds` together by their recorded costs, in their order, and the others. One without a cost
    counts as the mean of the others."""
    mean = sum(costs.values()) / len(costs) if costs else 1
    chosen, late = [], []
    for name in names:
        seconds -= costs.get(name, mean)
        (chosen if seconds >= 0 else late).append(name)
    return chosen, late
