"""Sources that two build folders compile by the same command, so that a compiler cache has the second's objects."""

import json
import os


def commands(folder):
    """{source: command} of a build folder, its own path left out of both."""
    folder = os.path.abspath(folder)
    with open(os.path.join(folder, "compile_commands.json")) as file:
        return {entry["file"].replace(folder, ""): entry["command"].replace(folder, "") for entry in json.load(file)}


def different(sanitized, plain):
    """The sources that the sanitized folder compiles without a sanitizer, but by another command than the plain folder."""
    theirs, ours = commands(sanitized), commands(plain)
    return sorted(source for source, command in theirs.items() if "-fsanitize=" not in command and command != ours.get(source))
