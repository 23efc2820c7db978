"""Budgets of GPU kernels: what the machine code of each may do at most, by target (budgets/kernels.tsv)."""

from dataclasses import dataclass, fields
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "budgets"
DYNAMIC = FOLDER / "dynamic_shared.tsv"
FIRST = FOLDER / "first.tsv"


@dataclass
class Budget:
    kernel: str
    target: str
    registers: int
    shared: int  # bytes of a block; says, as the registers do, where the blocks come from
    blocks: int  # at least; all others at most
    per_product: float
    divisions: int
    bytes: int
    local: int
    spilled: int
    per_element: float


HEAD = "\t".join(field.name for field in fields(Budget))
# What a budget bounds: the field, and what to say of it.
BOUNDS = {"per_product": "instructions per matrix instruction in a loop", "per_element": "instructions per element", "divisions": "divisions of whole numbers in loops",
          "bytes": "loads and stores of one byte in loops", "local": "loads and stores of local memory in loops"}


def file_of(folder=FOLDER):
    return Path(folder) / "kernels.tsv"


def read_lines(folder):
    """The lines of the table, without its head; none if there is no table."""
    file = file_of(folder)
    if not file.exists():
        return []
    head, *lines = file.read_text().splitlines()
    if head != HEAD:
        raise ValueError(f"{file}: the first line is {head!r}, expected {HEAD!r}")
    return lines


def read(target, folder=FOLDER):
    """{kernel: its budget}; None if the target has none."""
    found = {}
    for line in read_lines(folder):
        name, of, *values = line.split("\t")
        if of == target:
            numbers = (float(v) if field.type in (float, "float") else int(v) for field, v in zip(fields(Budget)[2:], values, strict=True))
            found[name] = Budget(name, of, *numbers)
    return found or None


def read_dynamic(file=DYNAMIC):
    """{kernel: bytes of shared memory that its launch asks for}, where it asks for some."""
    return {name: int(size) for name, size in (line.split("\t") for line in Path(file).read_text().splitlines()[1:])}


def read_first(file=FIRST):
    """{(kernel, target): (blocks, instructions per element)} of the first version of kernels that have become others."""
    return {(name, target): (int(blocks), float(per_element))
            for name, target, blocks, per_element in (line.split("\t") for line in Path(file).read_text().splitlines()[1:])}


def is_kept(kernel):
    """Whether the kernel has a budget: not the empty one that stands for a file."""
    return not kernel.name.endswith("_file")


def write(target, kernels, folder=FOLDER):
    """The numbers of `kernels` become the budgets of the target; those of others stay."""
    rows = [line for line in read_lines(folder) if line.split("\t")[1] != target]
    rows += ["\t".join([kernel.name, target, *(f"{getattr(kernel, field.name):g}" for field in fields(Budget)[2:])]) for kernel in kernels if is_kept(kernel)]
    file_of(folder).write_text("\n".join([HEAD, *sorted(rows, key=lambda row: row.split("\t")[:2])]) + "\n")


def problems(kernels, target, folder=FOLDER):
    """What is worse than the budgets of the target, and which kernels and budgets have no counterpart; and what is better."""
    budgets = read(target, folder)
    if budgets is None:
        return [f"{target}: there are no budgets ({file_of(folder)})"], []
    worse, better = [], []
    for kernel in filter(is_kept, kernels):
        budget = budgets.pop(kernel.name, None)
        if budget is None:
            worse.append(f"{target}: {kernel.name} has no budget: add it with --write")
            continue
        for name, what in BOUNDS.items():
            has, most = getattr(kernel, name), getattr(budget, name)
            if has > most:
                worse.append(f"{target}: {kernel.name} has {has:g} {what}, its budget is {most:g}")
            elif has < most:
                better.append(f"{target}: {kernel.name} has {has:g} {what}, its budget is {most:g}")
        if kernel.blocks < budget.blocks:
            worse.append(f"{target}: {kernel.blocks} blocks of {kernel.name} fit a multiprocessor ({kernel.registers} registers, {kernel.shared} bytes "
                         f"of shared memory), its budget is {budget.blocks} ({budget.registers}, {budget.shared})")
        elif kernel.blocks > budget.blocks:
            better.append(f"{target}: {kernel.blocks} blocks of {kernel.name} fit a multiprocessor, its budget is {budget.blocks}")
    return worse + [f"{target}: there is a budget of {name}, which is no kernel" for name in budgets], better
