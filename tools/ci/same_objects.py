"""Sources that two build folders compile by the same command, so that a compiler cache has the second's objects."""

import json
import os
import re


def commands(folder):
    """{(source, object): command} of a build folder, its own path left out of all. Kernels are compiled several times."""
    folder = os.path.abspath(folder)
    with open(os.path.join(folder, "compile_commands.json")) as file:
        return {(entry["file"].replace(folder, ""), re.search(r" -o (\S+)", command)[1]): command
                for entry in json.load(file) for command in [entry["command"].replace(folder, "")]}


def different(sanitized, plain):
    """The sources that the sanitized folder compiles without a sanitizer, but by another command than the plain folder."""
    theirs, ours = commands(sanitized), commands(plain)
    return sorted(place[0] for place, command in theirs.items() if "-fsanitize=" not in command and command != ours.get(place))
