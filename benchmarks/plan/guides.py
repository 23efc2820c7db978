#!/usr/bin/env python3
"""Predicts the scenarios of the tuning guides (configs/guides) and prints a table beside what is claimed and published.

guides.py --viaduct BIN [--only REGEX] [--markdown FILE]

A scenario that cannot be predicted is listed with the reason. Exit status 1 if a configuration of claims.csv is missing.
"""
import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = """# The guides' scenarios

This page compares what benchmark pages claim about configurations with what [`viaduct plan`](planning.md) predicts for them. It is made by
`python3 benchmarks/plan/guides.py --viaduct build/release/viaduct --markdown docs/guide-scenarios.md` from
[`configs/guides`](../configs/guides/claims.csv). Published figures are tokens/s a GPU of
[`published_runs.csv`](../benchmarks/plan/published_runs.csv), each with its own batch and number of GPUs. Predictions are in BF16. MFU counts causal attention half.

Not here: DeepSeek-V3; weak and strong scaling and cost, which
[several `--ranks`](planning.md#finding-a-layout) give.

| scenario | step | tokens/s a GPU | TFLOP/s | MFU | peak memory | claim | published | what holds |
|---|---|---|---|---|---|---|---|---|
"""


def predicted(viaduct, row):
    config = ROOT / "configs" / "guides" / f"{row['recipe']}.yaml"
    if not config.exists():
        sys.exit(f"guides.py: {config} is missing")
    run = subprocess.run([viaduct, "plan", "--config", str(config), "--cluster", row["cluster"], "--json", "--rule-seconds",
                          "1e-9"], capture_output=True, text=True)
    if run.returncode != 0:
        return None, run.stderr.strip().splitlines()[0]
    return json.loads(run.stdout)["predicted"], ""


def line(row, result, reason, published):
    runs = []
    for name in row["published"].split():
        speed, tflops = published.get(name, ("", ""))
        runs.append(f"{float(speed):,.0f} ({name})" if speed else f"{tflops} TFLOP/s ({name})" if tflops else f"no throughput ({name})")
    if result is None:
        cells = [f"not predicted: {reason}", "", "", "", ""]
    else:
        peak = max(result["peak_memory_bytes"])
        cells = [f"{result['step_seconds']:.2f} s", f"{result['tokens_per_second_per_gpu']:,.0f}", f"{result['tflops_per_gpu']:.0f}",
                 f"{100 * result['mfu']:.1f} %", f"{peak / 2**30:.1f} GiB" + ("" if result["fits"] else ", does not fit")]
    cells = [f"`{row['recipe']}`"] + cells + [row["claim"], ", ".join(runs) or "–", row["holds"]]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown")
    args = parser.parse_args()
    with open(ROOT / "benchmarks" / "plan" / "published_runs.csv", newline="") as file:
        published = {row["id"]: (row["tokens_per_sec_per_gpu"], row["tflops_per_gpu"]) for row in csv.DictReader(file)}
    text = HEAD
    with open(ROOT / "configs" / "guides" / "claims.csv", newline="") as file:
        for row in csv.DictReader(file):
            if re.search(args.only, row["recipe"]):
                text += line(row, *predicted(args.viaduct, row), published)
    if args.markdown:
        pathlib.Path(args.markdown).write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
