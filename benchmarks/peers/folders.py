"""Times training steps of a model folder in `transformers` and Viaduct, alternating: what ./viaduct.sh peers images and t5 share.

A case is a folder with random weights, as transformers saves it, and a file with batches. First both train the same weights on the same
batches for some steps, and their losses must agree (Viaduct's by `viaduct probe --train`); then steps are timed, Viaduct's by `bench step` of
the folder's architecture on rows of the same lengths, images included. transformers in the fastest setting of {scaled_dot_product_attention,
eager attention} × {eager, torch.compile}, with fused AdamW and jemalloc (if it is installed) that keeps its memory and uses huge pages. The
search runs once and is kept in build/peers/best.json. `bf16` is autocast with FP32 weights, `pure` has weights, gradients and states in
BF16; Viaduct's is bf16_mixed, with FP32 masters, beside either."""

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from machine import cpu_name, describe, jemalloc, median, onednn_version
from steps import ROOT, Torch, name_of, viaduct

PRECISIONS = ["bf16", "pure", "fp32"]
CHECKED = 3  # steps whose losses are compared
# Largest relative difference of a loss. With pure BF16 the updates of a step are rounded away in part, so only the first one counts.
AGREE = {"fp32": 2e-5, "bf16": 3e-3, "pure": 1e-2}


def torch_settings():
    """All that are searched."""
    for attention, compiled in itertools.product(["sdpa", "eager"], [False, True]):
        yield {"attention": attention, "compile": compiled, "fused": True, "allocator": "jemalloc" if jemalloc() else "system"}


def save(case, folder):
    """Writes model, batches and a configuration for `bench step` into the folder."""
    import torch
    import transformers
    from safetensors.torch import save_file

    torch.manual_seed(1)
    config = case["config"]()
    model = getattr(transformers, config.architectures[0])(config)
    model.save_pretrained(folder / "model")
    batches = [case["batch"](config) for _ in range(CHECKED)]
    save_file({f"batch.{name}": torch.stack([batch[name] for batch in batches]) for name in batches[0]}, folder / "batches.safetensors")
    rows = case["rows"]
    run = {"model": {"hf_config": str(folder / "model"), **case["model"]}, "dataset": {"mock": True},
           "train": {"global_batch_size": rows, "micro_batch_size": rows}, "mixed_precision": {"recipe": "bf16_mixed"}}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))


def our_losses(options, folder, dtype, rows):
    """Viaduct's losses of the first steps on the folder's weights and batches."""
    from safetensors.torch import load_file

    out = folder / "trained.safetensors"
    recipe = "fp32" if dtype == "fp32" else "bf16_mixed"
    command = [options.viaduct, "probe", "--model", folder / "model", "--batch", folder / "batches.safetensors", "--out", out, "--train",
               "optimizer.lr=3e-4", "optimizer.min_lr=3e-4", f"mixed_precision={recipe}", f"train.micro_batch_size={rows}",
               f"dist.threads_per_rank={options.threads}", *options.overrides]
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
        raise SystemExit(f"peers: {' '.join(map(str, command))} failed")
    losses = load_file(out)["loss"].tolist()
    out.unlink()
    return losses


def check_losses(name, dtype, theirs, ours):
    """Returns the largest relative difference."""
    counted = 1 if dtype == "pure" else CHECKED
    worst = max(abs(a - b) / abs(b) for a, b in zip(theirs[:counted], ours[:counted], strict=True))
    if worst > AGREE[dtype]:
        raise SystemExit(f"peers: {name}, {dtype}: losses {theirs} of PyTorch and {ours} of Viaduct: they do not train the same")
    return worst


def best_setting(options, name, case, known_as):
    """The fastest one, from the cache or by a search: medians of a few steps of each."""
    cache = ROOT / "build/peers/best.json"
    known = json.loads(cache.read_text()) if cache.exists() else {}
    key = f"{known_as} {case['dtype']} {case['threads']} threads, torch {options.versions}, {cpu_name()}"
    if key in known and not options.search:
        return known[key]["best"]
    found = []
    for setting in torch_settings():
        with Torch(case, setting, 2 if setting["compile"] else 1) as torch:
            found.append((median(torch.steps(1 if options.quick else 2)), setting))
        print(f"  search: {name}, {case['dtype']}: {name_of(setting)}: {found[-1][0]:.3f} s", file=sys.stderr, flush=True)
    found.sort(key=lambda entry: entry[0])
    known[key] = {"best": found[0][1], "searched": [{"seconds": s, **setting} for s, setting in found]}
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps(known, indent=1))
    return found[0][1]


def compare(options, name, case, dtype):
    """Measures one row of the table, alternating between both."""
    folder = ROOT / "build/peers" / name
    if options.search or not (folder / "run.yaml").exists():
        save(case, folder)
    path = str(folder / "run.yaml")
    ours = viaduct(options, dtype, "train", path, "--dry-run")
    orders = {"folder": str(folder), "dtype": dtype, "threads": options.threads}
    setting = best_setting(options, name, orders, f"{name} {case['rows']} rows")
    theirs, mine, ratios, fractions = [], [], [], []
    with Torch(orders, setting, CHECKED) as torch:
        if torch.about["parameters"] != ours["parameters"]:
            raise SystemExit(f"peers: {name}: the model of transformers has {torch.about['parameters']} parameters, Viaduct's "
                             f"{ours['parameters']}: they are not the same architecture")
        differ = check_losses(name, dtype, torch.about["losses"], our_losses(options, folder, dtype, case["rows"]))
        for _ in range(options.rounds):
            theirs += (seconds := torch.steps(options.steps))
            result = viaduct(options, dtype, "bench", "step", "--config", path, "--steps", str(options.steps), "--warmup", "1")
            mine.append(result["step_seconds"]["median"])
            ratios.append(median(seconds) / mine[-1])
            # Not "mfu", which is at most 1: a fraction above it says that the peak was measured too low.
            fractions.append(result["tflops_per_rank"] / result["peak_tflops"])
    row = {"case": name, "dtype": dtype, "setting": name_of(setting), "parameters": ours["parameters"], "loss_difference": differ,
           "transformers_seconds": median(theirs), "viaduct_seconds": median(mine), "ratio": median(ratios), "ratios": ratios,
           "viaduct_of_peak": median(fractions), "load": os.getloadavg()[0]}
    print(f"| {name}, {dtype} | {row['setting']} | {row['transformers_seconds']:.2f} | {row['viaduct_seconds']:.2f} | "
          f"{row['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {100 * row['viaduct_of_peak']:.0f} % | {differ:.0e} |", flush=True)
    return row


def main(what, cases, about):
    """`cases`: name → config, a function that returns the library's; batch, a function of it that returns tensors by name; rows; model,
    fields of Viaduct's section beside the folder."""
    parser = argparse.ArgumentParser(prog=f"viaduct.sh peers {what}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the binary")
    parser.add_argument("--cases", default=",".join(f"{c}:{d}" for c in cases for d in PRECISIONS), help="CASE:DTYPE[,…] (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="measured steps a turn (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both (default: all cores)")
    parser.add_argument("--quick", action="store_true", help="one turn of one step; a search with one step a setting")
    parser.add_argument("--search", action="store_true", help="make the folder and search the best setting again")
    parser.add_argument("--out", help="write all figures as JSON")
    parser.add_argument("overrides", nargs="*", help="SECTION.FIELD=VALUE for Viaduct")
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
    chosen = [case.split(":") for case in options.cases.split(",")]
    for case in chosen:
        if len(case) != 2 or case[0] not in cases or case[1] not in PRECISIONS:
            raise SystemExit(f"peers: --cases {':'.join(case)}: expected CASE:DTYPE of {', '.join(cases)} and {', '.join(PRECISIONS)}")
    import torch
    import transformers

    options.versions = f"{torch.__version__}, transformers {transformers.__version__}"
    print(f"{describe()}; transformers {transformers.__version__}, PyTorch {torch.__version__}, oneDNN {onednn_version(torch)}; "
          f"{options.threads} threads; {options.rounds} turns of {options.steps} steps\n")
    print("| model | transformers' setting | transformers, s a step | Viaduct, s a step | Viaduct / transformers | Viaduct of its peak | "
          "losses differ by |")
    print("|---|---|---|---|---|---|---|", flush=True)
    rows = [compare(options, name, cases[name], dtype) for name, dtype in chosen]
    if options.out:
        Path(options.out).write_text(json.dumps({"machine": describe(), "versions": options.versions, "rows": rows}, indent=1))
