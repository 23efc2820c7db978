"""Compares Viaduct with Hugging Face's transformers on a model folder: the same weights, the same batch, logits, loss and every gradient.

    ./viaduct.sh oracle MODEL_DIR [--batch FILE.safetensors] [--no-convert] [-- OVERRIDES…]

1. `viaduct convert` takes MODEL_DIR to a Viaduct checkpoint and back to a Hugging Face folder; transformers loads both folders, and every
   tensor must be the same to the bit.
2. transformers computes logits, loss and gradients of the batch in FP32 (its plain attention path), `viaduct probe` the same; the relative
   L2 distance of each must stay below the limits of the parity tests.

The batch is random tokens unless one is given in the form of `viaduct probe --batch`. Exit status 1 if anything differs.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM


def load(folder):
    """The model in FP32; gradients of everything, dropout off."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def run(viaduct, *arguments):
    command = [viaduct, *map(str, arguments)]
    print("$", *command, flush=True)
    status = subprocess.run(command).returncode
    if status != 0:
        sys.exit(f"oracle: error: viaduct {arguments[0]} failed with status {status}")


def random_batch(config, rows, length, seed):
    generator = torch.Generator().manual_seed(seed)
    length = min(length, getattr(config, "max_position_embeddings", length))
    ids = torch.randint(config.vocab_size, (rows, length), generator=generator)
    return {"input_ids": ids, "labels": ids.clone()}


def reference(model, batch):
    """What `viaduct probe` writes, as transformers computes it."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids") if name in batch}
    labels = batch.get("labels", batch["input_ids"])
    model.zero_grad(set_to_none=True)
    logits = model(**inputs).logits
    # Position t is scored against label t + 1; -100 is skipped; the mean is over the scored tokens of the batch.
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
    loss.backward()
    tensors = {"logits": logits.detach(), "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        tensors[f"grad.{name}"] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return tensors


def distance(found, expected):
    """Relative L2 distance; the norm of the reference counts as at least 1e-5 per element."""
    found, expected = found.double(), expected.double()
    floor = 1e-5 * math.sqrt(expected.numel())
    return ((found - expected).norm() / max(expected.norm().item(), floor)).item()


def compare(found, expected, limit):
    """Prints the tensors that are farthest off; the number of tensors that are missing, of another shape, or beyond the limit."""
    rows, wrong = [], 0
    for name, tensor in expected.items():
        if name not in found:
            print(f"missing: {name}")
            wrong += 1
        elif found[name].shape != tensor.shape:
            print(f"shape of {name}: expected {list(tensor.shape)}, found {list(found[name].shape)}")
            wrong += 1
        else:
            rows.append((distance(found[name], tensor), name))
    for name in sorted(set(found) - set(expected)):
        print(f"unexpected: {name}")
        wrong += name.startswith("grad.")
    rows.sort(reverse=True, key=lambda row: (math.isnan(row[0]), row[0]))
    for error, name in rows[:10]:
        print(f"{error:10.2e}  {name}")
    wrong += sum(not error <= limit for error, _ in rows)
    print(f"{len(expected)} tensors, {wrong} wrong (limit {limit:g})")
    return wrong


def check_round_trip(viaduct, folder, work):
    """convert there and back; the number of tensors that transformers does not load bit-identically."""
    run(viaduct, "convert", "--from", folder, "--to", work / "checkpoint", "--to-format", "viaduct")
    run(viaduct, "convert", "--from", work / "checkpoint", "--to", work / "exported", "--to-format", "hf")
    before, after = load(folder).state_dict(), load(work / "exported").state_dict()
    different = [name for name in before if name not in after or not torch.equal(before[name], after[name])]
    different += [name for name in after if name not in before]
    print(f"round trip: {len(before)} tensors, {len(different)} different {different[:5] if different else ''}")
    return len(different)


def main():
    parser = argparse.ArgumentParser(prog="oracle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="a Hugging Face folder")
    parser.add_argument("overrides", nargs="*", help="configuration overrides for viaduct probe, for example dist.ranks=2")
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=pathlib.Path, help="the batch; default: random tokens")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2e-5, help="largest relative L2 distance of a tensor")
    parser.add_argument("--no-convert", action="store_true", help="leave out the round trip")
    arguments = parser.parse_intermixed_args()
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory(prefix="viaduct-oracle-") as name:
        work = pathlib.Path(name)
        wrong = 0 if arguments.no_convert else check_round_trip(arguments.viaduct, arguments.model, work)
        model = load(arguments.model)
        path = arguments.batch or work / "batch.safetensors"
        if not arguments.batch:
            save_file(random_batch(model.config, arguments.rows, arguments.length, arguments.seed), path)
        expected = reference(model, load_file(path))
        run(arguments.viaduct, "probe", "--model", arguments.model, "--batch", path, "--out", work / "out.safetensors", *arguments.overrides)
        wrong += compare(load_file(work / "out.safetensors"), expected, arguments.limit)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
