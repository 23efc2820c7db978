"""Shows that at real widths Viaduct's error is not larger than PyTorch's (scale_cases.py).

    ./viaduct.sh oracle scale [CASE…]      compare; without names all cases, and a section of docs/parity.md is written
    ./viaduct.sh oracle scale --quick      the short ones

A case: random weights with the scales of trained models (weights.py), one batch, logits, loss and every gradient. The reference is transformers
in FP64 (reference.py describes its rotary tables). PyTorch's distance from it and Viaduct's are measured alike:

- FP32: the worst gradient at most twice as far as PyTorch's FP32, or 2e-6;
- BF16 with model.fp32_residual_connection: gradients (root mean square over all) at most 1.3 times as far as torch.autocast;
- BF16 without it: at most as far as a model of BF16 weights and activations in PyTorch (1.3 times where that has no correct digit).

In FP32 the same rule holds for logits and loss. One rank for every instruction set of this machine, then the case's layouts with the best.
Exit status 1 if a rule is broken or Viaduct refuses to compute a case.
"""

import argparse
import gc
import pathlib
import sys
import tempfile
import time

import torch
import transformers

import pages
from measure import HEADER, Subject, measure
from reference import default_attention, load
from rule import RECIPES
from scale_cases import CASES
from viaduct import Viaduct
from weights import randomize

def draw_ids(config, rows, length, generator):
    """Token ids with the frequencies of text: the n-th most frequent is 1/n as frequent as the first (Zipf 1935)."""
    frequencies = 1 / torch.arange(1, config["vocab_size"] + 1, dtype=torch.float64)
    rank = torch.multinomial(frequencies, rows * length, replacement=True, generator=generator)
    return torch.randperm(config["vocab_size"], generator=generator)[rank].view(rows, length)


def confident_labels(folder, batch, attention):
    """The token that the model finds most likely where p > 0.999; the others are not scored."""
    with torch.no_grad():
        probabilities = load(folder, attention=attention)(batch["input_ids"], use_cache=False).logits.double().softmax(-1)
    best = probabilities.max(-1)
    labels = torch.full_like(batch["input_ids"], -100)
    labels[:, 1:] = torch.where(best.values > 0.999, best.indices, -100)[:, :-1]
    if (labels != -100).sum() < 50:
        raise RuntimeError("fewer than 50 tokens are predicted with p > 0.999")
    return labels


def make(folder, case, seed):
    """Writes the model. Returns its batch, and the attention implementation of transformers to use."""
    generator = torch.Generator().manual_seed(seed)
    config = transformers.AutoConfig.for_model(**case.config)
    attention = default_attention(config)
    randomize(transformers.AutoModelForCausalLM.from_config(config), generator, case.adjust).save_pretrained(folder)
    ids = draw_ids(case.config, case.rows, case.length, generator)
    batch = {"input_ids": ids, "labels": ids.clone()}
    if case.batch:
        batch.update(case.batch(ids, generator))
    if case.confident:
        batch["labels"] = confident_labels(folder, batch, attention)
    return batch, attention


def section(rows):
    return [
        "Few layers, real widths, weights with the scales of trained models ([`tools/oracle/scale_cases.py`](../tools/oracle/scale_cases.py)). Distance",
        f"(relative L2) of each gradient from {pages.versions()} in FP64; in BF16, PyTorch is `torch.autocast` beside",
        "FP32 residuals, and a model of BF16 weights and activations beside BF16 residuals. In FP32 the worst gradient may be twice as far as",
        "PyTorch's, or 2e-6 (logits and loss too), and `ratio` is of the worst ones. In BF16 which gradient is worst is chance: the root mean",
        "square of all may be 1.3 times as far as autocast's with FP32 residuals, and as far as PyTorch's with BF16 residuals (1.3 times where",
        "PyTorch has no digit left, 1 or more), and `ratio` is of these.",
        "",
        *pages.table(HEADER, rows),
    ]


def main():
    parser = argparse.ArgumentParser(prog="oracle scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="CASE", help="cases whose name contains one of these")
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="only the short cases, one precision after the other")
    parser.add_argument("--precision", action="append", choices=RECIPES, help="only this precision (may be given several times)")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="also print the N tensors with the largest distances")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="keep models, batches and Viaduct's last output in this folder")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    viaduct, rows, wrong = Viaduct(arguments.viaduct), [], 0
    chosen = {name: case for name, case in CASES.items() if not arguments.names or any(part in name for part in arguments.names)}
    if not chosen:
        parser.error(f"no case is called {' or '.join(arguments.names)}; there are {', '.join(CASES)}")
    if arguments.quick:
        chosen = {name: case for name, case in chosen.items() if case.quick}
    for name, case in chosen.items():
        started = time.monotonic()
        precisions = arguments.precision or (list(RECIPES) if case.bf16 else ["FP32"])
        with tempfile.TemporaryDirectory(prefix="viaduct-oracle-") as temporary:
            work = arguments.keep / name if arguments.keep else pathlib.Path(temporary)
            work.mkdir(parents=True, exist_ok=True)
            batch, attention = make(work / "model", case, seed=len(name))
            subject = Subject(name, work, (batch,), attention, case.micro_batches)
            more, failed = measure(subject, viaduct, case.layouts, precisions, arguments.show)
        rows, wrong = rows + more, wrong + failed
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        gc.collect()
    print(f"{len(rows)} runs of {len(chosen)} cases, {wrong} break a rule ({pages.versions()})")
    if len(chosen) == len(CASES) and not arguments.precision:
        pages.write_section("oracle scale", section(rows))
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
