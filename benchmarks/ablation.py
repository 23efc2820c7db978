#!/usr/bin/env python3
"""The effect of each fusion: whole training steps with each switch off, compared with the default.

    benchmarks/ablation.py CONFIG [--viaduct PROGRAM] [--rounds N] [--steps N] [OVERRIDES…]

Runs `viaduct bench step --profile --json` for every row below, all rows in turn in each round, and prints a
Markdown table: seconds of a step (median over rounds of a run's median), bytes that the ops move in a step (from
their costs) and peak memory, each against the default of the same round. Needs nothing but Python's library.
"""

import argparse
import json
import statistics
import subprocess
import sys

ROWS = [
    ("all fused (default)", []),
    ("`cross_entropy_loss_fusion=false`", ["model.cross_entropy_loss_fusion=false"]),
    ("`recompute_logits` the other way", ["model.recompute_logits=OTHER"]),
    ("`gradient_accumulation_fusion=false`", ["model.gradient_accumulation_fusion=false"]),
    ("`bias_activation_fusion=false`", ["model.bias_activation_fusion=false"]),
    ("`bias_dropout_fusion=false`", ["model.bias_dropout_fusion=false"]),
    ("`gemm_epilogue_fusion=false`", ["model.gemm_epilogue_fusion=false"]),
    ("`apply_rope_fusion=false`", ["model.apply_rope_fusion=false"]),
    ("`attention_backend=unfused`", ["model.attention_backend=unfused"]),
    (
        "`attention_backend=unfused`, `masked_softmax_fusion=false`",
        ["model.attention_backend=unfused", "model.masked_softmax_fusion=false"],
    ),
]


def bench(arguments, overrides):
    command = [arguments.viaduct, "bench", "step", "--config", arguments.config, "--profile", "--json"]
    command += ["--steps", str(arguments.steps), "--warmup", str(arguments.warmup)]
    done = subprocess.run(command + arguments.overrides + overrides, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command + overrides)}\n{done.stderr}")
    return json.loads(done.stdout)


def figures(document):
    return {
        "seconds": document["step_seconds"]["median"],
        "bytes": sum(op["bytes"] for op in document["ops"].values()),
        "memory": document["peak_memory_bytes"],
    }


def against(values, default):
    """The median over rounds, and how much more than the default it is, round by round."""
    more = statistics.median(v / d - 1 for v, d in zip(values, default))
    return statistics.median(values), f"{100 * more:+.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--viaduct", default="build/release/viaduct")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    arguments = parser.parse_args()

    measured = [[] for _ in ROWS]
    other = None
    for _ in range(arguments.rounds):
        for row, (_, overrides) in enumerate(ROWS):
            overrides = [text.replace("OTHER", str(other)) for text in overrides]
            document = bench(arguments, overrides)
            if row == 0:
                other = str(not document["config"]["model"]["recompute_logits"]).lower()
            measured[row].append(figures(document))

    def column(row, key):
        return [one[key] for one in measured[row]]

    print("| switch | seconds | | GB moved | | peak MiB | |")
    print("|---|---|---|---|---|---|---|")
    for row, (name, _) in enumerate(ROWS):
        name = name.replace("`recompute_logits` the other way", f"`recompute_logits={other}`")
        cells = [name]
        for key, unit, digits in (("seconds", 1, 3), ("bytes", 1e9, 2), ("memory", 2**20, 1)):
            value, more = against(column(row, key), column(0, key))
            cells += [f"{value / unit:.{digits}f}", more if row else ""]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
