"""Measures Viaduct and PyTorch by the same truth, and judges: the rows of the tables of scale.py and smollm2.py."""

import dataclasses
import gc
import pathlib

from safetensors.torch import save_file

from reference import errors, reference
from rule import RECIPES, judge, worst_and_median
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
    """What is computed: a model of `work`/model, a batch, by PyTorch with this attention, the rows in so many parts."""

    name: str
    work: pathlib.Path
    batch: dict
    attention: str
    micro_batches: int = 1

    def by_pytorch(self, how):
        return reference(self.work / "model", self.batch, how, self.attention, self.micro_batches)

    def by_viaduct(self, viaduct, overrides):
        save_file(self.batch, self.work / "batch.safetensors")
        if self.micro_batches > 1:
            overrides = (*overrides, f"train.micro_batch_size={len(self.batch['input_ids']) // self.micro_batches}")
        return viaduct.probe(self.work / "model", self.work / "batch.safetensors", self.work / "out.safetensors", *overrides)


def measure(subject, viaduct, layouts, precisions, show=0):
    """Rows of the table, printed as they come, and the number of runs that break a rule. `show`: tensors that are named below a row."""
    truth, theirs, rows, wrong = subject.by_pytorch("fp64"), {}, [], 0
    for recipe, layout, overrides, isa in runs(viaduct, layouts, precisions):
        given, how, _ = RECIPES[recipe]
        if how not in theirs:
            theirs[how] = errors(subject.by_pytorch(how), truth)
            gc.collect()
        worst, median, _ = worst_and_median(theirs[how])
        row = [subject.name, recipe, layout, isa, f"{worst:.1e}", f"{median:.1e}"]
        try:
            own = errors(subject.by_viaduct(viaduct, (*given, *overrides, f"dist.cpu_isa={isa}")), truth)
            problems = judge(recipe, own, theirs[how])
            own_worst, own_median, _ = worst_and_median(own)
            row += [f"{own_worst:.1e}", f"{own_median:.1e}", f"{own_worst / worst:.2f}"]
        except Refused as refusal:
            own, problems = {}, [f"refused: {str(refusal).splitlines()[0]}"]
            row += ["", "", ""]
        row.append("**" + "; ".join(problems) + "**" if problems else "within")
        rows.append(row)
        wrong += bool(problems)
        print(*(f"{cell:>{width}}" for cell, width in zip(row, (20, 20, 4, 6, 8, 8, 8, 8, 6, 0))), flush=True)
        for tensor in sorted(own, key=own.get, reverse=True)[:show]:
            print(f"{'':22}{own[tensor]:.1e} (PyTorch {theirs[how][tensor]:.1e})  {tensor}", flush=True)
    return rows, wrong
