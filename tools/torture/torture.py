#!/usr/bin/env python3
"""Attacks training runs for a given time and checks the guarantees of docs/reliability.md after each attack.

The random numbers of a case follow from the seed and its number: `--seed S --case N` repeats case N. (Moments are
random waits, so a race may need several tries.) Prints a table; exit status 1 if a guarantee was broken."""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import traceback

import checks
from attacks import ATTACKS, Case
from runs import STEPS, have_mpi


class Torture:
    def __init__(self, options, folder):
        self.binary = os.path.abspath(options.binary)
        self.with_mpi = have_mpi() and not options.no_mpi
        self.folder = folder
        self.references = {}  # layout → (shards, seconds)

    def undisturbed(self, case):
        key = str(case.layout)
        if key not in self.references:
            save = os.path.join(self.folder, "reference")
            shutil.rmtree(save, ignore_errors=True)
            begin = time.monotonic()
            run = case.start(save=save)
            status = run.finish()
            checks.check(status == 0, f"an undisturbed run ends with {status}: {run.text()}")
            seconds = time.monotonic() - begin
            checks.check_finished(save, STEPS)
            before = checks.contents(save)
            checks.check(case.start(save=save).finish() == 0, "a finished run that is started again fails")
            checks.check(checks.contents(save) == before, "a finished run that is started again changes its folder")
            self.references[key] = checks.shards(save, f"step_{STEPS:08d}"), seconds
        return self.references[key]

    def reference(self, case):
        return self.undisturbed(case)[0]

    def seconds(self, case):
        return self.undisturbed(case)[1]


def choose(generator, only):
    names = [only] if only else list(ATTACKS)
    return generator.choices(names, [ATTACKS[name][1] for name in names])[0]


def run_case(torture, seed, number, only, report):
    generator = random.Random(f"{seed}:{number}")
    name = choose(generator, only)
    folder = os.path.join(torture.folder, f"case_{number}")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    case = Case(torture, generator, folder)
    layout = str(case.layout)
    row = report.setdefault(name, {"cases": 0, "sessions": 0, "attacks": 0, "findings": 0})
    try:
        ATTACKS[name][0](case)
    except Exception as error:  # an error of this program counts as a finding
        row["findings"] += 1
        what = str(error) if isinstance(error, checks.Finding) else traceback.format_exc()
        print(f"FOUND by case {number} ({name}, {layout}): {what}\n  repeat with: --seed {seed} --case {number}"
              f"{f' --only {only!r}' if only else ''}\n  folder: {folder}", flush=True)
        with open(os.path.join(folder, "sessions.txt"), "w") as file:
            file.write("\n".join(case.said))
    else:
        shutil.rmtree(folder, ignore_errors=True)
    row["cases"] += 1
    row["sessions"] += case.sessions
    row["attacks"] += case.events


def print_table(report, seconds, seed):
    print(f"\n{seconds / 60:.1f} minutes, seed {seed}\n")
    print("| kind | cases | sessions | attacks | findings |\n|---|---:|---:|---:|---:|")
    total = [0, 0, 0, 0]
    for name in ATTACKS:
        row = list(report.get(name, {"cases": 0, "sessions": 0, "attacks": 0, "findings": 0}).values())
        total = [a + b for a, b in zip(total, row)]
        print(f"| {name} | {' | '.join(map(str, row))} |")
    print(f"| all | {' | '.join(map(str, total))} |", flush=True)
    return total[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one each time; it is printed")
    parser.add_argument("--case", type=int, default=None, help="run only the case of this number")
    parser.add_argument("--only", choices=list(ATTACKS), help="only attacks of this kind")
    parser.add_argument("--no-mpi", action="store_true", help="ranks are threads only")
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    folder = tempfile.mkdtemp(prefix="viaduct-torture-")
    torture = Torture(options, folder)
    print(f"seed {seed}, {'threads and MPI' if torture.with_mpi else 'threads'}, in {folder}", flush=True)
    report, begin, number = {}, time.monotonic(), 0
    while time.monotonic() - begin < 60 * options.minutes:
        run_case(torture, seed, number if options.case is None else options.case, options.only, report)
        number += 1
        if options.case is not None:
            break
    findings = print_table(report, time.monotonic() - begin, seed)
    if findings == 0:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
