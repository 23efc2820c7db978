#!/usr/bin/python3
"""What the GPU kernels use, from the report of their build: registers, shared memory and spills.

    cmake --preset cuda -D VIADUCT_CUDA_REPORT=ON && cmake --build --preset cuda --clean-first | tools/gpu_code.py

reads what ptxas says of each kernel (-v), and fails if one keeps more than --limit bytes of registers in memory (five
kernels that do are known by name), or if a target has no kernel that another has. --table prints a Markdown table of the kernels whose name holds a word.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")

# Kernels that keep more than the limit today, by target: they may not become worse.
KNOWN = {
    ("sum_rows_kernel<8>", "sm_100a"): 180,
    ("quantize_groups_kernel", "sm_100a"): 56,
    ("combine_rows_kernel<8>", "sm_80"): 32,
    ("combine_rows_kernel<8>", "sm_90a"): 32,
    ("norm_backward_kernel<8>", "sm_80"): 24,
}


@dataclass
class Kernel:
    name: str
    target: str
    registers: int = 0
    spilled: int = 0
    shared: int = 0


def read(lines):
    """The kernels of a report, in its order. A line belongs to the kernel that was named last."""
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


def shorten(name):
    """viaduct::cuda::(anonymous namespace)::f<float, 64>(Args) is f<float, 64>."""
    return re.sub(r"viaduct::cuda::|\(anonymous namespace\)::|void |\(int\)|\([^()]*\)$", "", name)


def demangle(kernels):
    """Names as in the source, where the machine has c++filt."""
    try:
        done = subprocess.run(["c++filt"], input="\n".join(k.name for k in kernels), capture_output=True, text=True,
                              check=True)
    except FileNotFoundError:
        return
    for kernel, name in zip(kernels, done.stdout.splitlines()):
        # nvcc names the anonymous namespace of a file after the file.
        kernel.name = shorten(re.sub(r"_GLOBAL__N__\w+::", "", name))


def problems(kernels, limit):
    if not kernels:
        return ["no kernel in the report: was VIADUCT_CUDA_REPORT on, and did the build compile anything?"]
    limit_of = {(k.name, k.target): max(limit, KNOWN.get((k.name, k.target), 0)) for k in kernels}
    found = [f"{k.target}: {k.name} keeps {k.spilled} bytes of registers in memory, the limit is "
             f"{limit_of[k.name, k.target]}" for k in kernels if k.spilled > limit_of[k.name, k.target]]
    found += [f"{k.target}: {k.name}: ptxas said nothing of its registers" for k in kernels if k.registers == 0]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", nargs="?", type=argparse.FileType(), default=sys.stdin)
    parser.add_argument("--limit", type=int, default=16, help="bytes of registers that a kernel may keep in memory")
    parser.add_argument("--table", metavar="WORD", help="registers of the kernels whose name holds WORD, as Markdown")
    args = parser.parse_args()
    kernels = read(args.report)
    demangle(kernels)
    if args.table is not None:
        print(table(kernels, args.table))
    found = problems(kernels, args.limit)
    print(*found, sep="\n", end="\n" if found else "")
    targets = len({k.target for k in kernels})
    print(f"{len({k.name for k in kernels})} kernels for {targets} targets, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
