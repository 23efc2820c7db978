"""Sections of a documentation page, between two comments, that a command writes; the rest of the page is written by hand."""

import pathlib
import re

PARITY = pathlib.Path(__file__).resolve().parents[2] / "docs" / "parity.md"


def versions():
    """The versions of the packages that the numbers come from."""
    import torch
    import transformers

    return f"`transformers` {transformers.__version__} with `torch` {torch.__version__.split('+')[0]}"


def table(header, rows):
    """Makes the lines of a Markdown table. ValueError for a row of another length, whose last cells no reader would see."""
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"a row of the table has other columns than {header}")
    return ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]


def write_section(command, lines, page=PARITY):
    """Replaces the text between the comments of ./viaduct.sh COMMAND. RuntimeError if the page has no such section."""
    begin, end = (f"<!-- output of ./viaduct.sh {command}: {word} -->" for word in ("begin", "end"))
    text = page.read_text()
    section = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if len(section.findall(text)) != 1:
        raise RuntimeError(f"{page}: expected one section from {begin} to {end}")
    replacement = "\n".join([begin, "", *lines, "", end])
    page.write_text(section.sub(lambda _: replacement, text))
