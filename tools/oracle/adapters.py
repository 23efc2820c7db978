"""Trains an adapter for SmolLM2-135M-Instruct (smollm2_folder.py) beside PEFT: from the same adapter, ours before its first step, which PEFT
loads, on the same 200 conversations (rows, order, masks) with the same learning rates. Both write their loss of every step.

    ./viaduct.sh oracle adapters               a section of docs/parity.md is written
    ./viaduct.sh oracle adapters --steps 10    nothing is written, a fifth of the time; neither with --recipe fp32

The frozen weights are FP32 on both sides; PEFT's BF16 is torch.autocast, ours `bf16_mixed`. The rows are those of data/short_answers.jsonl,
50 steps of 4. Limits and exit status are those of `oracle tuning`: 1 if the mean of all losses differs by 1 %, or that of any ten by 1 % in
FP32 and 2 % in BF16.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

import peft
import torch

import pages
from reference import load
from smollm2_folder import write_folder
from tuning import BATCH, CONVERSATIONS, MEANS, RECIPES, ROOT, ROW, batches, compare, dataset, ours, theirs
from viaduct import Viaduct

ADAPTER = ["peft.scheme=lora", "peft.dim=16", "peft.alpha=32", "peft.target_modules=[all-linear]"]
RATES = ["optimizer.lr=5e-4", "optimizer.min_lr=5e-5"]


def before_its_first_step(viaduct, model, work):
    """A new adapter as a folder of PEFT's: that of a run whose one step has the learning rate 0."""
    run, adapter = work / "begun", work / "adapter"
    viaduct("train", f"checkpoint.pretrained_checkpoint={model}", f"checkpoint.save={run}", *dataset(work), f"model.seq_length={ROW}",
            "train.train_iters=1", f"train.global_batch_size={BATCH}", f"train.micro_batch_size={BATCH}", "optimizer.lr=0",
            "optimizer.min_lr=0", "scheduler.lr_warmup_iters=0", "mixed_precision.recipe=fp32", "validation.eval_iters=0", *ADAPTER)
    viaduct("convert", "--from", run, "--to", adapter)
    return adapter


def adapted(model, adapter):
    """transformers' model with the adapter, which alone trains."""
    network = peft.PeftModel.from_pretrained(load(model, attention="eager"), adapter, is_trainable=True)
    training = [name for name, parameter in network.named_parameters() if parameter.requires_grad]
    if not training or any("lora_" not in name for name in training):
        raise RuntimeError(f"PEFT trains {training[:3]} …, expected the adapter alone")
    if any(parameter.abs().max() > 0 for name, parameter in network.named_parameters() if "lora_B" in name):
        raise RuntimeError("the adapter has trained already: B is not 0")
    return network


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", required=True)
    parser.add_argument("--steps", type=int, default=50)
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
        adapter = before_its_first_step(viaduct, model, work)
        said = json.loads((adapter / "adapter_config.json").read_text())
        print(f"adapter of rank {said['r']} on {', '.join(sorted(said['target_modules']))}", flush=True)
        for recipe in options.recipe:
            begin = time.monotonic()
            mine, rates = ours(viaduct, model, work, options.steps, recipe, *RATES, f"peft.adapter={adapter}")
            between = time.monotonic()
            other = theirs(adapted(model, adapter), rows, rates, recipe != "fp32")
            print(f"{recipe}: viaduct {between - begin:.0f} s, peft {time.monotonic() - between:.0f} s", flush=True)
            row, far = compare(recipe, mine, other)
            table.append(row)
            wrong += far
    if options.steps == parser.get_default("steps") and options.recipe == RECIPES and not wrong:
        text = [f"`./viaduct.sh oracle adapters`: {options.steps} steps of {BATCH} rows of [`data/short_answers.jsonl`](../data/short_answers.jsonl), an "
                f"adapter of rank 16 on all linear layers of SmolLM2-135M-Instruct, from the same first values; the learned tokens' loss, ours / `peft` "
                f"{peft.__version__}, {pages.versions()}.", "",
                *pages.table(["recipe", "first step", f"means of {MEANS} steps", "largest difference", "of the mean of all"], table)]
        pages.write_section("oracle adapters", text)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
