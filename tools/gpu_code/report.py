"""Reads ptxas's report of each kernel (-v), and says which spill registers to memory, or are missing for a target."""

import re

from kernels import Kernel

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def read(lines):
    """Reads the kernels of a report, in order. A line belongs to the kernel that was named last."""
    kernels = []
    for line in lines:
        if match := ENTRY.search(line):
            kernels.append(Kernel(match[1], match[2]))
        elif not kernels:
            continue
        elif match := SPILLS.search(line):
            kernels[-1].spilled = max(int(match[1]), int(match[2]))
        elif match := USED.search(line):
            kernels[-1].registers = int(match[1])
            if match := SHARED.search(line):
                kernels[-1].shared = int(match[1])
    return kernels


def problems(kernels, limit, budgets):
    """`budgets`: {target: {kernel: its budget}}. A kernel may spill up to `limit` bytes, and one that has a budget as much as that says."""
    if not kernels:
        return ["no kernel in the report: was VIADUCT_CUDA_REPORT on, and did the build compile anything?"]
    found = []
    for kernel in kernels:
        budget = budgets.get(kernel.target, {}).get(kernel.name)
        most = max(limit, budget.spilled if budget else 0)
        if kernel.spilled > most:
            found.append(f"{kernel.target}: {kernel.name} keeps {kernel.spilled} bytes of registers in memory, the limit is {most}")
    found += [f"{k.target}: {k.name}: the report lacks its registers" for k in kernels if k.registers == 0]
    targets = sorted({k.target for k in kernels})
    for name in sorted({k.name for k in kernels}):
        missing = [t for t in targets if not any(k.name == name and k.target == t for k in kernels)]
        found += [f"{t}: {name} was not compiled" for t in missing]
    return found


def table(kernels, word):
    targets = sorted({k.target for k in kernels}, key=lambda t: int(re.sub(r"\D", "", t)))
    rows = [f"| kernel | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for name in dict.fromkeys(k.name for k in kernels if word in k.name):
        registers = {k.target: k.registers for k in kernels if k.name == name}
        rows.append(f"| `{name}` | {' | '.join(str(registers.get(t, '')) for t in targets)} |")
    return "\n".join(rows)
