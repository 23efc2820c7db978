#!/usr/bin/python3
"""Counts the instructions of the hot ops with callgrind and compares them with counts.txt: `./viaduct.sh counts` (docs/benchmarks.md).

Counts do not depend on other work of the machine, so they show a change of a kernel where clocks are too noisy. They are of the AVX2
kernels: Valgrind 3.19 has no AVX-512. Exit status 1 if a count is out of its tolerance, or if ops were added or removed."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE / "counts.txt"


def measure(program):
    """Instructions by op name."""
    if shutil.which("valgrind") is None:
        raise SystemExit("counts: valgrind is not installed (Debian: valgrind)")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/counts", program],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit(f"counts: {program} failed under callgrind:\n{done.stderr[-2000:]}")
        counts = {}
        for file in Path(folder).iterdir():
            text = file.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.M)
            total = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
            if name and total:
                counts[name.group(1)] = int(total.group(1))
    names = done.stdout.split("\n")[:-1]
    if missing := [name for name in names if name not in counts]:
        raise SystemExit(f"counts: callgrind counted nothing for {', '.join(missing)}")
    return {name: counts[name] for name in names}


def recorded():
    rows = (line.rsplit(maxsplit=1) for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    return {name: int(count) for name, count in rows}


def compare(counts, tolerance):
    """Prints every op. Returns the number of ops out of tolerance or in only one table."""
    before, wrong = recorded(), 0
    print(f"{'op':<34} {'recorded':>12} {'now':>12} {'change':>8}")
    for name in list(counts) + [name for name in before if name not in counts]:
        if name not in before or name not in counts:
            wrong += 1
            print(f"{name:<34} {before.get(name, '-'):>12} {counts.get(name, '-'):>12}  {'new' if name in counts else 'gone'}")
            continue
        change = counts[name] / before[name] - 1
        outside = abs(change) > tolerance
        wrong += outside
        print(f"{name:<34} {before[name]:>12} {counts[name]:>12} {100 * change:>+7.1f}%{'  <' if outside else ''}")
    return wrong


def main():
    parser = argparse.ArgumentParser(prog="viaduct.sh counts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(HERE.parent / "build/release/benchmarks/op_counts"), help="(default: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=2, help="in percent (default: %(default)s)")
    parser.add_argument("--update", action="store_true", help="write the counts to benchmarks/counts.txt")
    options = parser.parse_args()
    counts = measure(options.program)
    if options.update:
        compiler = subprocess.run(["c++", "--version"], stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
        TABLE.write_text(f"# Instructions of one call of each op of benchmarks/op_counts.cpp: AVX2 kernels, one thread, release build,\n# {compiler}. "
                         "Written by ./viaduct.sh counts --update.\n" + "".join(f"{name:<34} {count:>12}\n" for name, count in counts.items()))
        print(f"wrote {TABLE}")
        return 0
    wrong = compare(counts, options.tolerance / 100)
    if wrong:
        print(f"{wrong} ops differ from the record (tolerance {options.tolerance} %); if this is intended: ./viaduct.sh counts --update")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
