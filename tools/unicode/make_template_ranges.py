#!/usr/bin/env python3
"""Writes src/template/unicode_ranges.cpp.in: Python's own idea of characters, which templates observe (repr, isalpha, upper, lower)."""

import pathlib
import sys
import textwrap

EVERY = [chr(value) for value in range(sys.maxunicode + 1)]


def ranges(belongs):
    found, inside = [], False
    for value, character in enumerate(EVERY):
        if belongs(character) != inside:
            found.append(value)
            inside = not inside
    return found + ([sys.maxunicode + 1] if inside else [])


def runs(case):
    """First, last, step, difference of the characters that map to one other character."""
    found = []
    for value, character in enumerate(EVERY):
        mapped = case(character)
        if len(mapped) != 1 or mapped == character:
            continue
        difference = ord(mapped) - value
        if found and found[-1][3] == difference and value - found[-1][1] in (1, 2):
            first, last, step, _ = found[-1]
            if first == last or step == value - last:
                found[-1] = (first, value, value - last, difference)
                continue
        found.append((value, value, 1, difference))
    return [number for run in found for number in run]


def long_upper():
    found = []
    for character in EVERY:
        for title, mapped in ((0, character.upper()), (1, character.title())):
            if len(mapped) > 1 or (title and mapped != character.upper()):
                found += [ord(character), title, *([ord(part) for part in mapped] + [0, 0])[:3]]
    return found


def table(kind, name, numbers):
    body = textwrap.fill(", ".join(map(str, numbers)), 118, initial_indent="  ", subsequent_indent="  ")
    return f"const {kind} {name}[] = {{\n{body}}};\nconst size_t {name}Size = sizeof({name}) / sizeof({name}[0]);\n"


def main():
    text = "// Made by tools/unicode/make_template_ranges.py.\n#include \"template/unicode_ranges.h\"\n\nnamespace viaduct::jinja {\n\n"
    text += table("uint32_t", "kUnprintable", ranges(lambda c: not c.isprintable()))
    text += table("uint32_t", "kAlphabetic", ranges(str.isalpha))
    text += table("uint32_t", "kDecimal", ranges(str.isdecimal))
    text += table("int32_t", "kLowerRuns", runs(str.lower))
    text += table("int32_t", "kUpperRuns", runs(str.upper))
    text += table("uint32_t", "kLongUpper", long_upper())
    text += "\n}  // namespace viaduct::jinja\n"
    target = pathlib.Path(__file__).resolve().parents[2] / "src/template/unicode_ranges.cpp.in"
    target.write_text(text)


main()
