"""Times training steps of mixtures of experts in `transformers` and Viaduct, alternating, and prints the ratio: `./viaduct.sh peers experts`
(docs/benchmarks.md). The library's default settings: scaled_dot_product_attention, eager (--compile: torch.compile), its own experts,
AdamW (fused with --fused), the system's allocator."""

import argparse
import json
import os
from pathlib import Path

from machine import describe, median, onednn_version
from steps import ROOT, Torch, name_of, resolved, viaduct

CASES = [("mixtral_20m", "bf16"), ("mixtral_20m", "fp32"), ("deepseek_18m", "bf16"), ("deepseek_18m", "fp32")]
# Parts of Viaduct's step time, by the beginnings of op names; look-ups copy rows, those of tokens included.
PARTS = {"routing": ("route", "router_", "count_choices"), "order and rows of experts": ("sort_by_expert", "combine_rows", "embedding_forward"),
         "experts' products": ("grouped_gemm",), "other products": ("gemm",)}


def shares(profile):
    """The share of each of PARTS, and of the rest, in a step's time."""
    spent = dict.fromkeys([*PARTS, "the rest"], 0.0)
    for row in profile["rows"]:
        part = next((p for p, names in PARTS.items() if row["kind"] == "op" and row["name"].startswith(names)), "the rest")
        spent[part] += row["share"]
    return spent


def compare(options, config, dtype):
    """Measures one row of the table, alternating between both."""
    path = str(ROOT / f"configs/bench/{config}.yaml")
    ours = viaduct(options, dtype, "train", path, "--dry-run")
    fields = resolved(ours)
    setting = {"library": "transformers", "attention": "sdpa", "compile": options.compile, "fused": options.fused, "allocator": "system"}
    case = {"model": fields["model"], "rows": fields["train"]["global_batch_size"], "dtype": dtype, "threads": options.threads}
    tokens = case["rows"] * case["model"]["seq_length"]
    theirs, mine, ratios = [], [], []
    with Torch(case, setting, 2) as torch:
        if torch.about["parameters"] != ours["parameters"]:
            raise SystemExit(f"peers: {config}: the model of transformers has {torch.about['parameters']} parameters, Viaduct's "
                             f"{ours['parameters']}: they are not the same architecture")
        for _ in range(options.rounds):
            seconds = torch.steps(options.steps)
            command = ["bench", "step", "--config", path, "--steps", str(options.steps), "--warmup", "1"]
            result = viaduct(options, dtype, *command)
            theirs += seconds
            mine.append(result["step_seconds"]["median"])
            ratios.append(median(seconds) / mine[-1])
    parts = shares(viaduct(options, dtype, *command, "--profile")["profile"])
    row = {"config": config, "dtype": dtype, "setting": name_of(setting), "parameters": ours["parameters"],
           "transformers_tokens_per_second": tokens / median(theirs), "viaduct_tokens_per_second": tokens / median(mine),
           "ratio": median(ratios), "ratios": ratios, "transformers_loss": torch.about["loss"], "shares": parts}
    print(f"| {config}, {dtype} | {row['transformers_tokens_per_second']:,.0f} | {row['viaduct_tokens_per_second']:,.0f} | "
          f"{row['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | "
          f"{', '.join(f'{name} {100 * share:.0f} %' for name, share in parts.items())} |", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(prog="viaduct.sh peers experts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the binary")
    parser.add_argument("--configs", default=",".join(f"{c}:{d}" for c, d in CASES), help="CONFIG:DTYPE[,…] of configs/bench (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--fused", action="store_true", help="fused AdamW")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="measured steps a turn (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both (default: all cores)")
    parser.add_argument("--quick", action="store_true", help="one turn of one step")
    parser.add_argument("--out", help="write all figures as JSON")
    parser.add_argument("overrides", nargs="*", help="SECTION.FIELD=VALUE for the model that both train, and for Viaduct")
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.steps = 1
    import torch
    import transformers

    print(f"{describe()}; transformers {transformers.__version__}, PyTorch {torch.__version__}, oneDNN {onednn_version(torch)}; "
          f"{options.threads} threads; {options.rounds} turns of {options.steps} steps\n")
    print("| configuration | transformers, tokens/s | Viaduct, tokens/s | Viaduct / transformers | of Viaduct's step |")
    print("|---|---|---|---|---|", flush=True)
    rows = []
    for case in options.configs.split(","):
        config, _, dtype = case.partition(":")
        rows.append(compare(options, config, dtype or "bf16"))
    if options.out:
        document = {"machine": describe(), "transformers": transformers.__version__, "torch": torch.__version__, "rows": rows}
        Path(options.out).write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
