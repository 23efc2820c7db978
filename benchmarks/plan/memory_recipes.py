#!/usr/bin/env python3
"""Adds to published_memory.csv what the recipes of its tests say, from a clone of Megatron-LM.

memory_recipes.py CLONE [--commit HEAD] [--table CSV]

A row's source names its golden values; the recipe is `model_config.yaml` beside them. A recipe that says nothing leaves
the cell empty: src/plan/score/published_recipe.cpp has Megatron-LM's defaults. Needs PyYAML.
"""
import argparse
import csv
import pathlib
import subprocess

import yaml


def cublas_mib(environment):
    """":4096:8": eight buffers of 4096 KiB."""
    sizes = str(environment.get("CUBLAS_WORKSPACE_CONFIG") or "").strip(":").split(":")
    return "" if sizes == [""] else sum(int(size) * int(count) for size, count in zip(sizes[::2], sizes[1::2])) // 1024


COLUMNS = {
    "attention_backend": lambda a, e: a.get("--attention-backend", ""),
    "hidden_dropout": lambda a, e: a.get("--hidden-dropout", ""),
    "attention_dropout": lambda a, e: a.get("--attention-dropout", ""),
    "linear_bias": lambda a, e: 0 if a.get("--disable-bias-linear") else 1,
    "position_embedding": lambda a, e: a.get("--position-embedding-type", ""),
    "normalization": lambda a, e: a.get("--normalization", ""),
    "fused_loss": lambda a, e: 1 if a.get("--cross-entropy-loss-fusion") else 0,
    "fused_gradients": lambda a, e: 0 if a.get("--no-gradient-accumulation-fusion") else 1,
    "optimizer": lambda a, e: a.get("--optimizer", ""),
    "optimizer_instances": lambda a, e: a.get("--num-distributed-optimizer-instances", ""),
    "fp8_weights": lambda a, e: 1 if a.get("--fp8-param-gather") else 0,
    "grouped_gemm": lambda a, e: 1 if a.get("--moe-grouped-gemm") else 0,
    "dispatcher": lambda a, e: a.get("--moe-token-dispatcher-type", ""),
    "vpp": lambda a, e: a.get("--num-virtual-stages-per-pipeline-rank", ""),
    "microbatch_group": lambda a, e: a.get("--microbatch-group-size-per-virtual-pipeline-stage", ""),
    "deferred_head_gradients": lambda a, e: a.get("--wgrad-deferral-limit", "") if a.get("--defer-embedding-wgrad-compute") else "",
    "first_stage_layers": lambda a, e: a.get("--decoder-first-pipeline-num-layers", ""),
    "last_stage_layers": lambda a, e: a.get("--decoder-last-pipeline-num-layers", ""),
    "cublas_workspace_mib": lambda a, e: cublas_mib(e),
}


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--table", type=pathlib.Path, default=here / "published_memory.csv")
    options = parser.parse_args()
    with open(options.table, newline="") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), [name for name in reader.fieldnames if name not in COLUMNS]
    for row in rows:
        golden = pathlib.PurePosixPath(row["source"].split(" ")[1])
        command = ["git", "-C", options.clone, "show", f"{options.commit}:{golden.parent / 'model_config.yaml'}"]
        recipe = yaml.safe_load(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for name, cell in COLUMNS.items():
            row[name] = cell(recipe["MODEL_ARGS"], recipe.get("ENV_VARS") or {})
    with open(options.table, "w", newline="") as file:
        writer = csv.DictWriter(file, columns + list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
