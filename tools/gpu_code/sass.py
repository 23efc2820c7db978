"""Reads the machine code of GPU kernels (the text of `cuobjdump -sass`) and counts what their loops do."""

import re
from dataclasses import dataclass, field

FUNCTION = re.compile(r"Function : (\S+)")
# Of a family's code, sm_100f, the second says sm_100.
TARGET = re.compile(r"(?:^arch =|code for) (sm_\w+)")
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
ADDRESS = re.compile(r"0x([0-9a-f]+)`?\)?\s*$")

# Products of the matrix units: of a warp (HMMA, IMMA, DMMA, QMMA, OMMA), of a warpgroup (HGMMA, QGMMA, …), of a block (UTC…MMA).
PRODUCT = re.compile(r"(?:[A-Z]G?|UTC[A-Z]*)MMA\b")
# The reciprocal that each integer division by a variable begins with; a division of 64 bits is a subroutine that has one.
DIVISION = re.compile(r"I2F\b.*\.RP\b")
BYTE = re.compile(r"(?:LDG|STG|LDS|STS|LD|ST|LDL|STL)\.(?:\w+\.)*[US]8\b")
LOCAL = re.compile(r"(?:LDL|STL)\b")


@dataclass
class Instruction:
    address: int
    opcode: str
    operands: str = ""
    conditional: bool = False

    def target(self):
        match = ADDRESS.search(self.operands)
        return int(match[1], 16) if match else None


@dataclass
class Loop:
    """What a loop does itself, without the loops inside it."""
    header: int
    instructions: int = 0
    products: int = 0
    divisions: int = 0
    bytes: int = 0
    local: int = 0


@dataclass
class Function:
    name: str
    target: str
    instructions: list = field(default_factory=list)

    @property
    def opcodes(self):
        return {each.opcode for each in self.instructions}


def read(lines):
    """The functions of the text, one after the other."""
    target, function = "", None
    for line in lines:
        if "/*" in line:
            if function is not None and (match := INSTRUCTION.search(line)):
                function.instructions.append(Instruction(int(match[1], 16), match[3], match[4].strip(), match[2] is not None))
        elif match := FUNCTION.search(line):
            if function is not None:
                yield function
            function = Function(match[1], target)
        elif match := TARGET.search(line):
            target = match[1] if not target.startswith(match[1]) else target
    if function is not None:
        yield function


def is_branch(instruction):
    """Whether it names an address where threads may go on. BSSY names the one where threads that part meet again, which they reach by
    a BSYNC somewhere."""
    return instruction.opcode.startswith(("BRA", "JMP", "BSSY", "WARPSYNC.COLLECTIVE")) and instruction.target() is not None


def always_leaves(instruction):
    """Whether nothing falls through to the next instruction."""
    name, *parts = instruction.opcode.split(".")
    if instruction.conditional:
        return False
    if name in ("BRA", "JMP"):
        # A second operand is a condition: "BRA.U UP0, 0x40".
        return "," not in instruction.operands and not {"DIV", "CONV"} & set(parts)
    return name in ("EXIT", "RET", "BRX", "JMX", "KILL")


def blocks_of(instructions):
    """Runs of instructions that are entered at their beginning only: [(first, beyond, numbers of the runs that follow), …]."""
    at = {each.address: number for number, each in enumerate(instructions)}
    begins = {0}
    for number, each in enumerate(instructions):
        if is_branch(each):
            begins |= {at.get(each.target(), 0), number + 1}
        elif always_leaves(each):
            begins.add(number + 1)
    begins = sorted(b for b in begins if b < len(instructions))
    number_of = {first: number for number, first in enumerate(begins)}
    blocks = []
    for first, beyond in zip(begins, begins[1:] + [len(instructions)]):
        last, follow = instructions[beyond - 1], []
        if is_branch(last) and last.target() in at:
            follow.append(number_of[at[last.target()]])
        if not always_leaves(last) and beyond in number_of:
            follow.append(number_of[beyond])
        blocks.append((first, beyond, follow))
    return blocks


def dominators(blocks):
    """For each block its immediate dominator, the entry's being itself; None if nothing reaches it (Cooper, Harvey and Kennedy,
    A Simple, Fast Dominance Algorithm)."""
    order, seen, stack = [], {0}, [(0, iter(blocks[0][2]))]
    while stack:
        block, rest = stack[-1]
        following = next((f for f in rest if f not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following][2])))
    place = {block: number for number, block in enumerate(order)}
    before = {block: [] for block in order}
    for block in order:
        for following in blocks[block][2]:
            before[following].append(block)
    found = [None] * len(blocks)
    found[0] = 0
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            new = None
            for a in before[block]:
                if found[a] is None:
                    continue
                b = new if new is not None else a
                while a != b:
                    if place[a] < place[b]:
                        a = found[a]
                    else:
                        b = found[b]
                new = a
            if found[block] != new:
                found[block], changed = new, True
    return found


def is_dominated(found, block, by):
    while block not in (by, 0):
        block = found[block]
    return block == by


def bodies(blocks):
    """The natural loops of the code: {header: its blocks}."""
    found = dominators(blocks)
    before = {}
    for block, (_, _, follow) in enumerate(blocks):
        if found[block] is not None:
            for following in follow:
                before.setdefault(following, []).append(block)
    loops = {}
    for block, (_, _, follow) in enumerate(blocks):
        for header in follow:
            if found[block] is None or not is_dominated(found, block, header):
                continue
            body = loops.setdefault(header, {header})
            waiting = [block]
            while waiting:
                each = waiting.pop()
                if each not in body:
                    body.add(each)
                    waiting += before[each]
    return loops


def reached(function):
    """Instructions that threads may reach from the entry, each once, without those of subroutines."""
    instructions = function.instructions
    if not instructions:
        return 0
    blocks = blocks_of(instructions)
    found = dominators(blocks)
    return sum(each.opcode != "NOP" for number, (first, beyond, _) in enumerate(blocks) if found[number] is not None
               for each in instructions[first:beyond])


def subroutines_that_divide(instructions):
    """Addresses of called code that divides whole numbers, before it returns."""
    at = {each.address: number for number, each in enumerate(instructions)}
    dividing = set()
    for called in {each.target() for each in instructions if each.opcode.startswith("CALL")}:
        for each in instructions[at[called]:] if called in at else []:
            if DIVISION.match(each.opcode):
                dividing.add(called)
            if each.opcode.startswith("RET") and not each.conditional:
                break
    return dividing


def loops_of(function):
    """The loops of a kernel; one that only waits at its end (a branch to itself) is none."""
    instructions = function.instructions
    if not instructions:
        return []
    blocks, dividing, found = blocks_of(instructions), subroutines_that_divide(instructions), []
    nests = bodies(blocks)
    for header, body in nests.items():
        own = body - set().union(*(inner for other, inner in nests.items() if other != header and inner < body))
        loop = Loop(instructions[blocks[header][0]].address)
        for block in own:
            for each in instructions[blocks[block][0]:blocks[block][1]]:
                loop.instructions += each.opcode != "NOP"
                loop.products += PRODUCT.match(each.opcode) is not None
                loop.divisions += DIVISION.match(each.opcode) is not None or (each.opcode.startswith("CALL") and each.target() in dividing)
                loop.bytes += BYTE.match(each.opcode) is not None
                loop.local += LOCAL.match(each.opcode) is not None
        if len(body) > 1 or loop.instructions > 1:
            found.append(loop)
    return sorted(found, key=lambda each: each.header)
