"""Runs the checks of .ci/run within a limit of time (VIADUCT_CI_MINUTES), in order of worth, and says what it left out.

The costs of phases and tests in costs.json, and the machine's pace, tell what cannot end in time and is not started. A failure
is a failure always; a slow machine is not one, unless not even the release tests began.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import disk
import limit as limits
import output
import report
import tests
from phases import Failed, Phases

COSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "costs.json")
NEEDED = ("build", "build tests", "tests")  # a run without these has checked too little to pass


def commit_number():
    """How many commits there are: where the tests that take turns begin."""
    return int(subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True).stdout or 0)


def run(phases, limit):
    """Runs the phases. Returns their times, the outcome of all tests, the phases that were left out, and those that failed."""
    times, outcome, left_out, failed, ended = [], tests.Outcome(), [], [], set()
    for name, function, needs in phases.in_order():
        if not ended.issuperset(needs):
            if name not in left_out:
                left_out.append(name)
            continue
        # A build may find its objects in the compiler cache, so it is tried.
        least = 120 if name.startswith("build") or name == "kernels of GPUs" else phases.least_seconds(name)
        if limit.left() < least:
            left_out.append(name)
            continue
        output.say(f"== {name}")
        begin = limit.passed()
        try:
            result = function()
            if result is not None:
                outcome.add(result)
            ended.add(name)
            times.append((name, limit.passed() - begin))
        except output.Stopped:
            left_out.append(name)
            times.append((name, f"stopped after {limit.passed() - begin:.0f} s, it would not have ended in time"))
        except (Failed, subprocess.CalledProcessError) as error:
            output.say(f"ci: {name}: {error} failed")
            failed.append(name)
            times.append((name, f"failed after {limit.passed() - begin:.0f} s"))
            if name in NEEDED:
                break
    return times, outcome, left_out, failed, ended


def recorded(costs, pace, times, outcome, compile_seconds):
    """New costs: those of this run, and of what comes in other runs the old ones at this machine's pace."""
    phase_seconds = {name: seconds * pace for name, seconds in costs["phases"].items()}
    phase_seconds |= {name: seconds for name, seconds in times if isinstance(seconds, float)}
    test_seconds = {name: seconds * pace for name, seconds in costs["tests"].items()} | outcome.seconds
    return {"compile_seconds": round(compile_seconds, 2),
            "phases": {name: round(seconds) for name, seconds in phase_seconds.items()},
            "tests": {name: round(seconds, 1) for name, seconds in sorted(test_seconds.items()) if seconds >= 0.5}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--begin", type=float, default=None, help="when the run began, in seconds since 1970")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("VIADUCT_CI_MINUTES", "75")))
    parser.add_argument("--record", action="store_true", help="write costs.json from this run, which should be cold and on an idle machine")
    options = parser.parse_args()

    limit = limits.Limit(options.minutes, options.begin, time.time)
    cores = os.cpu_count() or 1
    with open(COSTS) as file:
        costs = json.load(file)
    compile_seconds = limits.compile_seconds(cores)
    pace = compile_seconds / costs["compile_seconds"]
    turn = commit_number()
    output.say(f"== {options.minutes:g} minutes, {cores} cores, pace {pace:.2f} ({compile_seconds:.1f} s for a source that takes "
               f"{costs['compile_seconds']} s on the machine of costs.json), turn {turn}")
    if lack := disk.warning(disk.written_folders()):
        output.say(lack)
    phases = Phases(limit, costs, pace, turn, cores)
    output.say(f"these phases come in another run: {'; '.join(phases.come_later())}")
    times, outcome, left_out, failed, ended = run(phases, limit)
    output.say("\n".join(report.lines(times, outcome, left_out, costs, pace, limit.passed())))
    if failed:
        output.say("== failed phases: " + ", ".join(failed))
    if options.record and not failed:
        with open(COSTS, "w") as file:
            json.dump(recorded(costs, pace, times, outcome, compile_seconds), file, indent=0)
            file.write("\n")
    sys.exit(1 if failed or outcome.failed or not ended.issuperset(NEEDED) else 0)


if __name__ == "__main__":
    main()
