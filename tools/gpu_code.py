#!/usr/bin/python3
"""Shows the registers, shared memory and spills of the GPU kernels, from the report of their build.

    cmake --preset cuda -D VIADUCT_CUDA_REPORT=ON && cmake --build --preset cuda --clean-first | tools/gpu_code.py

reads ptxas's report of each kernel (-v), and fails if one spills more than --limit bytes of registers to memory (known
ones may, as far as they do), or if a target lacks a kernel that another has. --table prints a Markdown table of the kernels whose name contains a word.

    tools/gpu_code.py --code build/cuda/libviaduct_cuda.so

reads the machine code with cuobjdump (from the toolkit, or nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm from PyPI), and fails if
a kernel lacks the instructions that make it fast: reads of 16 bytes, products of the matrix units. Without cuobjdump it reports
that it is skipped.
"""

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")

# Known kernels above the limit, by target: they may not become worse.
KNOWN = {
    ("sum_rows_kernel<8>", "sm_100f"): 180,
    ("quantize_groups_kernel", "sm_100f"): 20,
    ("combine_rows_kernel<8>", "sm_80"): 32,
    ("combine_rows_kernel<8>", "sm_90a"): 32,
    ("norm_backward_kernel<8>", "sm_80"): 24,
    ("backward_queries_kernel<float, 64, 64>", "sm_89"): 24,
    ("backward_keys_kernel<float, 192, 128, 1>", "sm_89"): 28,
    ("combine_rows_kernel<8>", "sm_89"): 32,
    ("norm_backward_kernel<8>", "sm_89"): 24,
    ("sum_rows_kernel<8>", "sm_120"): 180,
    ("quantize_groups_kernel", "sm_120"): 20,
    ("combine_rows_kernel<8>", "sm_120"): 32,
    ("norm_backward_kernel<8>", "sm_120"): 24,
    ("column_sums_kernel<8>", "sm_120"): 112,
    ("xielu_backward_kernel<1>", "sm_120"): 44,
}

FUNCTION = re.compile(r"Function : (\w+)")
TARGET = re.compile(r"code for (sm_\w+)")
OPCODE = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ +)?([A-Z][\w.]*)")
WIDE_READ, WIDE_COPY, PRODUCT = r"LDG\.E(\.\w+)*\.128", r"LDGSTS\.E(\.\w+)*\.128", r"HMMA\."
# Products of warpgroups, of 16 and of 8 bits; kernels that have them are empty for other targets than sm_90a.
GROUP_PRODUCT, GROUP_CODES, OF_GROUPS = r"HGMMA\.", r"QGMMA\.", r"^grouped_(code_)?warpgroups_kernel<"
# Instructions that fast kernels need: part of the kernel's name (a regular expression), instruction, description. Each must match a kernel.
EXPECTED = [
    (r"^(elementwise|sum_rows|norm_forward|norm_forms|norm_backward|activation_forward|activation_forms|activation_backward|row_dots)_kernel<8",
     WIDE_READ, "reads of 16 bytes"),
    (r"^quantization_error_kernel<(true|1),", WIDE_READ, "reads of 16 bytes"),
    (r"^(forward|backward_keys|backward_queries)_kernel<(F16|Bf16|Code),", PRODUCT, "products of the matrix units"),
    (r"^(forward|backward_keys|backward_queries)_kernel<(F16|Bf16|float),", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^(forward|backward_keys|backward_queries)_kernel<Code,", WIDE_READ, "reads of 16 bytes"),
    (r"^(scores|values|keys)_kernel<", PRODUCT, "products of the matrix units"),
    (r"^(scores|values|keys)_kernel<", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^grouped_(gemm|codes)_kernel<", PRODUCT, "products of the matrix units"),
    (r"^grouped_gemm_kernel<.*, (true|1)>$", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^grouped_warpgroups_kernel<", GROUP_PRODUCT, "products of warpgroups"),
    (r"^grouped_warpgroups_kernel<", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^grouped_code_warpgroups_kernel<", GROUP_CODES, "products of warpgroups"),
]


@dataclass
class Kernel:
    name: str
    target: str
    registers: int = 0
    spilled: int = 0
    shared: int = 0
    opcodes: frozenset = frozenset()


def read_code(lines):
    """Reads the output of cuobjdump -sass: kernels and the names of their instructions."""
    kernels, target, opcodes = [], "", set()
    for line in lines:
        if match := TARGET.search(line):
            target = match[1]
        elif match := FUNCTION.search(line):
            opcodes = set()
            kernels.append(Kernel(match[1], target, opcodes=opcodes))
        elif match := OPCODE.search(line):
            opcodes.add(match[1])
    return kernels


def code_problems(kernels):
    found = []
    warpgroups = any(k.target == "sm_90a" for k in kernels)
    for name, instruction, what in EXPECTED:
        if re.search(OF_GROUPS, name.removeprefix("^")) and not warpgroups:
            continue
        named = [k for k in kernels if re.search(name, k.name) and (k.target == "sm_90a" or not re.search(OF_GROUPS, k.name))]
        if not named:
            found.append(f"no kernel is called {name}: it should have {what}")
        found += [f"{k.target}: {k.name} has no {what} ({instruction})" for k in named
                  if not any(re.match(instruction, o) for o in k.opcodes)]
    return found


def check_code(library):
    tool = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if tool is None:
        print("machine code: skipped, there is no cuobjdump (/usr/local/cuda/bin, PATH)")
        return 0
    done = subprocess.run([tool, "-sass", library], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"machine code: {tool} -sass {library}: {done.stderr.strip()}")
        return 1
    kernels = read_code(done.stdout.splitlines())
    demangle(kernels)
    found = code_problems(kernels)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"machine code of {len(kernels)} kernels: {len(found)} problems")
    return 1 if found else 0


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


def shorten(name):
    """viaduct::cuda::(anonymous namespace)::f<float, 64>(Args) is f<float, 64>."""
    return re.sub(r"viaduct::cuda::|\(anonymous namespace\)::|void |\(int\)|\([^()]*\)$", "", name)


def demangle(kernels):
    """Demangles names if the machine has c++filt."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", nargs="?", type=argparse.FileType(), default=sys.stdin)
    parser.add_argument("--limit", type=int, default=16, help="bytes of registers that a kernel may spill to memory")
    parser.add_argument("--table", metavar="WORD", help="print the registers of kernels whose name contains WORD, as Markdown")
    parser.add_argument("--code", metavar="LIBRARY", help="check the machine code of LIBRARY instead of a report")
    args = parser.parse_args()
    if args.code is not None:
        return check_code(args.code)
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
