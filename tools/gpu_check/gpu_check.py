#!/usr/bin/env python3
"""Checks and measures dist.device=cuda on this machine's GPU: docs/cuda.md, "On a GPU"."""

import argparse
import json
import sys
import time
from pathlib import Path

import measure
import pack
import probe
import runs
from phases import Phases

ROOT = Path(__file__).resolve().parents[2]
# Tests of products, whose kinds are asked of the library.
PRODUCTS = "*Gemm*:*Grouped*:*QuantizedOperand*:*Nvfp4Operand*"
# Of --small: a few tests of each program, which take seconds on a double.
SMALL_PRODUCTS = "*GemmTest*/portable"
SMALL_TESTS = "*ElementwiseTest*:GpuRuns.*"
BEGIN, END = "<!-- gpu_check: begin -->", "<!-- gpu_check: end -->"


def table(report):
    """The results as a Markdown table, with the reasons of phases that were skipped or failed."""
    gpu = report["gpu"]
    lines = [f"One {gpu['name']} ({gpu['memory']}, driver {gpu['driver']}, compute capability {gpu['capability']}), "
             f"{report['date']}, `tools/gpu_check.sh`.", "", "| what | result |", "|---|---|"]
    for name, phase in report["phases"].items():
        for what, result in phase.get("rows", []):
            lines.append(f"| {what} | {result} |")
        if phase["status"] != "done":
            lines.append(f"| {name} | {phase['status']}: {phase['why']} |")
    return "\n".join(lines)


def put_table(page, text):
    """Replaces the text between the marks of the page."""
    old = page.read_text()
    if BEGIN not in old or END not in old:
        sys.exit(f"gpu_check: {page} has no place for the table ({BEGIN} … {END})")
    head, rest = old.split(BEGIN, 1)
    page.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")


def run_all(phases, options, target, gpu):
    """Every phase, in order of worth: what the first minutes must tell comes first."""
    phases.run("libraries", 20, lambda: probe.libraries(options.viaduct, runs.environment(options)))
    phases.run("first step", 40, lambda: runs.starts(options))
    phases.run("products", 60, lambda: runs.products(options))
    for case in runs.STEPS:
        phases.run(f"steps beside the cpu, {case[0]}", 30, lambda: runs.beside_cpu(options, target, case))
    for case in measure.CASES:
        phases.run(f"steps, {case['name']}", case["seconds"], lambda: measure.steps(options, case))
    phases.run("ops beside the ceilings", 60, lambda: measure.ops(options))
    phases.run("tests of ops and models", 180, lambda: runs.tests(options))
    phases.run("memcheck", 90, lambda: runs.sanitized(options, "memcheck"))
    phases.run("ceilings of PyTorch", 60, measure.ceilings)
    for name in measure.PEERS:
        phases.run(f"PyTorch, {name}", 90, lambda: measure.peer(name, phases.results))
    phases.run("calibration", 60, lambda: measure.calibration(options, gpu, phases.results))
    phases.run("racecheck", 90, lambda: runs.sanitized(options, "racecheck"))
    phases.run(f"steps, {measure.LAST['name']}", measure.LAST["seconds"], lambda: measure.steps(options, measure.LAST))


def main():
    parser = argparse.ArgumentParser(prog="tools/gpu_check.sh", description=__doc__)
    parser.add_argument("--pack", metavar="FILE", help="only pack what a check needs into FILE (.tar.gz), for a machine without this checkout")
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the program (default: %(default)s)")
    parser.add_argument("--library", default=str(ROOT / "build/cuda/libviaduct_cuda.so"), help="the library of the device (default: %(default)s)")
    parser.add_argument("--tests", default=str(ROOT / "build/release/tests/gpu/test_on_gpu"),
                        help="the tests of ops and models on the device (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=10, help="time limit of all phases together (default: %(default)s)")
    parser.add_argument("--continue", dest="resumed", action="store_true", help="do not repeat phases that --out says were done")
    parser.add_argument("--out", default=str(ROOT / "build/gpu_check.json"), help="the result as JSON, written after each phase (default: %(default)s)")
    parser.add_argument("--calibration", default=str(ROOT / "build/gpu_calibration.yaml"),
                        help="the calibration of the GPU, for viaduct plan (default: %(default)s)")
    parser.add_argument("--page", help="also put the table into this page (docs/benchmarks.md)")
    parser.add_argument("--only", help="run only these phases: names separated by semicolons")
    parser.add_argument("--small", action="store_true", help="small shapes and few tests: a dry run of the check itself, on a double of the GPU")
    options = parser.parse_args()
    options.libraries = ROOT / "lib"  # of a package
    if options.pack:
        return pack.pack(options)
    options.steps = 3 if options.small else 20
    options.product_tests = SMALL_PRODUCTS if options.small else PRODUCTS
    options.op_tests = SMALL_TESTS if options.small else f"-{PRODUCTS}"

    gpu = probe.find_gpu()
    if isinstance(gpu, str):
        print(f"gpu_check: {gpu}", file=sys.stderr)
        return 1
    print(f"gpu_check: {gpu['name']}, {gpu['memory']}, driver {gpu['driver']}, compute capability {gpu['capability']}", flush=True)
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    report = {"gpu": gpu, "date": time.strftime("%Y-%m-%d"), "phases": json.loads(out.read_text())["phases"] if options.resumed and out.exists() else {}}

    def note():
        out.with_suffix(".new").write_text(json.dumps(report, indent=1) + "\n")
        out.with_suffix(".new").replace(out)

    phases = Phases(options.minutes * 60, options.only.split(";") if options.only else None, report["phases"], note,
                    slower=10 if options.small else 1)
    run_all(phases, options, probe.target_of(gpu["capability"]), gpu)
    note()
    text = table(report)
    print(text)
    if options.page:
        put_table(Path(options.page), text)
    unknown = [name for name in phases.only or [] if name not in phases.names]
    if unknown:
        print(f"gpu_check: there is no phase {'; '.join(unknown)}, expected some of {'; '.join(phases.names)}", file=sys.stderr)
        return 1
    return 1 if any(phase["status"] == "failed" for phase in phases.results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
