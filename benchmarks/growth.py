#!/usr/bin/python3
"""Measures how the cost of a training step grows with the length of a row, the size of the model and the number of threads:
`./viaduct.sh growth` (docs/benchmarks.md). Figures are medians of `viaduct bench step` over rounds in which all rows of a table alternate."""

import argparse
import datetime
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Llama-like: layers, hidden, feed-forward, heads, key-value heads, vocabulary.
SIZES = {"10M": (6, 384, 1024, 6, 2, 256), "30M": (8, 576, 1536, 9, 3, 4096), "100M": (12, 768, 2048, 12, 4, 32000),
         "200M": (18, 896, 2432, 14, 7, 32000), "350M": (24, 1088, 2880, 17, 17, 16384)}


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def viaduct(options, *arguments):
    done = subprocess.run([options.viaduct, *arguments, "--json"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"growth: {options.viaduct} {' '.join(arguments)} failed")
    return json.loads(done.stdout)


def size_overrides(name):
    layers, hidden, feed_forward, heads, groups, vocabulary = SIZES[name]
    return [f"model.num_layers={layers}", f"model.hidden_size={hidden}", f"model.ffn_hidden_size={feed_forward}",
            f"model.num_attention_heads={heads}", f"model.num_query_groups={groups}", f"model.vocab_size={vocabulary}"]


def measure(options, rows):
    """rows: label → (configuration, overrides, steps). Label → medians of tokens/s and MFU over the rounds, and peak memory."""
    found = {label: [] for label in rows}
    for _ in range(options.rounds):
        for label, (config, overrides, steps) in rows.items():
            found[label].append(viaduct(options, "bench", "step", "--config", str(ROOT / f"configs/bench/{config}.yaml"), "--steps",
                                        str(options.steps or steps), "--warmup", "1", *overrides, *options.overrides))
    return {label: {"tokens_per_second": median([r["tokens_per_second"] for r in runs]), "mfu": median([r["mfu"] for r in runs]),
                    "tflops": median([r["tflops_per_rank"] for r in runs]), "peak_memory_bytes": runs[0]["peak_memory_bytes"],
                    "peak": runs[-1]["peak"], "config": runs[0]["config"], "machine": runs[0]["machine"]}
            for label, runs in found.items()}


def print_table(title, results, first, relative):
    print(f"\n{title}\n\n| {first} | tokens/s | TFLOP/s | of the peak | memory, GiB | {relative} |\n|---|---|---|---|---|---|")
    start = next(iter(results.values()))
    for label, r in results.items():
        print(f"| {label} | {r['tokens_per_second']:,.0f} | {r['tflops']:.3f} | {100 * r['mfu']:.0f} % | {r['peak_memory_bytes'] / 2**30:.2f} | "
              f"{r['tokens_per_second'] / start['tokens_per_second']:.2f} |", flush=True)


def lengths(options):
    most = 2048 if options.quick else 8192
    rows = {}
    for length in (256, 512, 1024, 2048, 4096, 8192):
        if length <= most:
            batch = most // length
            rows[str(length)] = ("llama_10m", [f"model.seq_length={length}", f"train.global_batch_size={batch}", f"train.micro_batch_size={batch}"], 3)
    results = measure(options, rows)
    print_table(f"Length of a row: `llama_10m`, {most} tokens a step", results, "S", "tokens/s, of the first")
    return results


def sizes(options):
    names = ["10M", "30M"] if options.quick else list(SIZES)
    rows = {}
    for name in names:
        overrides = [*size_overrides(name), "model.seq_length=1024", "train.global_batch_size=2", "train.micro_batch_size=2"]
        dry = viaduct(options, "train", str(ROOT / "configs/bench/llama_100m.yaml"), "--dry-run", *overrides, *options.overrides)
        rows[f"{name} ({dry['parameters'] / 1e6:.1f}M)"] = ("llama_100m", overrides, 2)
    results = measure(options, rows)
    print_table("Parameters: Llama-like, 2 rows of 1,024 tokens a step", results, "parameters", "tokens/s, of the first")
    return results


def threads(options):
    config = "llama_10m" if options.quick else options.threads_config
    counts = [1]
    while counts[-1] * 2 <= os.cpu_count():
        counts.append(counts[-1] * 2)
    results = measure(options, {str(count): (config, [f"dist.threads_per_rank={count}"], 3) for count in counts})
    print_table(f"Threads: `{config}`", results, "threads", "times as fast as one")
    return results


def main():
    parser = argparse.ArgumentParser(prog="viaduct.sh growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the binary")
    parser.add_argument("--tables", default="lengths,sizes,threads", help="(default: %(default)s)")
    parser.add_argument("--threads-config", default="llama_100m", help="configuration of the table of threads (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of every row (default: %(default)s)")
    parser.add_argument("--steps", type=int, help="measured steps a turn (default: 2 or 3)")
    parser.add_argument("--quick", action="store_true", help="one turn of one step of the small cases")
    parser.add_argument("--out", help="write all figures as JSON")
    parser.add_argument("overrides", nargs="*", help="SECTION.FIELD=VALUE")
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
    tables = {"lengths": lengths, "sizes": sizes, "threads": threads}
    names = options.tables.split(",")
    if unknown := set(names) - set(tables):
        raise SystemExit(f"growth: --tables {', '.join(unknown)}: expected {', '.join(tables)}")
    print(f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, load before the run {os.getloadavg()[0]:.1f}, {options.rounds} turns")
    results = {name: tables[name](options) for name in names}
    last = list(results[names[-1]].values())[-1]
    print(f"\n{last['machine']}; peak of the last run: {last['peak']}")
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
