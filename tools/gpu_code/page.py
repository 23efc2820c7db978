"""The tables of kernels in docs/cuda.md, from the budgets: those with matrix instructions, and those without a loop over elements."""

import budgets
from kernels import MULTIPROCESSORS

MARKS = ("<!-- gpu_code: begin -->", "<!-- gpu_code: end -->")
ELEMENT_MARKS = ("<!-- gpu_code elements: begin -->", "<!-- gpu_code elements: end -->")


def table(folder=budgets.FOLDER):
    """A row for each kernel that multiplies by matrix units somewhere. FP16's kernels are BF16's but for roundings, and left out."""
    of = {target: budgets.read(target, folder) for target in MULTIPROCESSORS}
    names = sorted({name for kernels in of.values() for name, budget in kernels.items() if budget.per_product > 0 and "F16" not in name.replace("Bf16", "")})
    rows = [f"| kernel | shared memory | {' | '.join(of)} |", "|---" * (len(of) + 2) + "|"]
    for name in names:
        cells = []
        for kernels in of.values():
            budget = kernels.get(name)
            cells.append(f"{budget.registers} · {budget.blocks} · {budget.per_product:g}" if budget and budget.per_product > 0 else "–")
        shared = sorted({kernels[name].shared for kernels in of.values() if name in kernels and kernels[name].per_product > 0})
        rows.append(f"| `{name}` | {' or '.join(str(size) for size in shared)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def element_table(folder=budgets.FOLDER, first=budgets.FIRST):
    """A row for each kernel whose instructions are counted for an element, at first and today. Those of E5M2 and FP16 are like E4M3's and BF16's."""
    of, at_first = {target: budgets.read(target, folder) for target in MULTIPROCESSORS}, budgets.read_first(first)
    names = sorted({name for kernels in of.values() for name, budget in kernels.items()
                    if budget.per_element > 0 and not name.endswith("true>") and "<F16" not in name})
    rows = [f"| kernel | {' | '.join(of)} |", "|---" * (len(of) + 1) + "|"]
    for name in names:
        cells = []
        for target, kernels in of.items():
            budget = kernels.get(name)
            blocks, instructions = at_first.get((name, target), (None, None))
            before = f"{blocks} · {instructions:g}, " if blocks else ""
            cells.append(f"{before}{budget.blocks} · {budget.per_element:g}" if budget else "–")
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def put(page, folder=budgets.FOLDER):
    """Replaces the tables between the marks of the page."""
    text = page.read_text()
    for (begin, end), rows in ((MARKS, table(folder)), (ELEMENT_MARKS, element_table(folder))):
        if begin not in text or end not in text:
            raise ValueError(f"{page} has no place for the table ({begin} … {end})")
        head, rest = text.split(begin, 1)
        text = f"{head}{begin}\n\n{rows}\n\n{end}{rest.split(end, 1)[1]}"
    page.write_text(text)
