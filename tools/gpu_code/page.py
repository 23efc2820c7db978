"""The table of kernels with matrix instructions in docs/cuda.md, from the budgets."""

import budgets
from kernels import MULTIPROCESSORS

BEGIN, END = "<!-- gpu_code: begin -->", "<!-- gpu_code: end -->"


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


def put(page, folder=budgets.FOLDER):
    """Replaces the table between the marks of the page."""
    old = page.read_text()
    if BEGIN not in old or END not in old:
        raise ValueError(f"{page} has no place for the table ({BEGIN} … {END})")
    head, rest = old.split(BEGIN, 1)
    page.write_text(f"{head}{BEGIN}\n\n{table(folder)}\n\n{END}{rest.split(END, 1)[1]}")
