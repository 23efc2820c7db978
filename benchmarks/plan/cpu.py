#!/usr/bin/env python3
"""Predicts training steps on this machine from its calibration, runs them, and prints both.

cpu.py --viaduct BIN [--quick] [--seconds N] [--rounds N] [--calibration THREADS=FILE …] [--markdown FILE]

In each of several rounds `viaduct bench --calibrate` makes a table for each number of threads, unless --calibration names one; then
each configuration is predicted by `viaduct plan --calibration` and measured by `viaduct bench step`. So a table is at most some minutes
older than the steps that it predicts: other work on a machine changes its speed from one minute to the next. The figures of a
configuration are the medians of its rounds, that of the error too. A positive error means that the predicted step is longer. Needs
idle cores. Exit status 1 if a command fails.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "configs" / "bench"


def tokens(rows, micro_batch, length):
    return [f"train.global_batch_size={rows}", f"train.micro_batch_size={micro_batch}", f"model.seq_length={length}"]


LLAMA, GPT, LARGE = "llama_10m.yaml", "gpt_10m.yaml", "llama_100m.yaml"
FP32, FULL = ["mixed_precision=fp32"], ["model.recompute_granularity=full", "model.recompute_method=uniform", "model.recompute_num_layers=1"]
SHORT = ["model.num_layers=3"]
DP2, TP2, PP2 = ["dist.ranks=2"], ["dist.ranks=2", "model.tensor_model_parallel_size=2"], ["dist.ranks=2", "model.pipeline_model_parallel_size=2"]

# (name, file, overrides). --quick uses the first six.
CONFIGURATIONS = [
    ("llama_10m, 8 × 256", LLAMA, tokens(8, 8, 256)),
    ("llama_10m, 8 × 256, FP32", LLAMA, tokens(8, 8, 256) + FP32),
    ("llama_10m, 2 × 1024", LLAMA, tokens(2, 2, 1024)),
    ("gpt_10m, 8 × 256", GPT, tokens(8, 8, 256)),
    ("llama_10m, 8 × 256, dp 2", LLAMA, tokens(8, 4, 256) + DP2),
    ("llama_10m, 8 × 256, tp 2", LLAMA, tokens(8, 8, 256) + TP2),
    ("llama_10m, 8 × 256 by 2", LLAMA, tokens(8, 2, 256)),
    ("llama_10m, 8 × 256 by 1", LLAMA, tokens(8, 1, 256)),
    ("llama_10m, 32 × 64", LLAMA, tokens(32, 32, 64)),
    ("llama_10m, 1 × 2048", LLAMA, tokens(1, 1, 2048)),
    ("llama_10m, 2 × 1024, FP32", LLAMA, tokens(2, 2, 1024) + FP32),
    ("llama_10m, 8 × 256, recomputed", LLAMA, tokens(8, 8, 256) + FULL),
    ("llama_10m, 8 × 256, FP32, recomputed", LLAMA, tokens(8, 8, 256) + FP32 + FULL),
    ("llama_10m, 8 × 256, pp 2 by 2", LLAMA, tokens(8, 2, 256) + PP2),
    ("llama_10m, 8 × 256, tp 2, FP32", LLAMA, tokens(8, 8, 256) + TP2 + FP32),
    ("llama_10m, 8 × 256, dp 2, FP32", LLAMA, tokens(8, 4, 256) + DP2 + FP32),
    ("gpt_10m, 8 × 256, FP32", GPT, tokens(8, 8, 256) + FP32),
    ("gpt_10m, 2 × 1024", GPT, tokens(2, 2, 1024)),
    ("gpt_10m, 8 × 256, dp 2", GPT, tokens(8, 4, 256) + DP2),
    ("gpt_10m, 8 × 256, recomputed", GPT, tokens(8, 8, 256) + FULL),
    ("llama_100m of 3 layers, 2 × 512", LARGE, tokens(2, 2, 512) + SHORT),
    ("llama_100m of 3 layers, 2 × 512, FP32", LARGE, tokens(2, 2, 512) + SHORT + FP32),
    ("llama_100m of 3 layers, 2 × 512, tp 2", LARGE, tokens(2, 2, 512) + SHORT + TP2),
    ("llama_100m of 3 layers, 4 × 512 by 1, recomputed", LARGE, tokens(4, 1, 512) + SHORT + FULL),
]


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"cpu: error: {' '.join(str(word) for word in words)}:\n{done.stderr.strip()}")
    return done.stdout


def threads_of(overrides, cores):
    return max(1, cores // 2) if "dist.ranks=2" in overrides else cores


def calibrated(arguments, threads, folder):
    table = pathlib.Path(folder) / f"{threads}.yaml"
    run([arguments.viaduct, "bench", "--calibrate", "--threads", threads, "--seconds", arguments.seconds, "--out", table])
    return table


def one_round(arguments, chosen, given, cores):
    """The predicted and measured seconds of each configuration."""
    pairs = {}
    with tempfile.TemporaryDirectory() as folder:
        for threads in sorted({threads_of(overrides, cores) for _, _, overrides in chosen}):
            table = given.get(threads) or calibrated(arguments, threads, folder)
            for name, file, overrides in chosen:
                if threads_of(overrides, cores) != threads:
                    continue
                common = ["--config", BENCH / file, "--json", f"dist.threads_per_rank={threads}", *overrides]
                plan = json.loads(run([arguments.viaduct, "plan", "--cluster", "cpu", "--calibration", table, "--rule-seconds", "1e-9", *common]))
                step = json.loads(run([arguments.viaduct, "bench", "step", "--steps", arguments.steps, "--warmup", 1, *common]))
                pairs[name] = (plan["predicted"]["step_seconds"], step["step_seconds"]["median"])
    return [pairs[name] for name, _, _ in chosen]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", type=pathlib.Path, required=True, help="the binary")
    parser.add_argument("--quick", action="store_true", help="six configurations")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of a calibration (60)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each configuration (3)")
    parser.add_argument("--steps", type=int, default=3, help="steps a measurement (3)")
    parser.add_argument("--calibration", action="append", default=[], metavar="THREADS=FILE", help="a table made earlier")
    parser.add_argument("--markdown", type=pathlib.Path, help="also write the table to this file")
    arguments = parser.parse_args()

    cores = len(os.sched_getaffinity(0))
    chosen = CONFIGURATIONS[:6] if arguments.quick else CONFIGURATIONS
    given = {int(threads): pathlib.Path(file) for threads, file in (item.split("=", 1) for item in arguments.calibration)}
    rounds = []  # of each, predicted and measured seconds by configuration
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        rounds.append(one_round(arguments, chosen, given, cores))

    lines = ["| configuration | predicted | measured | error |", "|---|---|---|---|"]
    errors = []
    for (name, _, _), *pairs in zip(chosen, *rounds):
        predicted, measured = (statistics.median(side) for side in zip(*pairs))
        errors.append(statistics.median(p / m - 1 for p, m in pairs))
        lines.append(f"| {name} | {predicted * 1000:.1f} ms | {measured * 1000:.1f} ms | {errors[-1]:+.1%} |")
    sizes = sorted(abs(error) for error in errors)
    lines += ["", f"{len(errors)} configurations: median error {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%}, bias {statistics.mean(errors):+.1%}"]
    print("\n".join(lines))
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
