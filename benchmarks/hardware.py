#!/usr/bin/python3
"""Checks and measures this machine: runs the tests of every op on every instruction set that it has (AMX in hardware if
it has AMX), then puts peaks, products, attention and training steps as one table into docs/benchmarks.md under the machine's name
(`./viaduct.sh hardware`). An existing table of the same machine is replaced. Exit status 1 if a test fails, or if the
machine has an instruction set that does not work."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ISAS = ("avx2", "avx512", "avx512_bf16", "amx")
TESTS = ("test_unit_ops", "test_unit_ops_cpu", "test_unit_ops_slow")
FORMS = ("forward", "data_gradient", "weight_gradient")
BEGIN, END = "<!-- ./viaduct.sh hardware: {} -->", "<!-- end of {} -->"
PLACE = "<!-- ./viaduct.sh hardware puts its tables above this line -->"


class Machine:
    """The output of `viaduct --version`: the CPU's name, the instruction sets that work, and warnings about the others."""

    def __init__(self, version, cores):
        found = re.search(r"^cpu: .*usable here: ([a-z0-9_, ]+) \((.*?)(?:: .*)?\)$", version, re.M)
        if not found:
            raise SystemExit("hardware: viaduct --version names no instruction set")
        # Every machine has `portable`; it is measured only if there is nothing else.
        self.isas = [isa for isa in ISAS if isa in found.group(1).split(", ")] or ["portable"]
        self.warnings = re.findall(r"^cpu: WARNING: (.*)$", version, re.M)
        cpu = re.sub(r"[^\w .@()/+]", "", found.group(2)).strip()
        self.name = f"{cpu}, {cores} core{'s' if cores != 1 else ''}: {', '.join(self.isas)}"


def loud(text):
    print(f"\n!!!!!!!! {text}\n", file=sys.stderr, flush=True)


def run_tests(folder, isas):
    """Runs the op test programs. Returns lines to print, the number of tests by instruction set, and problems."""
    counts, problems = {isa: 0 for isa in isas}, []
    for program in TESTS:
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            done = subprocess.run([str(Path(folder) / program), "--gtest_brief=1", f"--gtest_output=json:{report.name}"],
                                  stdout=subprocess.DEVNULL)
            try:
                suites = json.loads(Path(report.name).read_text())["testsuites"]
            except ValueError:
                problems.append(f"{program} ended with status {done.returncode} before it was done")
                continue
        for suite in suites:
            for test in suite["testsuite"]:
                name = f"{suite['name']}.{test['name']}"
                isa = test["name"].rpartition("/")[2]
                if test.get("failures"):
                    problems.append(f"{program}: {name} FAILED")
                elif isa in counts and test.get("result") == "COMPLETED":
                    counts[isa] += 1
        if done.returncode != 0 and not any(problem.startswith(program) for problem in problems):
            problems.append(f"{program} ended with status {done.returncode}")
    problems += [f"no test ran on {isa}" for isa, count in counts.items() if count == 0]
    return counts, problems


class Bench:
    def __init__(self, viaduct):
        self.viaduct = viaduct

    def __call__(self, *arguments):
        print("viaduct bench " + " ".join(arguments), file=sys.stderr, flush=True)
        done = subprocess.run([self.viaduct, "bench", *arguments, "--json"], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit(f"hardware: {self.viaduct} bench {' '.join(arguments)} failed")
        return json.loads(done.stdout)


def dtypes_of(isa):
    """The formats whose products have a kernel of their own on `isa`."""
    return {"portable": ["fp32"], "avx2": ["fp32"], "avx512": ["fp32"], "avx512_bf16": ["bf16"], "amx": ["bf16"]}[isa]


def measure(bench, isas, quick):
    """Rows of the table: measurement, instruction set or kernel, rate, share of which peak."""
    rows, peaks, rounds = [], {}, ["--rounds", "3" if quick else "9"]
    for isa in isas:
        for dtype in dtypes_of(isa):
            for n, k in ((768, 768),) if quick else ((768, 768), (3072, 768), (768, 3072)):
                found = [bench("gemm", "--m", "2048", "--n", str(n), "--k", str(k), "--form", form, "--dtype", dtype, "--cpu-isa", isa, *rounds)
                         for form in FORMS]
                for one in found:
                    peaks[one["peak"]] = max(peaks.get(one["peak"], 0), one["peak_tflops"])
                rows.append((f"{dtype.upper()} product 2048 × {n} × {k}, forward / data / weight gradient", isa,
                             " / ".join(f"{one['tflops']:.3f}" for one in found) + " TFLOP/s",
                             " / ".join(f"{100 * one['peak_fraction']:.0f}" for one in found) + f" % of {found[0]['peak']}"))
    shapes = [(1024, 4, 12, 64)] if quick else [(1024, 4, 12, 64), (8192, 1, 8, 128)]
    for sequence, batch, heads, size in shapes:
        one = bench("attention", "--sequence", str(sequence), "--batch", str(batch), "--heads", str(heads), "--head-dim", str(size), *rounds)
        both = (one["forward"], one["backward"])
        rows.append((f"BF16 attention, B {batch}, S {sequence}, {heads} heads of {size}, forward / backward", isas[-1],
                     " / ".join(f"{each['tflops']:.3f}" for each in both) + " TFLOP/s",
                     " / ".join(f"{100 * each['peak_fraction']:.0f}" for each in both) + f" % of {one['peak']}"))
    steps = [("llama_10m", "bf16_mixed"), ("gpt_10m", "bf16_mixed"), ("llama_10m", "fp32")]
    for config, recipe in steps[:1] if quick else steps:
        one = bench("step", "--config", str(ROOT / f"configs/bench/{config}.yaml"), "--steps", "1" if quick else "5", "--warmup", "1",
                    f"mixed_precision={recipe}")
        rows.append((f"training step, `{config}`, {recipe}", isas[-1], f"{one['tokens_per_second']:,.0f} tokens/s",
                     f"{100 * one['mfu']:.0f} % of {one['peak'].split(',')[0]}"))
    top = [(f"peak, {name}", "", f"{tflops:.3f} TFLOP/s", "") for name, tflops in peaks.items()]
    return top + rows


def section(machine, counts, rows):
    lines = [BEGIN.format(machine.name), f"### {machine.name}", ""]
    if counts:
        lines += ["Op tests passed, by instruction set: " + ", ".join(f"{isa} {count}" for isa, count in counts.items()) + ".", ""]
    lines += ["| what | instruction set | rate | of the peak |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, END.format(machine.name)]) + "\n"


def put_section(page, name, text):
    """Returns the page with the machine's section, in place of an earlier one or before the line that marks the place."""
    begin, end = BEGIN.format(name), END.format(name)
    if begin in page:
        head, rest = page.split(begin, 1)
        if end not in rest:
            raise SystemExit(f"hardware: the page has the line {begin!r} without {end!r}")
        return head + text + rest.split(end, 1)[1].removeprefix("\n")
    if PLACE not in page:
        raise SystemExit(f"hardware: the page lacks the line {PLACE!r}")
    return page.replace(PLACE, text + "\n" + PLACE, 1)


def main():
    parser = argparse.ArgumentParser(prog="./viaduct.sh hardware", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a first look: fewer shapes and rounds; nothing is written")
    parser.add_argument("--no-write", action="store_true", help="print the table and leave the page as it is")
    parser.add_argument("--page", default=str(ROOT / "docs/benchmarks.md"), help="page to put the table into")
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help=argparse.SUPPRESS)
    parser.add_argument("--tests", default=str(ROOT / "build/release/tests"), help=argparse.SUPPRESS)
    options = parser.parse_args()

    version = subprocess.run([options.viaduct, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    machine = Machine(version, len(os.sched_getaffinity(0)))
    print(machine.name)
    print(f"tests of every op on {', '.join(machine.isas)}", file=sys.stderr, flush=True)
    counts, problems = run_tests(options.tests, machine.isas)
    for isa, count in counts.items():
        print(f"{isa}: {count} op tests passed")
    problems = machine.warnings + problems
    if problems:
        for problem in problems:
            loud(problem)
        raise SystemExit("hardware: this machine computes wrong results; nothing is measured or written")
    text = section(machine, counts, measure(Bench(options.viaduct), machine.isas, options.quick))
    print("\n" + text)
    if options.quick or options.no_write:
        return
    page = Path(options.page)
    page.write_text(put_section(page.read_text(), machine.name, text))
    print(f"the table is in {page}")


if __name__ == "__main__":
    main()
