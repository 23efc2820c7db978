#!/usr/bin/python3
"""Checks the machine code of the GPU kernels against what it may cost.

    cmake --preset cuda -D VIADUCT_CUDA_REPORT=ON && cmake --build --preset cuda --clean-first | tools/gpu_code.py

reads ptxas's report of each kernel (-v), and fails if one spills more than --limit bytes of registers to memory (those with a budget
of spills may, as far as it goes), or if a target lacks a kernel that another has. --table prints a Markdown table of the kernels whose
name contains a word.

    tools/gpu_code.py --code build/cuda/libviaduct_cuda.so

reads the machine code with cuobjdump (of the toolkit, or of an environment that `tools/python_env.sh build/gpu-code-env
tools/gpu_code/requirements.txt` makes), and fails if a kernel is worse than its budget (tools/gpu_code/budgets, of nvcc 13.0): blocks that fit a multiprocessor,
instructions per matrix instruction in each loop, per element where a thread has no loop over its own, and in loops divisions of whole numbers, accesses of one byte and local memory; or if
it lacks the instructions that make it fast: reads of 16 bytes, products of the matrix units. Without cuobjdump it says that it is
skipped.

    tools/gpu_code.py build/cuda/report.txt --code build/cuda/libviaduct_cuda.so --write
    tools/gpu_code.py --page docs/cuda.md

make the numbers of a library the budgets of its targets, and put those of kernels with matrix instructions, and of those counted for an element, into a page.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu_code"))
import budgets
import expected
import kernels as code
import page
import report


ROOT = Path(__file__).resolve().parent.parent


def output_of(tool, form, library):
    """The lines of one form of cuobjdump's output, as they come."""
    beside = dict(os.environ, PATH=f"{Path(tool).parent}{os.pathsep}{os.environ['PATH']}")  # where nvdisasm is
    with subprocess.Popen([tool, form, library], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=beside) as running:
        yield from running.stdout
        said = running.stderr.read().strip()
    if running.returncode != 0:
        raise OSError(f"{tool} {form} {library}: {said}")


def read_library(tool, library):
    """The kernels of all targets of the library. Registers and threads of a name are those of the library's only target of its kind."""
    kernels = code.read_code(output_of(tool, "-sass", library))
    resources = code.read_resources(output_of(tool, "-res-usage", library))
    threads = code.read_threads(output_of(tool, "-elf", library))
    for kernel in kernels:
        kernel.registers, kernel.shared = resources.get((kernel.target, kernel.name), (0, 0))
        kernel.threads = threads.get(kernel.name, 0)
    code.demangle(kernels)
    code.count_elements(kernels)
    dynamic = budgets.read_dynamic()
    for kernel in kernels:
        kernel.shared += dynamic.get(kernel.name, 0)
    return kernels


def find_tool(environment):
    """cuobjdump of PATH, of the toolkit or of the environment; None if there is none."""
    places = ["/usr/local/cuda/bin", *map(str, Path(environment).glob("lib/python3*/site-packages/nvidia/*/bin"))]
    return shutil.which("cuobjdump") or shutil.which("cuobjdump", path=os.pathsep.join(places))


def check_code(library, folder, reported, write, environment):
    tool = find_tool(environment)
    if tool is None:
        print(f"machine code: skipped, there is no cuobjdump (PATH, /usr/local/cuda/bin, {environment})")
        return 0
    try:
        kernels = read_library(tool, library)
    except OSError as reason:
        print(f"machine code: {reason}")
        return 1
    found, better = expected.problems(kernels), []
    for target in sorted({kernel.target for kernel in kernels}):
        of_target = [kernel for kernel in kernels if kernel.target == target]
        if write:
            spilled = {kernel.name: kernel.spilled for kernel in reported if kernel.target == target}
            for kernel in of_target:
                kernel.spilled = spilled.get(kernel.name, 0)
            budgets.write(target, of_target, folder)
        worse, less = budgets.problems(of_target, target, folder)
        found, better = found + worse, better + less
    print(*found, *better, sep="\n", end="\n" if found or better else "")
    more = f", {len(better)} numbers are better than budgets: tools/gpu_code.py --write" if better else ""
    print(f"machine code of {len(kernels)} kernels: {len(found)} problems{more}")
    return 1 if found else 0


def check_report(kernels, limit, folder):
    of_targets = {target: budgets.read(target, folder) or {} for target in {kernel.target for kernel in kernels}}
    found = report.problems(kernels, limit, of_targets)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len({k.name for k in kernels})} kernels for {len(of_targets)} targets, {len(found)} problems")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", nargs="?", type=argparse.FileType(), help="(default: standard input, without --code)")
    parser.add_argument("--limit", type=int, default=16, help="bytes of registers that a kernel may spill to memory")
    parser.add_argument("--table", metavar="WORD", help="print the registers of kernels whose name contains WORD, as Markdown")
    parser.add_argument("--code", metavar="LIBRARY", help="check the machine code of LIBRARY")
    parser.add_argument("--budgets", metavar="FOLDER", default=budgets.FOLDER, help="(default: tools/gpu_code/budgets)")
    parser.add_argument("--tools", metavar="FOLDER", default=ROOT / "build/gpu-code-env",
                        help="a Python environment that has cuobjdump (default: build/gpu-code-env)")
    parser.add_argument("--write", action="store_true", help="make the numbers of LIBRARY, and the spills of the report, the budgets")
    parser.add_argument("--page", metavar="PAGE", type=Path, help="put the tables of kernels into PAGE")
    args = parser.parse_args()
    if args.write and (args.code is None or args.report is None):
        parser.error("--write needs a report (of the spills) and --code")
    if args.page is not None:
        page.put(args.page, args.budgets)
        return 0
    reported, status = [], 0
    if args.report is not None or args.code is None:
        reported = report.read(args.report or sys.stdin)
        code.demangle(reported)
        if args.table is not None:
            print(report.table(reported, args.table))
        if not args.write:
            status = check_report(reported, args.limit, args.budgets)
    if args.code is not None:
        status |= check_code(args.code, args.budgets, reported, args.write, args.tools)
    return status


if __name__ == "__main__":
    sys.exit(main())
