#!/usr/bin/env python3
"""Checks and measures dist.device=cuda on this machine's GPU: docs/cuda.md, "On a GPU"."""

import argparse
import json
import sys
import time
from pathlib import Path

import measure
import probe
import runs
from phases import Phases

ROOT = Path(__file__).resolve().parents[2]
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


def main():
    parser = argparse.ArgumentParser(prog="tools/gpu_check.sh", description=__doc__)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the program (default: %(default)s)")
    parser.add_argument("--library", default=str(ROOT / "build/cuda/libviaduct_cuda.so"), help="the library of the device (default: %(default)s)")
    parser.add_argument("--tests", default=str(ROOT / "build/release/tests/gpu/test_on_gpu"),
                        help="the tests of ops and models on the device (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=10, help="time limit of all phases together (default: %(default)s)")
    parser.add_argument("--out", default=str(ROOT / "build/gpu_check.json"), help="the result as JSON (default: %(default)s)")
    parser.add_argument("--calibration", default=str(ROOT / "build/gpu_calibration.yaml"),
                        help="the calibration of the GPU, for viaduct plan (default: %(default)s)")
    parser.add_argument("--page", help="also put the table into this page (docs/benchmarks.md)")
    parser.add_argument("--only", help="run only these phases: names separated by commas")
    options = parser.parse_args()

    gpu = probe.find_gpu()
    if isinstance(gpu, str):
        print(f"gpu_check: {gpu}", file=sys.stderr)
        return 1
    print(f"gpu_check: {gpu['name']}, {gpu['memory']}, driver {gpu['driver']}, compute capability {gpu['capability']}", flush=True)
    phases = Phases(options.minutes * 60, options.only.split(",") if options.only else None)
    phases.run("libraries", 20, lambda: probe.libraries())
    phases.run("program", 30, lambda: runs.starts(options))
    ceilings = phases.run("ceilings", 60, lambda: measure.ceilings(gpu))
    phases.run("tests of ops and models", 180, lambda: runs.tests(options))
    phases.run("20 steps beside the cpu", 90, lambda: runs.beside_cpu(options))
    phases.run("ops beside the ceilings", 60, lambda: measure.ops(options))
    phases.run("compute-sanitizer", 90, lambda: runs.sanitized(options))
    for case in measure.CASES:
        phases.run(f"steps, {case['name']}", case["seconds"], lambda: measure.steps(options, gpu, case, ceilings))
    phases.run("calibration", 60, lambda: measure.calibration(options, gpu, phases.results))
    report = {"gpu": gpu, "date": time.strftime("%Y-%m-%d"), "phases": phases.results}
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(json.dumps(report, indent=1) + "\n")
    text = table(report)
    print(text)
    if options.page:
        put_table(Path(options.page), text)
    return 1 if any(phase["status"] == "failed" for phase in phases.results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
