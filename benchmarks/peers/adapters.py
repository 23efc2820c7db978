"""Times a LoRA step of SmolLM2-135M's shape in peft and Viaduct, alternating, and prints the ratio, and Viaduct's LoRA step as a share of
its step that trains all weights: `./viaduct.sh peers adapters` (docs/benchmarks.md).

peft in its fastest setting of {scaled_dot_product_attention, eager attention} × {eager, torch.compile} × {frozen weights in FP32, in BF16},
with fused AdamW and jemalloc (if it is installed) that keeps its memory and uses huge pages, in BF16 under autocast. The search runs once
and is kept in build/peers/best.json."""

import argparse
import itertools
import json
import os
from pathlib import Path

from machine import cpu_name, describe, jemalloc, median, onednn_version
from steps import ROOT, Torch, remembered_best, resolved, timed, viaduct

CONFIG = "smollm2_135m"
RANK, ALPHA = 16, 32
ADAPTER = ["peft.scheme=lora", f"peft.dim={RANK}", f"peft.alpha={ALPHA}", "peft.target_modules=[all-linear]"]


def name_of(setting):
    return (f"{setting['attention']}, {'compile' if setting['compile'] else 'eager'}, frozen weights in {setting['frozen'].upper()}, "
            f"fused AdamW, {setting['allocator']}")


def settings():
    """All that are searched."""
    for attention, compiled, frozen in itertools.product(["sdpa", "eager"], [False, True], ["fp32", "bf16"]):
        yield {"library": "transformers", "lora": {"r": RANK, "lora_alpha": ALPHA}, "attention": attention, "compile": compiled,
               "frozen": frozen, "fused": True, "allocator": "jemalloc" if jemalloc() else "system"}


def best_setting(options, case):
    key = f"{CONFIG} lora {case['rows']}x{case['model']['seq_length']} {case['threads']} threads, torch {options.versions}, {cpu_name()}"
    return remembered_best(options, key, lambda: [timed(options, case, setting, name_of(setting)) for setting in settings()])


def compare(options):
    """The two rows, in turn: peft, our LoRA step, our step of all weights."""
    path = str(ROOT / f"configs/bench/{CONFIG}.yaml")
    dry = viaduct(options, "bf16", "train", path, "--dry-run", *ADAPTER)
    fields = resolved(dry)
    case = {"model": fields["model"], "rows": fields["train"]["global_batch_size"], "dtype": "bf16", "threads": options.threads}
    tokens = case["rows"] * case["model"]["seq_length"]
    setting = best_setting(options, case)
    bench = ["bench", "step", "--config", path, "--steps", str(options.steps), "--warmup", "1"]
    theirs, adapted, whole, ratios, shares = [], [], [], [], []
    with Torch(case, setting, 1 if options.quick and not setting["compile"] else 2) as torch:
        if torch.about["parameters"] != dry["parameters"]:
            raise SystemExit(f"peers: {CONFIG}: peft's model has {torch.about['parameters']} parameters, Viaduct's {dry['parameters']}, "
                             "adapters counted: they are not the same")
        for _ in range(options.rounds):
            theirs += (seconds := torch.steps(options.steps))
            lora = viaduct(options, "bf16", *bench, *ADAPTER)
            adapted.append(lora["step_seconds"]["median"])
            whole.append(viaduct(options, "bf16", *bench)["step_seconds"]["median"])
            ratios.append(median(seconds) / adapted[-1])
            shares.append(adapted[-1] / whole[-1])
    return {"setting": name_of(setting), "parameters": dry["parameters"], "peft_tokens_per_second": tokens / median(theirs),
            "viaduct_tokens_per_second": tokens / median(adapted), "ratio": median(ratios), "ratios": ratios,
            "viaduct_mfu": lora["mfu"], "full_tokens_per_second": tokens / median(whole), "share": median(shares), "shares": shares,
            "peft_loss": torch.about["loss"]}


def span(values):
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(prog="viaduct.sh peers adapters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the binary")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="measured steps a turn (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both (default: all cores)")
    parser.add_argument("--quick", action="store_true", help="one turn of one step; a search with one step a setting")
    parser.add_argument("--search", action="store_true", help="search the best setting again")
    parser.add_argument("--out", help="write all figures as JSON")
    parser.add_argument("overrides", nargs="*", help="SECTION.FIELD=VALUE for the model that both train, and for Viaduct")
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
    import peft
    import torch
    import transformers

    options.versions = f"{torch.__version__}, peft {peft.__version__}"
    print(f"{describe()}; peft {peft.__version__}, transformers {transformers.__version__}, PyTorch {torch.__version__}, "
          f"oneDNN {onednn_version(torch)}; {options.threads} threads; {options.rounds} turns of {options.steps} steps\n")
    row = compare(options)
    print("| LoRA step beside peft | peft's setting | peft, tokens/s | Viaduct, tokens/s | Viaduct / peft | Viaduct of its peak |")
    print("|---|---|---|---|---|---|")
    print(f"| {CONFIG}, bf16, rank {RANK} | {row['setting']} | {row['peft_tokens_per_second']:,.0f} | "
          f"{row['viaduct_tokens_per_second']:,.0f} | {span(row['ratios'])} | {100 * row['viaduct_mfu']:.0f} % |\n")
    print("| Viaduct's step | all weights, tokens/s | LoRA, tokens/s | time of the LoRA step / of the full one |")
    print("|---|---|---|---|")
    print(f"| {CONFIG}, bf16 | {row['full_tokens_per_second']:,.0f} | {row['viaduct_tokens_per_second']:,.0f} | {span(row['shares'])} |")
    if options.out:
        document = {"machine": describe(), "torch": torch.__version__, "peft": peft.__version__, "rows": [row]}
        Path(options.out).write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
