"""Fine-tunes SmolLM2-135M-Instruct (smollm2_folder.py) beside transformers: the same conversations, rows, order, masks and rates of
learning, all weights, in FP32 and BF16. Both write their loss of every step.

    ./viaduct.sh oracle tuning               a section of docs/parity.md is written
    ./viaduct.sh oracle tuning --steps 10    nothing is written, a quarter of the time; neither with --recipe fp32

transformers has FP32 weights; its BF16 is torch.autocast, ours `bf16_mixed`. Exit status 1 if the mean of all losses differs by 1 %, or that
of any ten by 1 % in FP32 and 2 % in BF16: BF16 moves transformers' own means of ten by up to 3 % from those of FP32.
"""

import argparse
import contextlib
import json
import pathlib
import sys
import tempfile
import time

import torch

import pages
from narrow_products import narrow_products
from reference import load
from smollm2_folder import write_folder
from viaduct import Viaduct

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONVERSATIONS = ROOT / "data" / "short_answers.jsonl"
ROW, BATCH = 64, 4  # tokens and rows; the longest conversation has 55
ADAM = {"adam_beta1": 0.9, "adam_beta2": 0.95, "adam_eps": 1e-8, "weight_decay": 0.01, "clip_grad": 1.0}
MEANS = 10  # losses of single batches are small numbers at the end, so means are compared
LIMIT = 0.01  # of the mean of all losses
LIMIT_OF_MEANS = {"fp32": 0.01, "bf16_mixed": 0.02}
RECIPES = ["fp32", "bf16_mixed"]


def dataset(work):
    """Overrides that say what is read."""
    return [f"dataset.blend=[{work / 'rows'}]", "dataset.split=100,0,0", "dataset.answer_only_loss=true", f"dataset.sequence_length={ROW}"]


def batches(viaduct, work, steps):
    """Tokens, labels and masks [BATCH, ROW] of each step, in the order of training."""
    said = json.loads(viaduct("data", "samples", *dataset(work), "--split", "train", "--num-samples", f"{steps * BATCH},0,0", "--json"))
    rows = said["samples"]
    if len(rows) < steps * BATCH:
        raise RuntimeError(f"{len(rows)} rows are printed, expected {steps * BATCH}")
    for step in range(steps):
        some = rows[step * BATCH : (step + 1) * BATCH]
        yield tuple(torch.tensor([row[name] for row in some]) for name in ("tokens", "labels", "loss_mask"))


def ours(viaduct, model, work, steps, recipe, *more):
    """Losses and learning rates of each step. `more`: further overrides, which count most."""
    run = work / recipe
    settings = [f"optimizer.{name}={value}" for name, value in ADAM.items()]
    viaduct("train", f"checkpoint.pretrained_checkpoint={model}", f"checkpoint.save={run}", *dataset(work), f"model.seq_length={ROW}",
            f"train.train_iters={steps}", f"train.global_batch_size={BATCH}", f"train.micro_batch_size={BATCH}", *settings,
            "optimizer.lr=1e-4", "optimizer.min_lr=1e-5", "scheduler.lr_decay_style=cosine", "scheduler.lr_warmup_iters=4",
            f"mixed_precision.recipe={recipe}", "validation.eval_iters=0", "checkpoint.save_interval=100000", "logger.log_interval=1", *more)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line]
    return [line["loss"] for line in lines], [line["learning_rate"] for line in lines]


def theirs(network, rows, rates, bf16):
    """Losses of a model of transformers (load() with eager attention) under PyTorch's AdamW, which does not decay vectors, as Megatron. Its
    attention is written in products that narrow_products() knows: in BF16 others take most of the time where the CPU has none of its own."""
    network.train()
    named = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [{"params": [p for p in named if p.dim() > 1], "weight_decay": ADAM["weight_decay"]},
              {"params": [p for p in named if p.dim() <= 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(ADAM["adam_beta1"], ADAM["adam_beta2"]), eps=ADAM["adam_eps"])
    losses = []
    for (tokens, labels, mask), rate in zip(rows, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        with narrow_products() if bf16 else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                logits = network(tokens, use_cache=False).logits
            each = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="none")
            loss = (each * mask.flatten()).sum() / mask.sum()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(named, ADAM["clip_grad"])
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def compare(name, mine, other):
    """A row of the table, and whether a mean differs too much."""
    means = [(sum(mine[at : at + MEANS]) / len(mine[at : at + MEANS]), sum(other[at : at + MEANS]) / len(other[at : at + MEANS]))
             for at in range(0, len(mine), MEANS)]
    apart = max(abs(a - b) / b for a, b in means)
    whole = abs(sum(mine) - sum(other)) / sum(other)
    print(f"{name}: first {mine[0]:.6f} and {other[0]:.6f}; means of {MEANS}: " + ", ".join(f"{a:.5f} / {b:.5f}" for a, b in means)
          + f"; {apart:.2%}, of all {whole:.2%}")
    row = [name, f"{mine[0]:.5f} / {other[0]:.5f}", ", ".join(f"{a:.4f} / {b:.4f}" for a, b in means), f"{apart:.2%}", f"{whole:.2%}"]
    return row, not (apart <= LIMIT_OF_MEANS[name] and whole <= LIMIT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--recipe", choices=RECIPES, nargs="+", default=RECIPES)
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch (default 2)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    viaduct, wrong, table = Viaduct(options.viaduct), 0, []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        model = ROOT / "build" / "smollm2"
        write_folder(model)
        viaduct("data", "chat", "--input", CONVERSATIONS, "--tokenizer", model, "--output", work / "rows")
        rows = list(batches(viaduct, work, options.steps))
        for recipe in options.recipe:
            begin = time.monotonic()
            mine, rates = ours(viaduct, model, work, options.steps, recipe)
            between = time.monotonic()
            other = theirs(load(model, attention="eager"), rows, rates, recipe != "fp32")
            print(f"{recipe}: viaduct {between - begin:.0f} s, transformers {time.monotonic() - between:.0f} s", flush=True)
            row, far = compare(recipe, mine, other)
            table.append(row)
            wrong += far
    if options.steps == parser.get_default("steps") and options.recipe == RECIPES and not wrong:
        text = [f"`./viaduct.sh oracle tuning`: {options.steps} steps of {BATCH} rows of [`data/short_answers.jsonl`](../data/short_answers.jsonl), all weights "
                f"of SmolLM2-135M-Instruct; the learned tokens' loss, ours / {pages.versions()}.", "",
                *pages.table(["recipe", "first step", f"means of {MEANS} steps", "largest difference", "of the mean of all"], table)]
        pages.write_section("oracle tuning", text)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
