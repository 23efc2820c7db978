"""Measures Viaduct and PyTorch against the same reference, and applies the rule: the rows of the tables of scale.py and smollm2.py."""

import dataclasses
import gc
import math
import pathlib

from safetensors.torch import save_file

from reference import errors, reference
from rule import RECIPES, judge, typical, worst_and_median
from viaduct import Refused

LAYOUTS = {
    "tp 2": ("dist.ranks=2", "model.tensor_model_parallel_size=2"),
    "cp 2": ("dist.ranks=2", "model.context_parallel_size=2"),
}

HEADER = ["case", "precision", "ranks", "instructions", "PyTorch worst", "median", "Viaduct worst", "median", "ratio", "verdict"]


def runs(viaduct, layouts, precisions):
    """(recipe, name of the layout, its overrides, instruction set): one rank for each instruction set, then the layouts with the best."""
    sets = viaduct.instruction_sets()
    for recipe in precisions:
        yield from ((recipe, "1", (), isa) for isa in sets)
        yield from ((recipe, layout, LAYOUTS[layout], sets[-1]) for layout in layouts)


@dataclasses.dataclass
class Subject:
    """A computation: the model in `work`/model, its batches, PyTorch's attention, and the number of micro-batches."""

    name: str
    work: pathlib.Path
    batches: tuple
    attention: str
    micro_batches: int = 1

    def by_pytorch(self, how, batch):
        return reference(self.work / "model", batch, how, self.attention, self.micro_batches)

    def by_viaduct(self, viaduct, overrides, batch):
        save_file(batch, self.work / "batch.safetensors")
        if self.micro_batches > 1:
            overrides = (*overrides, f"train.micro_batch_size={len(batch['input_ids']) // self.micro_batches}")
        return viaduct.probe(self.work / "model", self.work / "batch.safetensors", self.work / "out.safetensors", *overrides)


def root_mean_square(samples):
    """Combines the distances of several batches into one a tensor."""
    return {name: math.sqrt(sum(sample[name] ** 2 for sample in samples) / len(samples)) for name in samples[0]}


def row_of(subject, run, own, theirs, refusal):
    """Makes a row of the table, and says whether the rule is broken."""
    recipe, layout, _, isa = run
    worst, median, _ = worst_and_median(theirs)
    row = [subject.name, recipe, layout, isa, f"{worst:.1e}", f"{median:.1e}"]
    if refusal:
        problems = [f"refused: {refusal}"]
        row += ["", "", ""]
    else:
        problems = judge(recipe, own, theirs)
        own_worst, own_median, _ = worst_and_median(own)
        ratio = own_worst / worst if recipe == "FP32" else typical(own) / typical(theirs)
        row += [f"{own_worst:.1e}", f"{own_median:.1e}", f"{ratio:.2f}"]
    return [*row, "**" + "; ".join(problems) + "**" if problems else "within"], bool(problems)


def measure(subject, viaduct, layouts, precisions, show=0):
    """Prints the rows of the table one by one; returns them and the number of runs that break a rule. `show`: number of tensors to list below a row."""
    theirs, own, refusals, rows, wrong = {}, {}, {}, [], 0
    for batch in subject.batches:
        truth, known = subject.by_pytorch("fp64", batch), {}
        for run in runs(viaduct, layouts, precisions):
            recipe, layout, overrides, isa = run
            given, how, _ = RECIPES[recipe]
            if how not in known:
                known[how] = errors(subject.by_pytorch(how, batch), truth)
                theirs.setdefault(how, []).append(known[how])
                gc.collect()
            try:
                distances = errors(subject.by_viaduct(viaduct, (*given, *overrides, f"dist.cpu_isa={isa}"), batch), truth)
                own.setdefault(run, []).append(distances)
            except Refused as refusal:
                refusals[run] = str(refusal).splitlines()[0]
            if batch is not subject.batches[-1]:
                continue
            mine, other = root_mean_square(own.get(run, [{}])), root_mean_square(theirs[how])
            row, broken = row_of(subject, run, mine, other, refusals.get(run))
            rows.append(row)
            wrong += broken
            print(*(f"{cell:>{width}}" for cell, width in zip(row, (20, 20, 4, 6, 8, 8, 8, 8, 6, 0))), flush=True)
            for tensor in sorted(mine, key=mine.get, reverse=True)[:show]:
                print(f"{'':22}{mine[tensor]:.1e} (PyTorch {other[tensor]:.1e})  {tensor}", flush=True)
    return rows, wrong
