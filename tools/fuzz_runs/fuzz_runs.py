#!/usr/bin/env python3
"""Runs random legal configurations and checks that they end with the right numbers.

A case has a seed of its own, from which everything follows: seeds are counted up from --seed, and --replay runs one again. A
configuration is compared with one rank of the same mathematics; another kind of case interrupts a run and resumes it. A finding is a
crash, a hang, a checkpoint that is missing or cannot be read, a difference beyond the tolerance, a refusal that names no field or
comes when the ranks are already running. Prints counts; exit status 1 if there was a finding."""

import argparse
import concurrent.futures
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback

import cases
from inputs import Inputs
from knobs import read_knobs
from sessions import Runner

SESSION_SECONDS = 120  # a run takes well under a second on an idle machine
MEMORY_FOLDER = "/dev/shm"  # runs flush what they save, for which a disk takes longer than they do for the rest


def new_folder():
    in_memory = not os.environ.get("TMPDIR") and os.path.isdir(MEMORY_FOLDER) and shutil.disk_usage(MEMORY_FOLDER).free > 1 << 28
    return tempfile.mkdtemp(prefix="viaduct-fuzz-runs-", dir=MEMORY_FOLDER if in_memory else None)


class Fuzz:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.runner = Runner(os.path.abspath(options.binary), options.session_seconds)
        self.knobs = read_knobs(self.runner.binary)
        self.inputs = Inputs(self.runner, os.path.join(folder, "inputs"))
        self.with_mpi = shutil.which("mpirun") is not None and not options.no_mpi
        self.lock = threading.Lock()
        self.outcomes = {}  # (kind, outcome) → count
        self.findings = 0

    def run_case(self, seed):
        generator = random.Random(seed)
        kinds = [self.options.only] if self.options.only else list(cases.KINDS)
        kind = generator.choices(kinds, [cases.KINDS[name][1] for name in kinds])[0]
        folder = os.path.join(self.folder, f"seed_{seed}")
        os.makedirs(folder)
        case = cases.Case(generator, self.knobs, self.runner, folder, self.with_mpi, self.inputs, self.options.family)
        try:
            outcome = cases.KINDS[kind][0](case)
        except Exception as error:  # an error of this program counts as a finding
            outcome = "finding"
            self.report(seed, kind, case, str(error) if isinstance(error, cases.Finding) else traceback.format_exc())
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if self.options.verbose:
            last = case.sessions[-1].error() if outcome == "refused" else ""
            print(f"seed {seed} ({kind}): {outcome}: {case.configuration.text()} {last}", flush=True)
        with self.lock:
            self.outcomes[kind, outcome] = self.outcomes.get((kind, outcome), 0) + 1

    def report(self, seed, kind, case, what):
        text = "\n\n".join(f"$ {' '.join(s.command)}\n{s.text}\n-> {s.status}" for s in case.sessions)
        with open(os.path.join(case.folder, "sessions.txt"), "w") as file:
            file.write(text)
        only = "".join(f" --{name} {value}" for name, value in (("only", self.options.only), ("family", self.options.family)) if value)
        with self.lock:
            self.findings += 1
            print(f"FOUND by seed {seed} ({kind}): {what}\n  {case.configuration.text()}\n  repeat with: --replay {seed}{only}\n"
                  f"  folder: {case.folder}", flush=True)

    def run_for(self, seconds, first):
        """Counts seeds up until the time is over; returns the next one."""
        end, seeds = time.monotonic() + seconds, iter(range(first, first + 10**9))
        last = [first]

        def work():
            while time.monotonic() < end and not (self.options.first and self.findings):
                with self.lock:
                    if last[0] - first >= self.options.cases:
                        return
                    seed = next(seeds)
                    last[0] = seed + 1
                self.run_case(seed)

        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for future in [pool.submit(work) for _ in range(self.options.jobs)]:
                future.result()
        return last[0]

    def print_counts(self, first, end, seconds):
        print(f"\nseeds {first} to {end - 1}: {self.runner.count} runs in {seconds / 60:.1f} minutes\n")
        print("| kind | compared | refused | no one-rank run | diverged | findings |\n|---|---:|---:|---:|---:|---:|")
        columns = ["compared", "refused", "no one-rank run", "diverged", "finding"]
        for kind in cases.KINDS:
            print(f"| {kind} | {' | '.join(str(self.outcomes.get((kind, column), 0)) for column in columns)} |")
        print(f"\n{self.findings} finding{'' if self.findings == 1 else 's'}", flush=True)

    def log_row(self, first, end):
        """A row of the table in docs/reliability.md."""
        counts = [self.outcomes.get(key, 0) for key in (("layouts", "compared"), ("layouts", "refused"), ("resumes", "compared"))]
        return f"| {first} to {end - 1} | {' | '.join(map(str, counts))} | {self.findings} | {'threads and MPI' if self.with_mpi else 'threads'} |\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--cases", type=int, default=10**9, metavar="N", help="end after so many cases, if --minutes does not before")
    parser.add_argument("--log", metavar="FILE", help="append a row with seeds and counts, as docs/reliability.md has them")
    parser.add_argument("--seed", type=int, default=None, help="of the first case; default: a new one each time; it is printed")
    parser.add_argument("--replay", type=int, default=None, metavar="SEED", help="run the case of this seed alone")
    parser.add_argument("--only", choices=list(cases.KINDS), help="only cases of this kind")
    parser.add_argument("--family", help="only models of this family, none that exists")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="cases at a time")
    parser.add_argument("--session-seconds", type=float, default=SESSION_SECONDS, help="a run that takes longer hangs")
    parser.add_argument("--first", action="store_true", help="end at the first finding")
    parser.add_argument("--verbose", action="store_true", help="a line for each case, with the refusal of those that are refused")
    parser.add_argument("--no-mpi", action="store_true", help="ranks are threads only")
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    folder = new_folder()
    fuzz = Fuzz(options, folder)
    begin = time.monotonic()
    if options.replay is not None:
        first, end = options.replay, options.replay + 1
        fuzz.run_case(first)
    else:
        first = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
        print(f"seeds from {first}, {'threads and MPI' if fuzz.with_mpi else 'threads'}, in {folder}", flush=True)
        end = fuzz.run_for(60 * options.minutes, first)
    fuzz.print_counts(first, end, time.monotonic() - begin)
    if options.log and options.replay is None:
        with open(options.log, "a") as file:
            file.write(fuzz.log_row(first, end))
    if fuzz.findings == 0:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if fuzz.findings else 0


if __name__ == "__main__":
    sys.exit(main())
