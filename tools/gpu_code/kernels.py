"""A kernel of a library: registers and memory as cuobjdump says, and what its loops do."""

import re
import subprocess
from dataclasses import dataclass

import sass

# Of a multiprocessor: shared memory in KiB, threads, blocks (CUDA programming guide, "Compute Capabilities"); each has 65,536 registers.
MULTIPROCESSORS = {"sm_80": (164, 2048, 32), "sm_89": (100, 1536, 24), "sm_90a": (228, 2048, 32), "sm_100f": (228, 2048, 32),
                   "sm_120": (100, 1536, 24)}
RESERVED = 1024  # bytes of shared memory that each block takes besides its own; cuobjdump counts them from sm_90 on, where a kernel uses any
REGISTERS, WARP_REGISTERS, LANES = 65536, 256, 32  # a warp gets a multiple of 256

# Elements of a thread, in kernels that have no loop over them: the code is counted once.
ELEMENTS = {"quantize_tiles_kernel<": 64}

RESOURCES = re.compile(r"REG:(\d+) .*SHARED:(\d+)")
RESOURCES_OF = re.compile(r"^ Function (\S+):")
ARCHITECTURE = re.compile(r"^arch = (sm_\w+)")
INFO_OF = re.compile(r"^\.nv\.info\.(\S+)$")
THREADS = re.compile(r"Value:\s+0x([0-9a-f]+) 0x1 0x1")


@dataclass
class Kernel:
    name: str
    target: str
    registers: int = 0
    spilled: int = 0
    shared: int = 0  # static and dynamic bytes of a block
    threads: int = 0
    opcodes: frozenset = frozenset()
    instructions: int = 0  # that can be reached
    products: int = 0  # matrix instructions in loops
    per_product: float = 0  # most instructions per matrix instruction of a loop that has some
    divisions: int = 0  # of whole numbers, in loops; likewise:
    bytes: int = 0  # loads and stores of one byte
    local: int = 0  # loads and stores of local memory
    per_element: float = 0  # instructions for each element, of kernels whose threads have so many without a loop over them (ELEMENTS)

    @property
    def blocks(self):
        """Blocks that a multiprocessor holds at once."""
        if 0 in (self.threads, self.registers) or self.target not in MULTIPROCESSORS:
            return 0
        shared, threads, blocks = MULTIPROCESSORS[self.target]
        warps = -(-self.threads // LANES)
        of_warp = -(-self.registers * LANES // WARP_REGISTERS) * WARP_REGISTERS
        by_registers = REGISTERS // of_warp // 4 * 4 // warps  # each quarter of a multiprocessor has a quarter of them
        return min(shared * 1024 // (self.shared + RESERVED), threads // (warps * LANES), blocks, by_registers)


def shorten(name):
    """viaduct::cuda::(anonymous namespace)::f<float, 64>(Args) is f<float, 64>."""
    return re.sub(r"\([^()]*\)$", "", re.sub(r"viaduct::cuda::|\(anonymous namespace\)::|void |\(int\)", "", name))


def demangle(kernels):
    """Demangles names if the machine has c++filt."""
    try:
        done = subprocess.run(["c++filt"], input="\n".join(k.name for k in kernels), capture_output=True, text=True, check=True)
    except FileNotFoundError:
        return
    for kernel, name in zip(kernels, done.stdout.splitlines()):
        # nvcc names the anonymous namespace of a file after the file.
        kernel.name = shorten(re.sub(r"_GLOBAL__N__\w+::", "", name))


def count_elements(kernels):
    """Sets what is counted for each element; after names are demangled."""
    for kernel in kernels:
        for name, elements in ELEMENTS.items():
            if kernel.name.startswith(name):
                kernel.per_element = round(kernel.instructions / elements, 1)


def read_code(lines):
    """The kernels of `cuobjdump -sass`."""
    kernels = []
    for function in sass.read(lines):
        loops = sass.loops_of(function)
        hot = [loop for loop in loops if loop.products > 0]
        kernels.append(Kernel(function.name, function.target, opcodes=function.opcodes, instructions=sass.reached(function), products=sum(loop.products for loop in hot),
                              per_product=round(max((loop.instructions / loop.products for loop in hot), default=0), 1),
                              divisions=sum(loop.divisions for loop in loops), bytes=sum(loop.bytes for loop in loops),
                              local=sum(loop.local for loop in loops)))
    return kernels


def read_resources(lines):
    """{(target, mangled name): (registers, static shared memory)} of `cuobjdump -res-usage`."""
    found, target, name = {}, "", None
    for line in lines:
        if match := ARCHITECTURE.search(line):
            target = match[1]
        elif match := RESOURCES_OF.search(line):
            name = match[1]
        elif name and (match := RESOURCES.search(line)):
            shared = int(match[2])
            found[target, name] = int(match[1]), shared - RESERVED if shared >= RESERVED and int(re.sub(r"\D", "", target)) >= 90 else shared
    return found


def read_threads(lines):
    """{mangled name: most threads of a block} of `cuobjdump -elf`."""
    found, name, wanted = {}, None, False
    for line in lines:
        if match := INFO_OF.search(line):
            name = match[1]
        elif "EIATTR_MAX_THREADS" in line:
            wanted = True
        elif wanted and (match := THREADS.search(line)):
            found[name], wanted = int(match[1], 16), False
    return found
