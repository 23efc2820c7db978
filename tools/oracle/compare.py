"""Compares Viaduct with Hugging Face's transformers on a model folder: the same weights, the same batch, logits, loss and every gradient.

    ./viaduct.sh oracle MODEL_DIR [--batch FILE.safetensors] [--no-convert] [OVERRIDES…]

1. `viaduct convert` converts MODEL_DIR to a Viaduct checkpoint and back to a Hugging Face folder; transformers loads both folders, and every
   tensor must be the same to the bit.
2. transformers computes logits, loss and gradients of the batch in FP64, which is the reference, and in FP32; `viaduct probe` computes
   them too. Prints the relative L2 distances of both from the reference, which show the side that deviates. A tensor is wrong if Viaduct
   is farther from the reference than --limit and than twice PyTorch's distance. FP64 takes 16 bytes a parameter, plus the logits.

The batch is random tokens unless one is given in the form of `viaduct probe --batch`. Exit status 1 if anything differs.
"""

import argparse
import math
import pathlib
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

from reference import default_attention, errors, load, reference
from rule import is_gradient
from viaduct import Refused, Viaduct


def random_batch(config, rows, length, seed):
    generator = torch.Generator().manual_seed(seed)
    length = min(length, getattr(config, "max_position_embeddings", length))
    ids = torch.randint(config.vocab_size, (rows, length), generator=generator)
    return {"input_ids": ids, "labels": ids.clone()}


def compare(own, theirs, limit):
    """Prints the tensors with the largest distances, given errors() of both sides. Returns the number beyond the limit."""
    order = sorted(own, key=lambda name: (math.isnan(own[name]), own[name]), reverse=True)
    print("distance from FP64:\n   Viaduct    PyTorch  tensor")
    for name in order[:10]:
        print(f"{own[name]:10.2e} {theirs[name]:10.2e}  {name}")
    wrong = sum(not own[name] <= max(limit, 2 * theirs[name]) for name in own)
    print(f"{len(own)} tensors, {wrong} wrong (limit {limit:g}, or twice PyTorch's)")
    return wrong


def check_round_trip(viaduct, folder, work):
    """Converts there and back. Returns the number of tensors that transformers does not load bit-identically."""
    viaduct("convert", "--from", folder, "--to", work / "checkpoint", "--to-format", "viaduct")
    viaduct("convert", "--from", work / "checkpoint", "--to", work / "exported", "--to-format", "hf")
    before, after = load(folder).state_dict(), load(work / "exported").state_dict()
    different = [name for name in before if name not in after or not torch.equal(before[name], after[name])]
    different += [name for name in after if name not in before]
    print(f"round trip: {len(before)} tensors, {len(different)} different {different[:5] if different else ''}")
    return len(different)


def check(viaduct, arguments, work):
    """Compares one folder. Returns the number of errors."""
    wrong = 0 if arguments.no_convert else check_round_trip(viaduct, arguments.model, work)
    config = transformers.AutoConfig.from_pretrained(arguments.model)
    path = arguments.batch or work / "batch.safetensors"
    if not arguments.batch:
        save_file(random_batch(config, arguments.rows, arguments.length, arguments.seed), path)
    batch, attention = load_file(path), default_attention(config)
    truth = reference(arguments.model, batch, "fp64", attention)
    theirs = errors(reference(arguments.model, batch, "fp32", attention), truth)
    found = viaduct.probe(arguments.model, path, work / "out.safetensors", *arguments.overrides)
    unexpected = [name for name in found if is_gradient(name) and name not in truth]
    for name in unexpected:
        print(f"unexpected: {name}")
    return wrong + len(unexpected) + compare(errors(found, truth), theirs, arguments.limit)


def main():
    parser = argparse.ArgumentParser(prog="oracle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="a Hugging Face folder")
    parser.add_argument("overrides", nargs="*", help="configuration overrides for viaduct probe, for example dist.ranks=2")
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=pathlib.Path, help="the batch; default: random tokens")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2e-5, help="distance of a tensor from FP64 that is always allowed")
    parser.add_argument("--no-convert", action="store_true", help="skip the round trip")
    arguments = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="viaduct-oracle-") as name:
        try:
            return 1 if check(Viaduct(arguments.viaduct), arguments, pathlib.Path(name)) else 0
        except Refused as refusal:
            print(f"oracle: error: {refusal}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
