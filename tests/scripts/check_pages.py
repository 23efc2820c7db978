#!/usr/bin/env python3
"""check_pages.py ROOT [PAGE…]: checks the statements of documentation pages about the repository. In every *.md file of the repository, or
in the pages named:

- a relative link leads to a file or folder of the repository, and its #part to a heading of that page;
- a file named in backticks as a path from the root (`src/…`, `docs/…`, `tests/…`, …), or C++ of a room of `src` from there
  (`ops/norm.h`), exists; `NAME`, `SUITE`, `*` and the like in it match anything; a line with "(later)" may name files that do not exist
  yet;
- a block that begins with ```cpp from=PATH is a quotation: its lines occur in that file, in sequence, except for trailing spaces. A line
  that is only `…` stands for omitted lines.
"""

import glob
import os
import re
import sys

FOLDERS = ("apps", "benchmarks", "cmake", "configs", "data", "docs", "examples", "src", "tests", "tools")
PATTERN_WORDS = re.compile(r"[A-Z][A-Z_]+(?![a-z])")  # NAME, SUITE match anything


def slug(heading):
    """The anchor that GitHub makes for a heading."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m.group(1) or "", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def lines_outside_blocks(text):
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r" *```", line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(path):
    with open(path, encoding="utf-8") as file:
        return {slug(line.lstrip("#")) for _, line in lines_outside_blocks(file.read()) if line.startswith("#")}


def check_links(root, page, text):
    for number, line in lines_outside_blocks(text):
        for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "``", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, part = target.partition("#")
            absolute = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(absolute) or not absolute.startswith(root):
                yield number, f"link to {target}: there is no {os.path.relpath(absolute, root)}"
            elif part and part not in anchors(absolute):
                yield number, f"link to {target}: no heading of {os.path.relpath(absolute, root)} gives #{part}"


def check_names(root, text):
    for number, line in lines_outside_blocks(text):
        if "(later)" in line:
            continue
        for name in re.findall(r"`([\w./*{}-]+)`", line):
            folder = name.split("/")[0]
            of_room = name.endswith((".h", ".cpp", ".cu", ".cuh")) and os.path.isdir(os.path.join(root, "src", folder))
            if "/" not in name or not (of_room or folder in FOLDERS and os.path.isdir(os.path.join(root, folder))):
                continue
            pattern = re.sub(r"\{[^}]*\}", "*", PATTERN_WORDS.sub("*", name))
            if name.endswith("README.md") or name.endswith("CMakeLists.txt"):
                pattern = name
            if not glob.glob(os.path.join(root, "src" if of_room else "", pattern)):
                yield number, f"names `{name}`, which does not exist"


def find(lines, piece, start):
    for at in range(start, len(lines) - len(piece) + 1):
        if lines[at : at + len(piece)] == piece:
            return at + len(piece)
    return None


def check_quotations(root, text):
    for match in re.finditer(r"^```cpp from=(\S+)\n(.*?)^```$", text, re.M | re.S):
        number = text.count("\n", 0, match.start()) + 1
        path = os.path.join(root, match.group(1))
        if not os.path.isfile(path):
            yield number, f"quotes {match.group(1)}, which does not exist"
            continue
        with open(path, encoding="utf-8") as file:
            source = [line.strip() for line in file]
        pieces, at = [[]], 0
        for line in match.group(2).splitlines():
            if line.strip() == "…":
                pieces.append([])
            else:
                pieces[-1].append(line.strip())
        for piece in filter(None, pieces):
            at = find(source, piece, at)
            if at is None:
                yield number, f"is not in {match.group(1)} (any more): {piece[0]}"
                break


def main():
    root = os.path.abspath(sys.argv[1])
    pages = [os.path.abspath(page) for page in sys.argv[2:]]
    if not pages:
        for pattern in ("*.md", *(f"{folder}/**/*.md" for folder in FOLDERS)):
            pages += glob.glob(os.path.join(root, pattern), recursive=True)
    if not pages:
        sys.exit("check_pages: no pages")
    problems = 0
    for page in sorted(pages):
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for check in (check_links(root, page, text), check_names(root, text), check_quotations(root, text)):
            for number, problem in check:
                print(f"{os.path.relpath(page, root)}:{number}: {problem}")
                problems += 1
    counts = [f"{n} {what}{'' if n == 1 else 's'}" for n, what in ((len(pages), "page"), (problems, "problem"))]
    print(", ".join(counts))
    sys.exit(1 if problems else 0)


main()
