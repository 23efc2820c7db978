#!/usr/bin/env python3
"""Measures the effect of settings: training steps with each of them, compared with the default.

    benchmarks/ablation.py CONFIG [--table fusions|memory] [--viaduct PROGRAM] [--rounds N] [--steps N]
                           [--offload-path FOLDER] [OVERRIDES…]

Runs `viaduct bench step --profile --json` for every row of the table, all rows in turn in each round, and prints a
Markdown table: seconds a step (median over rounds of a run's median), bytes that the ops move in a step (from
their costs; first rank) and peak memory (fullest rank), each compared with the row's base in the same round: the
default, or the nearest row above it that is a base itself. Needs only Python's standard library.
"""

import argparse
import json
import statistics
import subprocess
import sys

FULL = ["model.recompute_granularity=full", "model.recompute_method=uniform", "model.recompute_num_layers=1"]
SELECTIVE = "model.recompute_granularity=selective"
LAYERS = ["model.cpu_offloading=true", "model.cpu_offloading_num_layers=LAYERS", "memory.offload_path=FOLDER"]
STATES = ["optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"]
STATES += ["optimizer.overlap_cpu_optimizer_d2h_h2d=true", "memory.offload_path=FOLDER"]
SHARDED = "ddp.data_parallel_sharding_strategy=optim_grads_params"

FUSIONS = [
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
MEMORY = [
    ("everything kept (default)", []),
    ("full recompute, each layer", FULL),
    ("the same with `recompute_segments_apart`", FULL + ["model.recompute_segments_apart=true"]),
    ("selective, `[layernorm]`", [SELECTIVE, "model.recompute_modules=[layernorm]"]),
    ("selective, `[core_attn]`", [SELECTIVE, "model.recompute_modules=[core_attn]"]),
    ("selective, `[core_attn, layernorm, mlp]`", [SELECTIVE, "model.recompute_modules=[core_attn, layernorm, mlp]"]),
    ("all layers to a file", LAYERS),
    ("states to a file", STATES),
    ("`adafactor`", ["optimizer.optimizer=adafactor"]),
    ("2 ranks, distributed optimizer (base)", ["dist.ranks=2", "dist.threads_per_rank=1"]),
    ("2 ranks, full sharding", ["dist.ranks=2", "dist.threads_per_rank=1", SHARDED]),
]
TABLES = {"fusions": FUSIONS, "memory": MEMORY}


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


def base_of(rows, row):
    """The number of the row that this row is compared with."""
    if rows[row][0].endswith("(base)"):
        return row
    return max((i for i in range(row) if rows[i][0].endswith("(base)")), default=0)


def against(values, default):
    """The median over rounds, and the increase over the base in each round."""
    more = statistics.median(v / d - 1 for v, d in zip(values, default))
    return statistics.median(values), f"{100 * more:+.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--table", choices=sorted(TABLES), default="fusions")
    parser.add_argument("--offload-path", default="/var/tmp", help="folder for the files of rows that offload")
    parser.add_argument("--viaduct", default="build/release/viaduct")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    arguments = parser.parse_args()

    rows = TABLES[arguments.table]
    measured = [[] for _ in rows]
    known = {"OTHER": "", "LAYERS": "1", "FOLDER": arguments.offload_path}
    for _ in range(arguments.rounds):
        for row, (_, overrides) in enumerate(rows):
            for word, value in known.items():
                overrides = [text.replace(word, value) for text in overrides]
            document = bench(arguments, overrides)
            if row == 0:
                model = document["config"]["model"]
                known["OTHER"] = str(not model["recompute_logits"]).lower()
                known["LAYERS"] = str(model["num_layers"])
            measured[row].append(figures(document))

    def column(row, key):
        return [one[key] for one in measured[row]]

    print("| settings | seconds | | GB moved | | peak MiB | |")
    print("|---|---|---|---|---|---|---|")
    for row, (name, _) in enumerate(rows):
        name = name.replace("`recompute_logits` the other way", f"`recompute_logits={known['OTHER']}`")
        cells = [name]
        base = base_of(rows, row)
        for key, unit, digits in (("seconds", 1, 3), ("bytes", 1e9, 2), ("memory", 2**20, 1)):
            value, more = against(column(row, key), column(base, key))
            cells += [f"{value / unit:.{digits}f}", more if row != base else ""]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
